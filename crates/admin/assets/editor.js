// A text field for the rule file: numbers beside the lines, colours under them, faults marked where they are.
//
// The text lies twice on the same spot: below, drawn in colours, and above, in the field, without colour of its
// own. The field is a real one, so that selecting, undoing and reading aloud work as everywhere.

import { h, put, say, set } from "./dom.js";
import { t } from "./i18n/index.js";
import { pieces } from "./yaml.js";

/** A larger text is shown without colours: typing must stay light. */
const MOST_COLOURED = 150_000;

export class Editor {
  #area;
  #numbers = h("div", { class: "numbers", "aria-hidden": "true" });
  #colours = h("pre", { class: "colours", "aria-hidden": "true" });
  #lines = 0;
  #faults = [];

  constructor({ label, onInput, onSave }) {
    this.#area = h("textarea", {
      "aria-label": label,
      name: "source",
      wrap: "off",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      autocorrect: "off",
      rows: 24,
    });
    this.#area.addEventListener("input", () => {
      this.#draw();
      onInput(this.text);
    });
    this.#area.addEventListener("scroll", () => this.#follow());
    this.#area.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
        event.preventDefault();
        onSave();
      } else if (event.key === "Enter" && !event.isComposing && !event.ctrlKey && !event.altKey && !event.metaKey) {
        this.#newLine(event);
      }
    });
    this.element = h("div", { class: "editor" }, this.#numbers, h("div", { class: "page" }, this.#colours, this.#area));
  }

  get text() {
    return this.#area.value;
  }

  set text(value) {
    this.#area.value = value;
    this.#area.scrollTop = 0;
    this.#draw();
  }

  set readOnly(value) {
    this.#area.readOnly = value;
  }

  /** Marks faults and warnings: { line, kind }. */
  mark(faults) {
    this.#faults = faults;
    this.#number();
    set(this.#area, "aria-invalid", faults.some(({ kind }) => kind === "fault") ? "true" : null);
  }

  /** Puts the cursor there. */
  go(line, column) {
    const before = this.text.split("\n").slice(0, line - 1);
    const start = before.reduce((sum, text) => sum + text.length + 1, 0) + Math.max(0, (column ?? 1) - 1);
    this.#area.focus();
    this.#area.setSelectionRange(start, start);
    const height = Number.parseFloat(getComputedStyle(this.#area).lineHeight);
    this.#area.scrollTop = Math.max(0, (line - 6) * height);
    this.#follow();
  }

  /** A new line begins where the one before began. */
  #newLine(event) {
    const { selectionStart, value } = this.#area;
    const line = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
    const indent = /^ */.exec(line)[0];
    if (indent === "") return;
    event.preventDefault();
    // The one way to insert that can be undone.
    if (!document.execCommand("insertText", false, `\n${indent}`)) {
      this.#area.setRangeText(`\n${indent}`, selectionStart, this.#area.selectionEnd, "end");
      this.#area.dispatchEvent(new Event("input"));
    }
  }

  #draw() {
    const text = this.text;
    const lines = text.split("\n");
    const coloured = text.length <= MOST_COLOURED;
    this.element.classList.toggle("coloured", coloured);
    if (!coloured) {
      put(this.#colours);
    } else {
      // Only lines that have changed are made anew.
      while (this.#colours.childElementCount > lines.length) this.#colours.lastElementChild.remove();
      lines.forEach((line, nth) => {
        let element = this.#colours.children[nth];
        if (element === undefined) this.#colours.append((element = h("span", {})));
        else if (element.textContent === `${line}\n`) return;
        put(element, pieces(line).map(([kind, piece]) => (kind === "" ? piece : h("i", { class: kind }, piece))), "\n");
      });
    }
    if (this.#lines !== lines.length) {
      this.#lines = lines.length;
      this.#number();
    }
    this.#follow();
  }

  #number() {
    const marks = new Map();
    for (const { line, kind } of this.#faults) if (marks.get(line) !== "fault") marks.set(line, kind);
    while (this.#numbers.childElementCount > this.#lines) this.#numbers.lastElementChild.remove();
    for (let line = 1; line <= this.#lines; line += 1) {
      let element = this.#numbers.children[line - 1];
      if (element === undefined) this.#numbers.append((element = h("span", {})));
      say(element, line);
      set(element, "class", marks.get(line) ?? null);
      const row = this.#colours.children[line - 1];
      if (row !== undefined) set(row, "class", marks.get(line) ?? null);
    }
  }

  #follow() {
    this.#numbers.style.transform = `translateY(${-this.#area.scrollTop}px)`;
    this.#colours.style.transform = `translate(${-this.#area.scrollLeft}px, ${-this.#area.scrollTop}px)`;
  }
}

/** Faults as a list; a click goes to the place. */
export function faultList(faults, warnings, go) {
  const item = (fault, kind) =>
    h(
      "li",
      { class: kind },
      h("button", { type: "button", class: "link", on: { click: () => go(fault.line, fault.column) } }, t("file.place", { line: fault.line, column: fault.column })),
      " ",
      h("span", { class: "message" }, fault.message),
      fault.help ? h("p", { class: "help" }, fault.help) : null,
    );
  return h("ul", { class: "faults", role: "list" }, faults.map((fault) => item(fault, "fault")), warnings.map((fault) => item(fault, "warning")));
}
