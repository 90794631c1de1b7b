// Notices at the bottom of the page: confirmations disappear, errors stay until they are closed.

import { errorDetail, errorTitle } from "./problems.js";
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

/** Confirms an action. */
export const notifyDone = (text) => show("done", text, null);

/** Shows an error. */
export const notifyError = (error) => show("error", errorTitle(error), errorDetail(error));

/** Shows the reason for which an action is not allowed. */
export const notifyDenied = (text) => show("error", t("not_allowed"), text);
