// Reads a trace as `oneglance show --json` writes it: sentences, order, odds. No page is touched.
(function () {
  "use strict";

  const ROOT = -1;
  const FATES = {
    kept: "kept",
    wrong: "rejected",
    behind: "left with the branch it hangs off",
    unused: "not needed, the answer had ended",
  };
  const KINDS = {
    recovered: "the target's own, in place of the rejected one",
    bonus: "bonus: the target's own, after a draft without a mistake",
    plain: "the target's own, nothing was drafted here",
  };

  function percent(share) {
    if (share > 0 && share < 0.001) return "< 0.1 %";
    return (100 * share).toFixed(share < 0.1 && share > 0 ? 1 : 0) + " %";
  }

  function count(number, word, plural) {
    return number + " " + (number === 1 ? word : plural || word + "s");
  }

  function firstWrong(pass) {
    return pass.nodes.findIndex((node) => node.fate === "wrong");
  }

  // The target's best tokens where a node stands: after its parent.
  function consideredAt(pass, parent) {
    return parent === ROOT ? pass.considered : pass.nodes[parent].considered;
  }

  // Nodes in lines: the accepted path and what follows it first, then each branch that leaves it.
  function branches(pass) {
    const taken = new Set();
    const lines = [];
    for (const start of [...pass.accepted.slice(0, 1), ...pass.nodes.keys()]) {
      if (taken.has(start)) continue;
      const line = [];
      let current = start;
      while (current !== undefined) {
        line.push(current);
        taken.add(current);
        const left = [...pass.nodes.keys()].filter(
          (node) => pass.nodes[node].parent === current && !taken.has(node));
        const accepted = left.filter((node) => pass.accepted.includes(node));
        current = accepted.length ? accepted[0] : left[0];
      }
      lines.push(line);
    }
    return lines;
  }

  // What a pass did, for those who listen and for the line below the board.
  function sentence(pass, index, total) {
    const head = "Pass " + (index + 1) + " of " + total + ": ";
    const own = pass.own ? "“" + pass.own.shown + "”" : null;
    if (!pass.nodes.length) {
      return head + "nothing was drafted, the target wrote " + own + ".";
    }
    let text = head + pass.drafter + " drafted " + count(pass.nodes.length, "token") +
      ", " + pass.accepted.length + " kept";
    const wrong = firstWrong(pass);
    if (wrong >= 0) {
      text += "; “" + pass.nodes[wrong].shown + "” was struck out and " + own + " written instead";
    } else if (pass.own && pass.own.kind === "bonus") {
      text += "; " + own + " came on top as a bonus";
    } else if (!pass.own) {
      text += "; the answer ended within the draft";
    }
    return text + ".";
  }

  // The facts of one token, as pairs of name and value.
  function facts(pass, place) {
    if (place === "own") {
      const own = pass.own;
      return [
        ["what", KINDS[own.kind]],
        ["token id", String(own.token)],
        ["target's probability", percent(own.target_prob)],
        ...lawFact(own.law_prob),
      ];
    }
    const node = pass.nodes[place];
    return [
      ["what", "drafted, " + FATES[node.fate]],
      ["drafter", node.drafter],
      ["depth", String(node.depth)],
      ["token id", String(node.token)],
      ["draft's probability",
        node.draft_prob === null ? "no law was reported" : percent(node.draft_prob)],
      ["target's probability", percent(node.target_prob)],
      ...lawFact(node.law_prob),
    ];
  }

  function lawFact(prob) {
    return prob === null ? [] : [["after temperature and cuts", percent(prob)]];
  }

  // Where the own token stands: after the last accepted node.
  function parentOf(pass, place) {
    if (place !== "own") return pass.nodes[place].parent;
    return pass.accepted.length ? pass.accepted[pass.accepted.length - 1] : ROOT;
  }

  function label(pass, place) {
    if (place === "own") return pass.own.shown + ", " + KINDS[pass.own.kind];
    const node = pass.nodes[place];
    return node.shown + ", drafted by " + node.drafter + ", " + FATES[node.fate];
  }

  window.oneglance = window.oneglance || {};
  window.oneglance.trace = {
    branches, consideredAt, count, facts, firstWrong, label, parentOf, percent, sentence,
  };
})();
