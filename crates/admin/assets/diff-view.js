// Line-by-line view of the differences between two texts.

import { diff, fold } from "./diff.js";
import { h } from "./dom.js";
import { t } from "./i18n/index.js";

export function diffView(before, after) {
  const lines = diff(before, after);
  const removed = lines.filter(({ kind }) => kind === "removed").length;
  const added = lines.filter(({ kind }) => kind === "added").length;
  if (removed + added === 0) return h("p", { class: "lead" }, t("diff.same"));
  const sign = { removed: "−", added: "+", same: " " };
  return h(
    "figure",
    { class: "diff" },
    h("figcaption", {}, t("diff.summary", { removed, added })),
    h(
      "div",
      { class: "lines", tabindex: "0", role: "region", "aria-label": t("diff.title") },
      fold(lines).map((line) =>
        line === null
          ? h("div", { class: "fold" }, "⋯")
          : h("div", { class: line.kind }, h("span", { class: "nr" }, line.before ?? ""), h("span", { class: "nr" }, line.after ?? ""), h("span", { class: "sign" }, sign[line.kind]), h("span", { class: "text" }, line.text)),
      ),
    ),
  );
}
