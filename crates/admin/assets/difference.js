// Two texts side by side, as lines that went and lines that came.

import { diff, folded } from "./diff.js";
import { h } from "./dom.js";
import { t } from "./i18n/index.js";

export function difference(before, after) {
  const lines = diff(before, after);
  const gone = lines.filter(({ kind }) => kind === "gone").length;
  const added = lines.filter(({ kind }) => kind === "new").length;
  if (gone + added === 0) return h("p", { class: "lead" }, t("diff.same"));
  const sign = { gone: "−", new: "+", same: " " };
  return h(
    "figure",
    { class: "diff" },
    h("figcaption", {}, t("diff.summary", { gone, added })),
    h(
      "div",
      { class: "lines", tabindex: "0", role: "region", "aria-label": t("diff.title") },
      folded(lines).map((line) =>
        line === null
          ? h("div", { class: "fold" }, "⋯")
          : h("div", { class: line.kind }, h("span", { class: "nr" }, line.before ?? ""), h("span", { class: "nr" }, line.after ?? ""), h("span", { class: "sign" }, sign[line.kind]), h("span", { class: "text" }, line.text)),
      ),
    ),
  );
}
