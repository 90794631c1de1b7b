// The dashboard's frame: where one is, the state of the stream, language and theme, and the view below them.
//
//   watch.js   what the process does: status, rules, and the ticks of live.js as the rates of series.js
//   api.js     what it can be asked and told
//   views/     one page each; shown by the part of the address behind #
//   i18n/      every text in every language

import { onUnauthorised } from "./api.js";
import { button, refreshLocks } from "./actions.js";
import { bannersElement, refreshBanners } from "./banners.js";
import { hatching } from "./chart.js";
import { clock } from "./format.js";
import { h, put, say, set } from "./dom.js";
import { t } from "./i18n/index.js";
import { askForToken, forgetToken, isAsking } from "./login.js";
import { noticesElement } from "./notices.js";
import { language, theme, token } from "./settings.js";
import { waiting } from "./pieces.js";
import { watch } from "./watch.js";
import * as bans from "./views/bans.js";
import * as file from "./views/file.js";
import * as health from "./views/health.js";
import * as keys from "./views/keys.js";
import * as now from "./views/now.js";
import * as rule from "./views/rule.js";
import * as why from "./views/why.js";

const VIEWS = { "": now, rule, keys, bans, why, file, health };
const NAV = [
  ["", "nav.now"],
  ["keys", "nav.keys"],
  ["bans", "nav.bans"],
  ["why", "nav.why"],
  ["file", "nav.file"],
  ["health", "nav.health"],
];

let view = null;
let ready = false;
const main = h("main", { id: "main", tabindex: "-1" });
const link = h("span", { class: "link-state", role: "status" });

/** `#/keys?rule=x` -> the view's name and its parameters. */
function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: path in VIEWS ? path : "", query: new URLSearchParams(query) };
}

function draw() {
  const { name, query } = place();
  view?.leave();
  view = null;
  for (const anchor of document.querySelectorAll("nav a")) {
    const here = anchor.dataset.view === (name === "rule" ? "" : name);
    set(anchor, "aria-current", here ? "page" : null);
    // Sideways only: the page must not jump.
    const strip = anchor.closest("nav");
    if (here && strip.scrollWidth > strip.clientWidth) strip.scrollLeft = anchor.offsetLeft - strip.clientWidth / 2 + anchor.offsetWidth / 2;
  }
  if (!ready) {
    put(main, waiting());
    return;
  }
  view = VIEWS[name].show(query);
  document.title = `${view.title} · Sluicegate`;
  put(main, view.element);
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
  const leave = token.get() === null ? null : button(t("logout"), forgetToken, { kind: "plain leave", title: t("logout.help") });
  put(
    document.body,
    h("a", { class: "skip", href: "#main", on: { click: skip } }, t("skip")),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: "#/" }, h("img", { src: "assets/icon.svg", alt: "", width: 24, height: 24 }), "Sluicegate"),
      h("nav", { "aria-label": t("nav") }, NAV.map(([name, text]) => h("a", { href: `#/${name}`, "data-view": name }, t(text)))),
      h("div", { class: "tools" }, link, languages, themes, leave),
    ),
    bannersElement(),
    main,
    noticesElement(),
    hatching(),
  );
  refreshLink();
  refreshBanners();
  draw();
}

function choose(setting, value) {
  setting.set(value);
  frame();
  // The button that was pressed is a new one now.
  document.querySelector(setting === language ? `[data-language="${value}"]` : `[data-theme-choice="${value}"]`)?.focus();
}

function skip(event) {
  event.preventDefault();
  main.focus();
}

function refreshLink() {
  const { state, since } = watch.link;
  set(link, "data-state", state);
  say(link, state === "offline" && since !== null ? t("link.offline", { time: clock(since) }) : t(`link.${state}`));
}

async function begin() {
  await watch.start();
  ready = watch.status !== null && !isAsking();
  if (ready) frame();
  else if (!isAsking()) setTimeout(begin, 3000);
}

onUnauthorised(() => {
  ready = false;
  watch.link = { state: "locked", since: null };
  refreshLink();
  askForToken(begin);
});
window.addEventListener("hashchange", () => {
  draw();
  window.scrollTo(0, 0);
});
for (const event of ["tick", "status", "link", "rules"]) watch.addEventListener(event, refreshBanners);
watch.addEventListener("link", refreshLink);
watch.addEventListener("status", () => refreshLocks());
frame();
begin();
