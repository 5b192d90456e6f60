// The figures of a trace: counts, the histogram of accepted lengths, the race. They are computed
// where the trace is made and only drawn here.
(function () {
  "use strict";

  const T = window.oneglance.trace;
  const PHASES = ["draft", "verify", "accept", "rest"];

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function bar(share, kind) {
    const made = element("span", { class: "bar " + kind, "aria-hidden": "true" });
    made.style.setProperty("--share", String(share));
    return made;
  }

  function table(caption, headings, rows) {
    const head = headings.map((text) => text
      ? element("th", { scope: "col" }, text) : element("td", {}));
    const body = rows.map(([name, mark, value]) => element("tr", {},
      element("th", { scope: "row" }, name), element("td", {}, mark), element("td", {}, value)));
    return element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  }

  function counts(figures) {
    const rate = figures.drafted
      ? T.percent(figures.acceptance_rate) + " (" + figures.accepted + " of " +
        figures.drafted + " drafted tokens)"
      : "nothing was drafted";
    const pairs = [
      ["tokens per pass", figures.mean_accepted_length.toFixed(2) + " (" + figures.delivered +
        " tokens in " + T.count(figures.passes, "pass", "passes") + ")"],
      ["acceptance rate", rate],
      ["time of the passes", shares(figures.shares)],
    ];
    return element("dl", { class: "facts" }, ...pairs.flatMap(
      ([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }

  function shares(parts) {
    return PHASES.filter((phase) => parts[phase] >= 0.0005)
      .map((phase) => phase + " " + T.percent(parts[phase])).join(", ") || "none";
  }

  function histogram(figures) {
    const most = Math.max(...figures.accepted_lengths, 1);
    return table("How many drafted tokens a pass kept", ["kept", "", "passes"],
      figures.accepted_lengths.map((number, length) => [
        String(length), bar(number / most, "verify"), String(number)]));
  }

  // hasTexts: whether both texts are shown, too; a page may have them elsewhere.
  function race(trace, hasTexts) {
    const found = trace.figures.race;
    if (!found) return element("p", {}, "No race was run.");
    const most = Math.max(found.plain_speed, found.speculative_speed);
    const rows = [["plain", found.plain_speed, "plain"],
      ["with drafts", found.speculative_speed, "own"]];
    const times = "Time with drafts: " + shares(found.shares) + ".";
    const rounds = found.rounds === 1 ? "one round" : "median of " + found.rounds + " rounds";
    const verdict = found.is_identical
      ? "The texts are identical, bit for bit."
      : "The texts differ, which is a bug.";
    const speed = found.speedup >= 1
      ? "Drafting made it " + found.speedup.toFixed(2) + " times as fast."
      : "Drafting made it slower here: " + found.speedup.toFixed(2) + " times the plain speed.";
    const texts = hasTexts ? [element("div", { class: "texts" },
      text("Plain, " + T.count(found.plain_passes, "pass", "passes"), trace.race.plain_text),
      text("With drafts, " + T.count(found.speculative_passes, "pass", "passes"),
        trace.answer.text))] : [];
    return element("div", { class: "race" },
      table("Tokens a second, " + rounds + ", by turns on one machine", ["", "", "tokens/s"],
        rows.map(([name, value, kind]) => [name, bar(value / most, kind), value.toFixed(1)])),
      element("p", { class: found.is_identical ? "" : "alert" }, verdict + " " + speed),
      element("p", {}, times), ...texts);
  }

  function text(title, body) {
    return element("section", {}, element("h4", {}, title), element("div",
      { class: "text", tabindex: "0", role: "group", "aria-label": title }, body));
  }

  window.oneglance.figures = (root, trace, hasTexts = true) => {
    root.classList.add("figures");
    root.replaceChildren(
      element("section", {}, element("h3", {}, "What it came to"), counts(trace.figures)),
      element("section", {}, element("h3", {}, "The race"), race(trace, hasTexts)),
      element("section", {}, element("h3", {}, "Accepted lengths"), histogram(trace.figures)));
  };
})();
