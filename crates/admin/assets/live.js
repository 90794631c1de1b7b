// The stream of ticks. It is read with fetch, as EventSource cannot show a token, and opened anew with
// growing pauses when it breaks or falls silent.

import { Problem, request } from "./api.js";

const SILENCE = 8000; // without a tick for so long, the connection is taken for dead
const PAUSES = [500, 1000, 2000, 4000, 8000, 15000];

/** Cuts a text that comes in pieces into events (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
export class EventReader {
  #rest = "";
  #event = "message";
  #data = [];

  /** The events that `piece` completes. */
  take(piece) {
    this.#rest += piece;
    const events = [];
    for (;;) {
      const end = this.#rest.search(/\r\n|\n|\r(?!$)/);
      if (end < 0) return events;
      const line = this.#rest.slice(0, end);
      this.#rest = this.#rest.slice(end + (this.#rest.startsWith("\r\n", end) ? 2 : 1));
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
  #lost = null;

  /** `onState(state, since)`: `connecting`, `live`, `reconnecting`, `offline` (since when), `locked`. */
  constructor(onTick, onState) {
    this.#onTick = onTick;
    this.#onState = onState;
    window.addEventListener("online", () => this.#state !== "live" && this.#state !== "locked" && this.start());
  }

  /** Connects, now. */
  start() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#state === "" || this.#state === "locked") this.#tell("connecting");
    this.#read(abort).catch((error) => {
      if (this.#abort === abort) this.#failed(error);
    });
  }

  async #read(abort) {
    let deadline = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await request("GET", "v1/live", { signal: abort.signal, accept: "text/event-stream" });
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      const events = new EventReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) throw new Problem(0, { detail: "the stream has ended" });
        for (const { event, data } of events.take(decoder.decode(value, { stream: true }))) {
          if (event !== "tick") continue;
          clearTimeout(deadline);
          deadline = setTimeout(() => abort.abort(), SILENCE);
          this.#failures = 0;
          this.#lost = null;
          this.#tell("live");
          this.#onTick(JSON.parse(data));
        }
      }
    } finally {
      clearTimeout(deadline);
    }
  }

  #failed(error) {
    if (error.status === 401) {
      this.#tell("locked");
      return;
    }
    this.#lost ??= new Date();
    const pause = PAUSES[Math.min(this.#failures, PAUSES.length - 1)];
    this.#failures += 1;
    this.#tell(this.#failures > 2 ? "offline" : "reconnecting");
    this.#timer = setTimeout(() => this.start(), pause * (0.75 + Math.random() / 2));
  }

  #tell(state) {
    if (state === this.#state && state !== "offline") return;
    this.#state = state;
    this.#onState(state, this.#lost);
  }
}
