// Short news at the foot of the page: what was done goes away by itself, what went wrong stays until it is read.

import { Problem } from "./api.js";
import { t } from "./i18n/index.js";
import { h } from "./dom.js";

const region = h("div", { class: "notices", role: "status", "aria-live": "polite" });

export const noticesElement = () => region;

function show(kind, title, detail) {
  const close = h("button", { class: "plain", type: "button", "aria-label": t("close") }, "×");
  const notice = h(
    "div",
    { class: `notice ${kind}`, role: kind === "error" ? "alert" : null },
    h("div", {}, h("strong", {}, title), detail ? h("p", {}, detail) : null),
    close,
  );
  close.addEventListener("click", () => notice.remove());
  region.append(notice);
  while (region.childElementCount > 4) region.firstElementChild.remove();
  if (kind === "done") setTimeout(() => notice.remove(), 6000);
}

/** It worked. */
export const done = (text) => show("done", text, null);

/** It did not. */
export const failed = (error) => show("error", headline(error), error instanceof Problem && error.status === 0 ? null : error.message);

/** It cannot. */
export const cannot = (text) => show("error", t("not_allowed"), text);

function headline(error) {
  if (!(error instanceof Problem)) return t("failed");
  if (error.status === 0) return t("unreachable");
  return error.title && error.title !== error.message ? error.title : t("failed");
}
