// Editor for the rule file with line numbers, syntax highlighting and marked diagnostics.
//
// A highlighted copy of the text lies under a transparent text area. The text area is a native one, so that
// selection, undo and screen readers work as usual.

import { h, replaceChildren, set, setText } from "./dom.js";
import { t } from "./i18n/index.js";
import { tokenize } from "./yaml.js";

/** Larger texts are not highlighted, to keep typing fast. */
const MAX_HIGHLIGHTED_CHARS = 150_000;

export class Editor {
  #area;
  #numbers = h("div", { class: "numbers", "aria-hidden": "true" });
  #colours = h("pre", { class: "colours", "aria-hidden": "true" });
  #lines = 0;
  #diagnostics = [];

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
    this.#area.addEventListener("scroll", () => this.#syncScroll());
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

  /** Marks the lines of errors and warnings: { line, kind }. */
  mark(diagnostics) {
    this.#diagnostics = diagnostics;
    this.#number();
    set(this.#area, "aria-invalid", diagnostics.some(({ kind }) => kind === "error") ? "true" : null);
  }

  /** Moves the cursor to a position. */
  moveTo(line, column) {
    const before = this.text.split("\n").slice(0, line - 1);
    const start = before.reduce((sum, text) => sum + text.length + 1, 0) + Math.max(0, (column ?? 1) - 1);
    this.#area.focus();
    this.#area.setSelectionRange(start, start);
    const height = Number.parseFloat(getComputedStyle(this.#area).lineHeight);
    this.#area.scrollTop = Math.max(0, (line - 6) * height);
    this.#syncScroll();
  }

  /** Inserts a new line with the indentation of the current one. */
  #newLine(event) {
    const { selectionStart, value } = this.#area;
    const line = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
    const indent = /^ */.exec(line)[0];
    if (indent === "") return;
    event.preventDefault();
    // The only way to insert text that supports undo.
    if (!document.execCommand("insertText", false, `\n${indent}`)) {
      this.#area.setRangeText(`\n${indent}`, selectionStart, this.#area.selectionEnd, "end");
      this.#area.dispatchEvent(new Event("input"));
    }
  }

  #draw() {
    const text = this.text;
    const lines = text.split("\n");
    const coloured = text.length <= MAX_HIGHLIGHTED_CHARS;
    this.element.classList.toggle("coloured", coloured);
    if (!coloured) {
      replaceChildren(this.#colours);
    } else {
      // Only changed lines are redrawn.
      while (this.#colours.childElementCount > lines.length) this.#colours.lastElementChild.remove();
      lines.forEach((line, index) => {
        let element = this.#colours.children[index];
        if (element === undefined) this.#colours.append((element = h("span", {})));
        else if (element.textContent === `${line}\n`) return;
        replaceChildren(element, tokenize(line).map(([kind, token]) => (kind === "" ? token : h("i", { class: kind }, token))), "\n");
      });
    }
    if (this.#lines !== lines.length) {
      this.#lines = lines.length;
      this.#number();
    }
    this.#syncScroll();
  }

  #number() {
    const marks = new Map();
    for (const { line, kind } of this.#diagnostics) if (marks.get(line) !== "error") marks.set(line, kind);
    while (this.#numbers.childElementCount > this.#lines) this.#numbers.lastElementChild.remove();
    for (let line = 1; line <= this.#lines; line += 1) {
      let element = this.#numbers.children[line - 1];
      if (element === undefined) this.#numbers.append((element = h("span", {})));
      setText(element, line);
      set(element, "class", marks.get(line) ?? null);
      const row = this.#colours.children[line - 1];
      if (row !== undefined) set(row, "class", marks.get(line) ?? null);
    }
  }

  #syncScroll() {
    this.#numbers.style.transform = `translateY(${-this.#area.scrollTop}px)`;
    this.#colours.style.transform = `translate(${-this.#area.scrollLeft}px, ${-this.#area.scrollTop}px)`;
  }
}

/** List of diagnostics; a click moves the cursor to the position. */
export function diagnosticList(errors, warnings, moveTo) {
  const item = ({ line, column, message, help }, kind) =>
    h(
      "li",
      { class: kind },
      h("button", { type: "button", class: "link", on: { click: () => moveTo(line, column) } }, t("rules.position", { line, column })),
      " ",
      h("span", { class: "message" }, message),
      help ? h("p", { class: "help" }, help) : null,
    );
  return h("ul", { class: "diagnostics", role: "list" }, errors.map((error) => item(error, "error")), warnings.map((warning) => item(warning, "warning")));
}
