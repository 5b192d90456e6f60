// The race: two real runs of one answer that take turns on the server.
(function () {
  "use strict";

  const WORDS = { plain: "nothing drafted", speculative: "with drafts" };

  class Race {
    // lanes: the elements of the texts, by side; whole: the element around them.
    constructor(whole, lanes, note) {
      this.whole = whole;
      this.lanes = lanes;
      this.note = note;
    }

    // Forgets a race that was run for another answer.
    clear() {
      this.whole.hidden = true;
      this.note.textContent = "";
    }

    // Runs it; gives the event with its figures.
    async run(body, signal) {
      this.whole.hidden = false;
      for (const lane of Object.values(this.lanes)) lane.textContent = "";
      for await (const event of oneglance.talk.events("/v1/oneglance/race", body, signal)) {
        if (event.object === "oneglance.turn") {
          this.lanes[event.side].textContent = "";
          this.note.textContent = "Round " + (event.round + 1) + " of " + body.rounds + ": " +
            WORDS[event.side] + ".";
        } else if (event.object === "oneglance.piece") {
          this.lanes[event.side].append(event.text);
        } else {
          return event;
        }
      }
      throw new oneglance.talk.Problem("The race ended without a result.");
    }

    // Says how it ended, of the trace that it was joined to.
    conclude(trace, speculativeText) {
      this.lanes.plain.textContent = trace.race.plain_text;
      this.lanes.speculative.textContent = speculativeText;
      const figures = trace.figures.race;
      this.note.textContent = "The race is over. " + (figures.is_identical
        ? "The texts are identical: " + figures.plain_speed.toFixed(1) +
          " tokens a second plain, " + figures.speculative_speed.toFixed(1) + " with drafts."
        : "The texts differ, which is a bug.");
    }
  }

  // The trace of the answer with the race it was run in. The recorded answer is one of the runs.
  function joined(trace, result) {
    const isIdentical = result.race.is_identical && result.race.plain_text === trace.answer.text;
    const race = { ...result.race, is_identical: isIdentical };
    const figures = { ...result.figures, is_identical: isIdentical };
    return { ...trace, race, figures: { ...trace.figures, race: figures } };
  }

  window.oneglance.race = { Race, joined };
})();
