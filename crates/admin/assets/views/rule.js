// One rule: its last five minutes in large, what it says, and the keys that weigh on it.

import { api } from "../api.js";
import { count, rate } from "../format.js";
import { h, put } from "../dom.js";
import { t } from "../i18n/index.js";
import { KINDS, legend } from "../kinds.js";
import { whyLink } from "../keytext.js";
import { bar, busyHands, code, facts, section, trouble, waiting } from "../pieces.js";
import { limitTexts, paces, ruleBadges, ruleChart } from "../rulecard.js";
import { topLists } from "../toplist.js";
import { Lifetime, watch } from "../watch.js";

export function show(query) {
  const name = query.get("name") ?? "";
  const life = new Lifetime();
  const element = h("div", { class: "view rule" });
  let inner = null;
  const build = () => {
    inner?.end();
    inner = new Lifetime();
    const rule = watch.rules.get(name);
    put(element, rule === undefined ? missing(name) : parts(rule, inner));
  };
  build();
  life.on("rules", build);
  life.then(() => inner?.end());
  return { title: name, element, leave: () => life.end() };
}

function missing(name) {
  return section(name, { level: 1 }, h("p", {}, t("rule.missing")), h("p", {}, h("a", { href: "#/" }, t("nav.now"))));
}

function parts(rule, life) {
  const chart = ruleChart(rule, { height: 240, tall: true });
  const badges = h("span", { class: "badges" });
  const figures = h("div", {});
  const use = bar(t("use"));
  const update = () => {
    chart.show(watch.series.of(rule.name));
    const now = watch.figures.get(rule.name);
    put(badges, ruleBadges(rule, now));
    if (now !== undefined) put(figures, counters(rule, now));
    use.element.hidden = now?.used === null || now?.used === undefined;
    if (!use.element.hidden) use.show(now.used);
  };
  life.on("tick", update);
  life.then(() => chart.end());
  update();
  const limits = watch.limits.get(rule.name);
  const about = facts([
    [t("rule.match"), code(rule.match ?? t("everything"))],
    rule.when ? [t("rule.when"), code(rule.when)] : null,
    [t("rule.key"), rule.key.length === 0 ? t("all_together") : rule.key.map((part) => code(part))],
    [t("rule.limits"), limitTexts(rule).map((limit) => code(limit))],
    limits?.degraded ? [t("degraded"), limits.share_of_nodes ? t("degraded.share", { n: limits.share_of_nodes }) : t("degraded.help")] : null,
    [t("rule.scope"), t(`scope.${rule.scope}`)],
    [t("rule.mode"), t(`mode.${rule.mode}`)],
    rule.ban ? [t("rule.ban"), rule.ban] : null,
    rule.priority ? [t("rule.priority"), rule.priority] : null,
  ]);
  return [
    section(
      rule.name,
      { level: 1, side: h("div", { class: "side" }, badges, paces(rule) ? null : legend()), kind: "total" },
      chart.element,
      use.element,
    ),
    h(
      "div",
      { class: "columns" },
      section(t("rule.about"), { side: h("a", { class: "button", href: whyLink(rule) }, t("rule.try")) }, about),
      section(t("rule.counts"), {}, figures),
    ),
    rule.key.length === 0 ? null : keys(rule, life),
  ];
}

function counters(rule, now) {
  const mean = watch.series.recent(rule.name, 10);
  const shown = { passed: now.admitted, limited: now.refused, banned: now.banned, queued: now.waited };
  return facts([
    ...(paces(rule) ? [] : KINDS.map((kind) => [t(`kind.${kind}`), h("span", { class: "pair" }, h("b", {}, count(shown[kind])), h("small", {}, rate(mean[kind])))])),
    now.bytes > 0 || paces(rule) ? [t("kind.bytes"), count(now.bytes)] : null,
    now.degraded > 0 ? [t("rule.degraded"), count(now.degraded)] : null,
    now.waiting > 0 ? [t("rule.waiting"), count(now.waiting)] : null,
    now.permits === null || now.permits === undefined ? null : [t("rule.permits"), count(now.permits)],
  ]);
}

function keys(rule, life) {
  const place = h("div", {}, waiting());
  let told = "";
  const held = busyHands(place);
  const ask = life.every(3000, async () => {
    try {
      const { rules } = await api.top(rule.name, 10);
      if (life.over) return;
      const top = rules.find((one) => one.rule === rule.name);
      const text = JSON.stringify(top);
      if (text === told || held()) return;
      told = text;
      put(place, top === undefined ? h("p", { class: "lead" }, t("top.not_watched")) : topLists(top, () => ask()));
    } catch (error) {
      put(place, trouble(error));
    }
  });
  return section(t("rule.keys"), { lead: t("top.lead") }, place);
}
