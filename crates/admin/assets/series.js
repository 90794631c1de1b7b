// From counters that only grow to rates, for the last five minutes.
//
// Each rule has a ring of as many slots as there are ticks kept, all turning together, so that memory is
// taken once for each rule and never grows while the page is left open.

/** How far back the page remembers. */
export const KEPT_MS = 300_000;
const SLOTS = 320;

/** What is kept, and the counter of a tick it comes from. */
const COUNTERS = { passed: "admitted", limited: "refused", banned: "banned", queued: "waited", bytes: "bytes" };
export const FIELDS = Object.keys(COUNTERS);

const rings = () => Object.fromEntries(FIELDS.map((field) => [field, new Float32Array(SLOTS).fill(NaN)]));

export class Series {
  #times = new Float64Array(SLOTS).fill(NaN);
  #next = 0;
  #last = null; // time and counters of the last tick
  #rules = new Map();
  #total = rings();

  /** Takes a tick in. `counted(name)`: whether the rule belongs to the total; one in shadow mode does not. */
  take(tick, counted) {
    const last = this.#last;
    const counters = new Map(tick.rules.map((rule) => [rule.name, rule]));
    this.#last = { at: tick.at_ms, counters };
    if (last === null || tick.at_ms <= last.at) return;
    const seconds = (tick.at_ms - last.at) / 1000;
    if (seconds > 3) this.#turn(last.at + 1, () => {}); // a hole in the plot, not a line across it
    this.#turn(tick.at_ms, (slot) => {
      FIELDS.forEach((field) => (this.#total[field][slot] = 0));
      for (const [name, now] of counters) {
        const before = last.counters.get(name);
        const kept = this.#ring(name);
        for (const field of FIELDS) {
          const counter = now[COUNTERS[field]] ?? 0;
          const then = before?.[COUNTERS[field]] ?? 0;
          // A counter that has fallen began anew: all of it has come since.
          const rate = (counter >= then ? counter - then : counter) / seconds;
          kept[field][slot] = before === undefined ? NaN : rate;
          if (before !== undefined && counted(name)) this.#total[field][slot] += rate;
        }
      }
    });
    if (this.#rules.size > counters.size) {
      for (const name of this.#rules.keys()) if (!counters.has(name)) this.#rules.delete(name);
    }
  }

  #ring(name) {
    let ring = this.#rules.get(name);
    if (ring === undefined) this.#rules.set(name, (ring = rings()));
    return ring;
  }

  #turn(at, write) {
    const slot = this.#next % SLOTS;
    this.#next += 1;
    this.#times[slot] = at;
    for (const ring of [this.#total, ...this.#rules.values()]) for (const field of FIELDS) ring[field][slot] = NaN;
    write(slot);
  }

  /** The rates of a rule, or of all together with `null`: oldest first, none older than five minutes. */
  of(name) {
    const ring = name === null ? this.#total : this.#rules.get(name);
    const kept = { times: [], ...Object.fromEntries(FIELDS.map((field) => [field, []])) };
    const now = this.#last?.at ?? 0;
    for (let nth = Math.max(0, this.#next - SLOTS); nth < this.#next; nth += 1) {
      const slot = nth % SLOTS;
      if (this.#times[slot] < now - KEPT_MS) continue;
      kept.times.push(this.#times[slot]);
      for (const field of FIELDS) kept[field].push(ring === undefined ? NaN : ring[field][slot]);
    }
    return kept;
  }

  /** The rates of the last tick; all 0 if there are none yet. */
  now(name) {
    return this.#fold(name, 1);
  }

  /** The mean rates of the last `ticks` ticks. */
  recent(name, ticks) {
    return this.#fold(name, ticks);
  }

  #fold(name, ticks) {
    const ring = name === null ? this.#total : this.#rules.get(name);
    const mean = {};
    for (const field of FIELDS) {
      let sum = 0;
      let count = 0;
      for (let nth = this.#next - 1; nth >= Math.max(0, this.#next - ticks); nth -= 1) {
        const value = ring?.[field][nth % SLOTS];
        if (!Number.isNaN(value) && value !== undefined) {
          sum += value;
          count += 1;
        }
      }
      mean[field] = count === 0 ? 0 : sum / count;
    }
    return mean;
  }
}
