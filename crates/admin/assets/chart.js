// A plot of the last five minutes, drawn as SVG: what adds up lies on top of each other as bands, what does
// not is a line over them. Under the pointer, or with the arrow keys, it tells the values of a moment.

import { clock, number, rate } from "./format.js";
import { t } from "./i18n/index.js";
import { h, s, say, set } from "./dom.js";
import { kindName } from "./kinds.js";
import { KEPT_MS } from "./series.js";

/** The next round number above, so that half of it is round too. */
export function roundUp(value, base = 10) {
  if (!(value > 0)) return 1;
  // Bytes are round by other numbers: 200 KiB, and not 195.3 KiB.
  const unit = base === 10 ? 1 : base ** Math.floor(Math.log(value) / Math.log(base));
  if (unit > 1) return roundUp(value / unit) * unit;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

export class Chart {
  #bands;
  #line;
  #tall;
  #tell;
  #base;
  #svg;
  #parts = {};
  #tip;
  #data = null;
  #at = null; // the moment that is pointed at
  #size = { width: 0, height: 0 };
  #watching;
  #visible = true;

  /**
   * `bands`: the fields that add up; `line`: the field drawn over them, or null; `height` in pixels; `tall`: with
   * axes; `tell`: writes a value; `base`: of the units it writes, if not ten.
   */
  constructor({ label, bands, line = null, height, tall = false, tell = rate, base = 10 }) {
    this.#bands = bands;
    this.#line = line;
    this.#tall = tall;
    this.#tell = tell;
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
      // A small plot has its rule's page, where the keyboard reaches the large one.
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
        h("span", { class: "row" }, h("span", { class: `swatch ${field}` }), kindName(field), this.#parts.values.get(field)),
      ),
    );
    this.element = h("div", { class: tall ? "chart tall" : "chart" }, this.#svg, this.#tip);
    this.#size.height = height;
    this.#svg.addEventListener("pointermove", (event) => this.#point(event.clientX - this.#svg.getBoundingClientRect().left));
    this.#svg.addEventListener("pointerdown", (event) => this.#point(event.clientX - this.#svg.getBoundingClientRect().left));
    this.#svg.addEventListener("pointerleave", () => this.#leave());
    this.#svg.addEventListener("blur", () => this.#leave());
    this.#svg.addEventListener("keydown", (event) => this.#key(event));
    this.#watching = [
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
    this.#watching.forEach((watching) => watching.observe(this.element));
  }

  /** Nothing is drawn any more. */
  end() {
    this.#watching.forEach((watching) => watching.disconnect());
  }

  /** Shows these rates, of `Series.of`. */
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
    let most = 0;
    for (const value of top) if (value > most) most = value;
    if (this.#line !== null) for (const value of data[this.#line]) if (value > most) most = value;
    const ceiling = roundUp(most, this.#base);
    const x = (time) => frame.left + (1 - (end - time) / KEPT_MS) * (frame.right - frame.left);
    const y = (value) => frame.bottom - (value / ceiling) * (frame.bottom - frame.top);
    set(this.#svg, "viewBox", `0 0 ${this.#size.width} ${this.#size.height}`);
    this.#grid(frame, ceiling, y);
    this.#bands.forEach((field, nth) => {
      const [band, edge] = this.#parts.bands[nth];
      const floor = nth === 0 ? null : levels[nth - 1];
      const upper = whereAny(data[field], levels[nth]);
      set(band, "d", area(data.times, upper, floor, x, y));
      set(edge, "d", line(data.times, upper, x, y));
    });
    if (this.#line !== null) {
      set(this.#parts.line, "d", line(data.times, whereAny(data[this.#line], data[this.#line]), x, y));
    }
    const last = (field) => this.#tell(data[field].at(-1) || 0);
    const fields = [...this.#parts.values.keys()];
    set(this.#svg, "aria-label", `${this.label}: ${fields.map((field) => `${kindName(field)} ${last(field)}`).join(", ")}`);
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
        parts.push(s("text", { x: 0, y: at - 4 }, this.#tell(ceiling)));
      }
    }
    if (this.#tall) {
      const step = frame.right - frame.left < 420 ? 2 : 1;
      for (let minutes = 5; minutes >= 0; minutes -= 1) {
        if (minutes % step !== 0) continue;
        const at = frame.right - (minutes / 5) * (frame.right - frame.left);
        const anchor = minutes === 0 ? "end" : minutes === 5 ? "start" : "middle";
        const text = minutes === 0 ? t("chart.now") : t("chart.minutes", { n: minutes });
        parts.push(s("text", { x: at, y: frame.bottom + 16, "text-anchor": anchor }, text));
      }
    }
    this.#parts.grid.replaceChildren(...parts);
  }

  #scale(value) {
    return this.#tell === rate ? number(value) : this.#tell(value);
  }

  #point(position) {
    const frame = this.#frame();
    const data = this.#data;
    if (data === null || data.times.length === 0) return;
    const end = data.times.at(-1);
    const share = Math.min(1, Math.max(0, (position - frame.left) / (frame.right - frame.left)));
    this.#at = end - (1 - share) * KEPT_MS;
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
    let nth = this.#at === null ? times.length - 1 : nearest(times, this.#at);
    if (event.key === "Home") nth = 0;
    else if (event.key === "End") nth = times.length - 1;
    else nth = Math.min(times.length - 1, Math.max(0, nth + step));
    this.#at = times[nth];
    this.#draw();
  }

  #mark(frame, x) {
    const { times } = this.#data;
    if (this.#at === null || times.length === 0) {
      set(this.#parts.cursor, "visibility", "hidden");
      this.#tip.hidden = true;
      return;
    }
    const nth = nearest(times, this.#at);
    const at = x(times[nth]);
    for (const [name, value] of Object.entries({ x1: at, x2: at, y1: frame.top, y2: frame.bottom, visibility: "visible" })) {
      set(this.#parts.cursor, name, value);
    }
    say(this.#parts.time, clock(times[nth]));
    for (const [field, element] of this.#parts.values) {
      const value = this.#data[field][nth];
      say(element, Number.isNaN(value) ? "–" : this.#tell(value));
    }
    this.#tip.hidden = false;
    const room = this.#size.width - this.#tip.offsetWidth;
    const beside = at + 12 > room ? at - this.#tip.offsetWidth - 12 : at + 12;
    this.#tip.style.left = `${Math.max(0, Math.min(room, beside))}px`;
  }
}

/** The diagonal strokes of the band of the banned, for eyes that cannot tell its colour; once for all plots. */
export function hatching() {
  const pattern = s(
    "pattern",
    { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 5, height: 5, class: "hatch-ground" }),
    s("rect", { width: 2, height: 5, class: "hatch-stroke" }),
  );
  return s("svg", { class: "defs", width: 0, height: 0, "aria-hidden": "true" }, s("defs", {}, pattern));
}

/** The upper edges of bands that lie on each other. */
function stacked(data, fields) {
  const levels = [];
  for (const field of fields) {
    const below = levels.at(-1);
    levels.push(data[field].map((value, nth) => value + (below === undefined ? 0 : below[nth])));
  }
  return levels;
}

/** The levels where there is anything of a kind, and one moment to each side: nothing needs no line. */
function whereAny(values, levels) {
  return levels.map((level, nth) => (values[nth] > 0 || values[nth - 1] > 0 || values[nth + 1] > 0 ? level : NaN));
}

/** Runs of moments whose values are known. */
function* runs(values) {
  let start = -1;
  for (let nth = 0; nth <= values.length; nth += 1) {
    const known = nth < values.length && !Number.isNaN(values[nth]);
    if (known && start < 0) start = nth;
    if (!known && start >= 0) {
      yield [start, nth];
      start = -1;
    }
  }
}

const place = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function line(times, values, x, y) {
  let path = "";
  for (const [start, end] of runs(values)) {
    for (let nth = start; nth < end; nth += 1) path += `${nth === start ? "M" : "L"}${place(x(times[nth]), y(values[nth]))}`;
  }
  return path;
}

function area(times, upper, lower, x, y) {
  let path = "";
  for (const [start, end] of runs(upper)) {
    for (let nth = start; nth < end; nth += 1) path += `${nth === start ? "M" : "L"}${place(x(times[nth]), y(upper[nth]))}`;
    for (let nth = end - 1; nth >= start; nth -= 1) path += `L${place(x(times[nth]), y(lower === null ? 0 : lower[nth]))}`;
    path += "Z";
  }
  return path;
}

function nearest(times, at) {
  let best = 0;
  for (let nth = 1; nth < times.length; nth += 1) if (Math.abs(times[nth] - at) < Math.abs(times[best] - at)) best = nth;
  return best;
}
