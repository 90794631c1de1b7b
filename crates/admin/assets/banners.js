// What must be known before anything else is read: faults, what waits for a restart, a lost store, no right to write.

import { h, put } from "./dom.js";
import { moment } from "./format.js";
import { t } from "./i18n/index.js";
import { watch } from "./watch.js";

/** `up`, `degraded` or `down`; a word that is not known is shown as trouble. */
export const storeLevel = (state) => (state === "up" ? "up" : state === "down" ? "down" : "degraded");

const element = h("div", { class: "banners", role: "region" });

function list() {
  const banners = [];
  const { status, tick, link } = watch;
  const add = (kind, title, detail, where = null) => banners.push({ kind, title, detail, where });
  if (link.state === "offline" && link.since !== null) add("bad", t("banner.offline", { time: moment(link.since) }), t("banner.offline.detail"));
  const error = status?.rules.last_error ?? null;
  if (error !== null) add("bad", t("banner.last_error"), `${moment(error.at)}: ${error.message}`, "#/file");
  else if (tick?.last_error) add("bad", t("banner.last_error"), tick.last_error, "#/file");
  const waiting = status?.rules.pending_restart ?? [];
  if (waiting.length > 0) add("warn", t("banner.restart"), t("banner.restart.detail", { parts: waiting.join(", ") }));
  const store = tick?.store ?? status?.store?.state ?? null;
  if (store !== null && storeLevel(store) !== "up") add(storeLevel(store) === "down" ? "bad" : "warn", t(`banner.store.${storeLevel(store)}`), t("banner.store.detail"), "#/health");
  if (status !== null && watch.locked !== null) add("calm", t("banner.read_only"), t(watch.locked));
  return banners;
}

let shown = "";

/** Shows what holds now. */
export function refreshBanners() {
  const banners = list();
  const text = JSON.stringify([banners, document.documentElement.lang]);
  if (text === shown) return;
  shown = text;
  element.setAttribute("aria-label", t("banners"));
  put(
    element,
    banners.map(({ kind, title, detail, where }) =>
      h("div", { class: `banner ${kind}`, role: kind === "bad" ? "alert" : "status" }, h("strong", {}, title), h("span", { class: "detail" }, detail), where === null ? null : h("a", { href: where }, t("banner.look"))),
    ),
  );
}

export const bannersElement = () => element;
