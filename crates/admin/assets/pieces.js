// Pieces that several views are made of.

import { ago, moment, share } from "./format.js";
import { h, put, say, set } from "./dom.js";
import { t } from "./i18n/index.js";

/** A part of a page with a heading. */
export function section(title, { lead = null, side = null, level = 2, kind = "" } = {}, ...children) {
  return h(
    "section",
    { class: `panel ${kind}`.trim() },
    h("header", {}, h("div", {}, h(`h${level}`, {}, title), lead === null ? null : lead instanceof Node ? lead : h("p", { class: "lead" }, lead)), side),
    ...children,
  );
}

/** A table that becomes a list of cards where the screen is narrow. `columns`: { label, number? } each. */
export function table(columns, caption) {
  const body = h("tbody", {});
  const element = h(
    "table",
    { role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map(({ label, number }) => h("th", { scope: "col", class: number ? "number" : null }, label)))),
    body,
  );
  return {
    element,
    /** Shows rows of cells; `empty` in their place if there are none. */
    rows(rows, empty) {
      // Somebody may be on a button in here: the focus finds its way back to the same place.
      const focused = body.contains(document.activeElement) ? [...body.querySelectorAll("button, a")].indexOf(document.activeElement) : -1;
      put(
        body,
        rows.map((cells) =>
          h("tr", {}, cells.map((cell, nth) => h("td", { "data-label": columns[nth].label, class: columns[nth].number ? "number" : null }, cell))),
        ),
        rows.length === 0 ? h("tr", { class: "empty" }, h("td", { colspan: columns.length }, empty)) : null,
      );
      if (focused >= 0) body.querySelectorAll("button, a")[focused]?.focus();
    },
  };
}

/**
 * Whether somebody is about to click in there: a row that jumps away under the pointer gets the wrong one banned.
 * Hands that rest are not waited for.
 */
export function busyHands(element, rest = 4000) {
  let last = -Infinity;
  const note = () => (last = performance.now());
  for (const event of ["pointermove", "pointerdown", "keydown", "focusin"]) element.addEventListener(event, note, { passive: true });
  return () => performance.now() - last < rest;
}

/** A bar that is so full. */
export function bar(label, value = null, text = null) {
  const full = h("span", { class: "full" });
  const words = h("span", { class: "words" });
  const element = h("div", { class: "bar", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", { class: "track" }, full), words);
  const show = (value, text) => {
    const known = Number.isFinite(value);
    const part = known ? Math.min(1, Math.max(0, value)) : 0;
    full.style.width = `${part * 100}%`;
    set(element, "data-level", part >= 1 ? "full" : part >= 0.8 ? "high" : "low");
    set(element, "aria-valuenow", Math.round(part * 100));
    set(element, "aria-valuetext", text ?? share(value));
    say(words, text ?? (known ? share(value) : "–"));
  };
  show(value, text);
  return { element, show };
}

/** A word in a frame. */
export const badge = (text, kind = "", title = null) => h("span", { class: `badge ${kind}`.trim(), title }, text);

/** A moment, told by how long ago it was. */
export const since = (when) => h("time", { datetime: when, title: moment(when) }, ago(when));

/** Names and values, one under the other. */
export function facts(pairs, kind = "") {
  return h(
    "dl",
    { class: `facts ${kind}`.trim() },
    pairs.filter((pair) => pair !== null).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** A text that is code: a rule's name, a key, a condition. */
export const code = (text, kind = "") => h("code", { class: kind || null }, text);

/** What stands where something is still being asked. */
export const waiting = () => h("p", { class: "waiting" }, t("loading"));

/** What stands where something could not be had. */
export const trouble = (error) => h("p", { class: "trouble", role: "alert" }, error.message);
