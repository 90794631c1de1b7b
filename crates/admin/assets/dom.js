// Creates DOM elements. Strings always become text nodes and are never parsed as HTML. Markup, handlers as text,
// inline styles and URLs with a scheme are rejected.

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element: `h("button", { class: "primary", on: { click } }, "Save")`. Children: nodes, strings, arrays, null. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Creates an SVG element. */
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

/** Sets an attribute; `null`, `undefined` and `false` remove it, `true` sets an empty value. */
export function set(element, name, value) {
  if (/^(on|style$|srcdoc$)/i.test(name)) throw new Error(`forbidden attribute: ${name}`);
  if (/^(href|src|action)$/i.test(name) && /^\s*([a-z][a-z0-9+.-]*:|\/\/)/i.test(value)) {
    throw new Error(`forbidden URL: ${value}`);
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

/** Replaces all children. */
export function replaceChildren(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

/** Sets the text of an element, without touching the DOM if it is unchanged. */
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

let lastId = 0;

/** Returns a unique element id. */
export function uniqueId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}
