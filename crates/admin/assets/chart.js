// SVG chart of up to five minutes: stacked bands, and optionally a line over them. The values of one point in time
// are shown under the pointer or with the arrow keys.

import { clock, number, rate } from "./format.js";
import { t } from "./i18n/index.js";
import { h, s, set, setText } from "./dom.js";
import { verdictName } from "./verdicts.js";

/** Time ranges of the charts and the distance of their marks, in seconds. The shortest range that fits is used. */
const RANGES = [
  [60, 10],
  [120, 30],
  [300, 60],
];

/** Range and distance of the marks for these times. */
function timeRange(times) {
  const seconds = times.length < 2 ? 0 : (times.at(-1) - times[0]) / 1000;
  return RANGES.find(([range]) => seconds <= range) ?? RANGES.at(-1);
}

/** Next round number, so that half of it is round too. */
export function roundUp(value, base = 10) {
  if (!(value > 0)) return 1;
  // Bytes are rounded in their unit: 200 KiB, not 195.3 KiB.
  const unit = base === 10 ? 1 : base ** Math.floor(Math.log(value) / Math.log(base));
  if (unit > 1) return roundUp(value / unit) * unit;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

export class Chart {
  #bands;
  #line;
  #tall;
  #format;
  #base;
  #svg;
  #parts = {};
  #tip;
  #data = null;
  /** Selected time. */
  #at = null;
  #size = { width: 0, height: 0 };
  #observers;
  #visible = true;

  /**
   * `bands`: stacked fields; `line`: field drawn over them, or null; `height` in pixels; `tall`: with axes;
   * `format`: formats a value; `base`: base of its units.
   */
  constructor({ label, bands, line = null, height, tall = false, format = rate, base = 10 }) {
    this.#bands = bands;
    this.#line = line;
    this.#tall = tall;
    this.#format = format;
    this.#base = base;
    this.label = label;
    const fields = line === null ? bands : [...bands, line];
    this.#parts.grid = s("g", { class: "grid" });
    this.#parts.bands = bands.map((field) => [
      s("path", { class: `band ${field}`, fill: field === "banned" ? "url(#hatch)" : null }),
      s("path", { class: `edge ${field}` }),
    ]);
    this.#parts.line = line === null ? null : s("path", { class: `edge over ${line}` });
    this.#parts.cursor = s("line", { class: "cursor", visibility: "hidden" });
    this.#svg = s(
      "svg",
      // Small charts have a large version on the page of the rule, which can be used with the keyboard.
      { class: "plot", role: "img", tabindex: tall ? "0" : null, height },
      this.#parts.grid,
      this.#parts.bands.flat(),
      this.#parts.line,
      this.#parts.cursor,
    );
    this.#parts.values = new Map(fields.map((field) => [field, h("span", { class: "value" })]));
    this.#parts.time = h("time", {});
    this.#tip = h(
      "div",
      { class: "tip", hidden: true },
      this.#parts.time,
      fields.map((field) =>
        h("span", { class: "row" }, h("span", { class: `swatch ${field}` }), verdictName(field), this.#parts.values.get(field)),
      ),
    );
    this.element = h("div", { class: tall ? "chart tall" : "chart" }, this.#svg, this.#tip);
    this.#size.height = height;
    this.#svg.addEventListener("pointermove", (event) => this.#point(event.clientX - this.#svg.getBoundingClientRect().left));
    this.#svg.addEventListener("pointerdown", (event) => this.#point(event.clientX - this.#svg.getBoundingClientRect().left));
    this.#svg.addEventListener("pointerleave", () => this.#leave());
    this.#svg.addEventListener("blur", () => this.#leave());
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
    this.#observers = [
      new ResizeObserver(([entry]) => {
        const width = Math.floor(entry.contentRect.width);
        if (width === this.#size.width) return;
        this.#size.width = width;
        this.#draw();
      }),
      new IntersectionObserver(([entry]) => {
        this.#visible = entry.isIntersecting;
        if (this.#visible) this.#draw();
      }),
    ];
    this.#observers.forEach((observer) => observer.observe(this.element));
  }

  /** Stops drawing. */
  end() {
    this.#observers.forEach((observer) => observer.disconnect());
  }

  /** Shows rates from `Series.of`. */
  show(data) {
    this.#data = data;
    if (this.#visible) this.#draw();
  }

  #frame() {
    const { width, height } = this.#size;
    return this.#tall
      ? { left: 46, right: width - 8, top: 8, bottom: height - 22 }
      : { left: 0, right: width, top: 14, bottom: height - 1 };
  }

  #draw() {
    const data = this.#data;
    if (data === null || this.#size.width < 40) return;
    const end = data.times.at(-1) ?? Date.now();
    const frame = this.#frame();
    const levels = stacked(data, this.#bands);
    const top = levels.at(-1) ?? [];
    let max = 0;
    for (const value of top) if (value > max) max = value;
    if (this.#line !== null) for (const value of data[this.#line]) if (value > max) max = value;
    const ceiling = roundUp(max, this.#base);
    const [range] = timeRange(data.times);
    const x = (time) => frame.left + (1 - (end - time) / (range * 1000)) * (frame.right - frame.left);
    const y = (value) => frame.bottom - (value / ceiling) * (frame.bottom - frame.top);
    set(this.#svg, "viewBox", `0 0 ${this.#size.width} ${this.#size.height}`);
    this.#grid(frame, ceiling, y);
    this.#bands.forEach((field, index) => {
      const [band, edge] = this.#parts.bands[index];
      const floor = index === 0 ? null : levels[index - 1];
      const upper = nonZero(data[field], levels[index]);
      set(band, "d", area(data.times, upper, floor, x, y));
      set(edge, "d", line(data.times, upper, x, y));
    });
    if (this.#line !== null) {
      set(this.#parts.line, "d", line(data.times, nonZero(data[this.#line], data[this.#line]), x, y));
    }
    const last = (field) => this.#format(data[field].at(-1) || 0);
    const fields = [...this.#parts.values.keys()];
    set(this.#svg, "aria-label", `${this.label}: ${fields.map((field) => `${verdictName(field)} ${last(field)}`).join(", ")}`);
    this.#mark(frame, x);
  }

  #grid(frame, ceiling, y) {
    const marks = this.#tall ? [0, 0.25, 0.5, 0.75, 1] : [0, 1];
    const parts = [];
    for (const mark of marks) {
      const at = Math.round(y(mark * ceiling)) + 0.5;
      parts.push(s("line", { x1: frame.left, x2: frame.right, y1: at, y2: at, class: mark === 0 ? "base" : null }));
      if (this.#tall && mark !== 0.25 && mark !== 0.75) {
        parts.push(s("text", { x: frame.left - 8, y: at + 4, "text-anchor": "end" }, this.#scale(mark * ceiling)));
      } else if (!this.#tall && mark === 1) {
        parts.push(s("text", { x: 0, y: at - 4 }, this.#format(ceiling)));
      }
    }
    if (this.#tall) {
      const [range, distance] = timeRange(this.#data.times);
      const step = frame.right - frame.left < 420 ? 2 * distance : distance;
      for (let seconds = 0; seconds <= range; seconds += step) {
        const at = frame.right - (seconds / range) * (frame.right - frame.left);
        const anchor = seconds === 0 ? "end" : seconds === range ? "start" : "middle";
        parts.push(s("text", { x: at, y: frame.bottom + 16, "text-anchor": anchor }, agoText(seconds)));
      }
    }
    this.#parts.grid.replaceChildren(...parts);
  }

  #scale(value) {
    return this.#format === rate ? number(value) : this.#format(value);
  }

  #point(position) {
    const frame = this.#frame();
    const data = this.#data;
    if (data === null || data.times.length === 0) return;
    const end = data.times.at(-1);
    const share = Math.min(1, Math.max(0, (position - frame.left) / (frame.right - frame.left)));
    this.#at = end - (1 - share) * timeRange(data.times)[0] * 1000;
    this.#draw();
  }

  #leave() {
    this.#at = null;
    this.#draw();
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    const times = this.#data?.times ?? [];
    if (event.key === "Escape") this.#leave();
    if (times.length === 0 || (step === undefined && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    let index = this.#at === null ? times.length - 1 : nearest(times, this.#at);
    if (event.key === "Home") index = 0;
    else if (event.key === "End") index = times.length - 1;
    else index = Math.min(times.length - 1, Math.max(0, index + step));
    this.#at = times[index];
    this.#draw();
  }

  #mark(frame, x) {
    const { times } = this.#data;
    if (this.#at === null || times.length === 0) {
      set(this.#parts.cursor, "visibility", "hidden");
      this.#tip.hidden = true;
      return;
    }
    const index = nearest(times, this.#at);
    const at = x(times[index]);
    for (const [name, value] of Object.entries({ x1: at, x2: at, y1: frame.top, y2: frame.bottom, visibility: "visible" })) {
      set(this.#parts.cursor, name, value);
    }
    setText(this.#parts.time, clock(times[index]));
    for (const [field, element] of this.#parts.values) {
      const value = this.#data[field][index];
      setText(element, Number.isNaN(value) ? "–" : this.#format(value));
    }
    this.#tip.hidden = false;
    const max = this.#size.width - this.#tip.offsetWidth;
    const left = at + 12 > max ? at - this.#tip.offsetWidth - 12 : at + 12;
    this.#tip.style.left = `${Math.max(0, Math.min(max, left))}px`;
  }
}

function agoText(seconds) {
  if (seconds === 0) return t("chart.now");
  return seconds % 60 === 0 ? t("chart.minutes", { n: seconds / 60 }) : t("chart.seconds", { n: seconds });
}

/** Hatch pattern of the banned band, shared by all charts. */
export function hatchPattern() {
  const pattern = s(
    "pattern",
    { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 5, height: 5, class: "hatch-ground" }),
    s("rect", { width: 2, height: 5, class: "hatch-stroke" }),
  );
  return s("svg", { class: "defs", width: 0, height: 0, "aria-hidden": "true" }, s("defs", {}, pattern));
}

/** Upper edges of the stacked bands. */
function stacked(data, fields) {
  const levels = [];
  for (const field of fields) {
    const below = levels.at(-1);
    levels.push(data[field].map((value, index) => value + (below === undefined ? 0 : below[index])));
  }
  return levels;
}

/** Levels where the value is not zero, and one point to each side; no line is drawn elsewhere. */
function nonZero(values, levels) {
  return levels.map((level, index) => (values[index] > 0 || values[index - 1] > 0 || values[index + 1] > 0 ? level : NaN));
}

/** Ranges of consecutive known values. */
function* runs(values) {
  let start = -1;
  for (let index = 0; index <= values.length; index += 1) {
    const known = index < values.length && !Number.isNaN(values[index]);
    if (known && start < 0) start = index;
    if (!known && start >= 0) {
      yield [start, index];
      start = -1;
    }
  }
}

const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function line(times, values, x, y) {
  let path = "";
  for (const [start, end] of runs(values)) {
    for (let index = start; index < end; index += 1) path += `${index === start ? "M" : "L"}${point(x(times[index]), y(values[index]))}`;
  }
  return path;
}

function area(times, upper, lower, x, y) {
  let path = "";
  for (const [start, end] of runs(upper)) {
    for (let index = start; index < end; index += 1) path += `${index === start ? "M" : "L"}${point(x(times[index]), y(upper[index]))}`;
    for (let index = end - 1; index >= start; index -= 1) path += `L${point(x(times[index]), y(lower === null ? 0 : lower[index]))}`;
    path += "Z";
  }
  return path;
}

function nearest(times, at) {
  let best = 0;
  for (let index = 1; index < times.length; index += 1) if (Math.abs(times[index] - at) < Math.abs(times[best] - at)) best = index;
  return best;
}
