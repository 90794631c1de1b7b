// Banners for conditions that need attention: reload errors, pending restarts, an unavailable store, read-only access.

import { h, replaceChildren } from "./dom.js";
import { dateTime } from "./format.js";
import { t } from "./i18n/index.js";
import { state } from "./state.js";

/** `up`, `degraded` or `down`; unknown states count as degraded. */
export const storeLevel = (name) => (name === "up" ? "up" : name === "down" ? "down" : "degraded");

const element = h("div", { class: "banners", role: "region" });

function list() {
  const banners = [];
  const { status, tick, connection } = state;
  const add = (kind, title, detail, href = null) => banners.push({ kind, title, detail, href });
  if (connection.state === "offline" && connection.since !== null) add("bad", t("banner.offline", { time: dateTime(connection.since) }), t("banner.offline.detail"));
  const error = status?.rules.last_error ?? null;
  if (error !== null) add("bad", t("banner.last_error"), `${dateTime(error.at)}: ${error.message}`, "#/rules");
  else if (tick?.last_error) add("bad", t("banner.last_error"), tick.last_error, "#/rules");
  const pending = status?.rules.pending_restart ?? [];
  if (pending.length > 0) add("warn", t("banner.restart"), t("banner.restart.detail", { sections: pending.join(", ") }));
  const store = tick?.store ?? status?.store?.state ?? null;
  if (store !== null && storeLevel(store) !== "up") add(storeLevel(store) === "down" ? "bad" : "warn", t(`banner.store.${storeLevel(store)}`), t("banner.store.detail"), "#/health");
  if (status !== null && state.readOnlyReason !== null) add("info", t("banner.read_only"), t(state.readOnlyReason));
  return banners;
}

let shown = "";

/** Updates the banners. */
export function refreshBanners() {
  const banners = list();
  const text = JSON.stringify([banners, document.documentElement.lang]);
  if (text === shown) return;
  shown = text;
  element.setAttribute("aria-label", t("banners"));
  replaceChildren(
    element,
    banners.map(({ kind, title, detail, href }) =>
      h("div", { class: `banner ${kind}`, role: kind === "bad" ? "alert" : "status" }, h("strong", {}, title), h("span", { class: "detail" }, detail), href === null ? null : h("a", { href }, t("banner.details"))),
    ),
  );
}

export const bannersElement = () => element;
