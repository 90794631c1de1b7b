// Making elements. Texts only ever become text nodes, so nothing that came over the wire is read as HTML:
// there is no way in here to hand over markup, a handler as text, a style or an address with a scheme.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("button", { class: "primary", on: { click } }, "Save")`. Children: nodes, texts, lists, null. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else {
      set(element, name, value);
    }
  }
  add(element, children);
  return element;
}

/** Sets an attribute; `null`, `undefined` and `false` take it away, `true` is the empty text. */
export function set(element, name, value) {
  if (/^(on|style$|srcdoc$)/i.test(name)) throw new Error(`not an attribute to be set: ${name}`);
  if (/^(href|src|action)$/i.test(name) && /^\s*([a-z][a-z0-9+.-]*:|\/\/)/i.test(value)) {
    throw new Error(`not an address of this page: ${value}`);
  }
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Puts these children in place of the present ones. */
export function put(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Changes a text, and leaves the page alone if it is the same. */
export function say(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

let ids = 0;

/** A name for an element that no other has. */
export function fresh(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}
