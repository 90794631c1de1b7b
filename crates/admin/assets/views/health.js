// Health of the process: rules, store, nodes and gateway.

import { api } from "../api.js";
import { button } from "../actions.js";
import { known, storeWarning } from "../describe.js";
import { count, dateTime, duration } from "../format.js";
import { h, replaceChildren } from "../dom.js";
import { t } from "../i18n/index.js";
import { logout } from "../login.js";
import { token } from "../settings.js";
import { badge, code, errorMessage, facts, section, since } from "../components.js";
import { storeLevel } from "../banners.js";
import { Lifetime, state } from "../state.js";

/** Lease counters, in display order. */
const LEASES = ["keys", "tokens", "acquired", "renewed", "returned", "expired"];

export function show() {
  const life = new Lifetime();
  const process = h("div", {});
  const rules = h("div", {});
  const store = h("div", {});
  const gateway = section(t("health.gateway"), {}, h("div", {}));
  // Redrawn only when the data may have changed, so that text can be selected and copied.
  const updateStatus = () => {
    const status = state.status;
    if (status === null) return;
    replaceChildren(process, processFacts(status));
    replaceChildren(rules, ruleFacts(status.rules));
  };
  const updateGateway = () => {
    gateway.hidden = !state.tick?.gateway;
    if (state.tick?.gateway) {
      const { connections, in_flight: inFlight, requests } = state.tick.gateway;
      replaceChildren(gateway.lastElementChild, facts([[t("health.connections"), count(connections)], [t("health.in_flight"), count(inFlight)], [t("health.requests"), count(requests)]], "wide"));
    }
  };
  updateStatus();
  updateGateway();
  life.on("status", updateStatus);
  life.on("tick", updateGateway);
  let previous = "";
  life.every(3000, async () => {
    try {
      const current = await api.store();
      const text = JSON.stringify(current);
      if (life.ended || text === previous) return;
      previous = text;
      replaceChildren(store, storeFacts(current));
    } catch (error) {
      replaceChildren(store, errorMessage(error));
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

function processFacts(status) {
  const nodes = state.tick?.nodes ?? null;
  return facts([
    [t("health.version"), status.version],
    [t("health.started"), h("time", { datetime: status.started_at }, dateTime(status.started_at))],
    [t("health.uptime"), duration((Date.now() - new Date(status.started_at).getTime()) / 1000)],
    [t("health.access"), [h("span", {}, t(`access.${status.access}`)), token.get() === null ? null : button(t("logout"), logout, { kind: "link", title: t("logout.help") })]],
    [t("health.nodes"), nodes === null ? t("health.single") : count(nodes)],
  ]);
}

function ruleFacts(rules) {
  return facts([
    [t("health.rules.count"), count(rules.count)],
    [t("health.rules.origin"), rules.path === null ? t(`origin.${rules.origin}`) : code(rules.path)],
    [t("health.rules.version"), `${rules.version ?? "–"} (${t("health.rules.generation", { n: rules.generation })})`],
    [t("health.rules.loaded"), since(rules.loaded_at)],
    [t("health.rules.reloads"), t("health.rules.reloads.n", { n: count(rules.reloads), failed: count(rules.failed_reloads) })],
  ]);
}

function storeFacts(store) {
  if (store === null) return h("p", { class: "lead" }, t("health.no_store"));
  const failures = Object.entries(store.failures ?? {});
  const level = storeLevel(store.state);
  return [
    facts([
      [t("health.store.state"), badge(t(`store.${store.state === "connecting" ? "connecting" : level}`), level === "up" ? "admitted" : "warn")],
      store.url === null ? null : [t("health.store.url"), code(store.url)],
      [t("health.nodes"), count(store.nodes)],
      [t("health.store.decisions"), count(store.decisions)],
      [t("health.store.calls"), count(store.calls)],
      [t("health.store.timeouts"), count(store.timeouts)],
      failures.length === 0 ? null : [t("health.store.failures"), failures.map(([kind, n]) => h("span", { class: "reading" }, `${known(`failure.${kind}`, {}, kind)} `, h("b", {}, count(n))))],
      [t("health.store.breaker"), count(store.breaker_openings)],
      [t("health.store.reconnects"), count(store.reconnects)],
      store.leases ? [t("health.store.leases"), LEASES.map((name) => h("span", { class: "reading" }, `${t(`health.leases.${name}`)} `, h("b", {}, count(store.leases[name]))))] : null,
      store.last_error ? [t("health.store.last_error"), code(store.last_error)] : null,
    ], "wide"),
    (store.warnings ?? []).map((text) => h("p", { class: "error-text" }, storeWarning(text))),
  ];
}
