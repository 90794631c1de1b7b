// The four verdicts, in display order, with name and colour. Charts also use a texture for each, so that they
// do not depend on colour.

import { t } from "./i18n/index.js";
import { h } from "./dom.js";

export const VERDICTS = ["admitted", "refused", "banned", "queued"];

export const verdictName = (verdict) => t(`verdict.${verdict}`);

/** Colour sample of a verdict. */
export function swatch(verdict) {
  return h("span", { class: `swatch ${verdict}`, "aria-hidden": "true" });
}

/** Legend of the verdicts. */
export function legend(verdicts = VERDICTS) {
  return h("ul", { class: "legend", role: "list" }, verdicts.map((verdict) => h("li", {}, swatch(verdict), verdictName(verdict))));
}
