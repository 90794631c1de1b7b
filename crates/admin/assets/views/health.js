// Is the process itself well: its rules, the store it shares with the fleet, the nodes of that fleet, the gateway.

import { api } from "../api.js";
import { button } from "../actions.js";
import { count, moment, span } from "../format.js";
import { h, put } from "../dom.js";
import { t } from "../i18n/index.js";
import { forgetToken } from "../login.js";
import { token } from "../settings.js";
import { badge, code, facts, section, since, trouble } from "../pieces.js";
import { storeLevel } from "../banners.js";
import { Lifetime, watch } from "../watch.js";

// What is told of leases, as it is told.
const LEASES = ["keys", "tokens", "taken", "renewed", "returned", "expired"];

export function show() {
  const life = new Lifetime();
  const process = h("div", {});
  const rules = h("div", {});
  const store = h("div", {});
  const gateway = section(t("health.gateway"), {}, h("div", {}));
  // Texts that somebody may want to copy are made anew only when they may have changed.
  const update = () => {
    const status = watch.status;
    if (status === null) return;
    put(process, aboutProcess(status));
    put(rules, aboutRules(status.rules));
  };
  const countOn = () => {
    gateway.hidden = !watch.tick?.gateway;
    if (watch.tick?.gateway) {
      const { connections, in_flight: flight, requests } = watch.tick.gateway;
      put(gateway.lastElementChild, facts([[t("health.connections"), count(connections)], [t("health.in_flight"), count(flight)], [t("health.requests"), count(requests)]], "wide"));
    }
  };
  update();
  countOn();
  life.on("status", update);
  life.on("tick", countOn);
  let before = "";
  life.every(3000, async () => {
    try {
      const told = await api.store();
      const text = JSON.stringify(told);
      if (life.over || text === before) return;
      before = text;
      put(store, aboutStore(told));
    } catch (error) {
      put(store, trouble(error));
    }
  });
  return {
    title: t("nav.health"),
    element: h(
      "div",
      { class: "view health" },
      h("h1", {}, t("nav.health")),
      h("div", { class: "columns" }, section(t("health.process"), {}, process), section(t("health.rules"), {}, rules)),
      section(t("health.store"), {}, store),
      gateway,
      h("p", { class: "small" }, t("health.more"), " ", h("a", { href: "docs/" }, t("health.api")), " · ", code("GET /metrics")),
    ),
    leave: () => life.end(),
  };
}

function aboutProcess(status) {
  return facts([
    [t("health.version"), status.version],
    [t("health.started"), h("time", { datetime: status.started_at }, moment(status.started_at))],
    [t("health.uptime"), span((Date.now() - new Date(status.started_at).getTime()) / 1000)],
    [t("health.access"), [h("span", {}, t(`access.${status.access}`)), token.get() === null ? null : button(t("logout"), forgetToken, { kind: "link", title: t("logout.help") })]],
    [t("health.nodes"), watch.tick?.nodes === null || watch.tick?.nodes === undefined ? t("health.alone") : count(watch.tick.nodes)],
  ]);
}

function aboutRules(rules) {
  return facts([
    [t("health.rules.count"), count(rules.count)],
    [t("health.rules.origin"), rules.path ?? t(`origin.${rules.origin}`)],
    [t("health.rules.version"), `${rules.version ?? "–"} (${t("health.rules.edition", { n: rules.edition })})`],
    [t("health.rules.loaded"), since(rules.loaded_at)],
    [t("health.rules.reloads"), t("health.rules.reloads.n", { n: count(rules.reloads), failed: count(rules.failed_reloads) })],
  ]);
}

function aboutStore(store) {
  if (store === null) return h("p", { class: "lead" }, t("health.no_store"));
  const failures = Object.entries(store.failures ?? {});
  return [
    facts([
      [t("health.store.state"), badge(t(`store.${storeLevel(store.state)}`), storeLevel(store.state) === "up" ? "passed" : "warn", store.state)],
      [t("health.store.url"), code(store.url)],
      [t("health.nodes"), store.nodes === null || store.nodes === undefined ? "–" : count(store.nodes)],
      [t("health.store.asks"), count(store.asks)],
      [t("health.store.calls"), count(store.calls)],
      [t("health.store.timeouts"), count(store.timeouts)],
      failures.length === 0 ? null : [t("health.store.failures"), failures.map(([kind, n]) => h("span", { class: "reading" }, `${kind} `, h("b", {}, count(n))))],
      [t("health.store.breaker"), count(store.breaker_openings)],
      [t("health.store.reconnects"), count(store.reconnects)],
      store.leases ? [t("health.store.leases"), LEASES.map((what) => h("span", { class: "reading" }, `${t(`health.leases.${what}`)} `, h("b", {}, count(store.leases[what]))))] : null,
      store.last_error ? [t("health.store.last_error"), store.last_error] : null,
    ], "wide"),
    (store.warnings ?? []).map((text) => h("p", { class: "trouble" }, text)),
  ];
}
