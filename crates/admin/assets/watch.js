// What the page knows of the process it watches, and who wants to hear when that changes.
//
// Events: `tick` (each second), `rules` (their texts and limits), `status`, `link` (the stream's state).

import { api } from "./api.js";
import { Live } from "./live.js";
import { Series } from "./series.js";
import { token } from "./settings.js";

class Watch extends EventTarget {
  status = null;
  /** The rules by name, as /v1/rules tells them. */
  rules = new Map();
  /** What holds now, by rule, as /v1/limits tells it. */
  limits = new Map();
  tick = null;
  /** The last tick's figures by rule. */
  figures = new Map();
  series = new Series();
  link = { state: "connecting", since: null };
  #live = new Live(
    (tick) => this.#take(tick),
    (state, since) => {
      this.link = { state, since };
      this.#tell("link");
    },
  );
  #asking = { status: null, rules: null };

  /** Asks for everything, and listens if there is somebody to listen to. */
  async start() {
    await this.askStatus();
    if (this.status === null) return;
    await this.askRules();
    this.#live.start();
    if (this.timer === undefined) {
      this.timer = setInterval(() => {
        if (this.link.state === "live") this.askStatus();
      }, 10_000);
    }
  }

  /** Whether changes may be made; `null` if so, else the name of the text that says why not. */
  get locked() {
    if (this.status === null) return "locked.unknown";
    if (this.status.access === "write") return null;
    return token.get() ? "locked.read_token" : "locked.no_token";
  }

  isShadow(name) {
    return this.rules.get(name)?.mode === "shadow";
  }

  askStatus() {
    return this.#once("status", async () => {
      this.status = await api.status();
      this.#tell("status");
    });
  }

  askRules() {
    return this.#once("rules", async () => {
      const [told, limits] = await Promise.all([api.rules(), api.limits()]);
      this.rules = new Map(told.rules.map((rule) => [rule.name, rule]));
      this.limits = new Map(limits.rules.map((rule) => [rule.name, rule]));
      this.#tell("rules");
    });
  }

  /** Two who ask at the same time hear the same answer. What fails is asked again with the next tick or click. */
  #once(what, ask) {
    this.#asking[what] ??= ask()
      .catch(() => {})
      .finally(() => (this.#asking[what] = null));
    return this.#asking[what];
  }

  #take(tick) {
    const before = this.tick;
    this.tick = tick;
    this.figures = new Map(tick.rules.map((rule) => [rule.name, rule]));
    this.series.take(tick, (name) => !this.isShadow(name));
    const changed = before !== null && before.edition !== tick.edition;
    if (changed || tick.rules.some((rule) => !this.rules.has(rule.name))) this.askRules();
    if (changed || this.status === null || before?.last_error !== tick.last_error) this.askStatus();
    // With the store lost or back, other limits hold.
    if (before !== null && before.store !== tick.store) this.askRules();
    this.#tell("tick");
  }

  #tell(event) {
    this.dispatchEvent(new Event(event));
  }
}

export const watch = new Watch();

/** Everything a view has begun and must end when it is left. */
export class Lifetime {
  #ends = [];
  over = false;

  on(event, listener) {
    watch.addEventListener(event, listener);
    this.#ends.push(() => watch.removeEventListener(event, listener));
  }

  /** Does something now and then every so often, one at a time; not while nobody looks. */
  every(milliseconds, work) {
    let busy = false;
    const run = async () => {
      if (busy || this.over || document.hidden) return;
      busy = true;
      try {
        await work();
      } catch {
        // Whoever works shows what went wrong; the next round may do better.
      } finally {
        busy = false;
      }
    };
    const timer = setInterval(run, milliseconds);
    this.#ends.push(() => clearInterval(timer));
    run();
    return run;
  }

  then(end) {
    this.#ends.push(end);
  }

  end() {
    this.over = true;
    for (const end of this.#ends.splice(0)) end();
  }
}
