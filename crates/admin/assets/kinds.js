// The four fates of a request, in the order in which they are always shown. Each has a colour and a name
// here, and in plots a look of its own, so that nobody needs to tell colours apart.

import { t } from "./i18n/index.js";
import { h } from "./dom.js";

export const KINDS = ["passed", "limited", "banned", "queued"];

export const kindName = (kind) => t(`kind.${kind}`);

/** A swatch of a kind's look in plots. */
export function swatch(kind) {
  return h("span", { class: `swatch ${kind}`, "aria-hidden": "true" });
}

/** What the swatches mean. */
export function legend(kinds = KINDS) {
  return h("ul", { class: "legend", role: "list" }, kinds.map((kind) => h("li", {}, swatch(kind), kindName(kind))));
}
