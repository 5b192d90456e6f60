// The whiteboard: one pass of a trace at a time, with a slider, keys and details of each token.
//
//   const board = oneglance.whiteboard(element, trace);
//   board.show(index);     // a pass, from 0
//   board.update(trace);   // the same answer, grown: stays where it is, or follows the last pass
//   board.close();         // done by itself where another is made on the same element
//
// Where a page has several, the keys are those of the one that was touched last.
(function () {
  "use strict";

  const T = window.oneglance.trace;
  const PHASES = ["draft", "verify", "accept"];
  const PLAY_MS = 1400;
  const boards = new Map();
  let active = null;

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function button(text, label, act) {
    const made = element("button", { type: "button", "aria-label": label }, text);
    made.addEventListener("click", act);
    return made;
  }

  // A text that keeps its spaces and shows where a line is broken.
  function written(token) {
    return token.text === "\n" ? token.shown + "\n" : token.text ? visibleText(token) : token.shown;
  }

  function visibleText(token) {
    return token.text.includes("\n") ? token.text.replaceAll("\n", "⏎\n") : token.shown;
  }

  class Whiteboard {
    constructor(root, trace) {
      this.root = root;
      this.trace = trace;
      this.index = 0;
      this.timer = null;
      this.chosen = null;
      this.build();
      this.show(0);
    }

    build() {
      this.slider = element("input", { type: "range", min: "1", step: "1", "aria-label": "Pass" });
      this.slider.addEventListener("input", () => this.stepTo(Number(this.slider.value) - 1));
      this.play = button("Play", "Play all passes", () => this.toggle());
      this.counter = element("span", { class: "counter" });
      this.board = element("div", { class: "board", role: "group", "aria-label": "The whiteboard" });
      this.others = element("div", { class: "others" });
      this.says = element("p", { class: "says", role: "status" });
      this.details = element("section", { class: "details", "aria-label": "About a token" });
      this.times = element("section", { class: "times", "aria-label": "Time of this pass" });
      for (const kind of ["mouseover", "focusin", "click"]) {
        for (const part of [this.board, this.others]) {
          part.addEventListener(kind, (event) => this.look(event.target));
        }
      }
      this.root.classList.add("whiteboard");
      this.root.replaceChildren(
        element("div", { class: "controls" },
          button("‹", "Previous pass", () => this.stepTo(this.index - 1)), this.slider,
          button("›", "Next pass", () => this.stepTo(this.index + 1)), this.play, this.counter),
        this.board, this.says, this.others,
        element("div", { class: "below" }, this.details, this.times));
      this.listening = new AbortController();
      const options = { signal: this.listening.signal };
      document.addEventListener("keydown", (event) => this.key(event), options);
      for (const kind of ["pointerdown", "focusin"]) {
        this.root.addEventListener(kind, () => { active = this; }, options);
      }
      active = this;
    }

    close() {
      this.stop();
      this.listening.abort();
      boards.delete(this.root);
    }

    key(event) {
      const typing = ["TEXTAREA", "SELECT", "INPUT"].includes(event.target.tagName);
      if (active !== this || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.dataset.place !== undefined && ["Enter", " "].includes(event.key)) {
        event.preventDefault();
        this.look(event.target);
        return;
      }
      const last = this.trace.passes.length - 1;
      const goals = { ArrowLeft: this.index - 1, ArrowRight: this.index + 1, Home: 0, End: last };
      if (!(event.key in goals)) return;
      event.preventDefault();
      this.stepTo(goals[event.key]);
    }

    // A step by hand ends the playing.
    stepTo(index) {
      this.stop();
      this.show(index);
    }

    toggle() {
      if (this.timer !== null) {
        this.stop();
        return;
      }
      if (this.index === this.trace.passes.length - 1) this.show(0);
      this.play.textContent = "Pause";
      this.play.setAttribute("aria-label", "Pause");
      this.timer = window.setInterval(() => {
        this.show(this.index + 1);
        if (this.index === this.trace.passes.length - 1) this.stop();
      }, PLAY_MS);
    }

    stop() {
      if (this.timer !== null) window.clearInterval(this.timer);
      this.timer = null;
      this.play.textContent = "Play";
      this.play.setAttribute("aria-label", "Play all passes");
    }

    // Who looks back, or has the focus on a token, is left there.
    update(trace) {
      const isLast = this.index >= this.trace.passes.length - 1;
      const isHeld = [this.board, this.others].some((part) => part.contains(document.activeElement));
      const isFirst = !this.trace.passes.length;
      this.trace = trace;
      if (isFirst || (isLast && !isHeld)) this.show(trace.passes.length - 1);
      else this.count();
    }

    show(index) {
      const total = this.trace.passes.length;
      if (!total) return;
      this.index = Math.min(Math.max(index, 0), total - 1);
      const pass = this.trace.passes[this.index];
      this.count();
      this.draw(pass);
      this.drawTimes(pass);
      const wrong = T.firstWrong(pass);
      this.choose(this.index, wrong >= 0 ? wrong : pass.own ? "own" : 0);
    }

    // Where it stands among the passes there are.
    count() {
      const total = this.trace.passes.length;
      const says = T.sentence(this.trace.passes[this.index], this.index, total);
      this.slider.max = String(total);
      this.slider.value = String(this.index + 1);
      this.slider.setAttribute("aria-valuetext", says);
      this.counter.textContent = this.index + 1 + " / " + total;
      this.says.textContent = says;
    }

    draw(pass) {
      const parts = [];
      for (let before = 0; before < this.index; before++) parts.push(...this.past(before));
      const [main, ...branches] = T.branches(pass);
      const wrong = T.firstWrong(pass);
      const line = main || [];
      const kept = line.filter((node) => pass.nodes[node].fate === "kept");
      const rest = line.filter((node) => pass.nodes[node].fate !== "kept");
      const own = pass.own ? [this.token(pass, "own")] : [];
      const struck = rest.map((node) => this.token(pass, node));
      const beside = wrong >= 0 && rest.length ? 1 : 0;
      parts.push(...kept.map((node) => this.token(pass, node)),
        ...struck.slice(0, beside), ...own, ...struck.slice(beside));
      this.board.replaceChildren(...parts);
      this.drawBranches(pass, branches);
      this.scroll();
    }

    // A long answer scrolls within the board, so that the pass is in sight.
    scroll() {
      const first = this.board.querySelector("[role=button]");
      if (!first) return;
      const room = this.board.clientHeight / 3;
      this.board.scrollTop = Math.max(0, first.offsetTop - this.board.offsetTop - room);
    }

    // Tokens of an earlier pass, in ink: to look at, not to stop at with the Tab key.
    past(index) {
      const pass = this.trace.passes[index];
      const places = [...pass.accepted, ...(pass.own ? ["own"] : [])];
      return places.map((place) => {
        const token = place === "own" ? pass.own : pass.nodes[place];
        const kind = place === "own" ? "own" : "kept";
        return element("span",
          { class: "token past " + kind, "data-pass": index, "data-place": place }, written(token));
      });
    }

    token(pass, place) {
      const token = place === "own" ? pass.own : pass.nodes[place];
      const kind = place === "own" ? "own " + pass.own.kind : token.fate;
      const tag = { kept: "span", wrong: "del", behind: "del", unused: "del" }[kind] || "ins";
      // Not a button element: that could not be broken at the end of a line.
      return element("span", {
        role: "button", tabindex: "0", class: "token " + kind, "aria-label": T.label(pass, place),
        "data-pass": this.index, "data-place": place,
      }, element(tag, {}, written(token)));
    }

    drawBranches(pass, branches) {
      this.others.replaceChildren();
      if (!branches.length) return;
      const items = branches.map((branch) => {
        const from = pass.nodes[branch[0]].parent;
        const head = from < 0 ? "instead" : "after “" + pass.nodes[from].shown + "”";
        const tokens = branch.map((node) => this.token(pass, node));
        return element("li", {}, element("span", { class: "from" }, head + ": "), ...tokens);
      });
      this.others.append(element("h3", {}, "Other branches of the draft"),
        element("ul", {}, ...items));
    }

    look(target) {
      const token = target.closest("[data-place]");
      if (!token) return;
      const place = token.dataset.place;
      this.choose(Number(token.dataset.pass), place === "own" ? "own" : Number(place));
    }

    choose(index, place) {
      const pass = this.trace.passes[index];
      const token = place === "own" ? pass.own : pass.nodes[place];
      for (const marked of this.root.querySelectorAll(".token.chosen")) {
        marked.classList.remove("chosen");
      }
      const mark = this.root.querySelector(
        '[data-pass="' + index + '"][data-place="' + place + '"]');
      if (mark) mark.classList.add("chosen");
      const rows = T.facts(pass, place).flatMap(
        ([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
      const considered = T.consideredAt(pass, T.parentOf(pass, place));
      this.details.replaceChildren(
        element("h3", {}, element("code", {}, token.shown)), element("dl", {}, ...rows),
        element("h4", {}, "What else the target considered here"),
        element("ol", { class: "considered" },
          ...considered.map((each) => this.alternative(each, each.token === token.token))));
    }

    alternative(each, isThis) {
      const bar = element("span", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", String(each.prob));
      const item = element("li", isThis ? { class: "this" } : {}, bar,
        element("code", {}, each.shown), element("span", {}, T.percent(each.prob)));
      return item;
    }

    drawTimes(pass) {
      const total = PHASES.reduce((sum, phase) => sum + pass.seconds[phase], 0);
      const bar = element("div", { class: "split", "aria-hidden": "true" });
      const rows = PHASES.map((phase) => {
        const part = element("span", { class: phase });
        part.style.flexGrow = String(total ? pass.seconds[phase] / total : 0);
        bar.append(part);
        const milliseconds = (1000 * pass.seconds[phase]).toFixed(1) + " ms";
        return element("li", {}, element("i", { class: phase, "aria-hidden": "true" }),
          phase + " " + milliseconds);
      });
      const asked = "K = " + pass.num_asked + ", " + pass.num_made + " drafted, " +
        pass.nodes.length + " checked";
      this.times.replaceChildren(element("h3", {}, "Time of this pass"), bar,
        element("ul", {}, ...rows), element("p", { class: "asked" }, asked));
    }
  }

  window.oneglance.whiteboard = (root, trace) => {
    if (boards.has(root)) boards.get(root).close();
    boards.set(root, new Whiteboard(root, trace));
    return boards.get(root);
  };
})();
