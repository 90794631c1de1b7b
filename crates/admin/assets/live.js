// Event stream of ticks. It is read with fetch, because EventSource cannot send a token, and reconnects with backoff
// when it breaks or stays silent.

import { Problem, request } from "./api.js";

/** Without a tick for this time, the connection counts as lost. */
const SILENCE_TIMEOUT_MS = 8000;
const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15000];

/** Incremental parser of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
export class EventParser {
  #buffer = "";
  #event = "message";
  #data = [];

  /** Returns the events that `chunk` completes. */
  push(chunk) {
    this.#buffer += chunk;
    const events = [];
    for (;;) {
      const end = this.#buffer.search(/\r\n|\n|\r(?!$)/);
      if (end < 0) return events;
      const line = this.#buffer.slice(0, end);
      this.#buffer = this.#buffer.slice(end + (this.#buffer.startsWith("\r\n", end) ? 2 : 1));
      if (line === "") {
        if (this.#data.length > 0) events.push({ event: this.#event, data: this.#data.join("\n") });
        this.#event = "message";
        this.#data = [];
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "event") this.#event = value;
        else if (field === "data") this.#data.push(value);
      }
    }
  }
}

export class Live {
  #onTick;
  #onState;
  #abort = null;
  #timer = 0;
  #failures = 0;
  #state = "";
  #lostAt = null;

  /** `onState(state, since)`: `connecting`, `live`, `reconnecting`, `offline` (with its start time), `locked`. */
  constructor(onTick, onState) {
    this.#onTick = onTick;
    this.#onState = onState;
    window.addEventListener("online", () => this.#state !== "live" && this.#state !== "locked" && this.start());
  }

  /** Connects immediately. */
  start() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#state === "" || this.#state === "locked") this.#setState("connecting");
    this.#read(abort).catch((error) => {
      if (this.#abort === abort) this.#failed(error);
    });
  }

  async #read(abort) {
    let timeout = setTimeout(() => abort.abort(), SILENCE_TIMEOUT_MS);
    try {
      const response = await request("GET", "v1/live", { signal: abort.signal, accept: "text/event-stream" });
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Problem(0, { detail: "the stream ended" });
        for (const { event, data } of parser.push(decoder.decode(value, { stream: true }))) {
          if (event !== "tick") continue;
          clearTimeout(timeout);
          timeout = setTimeout(() => abort.abort(), SILENCE_TIMEOUT_MS);
          this.#failures = 0;
          this.#lostAt = null;
          this.#setState("live");
          this.#onTick(JSON.parse(data));
        }
      }
    } finally {
      clearTimeout(timeout);
    }
  }

  #failed(error) {
    if (error.status === 401) {
      this.#setState("locked");
      return;
    }
    this.#lostAt ??= new Date();
    const backoff = BACKOFF_MS[Math.min(this.#failures, BACKOFF_MS.length - 1)];
    this.#failures += 1;
    this.#setState(this.#failures > 2 ? "offline" : "reconnecting");
    this.#timer = setTimeout(() => this.start(), backoff * (0.75 + Math.random() / 2));
  }

  #setState(state) {
    if (state === this.#state && state !== "offline") return;
    this.#state = state;
    this.#onState(state, this.#lostAt);
  }
}
