// The page: asks the server, and shows the answer while it comes.
(function () {
  "use strict";

  const MOST_K = 16;
  const { talk, race: racing, gauge: gauges } = window.oneglance;
  const $ = (id) => document.getElementById(id);

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function fill(select, values, chosen) {
    select.replaceChildren(...values.map((value) => element("option", {}, String(value))));
    select.value = String(chosen);
  }

  class Live {
    constructor() {
      this.options = null;
      this.turns = []; // messages that the server is told, the last question included
      this.stopping = null;
      this.asked = null; // what the whiteboard's answer was asked with
      this.trace = null;
      this.board = null;
      this.isDrawn = true;
      this.cameFrom = null; // the button that had the focus before Stop got it
      this.race = new racing.Race(
        $("lanes"), { plain: $("plain"), speculative: $("speculative") }, $("race-note"));
      this.load = new gauges.Load((error) => { $("others").value = "0"; this.complain(error); });
      this.listen();
      this.begin();
    }

    listen() {
      $("ask").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
      $("prompt").addEventListener("keydown", (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        if (!$("send").disabled) $("ask").requestSubmit();
      });
      document.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.stop();
      });
      $("stop").addEventListener("click", () => this.stop());
      $("anew").addEventListener("click", () => this.anew());
      $("start-race").addEventListener("click", () => this.startRace());
      $("others").addEventListener("change",
        () => this.load.set(Number($("others").value), this.options.model));
      $("key").addEventListener("change", () => { talk.key = $("key").value; this.begin(); });
    }

    // Asks the server what it offers; without the right key, asks the reader for that.
    async begin() {
      this.complain(null);
      try {
        this.options = await (await talk.open("/v1/oneglance")).json();
      } catch (error) {
        $("server").textContent = "Not connected.";
        if (error.status === 401) {
          $("key-field").hidden = false;
          if (!talk.key) return this.note("This server wants an API key; enter it to begin.");
        }
        return this.complain(error);
      }
      this.note("");
      this.offer(this.options);
      if (!this.gauge) {
        this.gauge = new gauges.Gauge($("gauge"), $("gauge-says"));
        this.gauge.start();
      }
    }

    offer(options) {
      const engine = options.engine.kind + " engine" +
        (options.engine.isa ? " (" + options.engine.isa + ")" : "");
      $("server").textContent = [options.model, engine, "oneglance " + options.version].join(" · ");
      const lengths = ["auto", ...Array.from({ length: MOST_K }, (_, index) => index + 1)];
      const wanted = options.k === "auto" || options.k > MOST_K ? [] : [options.k];
      fill($("drafter"), options.drafters, options.drafter);
      fill($("k"), options.k > MOST_K ? [...lengths, options.k] : lengths,
        wanted.length ? wanted[0] : options.k);
      fill($("rounds"), Array.from({ length: options.max_rounds }, (_, index) => index + 1), 1);
      fill($("others"), gauges.LOADS.filter((each) => each <= options.max_choices), 0);
      const most = options.max_output_tokens || options.context_length;
      $("max-tokens").max = String(most);
      if (Number($("max-tokens").value) > most) $("max-tokens").value = String(most);
    }

    complain(error) {
      $("problem").textContent = error ? error.message : "";
    }

    note(text) {
      $("note").textContent = text;
    }

    // The parameters as the reader has set them. A sampled answer has a seed, so that it can be
    // raced; it is drawn here unless it was given.
    settings() {
      const drafter = $("drafter").value;
      const temperature = Number($("temperature").value);
      const drawn = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
      const body = { model: this.options.model, temperature,
        max_tokens: Number($("max-tokens").value), speculation: { drafter } };
      if (drafter !== "none") {
        body.speculation.k = $("k").value === "auto" ? "auto" : Number($("k").value);
      }
      if (temperature) body.seed = $("seed").value === "" ? drawn : Number($("seed").value);
      return body;
    }

    async send() {
      const text = $("prompt").value;
      this.complain(null);
      if (!this.options) return this.begin();
      if (!text.trim()) return this.complain({ message: "There is no message yet; write one." });
      const messages = [...this.turns, { role: "user", content: text }];
      const body = { ...this.settings(), messages };
      this.addTurn("You", "question", text);
      const turn = this.addTurn("Answer", "answer", "");
      $("prompt").value = "";
      await this.during("Answering…", async (signal) => {
        await this.watch(body, turn, signal);
        this.turns = [...messages, { role: "assistant", content: this.trace.answer.text }];
      }, () => this.giveBack(turn, text));
    }

    // Does something that can be stopped. A conversation goes on from what was answered whole:
    // the rest is given back.
    async during(words, work, giveBack) {
      this.stopping = new AbortController();
      this.setBusy(true);
      this.note(words);
      try {
        await work(this.stopping.signal);
        this.note("");
      } catch (error) {
        giveBack();
        this.note(talk.isStopped(error) ? "Stopped." : "");
        if (!talk.isStopped(error)) this.complain(error);
        if (error.status === 401) $("key-field").hidden = false;
      } finally {
        this.stopping = null;
        this.setBusy(false);
      }
    }

    setBusy(isBusy) {
      const focused = document.activeElement;
      $("stop").disabled = !isBusy;
      $("send").disabled = $("anew").disabled = isBusy;
      $("start-race").disabled = isBusy || !this.trace || !this.trace.figures;
      // Nobody wants every pass read out while the next one is on its way.
      $("whiteboard").setAttribute("aria-busy", String(isBusy));
      if (focused.disabled) this.passFocus(focused);
    }

    // The focus of a button that has no use any more goes to Stop, and back.
    passFocus(from) {
      const to = from === $("stop") ? this.cameFrom : $("stop");
      this.cameFrom = from === $("stop") ? null : from;
      (to && !to.disabled ? to : $("prompt")).focus({ preventScroll: true });
    }

    stop() {
      if (this.stopping) this.stopping.abort();
    }

    anew() {
      this.turns = [];
      $("turns").replaceChildren();
      this.complain(null);
      this.note("");
      $("prompt").focus();
    }

    addTurn(who, kind, text) {
      const turn = element("li", { class: kind }, element("h3", {}, who), element("p", {}, text));
      $("turns").append(turn);
      return turn;
    }

    // What was not answered to its end is not told to the server again.
    giveBack(turn, text) {
      turn.querySelector("h3").textContent = "Answer, not finished and not part of the conversation";
      if (!$("prompt").value) $("prompt").value = text;
    }

    async watch(body, turn, signal) {
      const words = turn.querySelector("p");
      this.show(body, { passes: [] }, turn);
      for await (const event of talk.events("/v1/oneglance/trace", body, signal)) {
        if (event.object === "oneglance.request") {
          this.trace = { ...this.trace, request: event.request, engine: event.engine };
          if (event.request.seed !== null) this.note("Answering, with seed " + event.request.seed + "…");
        } else if (event.object === "oneglance.pass") {
          words.append(event.text);
          this.trace = { ...this.trace, passes: [...this.trace.passes, event.pass] };
          this.draw();
        } else {
          this.trace = { ...event.trace, passes: this.trace.passes };
        }
      }
      this.drawNow();
      this.showFigures();
      this.keep(body, this.trace, turn);
    }

    // Puts an answer on the whiteboard, perhaps one that has just begun.
    show(body, trace, turn) {
      this.asked = body;
      this.trace = trace;
      this.race.clear();
      for (const other of $("turns").children) other.classList.toggle("shown", other === turn);
      $("figures").replaceChildren(element("p", {}, "Its figures stand here when it has ended."));
      $("figures").classList.remove("figures");
      $("whiteboard").hidden = !trace.passes.length;
      $("nothing").hidden = true;
      this.board = oneglance.whiteboard($("whiteboard"), trace);
    }

    // Draws at most once a frame, however fast passes come.
    draw() {
      if (!this.isDrawn) return;
      this.isDrawn = false;
      window.requestAnimationFrame(() => this.drawNow());
    }

    drawNow() {
      this.isDrawn = true;
      $("whiteboard").hidden = false;
      this.board.update(this.trace);
    }

    showFigures() {
      oneglance.figures($("figures"), this.trace, false);
    }

    // Lets the reader come back to an answer.
    keep(body, trace, turn) {
      const button = element("button", { type: "button" }, "Show its passes");
      button.addEventListener("click", () => {
        if (this.stopping) return;
        this.show(body, trace, turn);
        this.showFigures();
        this.setBusy(false);
      });
      turn.append(button);
    }

    startRace() {
      const body = { ...this.asked, rounds: Number($("rounds").value) };
      this.complain(null);
      this.during("Racing…", async (signal) => {
        const result = await this.race.run(body, signal);
        this.trace = racing.joined(this.trace, result);
        this.race.conclude(this.trace, result.speculative_text);
        this.showFigures();
      }, () => { $("race-note").textContent = "The race was not finished."; });
    }
  }

  window.oneglance.live = new Live();
})();
