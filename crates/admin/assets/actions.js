// Buttons that do something at the server, and forms around them. Where only reading is allowed the buttons
// that write are there, but say why they do nothing.

import { t } from "./i18n/index.js";
import { fresh, h, set } from "./dom.js";
import { cannot, failed } from "./notices.js";
import { watch } from "./watch.js";

const locks = new WeakMap();

/** Tells all buttons that write whether they may. */
export function refreshLocks(root = document) {
  for (const button of root.querySelectorAll("button[data-write]")) lock(button);
}

/** Why this button may do nothing; `null` if it may. */
function reason(button) {
  const general = watch.locked;
  return general === null ? (locks.get(button)?.() ?? null) : t(general);
}

function lock(button) {
  const why = reason(button);
  set(button, "aria-disabled", why === null ? null : "true");
  set(button, "title", why ?? button.dataset.title ?? null);
}

/**
 * A button. `work` may be async; what it throws is shown. With `write` it needs the right to write, and `why` may
 * name a further reason against it.
 */
export function button(label, work, { kind = "", write = false, why = null, title = null, submit = false } = {}) {
  const element = h(
    "button",
    { type: submit ? "submit" : "button", class: kind || null, "data-write": write, title, "data-title": title },
    label,
  );
  if (why !== null) locks.set(element, why);
  if (write) lock(element);
  const run = async (event) => {
    event?.preventDefault();
    if (element.getAttribute("aria-busy") === "true") return;
    const against = write ? reason(element) : null;
    if (against !== null) {
      cannot(against);
      return;
    }
    set(element, "aria-busy", "true");
    try {
      await work(event);
    } catch (error) {
      failed(error);
    } finally {
      set(element, "aria-busy", null);
    }
  };
  if (submit) element.run = run;
  else element.addEventListener("click", run);
  return element;
}

/** A form whose only way out is its button: nothing is ever sent by the browser itself. */
export function form(submit, attributes, ...children) {
  return h("form", { ...attributes, novalidate: true, on: { submit: (event) => submit.run(event) } }, ...children);
}

/** A control with its label above it and a hint below. */
export function field(label, control, hint = null, attributes = {}) {
  control.id ||= fresh("field");
  const note = hint === null ? null : h("small", { id: `${control.id}-hint` }, hint);
  if (note !== null) set(control, "aria-describedby", note.id);
  return h("div", { class: "field", ...attributes }, h("label", { for: control.id }, label), control, note);
}

export function input(attributes = {}) {
  return h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes });
}

/** A choice: pairs of value and text. */
export function select(options, chosen, attributes = {}) {
  const element = h(
    "select",
    attributes,
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return element;
}
