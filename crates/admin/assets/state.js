// State of the observed process, and subscriptions to its changes.
//
// Events: `tick` (each second), `rules` (rules and limits), `status`, `connection` (state of the event stream).

import { api } from "./api.js";
import { Live } from "./live.js";
import { Series } from "./series.js";
import { token } from "./settings.js";

class AppState extends EventTarget {
  status = null;
  /** Rules by name, from /v1/rules. */
  rules = new Map();
  /** Effective limits by rule, from /v1/limits. */
  limits = new Map();
  tick = null;
  /** Counters of the last tick by rule. */
  counters = new Map();
  series = new Series();
  connection = { state: "connecting", since: null };
  #live = new Live(
    (tick) => this.#applyTick(tick),
    (state, since) => {
      this.connection = { state, since };
      this.#notify("connection");
    },
  );
  #pending = { status: null, rules: null };

  /** Loads everything, and subscribes to the event stream if that succeeds. */
  async start() {
    await this.loadStatus();
    if (this.status === null) return;
    await this.loadRules();
    this.#live.start();
    if (this.timer === undefined) {
      this.timer = setInterval(() => {
        if (this.connection.state === "live") this.loadStatus();
      }, 10_000);
    }
  }

  /** `null` if the user may write, otherwise the name of the text that gives the reason. */
  get readOnlyReason() {
    if (this.status === null) return "locked.unknown";
    if (this.status.access === "write") return null;
    return token.get() ? "locked.read_token" : "locked.no_token";
  }

  isShadow(name) {
    return this.rules.get(name)?.mode === "shadow";
  }

  loadStatus() {
    return this.#once("status", async () => {
      this.status = await api.status();
      this.#notify("status");
    });
  }

  loadRules() {
    return this.#once("rules", async () => {
      const [{ rules }, limits] = await Promise.all([api.rules(), api.limits()]);
      this.rules = new Map(rules.map((rule) => [rule.name, rule]));
      this.limits = new Map(limits.rules.map((rule) => [rule.name, rule]));
      this.#notify("rules");
    });
  }

  /** Shares one call between concurrent callers. A failed call is repeated with the next tick or click. */
  #once(name, load) {
    this.#pending[name] ??= load()
      .catch(() => {})
      .finally(() => (this.#pending[name] = null));
    return this.#pending[name];
  }

  #applyTick(tick) {
    const previous = this.tick;
    this.tick = tick;
    this.counters = new Map(tick.rules.map((rule) => [rule.name, rule]));
    this.series.add(tick, (name) => !this.isShadow(name));
    const changed = previous !== null && previous.generation !== tick.generation;
    if (changed || tick.rules.some((rule) => !this.rules.has(rule.name))) this.loadRules();
    if (changed || this.status === null || previous?.last_error !== tick.last_error) this.loadStatus();
    // Effective limits depend on the state of the store.
    if (previous !== null && previous.store !== tick.store) this.loadRules();
    this.#notify("tick");
  }

  #notify(event) {
    this.dispatchEvent(new Event(event));
  }
}

export const state = new AppState();

/** Resources of a view, released when the view is left. */
export class Lifetime {
  #cleanups = [];
  ended = false;

  on(event, listener) {
    state.addEventListener(event, listener);
    this.#cleanups.push(() => state.removeEventListener(event, listener));
  }

  /** Runs `work` now and at an interval, one run at a time, and not while the page is hidden. */
  every(milliseconds, work) {
    let busy = false;
    const run = async () => {
      if (busy || this.ended || document.hidden) return;
      busy = true;
      try {
        await work();
      } catch {
        // The callback shows its own errors; the next run may succeed.
      } finally {
        busy = false;
      }
    };
    const timer = setInterval(run, milliseconds);
    this.#cleanups.push(() => clearInterval(timer));
    run();
    return run;
  }

  onEnd(cleanup) {
    this.#cleanups.push(cleanup);
  }

  end() {
    this.ended = true;
    for (const cleanup of this.#cleanups.splice(0)) cleanup();
  }
}
