// Converts counters to rates for the last five minutes.
//
// Each rule has a ring buffer; all of them share one position. Memory is allocated once per rule and does not grow
// while the page stays open.

/** Time range that is kept. */
const RANGE_MS = 300_000;
const SLOTS = 320;

/** Recorded fields and their counters in a tick. */
const COUNTERS = { admitted: "admitted", refused: "refused", banned: "banned", queued: "waited", bytes: "bytes" };
export const FIELDS = Object.keys(COUNTERS);

const rings = () => Object.fromEntries(FIELDS.map((field) => [field, new Float32Array(SLOTS).fill(NaN)]));

export class Series {
  #times = new Float64Array(SLOTS).fill(NaN);
  #next = 0;
  /** Time and counters of the last tick. */
  #last = null;
  #rules = new Map();
  #total = rings();

  /** Adds a tick. `isCounted(name)`: true if the rule is part of the total; shadow rules are not. */
  add(tick, isCounted) {
    const last = this.#last;
    const counters = new Map(tick.rules.map((rule) => [rule.name, rule]));
    this.#last = { at: tick.at_ms, counters };
    if (last === null || tick.at_ms <= last.at) return;
    const seconds = (tick.at_ms - last.at) / 1000;
    // A missing interval is a gap in the chart, not a line across it.
    if (seconds > 3) this.#advance(last.at + 1, () => {});
    this.#advance(tick.at_ms, (slot) => {
      FIELDS.forEach((field) => (this.#total[field][slot] = 0));
      for (const [name, now] of counters) {
        const previous = last.counters.get(name);
        const ring = this.#ring(name);
        for (const field of FIELDS) {
          const counter = now[COUNTERS[field]] ?? 0;
          const before = previous?.[COUNTERS[field]] ?? 0;
          // A counter that has decreased was reset.
          const rate = (counter >= before ? counter - before : counter) / seconds;
          ring[field][slot] = previous === undefined ? NaN : rate;
          if (previous !== undefined && isCounted(name)) this.#total[field][slot] += rate;
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

  #advance(at, write) {
    const slot = this.#next % SLOTS;
    this.#next += 1;
    this.#times[slot] = at;
    for (const ring of [this.#total, ...this.#rules.values()]) for (const field of FIELDS) ring[field][slot] = NaN;
    write(slot);
  }

  /** Rates of a rule, or of all rules with `null`: oldest first, at most five minutes old. */
  of(name) {
    const ring = name === null ? this.#total : this.#rules.get(name);
    const result = { times: [], ...Object.fromEntries(FIELDS.map((field) => [field, []])) };
    const now = this.#last?.at ?? 0;
    for (let index = Math.max(0, this.#next - SLOTS); index < this.#next; index += 1) {
      const slot = index % SLOTS;
      if (this.#times[slot] < now - RANGE_MS) continue;
      result.times.push(this.#times[slot]);
      for (const field of FIELDS) result[field].push(ring === undefined ? NaN : ring[field][slot]);
    }
    return result;
  }

  /** Mean rates of the last `ticks` ticks; 0 if there are none yet. */
  recent(name, ticks) {
    const ring = name === null ? this.#total : this.#rules.get(name);
    const mean = {};
    for (const field of FIELDS) {
      let sum = 0;
      let count = 0;
      for (let index = this.#next - 1; index >= Math.max(0, this.#next - ticks); index -= 1) {
        const value = ring?.[field][index % SLOTS];
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
