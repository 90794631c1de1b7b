// Frame of the dashboard: navigation, connection state, language, theme and the current view.
//
//   state.js    state of the process: status, rules, and the ticks of live.js as the rates of series.js
//   api.js      client of the admin API
//   views/      one module per view, selected by the fragment of the URL
//   describe.js texts for structured values of the API
//   i18n/       all texts in all languages

import { onUnauthorized } from "./api.js";
import { button, refreshLocks } from "./actions.js";
import { bannersElement, refreshBanners } from "./banners.js";
import { hatchPattern } from "./chart.js";
import { clock } from "./format.js";
import { h, replaceChildren, set, setText } from "./dom.js";
import { t } from "./i18n/index.js";
import { isLoginOpen, logout, openLogin } from "./login.js";
import { noticesElement } from "./notices.js";
import { language, theme, token } from "./settings.js";
import { loading } from "./components.js";
import { state } from "./state.js";
import * as bans from "./views/bans.js";
import * as explain from "./views/explain.js";
import * as health from "./views/health.js";
import * as keys from "./views/keys.js";
import * as overview from "./views/overview.js";
import * as rule from "./views/rule.js";
import * as rules from "./views/rules.js";

const VIEWS = { "": overview, rule, keys, bans, explain, rules, health };
const NAV = [
  ["", "nav.overview"],
  ["keys", "nav.keys"],
  ["bans", "nav.bans"],
  ["explain", "nav.explain"],
  ["rules", "nav.rules"],
  ["health", "nav.health"],
];

let view = null;
let ready = false;
const main = h("main", { id: "main", tabindex: "-1" });
const connection = h("span", { class: "link-state", role: "status" });

/** Name and parameters of the current view: `#/keys?rule=x`. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: path in VIEWS ? path : "", query: new URLSearchParams(query) };
}

function draw() {
  const { name, query } = route();
  view?.leave();
  view = null;
  for (const anchor of document.querySelectorAll("nav a")) {
    const isCurrent = anchor.dataset.view === (name === "rule" ? "" : name);
    set(anchor, "aria-current", isCurrent ? "page" : null);
    // Scrolls the navigation bar only; the page must not move.
    const nav = anchor.closest("nav");
    if (isCurrent && nav.scrollWidth > nav.clientWidth) nav.scrollLeft = anchor.offsetLeft - nav.clientWidth / 2 + anchor.offsetWidth / 2;
  }
  if (!ready) {
    replaceChildren(main, loading());
    return;
  }
  view = VIEWS[name].show(query);
  document.title = `${view.title} · Sluicegate`;
  replaceChildren(main, view.element);
  refreshLocks();
}

function frame() {
  const languages = h(
    "div",
    { class: "switch", role: "group", "aria-label": t("language") },
    [["en", "EN", "English"], ["zh", "中", "中文"]].map(([value, short, name]) =>
      h("button", { type: "button", lang: value === "zh" ? "zh-CN" : "en", title: name, "aria-label": name, "data-language": value, "aria-pressed": String(language.get() === value), on: { click: () => choose(language, value) } }, short),
    ),
  );
  const themes = h(
    "div",
    { class: "switch", role: "group", "aria-label": t("theme") },
    [["light", "☀"], ["auto", "◐"], ["dark", "☾"]].map(([value, sign]) =>
      h("button", { type: "button", title: t(`theme.${value}`), "aria-label": t(`theme.${value}`), "data-theme-choice": value, "aria-pressed": String(theme.get() === value), on: { click: () => choose(theme, value) } }, sign),
    ),
  );
  const logoutButton = token.get() === null ? null : button(t("logout"), logout, { kind: "plain logout", title: t("logout.help") });
  replaceChildren(
    document.body,
    h("a", { class: "skip", href: "#main", on: { click: skip } }, t("skip")),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "#/" }, h("img", { src: "assets/icon.svg", alt: "", width: 24, height: 24 }), "Sluicegate"),
      h("nav", { "aria-label": t("nav") }, NAV.map(([name, text]) => h("a", { href: `#/${name}`, "data-view": name }, t(text)))),
      h("div", { class: "tools" }, connection, languages, themes, logoutButton),
    ),
    bannersElement(),
    main,
    noticesElement(),
    hatchPattern(),
  );
  refreshConnection();
  refreshBanners();
  draw();
}

function choose(setting, value) {
  setting.set(value);
  frame();
  // The frame was rebuilt: moves the focus to the new button.
  document.querySelector(setting === language ? `[data-language="${value}"]` : `[data-theme-choice="${value}"]`)?.focus();
}

function skip(event) {
  event.preventDefault();
  main.focus();
}

function refreshConnection() {
  const { state: name, since } = state.connection;
  set(connection, "data-state", name);
  setText(connection, name === "offline" && since !== null ? t("connection.offline", { time: clock(since) }) : t(`connection.${name}`));
}

async function start() {
  await state.start();
  ready = state.status !== null && !isLoginOpen();
  if (ready) frame();
  else if (!isLoginOpen()) setTimeout(start, 3000);
}

onUnauthorized(() => {
  ready = false;
  state.connection = { state: "locked", since: null };
  refreshConnection();
  openLogin(start);
});
window.addEventListener("hashchange", () => {
  draw();
  window.scrollTo(0, 0);
});
for (const event of ["tick", "status", "connection", "rules"]) state.addEventListener(event, refreshBanners);
state.addEventListener("connection", refreshConnection);
state.addEventListener("status", () => refreshLocks());
frame();
start();
