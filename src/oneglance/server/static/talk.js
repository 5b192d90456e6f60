// Talks to the server the page came from: whole answers, streams of events, errors as sentences.
//
//   oneglance.talk.key = "…";                                  // sent with every request
//   const response = await oneglance.talk.open(path, options); // throws a Problem
//   for await (const event of oneglance.talk.events(path, body, signal)) …
(function () {
  "use strict";

  const UNREACHABLE = "The server does not answer; see whether it still runs, and try again.";
  const CUT_SHORT = "The answer broke off before its end; see whether the server still runs.";

  class Problem extends Error {
    // status: of HTTP; 0: there was no response, or it had begun.
    constructor(message, status) {
      super(message);
      this.status = status || 0;
    }
  }

  const talk = { key: "", Problem };

  talk.open = async (path, options) => {
    const headers = { ...(options && options.headers) };
    if (talk.key) headers.Authorization = "Bearer " + talk.key;
    let response;
    try {
      response = await fetch(path, { ...options, headers, cache: "no-store" });
    } catch (error) {
      throw isStopped(error) ? error : new Problem(UNREACHABLE);
    }
    if (!response.ok) throw new Problem(await sentence(response), response.status);
    return response;
  };

  talk.events = async function* (path, body, signal) {
    const response = await talk.open(path, {
      method: "POST", body: JSON.stringify(body), signal,
      headers: { "Content-Type": "application/json" },
    });
    for await (const data of lines(response.body)) {
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new Problem(event.error.message);
      yield event;
    }
    throw new Problem(CUT_SHORT);
  };

  talk.isStopped = isStopped;

  function isStopped(error) {
    return error instanceof DOMException && error.name === "AbortError";
  }

  // The data of each event, as they come.
  async function* lines(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    while (true) {
      let part;
      try {
        part = await reader.read();
      } catch (error) {
        throw isStopped(error) ? error : new Problem(CUT_SHORT);
      }
      if (part.done) return;
      const whole = (rest + part.value).split("\n\n");
      rest = whole.pop();
      for (const event of whole) yield event.replace(/^data: /, "");
    }
  }

  async function sentence(response) {
    try {
      return (await response.json()).error.message;
    } catch {
      return "The server answered with status " + response.status + " and no explanation.";
    }
  }

  window.oneglance.talk = talk;
})();
