// The gauge of what the machine is bound by, read from /metrics, and load to see it move.
(function () {
  "use strict";

  const EVERY_MS = 1000;
  const LOADS = [0, 1, 4, 8, 16];
  const COMPUTE_BOUND = 1.5;
  const LOAD_PROMPT = "Tell a long story about the sea, the wind and an old ship.";
  const LOAD_TOKENS = 256;

  // The samples of a page in Prometheus's text format, by name with labels.
  function samples(page) {
    const found = new Map();
    for (const line of page.split("\n")) {
      const space = line.lastIndexOf(" ");
      if (space > 0 && !line.startsWith("#")) {
        found.set(line.slice(0, space), Number(line.slice(space + 1)));
      }
    }
    return found;
  }

  class Gauge {
    constructor(meter, says) {
      this.meter = meter;
      this.says = says;
    }

    start() {
      this.read();
      window.setInterval(() => { if (!document.hidden) this.read(); }, EVERY_MS);
    }

    async read() {
      try {
        const response = await oneglance.talk.open("/metrics");
        this.show(samples(await response.text()));
      } catch {
        this.says.textContent = "The server's figures cannot be read.";
      }
    }

    show(found) {
      if (!found.get("oneglance_passes_total")) return;
      const growth = found.get("oneglance_pass_growth");
      const kinds = ["prompt", "decided", "drafted"].map(
        (kind) => [kind, found.get('oneglance_batch_rows{kind="' + kind + '"}') || 0]);
      const rows = kinds.reduce((sum, [, number]) => sum + number, 0);
      const bound = growth > COMPUTE_BOUND ? "compute-bound" : "memory-bound";
      const parts = kinds.filter(([, number]) => number).map(
        ([kind, number]) => number + " " + kind);
      const count = oneglance.trace.count(rows, "row");
      const text = "The last pass had " + count + " (" + parts.join(", ") +
        "); twice as many would take " + growth.toFixed(2) + " times as long: " + bound + ".";
      this.meter.style.setProperty("--at", String(Math.min(Math.max(growth - 1, 0), 1)));
      this.meter.setAttribute("aria-valuenow", Math.min(Math.max(growth, 1), 2).toFixed(2));
      this.meter.setAttribute("aria-valuetext", growth.toFixed(2) + ", " + bound);
      if (this.says.textContent !== text) this.says.textContent = text;
    }
  }

  // So many answers at the same time, over and over, until it is told another number.
  class Load {
    constructor(onProblem) {
      this.onProblem = onProblem;
      this.stopping = null;
    }

    async set(number, model) {
      if (this.stopping) this.stopping.abort();
      const stopping = this.stopping = number ? new AbortController() : null;
      const body = { model, n: number, stream: true, max_tokens: LOAD_TOKENS, temperature: 1,
        ignore_eos: true, messages: [{ role: "user", content: LOAD_PROMPT }] };
      try {
        while (stopping && stopping === this.stopping) {
          for await (const chunk of oneglance.talk.events(
            "/v1/chat/completions", body, stopping.signal)) void chunk;
        }
      } catch (error) {
        if (oneglance.talk.isStopped(error)) return;
        this.stopping = null;
        this.onProblem(error);
      }
    }
  }

  window.oneglance.gauge = { Gauge, Load, LOADS };
})();
