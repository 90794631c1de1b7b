// Components shared by several views.

import { ago, dateTime, share } from "./format.js";
import { errorText } from "./problems.js";
import { h, replaceChildren, set, setText } from "./dom.js";
import { t } from "./i18n/index.js";

/** A section with a heading. */
export function section(title, { lead = null, side = null, level = 2, kind = "" } = {}, ...children) {
  return h(
    "section",
    { class: `panel ${kind}`.trim() },
    h("header", {}, h("div", {}, h(`h${level}`, {}, title), lead === null ? null : lead instanceof Node ? lead : h("p", { class: "lead" }, lead)), side),
    ...children,
  );
}

/** A table that becomes a list of cards on narrow screens. `columns`: { label, number? } each. */
export function table(columns, caption) {
  const body = h("tbody", {});
  const element = h(
    "table",
    { role: "table" },
    h("caption", { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, columns.map(({ label, number }) => h("th", { scope: "col", class: number ? "number" : null }, label)))),
    body,
  );
  return {
    element,
    /** Shows rows of cells, or `empty` if there are none. */
    rows(rows, empty) {
      // Keeps the focus on the button or link at the same position.
      const focused = body.contains(document.activeElement) ? [...body.querySelectorAll("button, a")].indexOf(document.activeElement) : -1;
      replaceChildren(
        body,
        rows.map((cells) =>
          h("tr", {}, cells.map((cell, index) => h("td", { "data-label": columns[index].label, class: columns[index].number ? "number" : null }, cell))),
        ),
        rows.length === 0 ? h("tr", { class: "empty" }, h("td", { colspan: columns.length }, empty)) : null,
      );
      if (focused >= 0) body.querySelectorAll("button, a")[focused]?.focus();
    },
  };
}

/**
 * Returns a function that is true while the user interacts with the element. Rows must not move under the pointer,
 * or the wrong key gets banned. After `idle` milliseconds without input the user counts as inactive.
 */
export function trackInteraction(element, idle = 4000) {
  let last = -Infinity;
  const record = () => (last = performance.now());
  for (const event of ["pointermove", "pointerdown", "keydown", "focusin"]) element.addEventListener(event, record, { passive: true });
  return () => performance.now() - last < idle;
}

/** A usage bar. `value` is a share from 0 to 1. */
export function bar(label, value = null, text = null) {
  const fill = h("span", { class: "fill" });
  const caption = h("span", { class: "label" });
  const element = h("div", { class: "bar", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", { class: "track" }, fill), caption);
  const show = (value, text) => {
    const known = Number.isFinite(value);
    const part = known ? Math.min(1, Math.max(0, value)) : 0;
    fill.style.width = `${part * 100}%`;
    set(element, "data-level", part >= 1 ? "full" : part >= 0.8 ? "high" : "low");
    set(element, "aria-valuenow", Math.round(part * 100));
    set(element, "aria-valuetext", text ?? share(value));
    setText(caption, text ?? (known ? share(value) : "–"));
  };
  show(value, text);
  return { element, show };
}

export const badge = (text, kind = "", title = null) => h("span", { class: `badge ${kind}`.trim(), title }, text);

/** A time, shown relative to now. */
export const since = (when) => h("time", { datetime: when, title: dateTime(when) }, ago(when));

/** A list of names and values. */
export function facts(pairs, kind = "") {
  return h(
    "dl",
    { class: `facts ${kind}`.trim() },
    pairs.filter((pair) => pair !== null).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** Code: a rule name, a key, a condition. */
export const code = (text, kind = "") => h("code", { class: kind || null }, text);

/** Placeholder while data is loading. */
export const loading = () => h("p", { class: "waiting" }, t("loading"));

/** Error message. */
export const errorMessage = (error) => h("p", { class: "error-text", role: "alert" }, errorText(error));
