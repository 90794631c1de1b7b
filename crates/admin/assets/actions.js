// Buttons, forms and fields. Without write access, buttons that write are shown as disabled and give the reason.

import { t } from "./i18n/index.js";
import { h, set, uniqueId } from "./dom.js";
import { notifyDenied, notifyError } from "./notices.js";
import { state } from "./state.js";

const locks = new WeakMap();

/** Updates the disabled state of all buttons that write. */
export function refreshLocks(root = document) {
  for (const button of root.querySelectorAll("button[data-write]")) lock(button);
}

/** Reason for which the button is disabled; `null` if it is enabled. */
function disabledReason(button) {
  const readOnly = state.readOnlyReason;
  return readOnly === null ? (locks.get(button)?.() ?? null) : t(readOnly);
}

function lock(button) {
  const reason = disabledReason(button);
  set(button, "aria-disabled", reason === null ? null : "true");
  set(button, "title", reason ?? button.dataset.title ?? null);
}

/**
 * A button. `work` may be async; its errors are shown. With `write` it needs write access, and `disabled` may return
 * another reason for which it is disabled.
 */
export function button(label, work, { kind = "", write = false, disabled = null, title = null, submit = false } = {}) {
  const element = h(
    "button",
    { type: submit ? "submit" : "button", class: kind || null, "data-write": write, title, "data-title": title },
    label,
  );
  if (disabled !== null) locks.set(element, disabled);
  if (write) lock(element);
  const run = async (event) => {
    event?.preventDefault();
    if (element.getAttribute("aria-busy") === "true") return;
    const reason = write ? disabledReason(element) : null;
    if (reason !== null) {
      notifyDenied(reason);
      return;
    }
    set(element, "aria-busy", "true");
    try {
      await work(event);
    } catch (error) {
      notifyError(error);
    } finally {
      set(element, "aria-busy", null);
    }
  };
  if (submit) element.run = run;
  else element.addEventListener("click", run);
  return element;
}

/** A form that is handled by its button; the browser itself never submits it. */
export function form(submit, attributes, ...children) {
  return h("form", { ...attributes, novalidate: true, on: { submit: (event) => submit.run(event) } }, ...children);
}

/** A control with its label above it and a hint below. */
export function field(label, control, hint = null, attributes = {}) {
  control.id ||= uniqueId("field");
  const note = hint === null ? null : h("small", { id: `${control.id}-hint` }, hint);
  if (note !== null) set(control, "aria-describedby", note.id);
  return h("div", { class: "field", ...attributes }, h("label", { for: control.id }, label), control, note);
}

export function input(attributes = {}) {
  return h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes });
}

/** A select element; `options` are pairs of value and text. */
export function select(options, selected, attributes = {}) {
  const element = h(
    "select",
    attributes,
    options.map(([value, text]) => h("option", { value, selected: value === selected }, text)),
  );
  return element;
}
