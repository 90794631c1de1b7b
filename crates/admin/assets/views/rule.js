// Page of one rule: chart, settings, counters and top keys.

import { api } from "../api.js";
import { adaptiveLimit, adaptiveReason, adaptiveState, banText, limitTexts } from "../describe.js";
import { count, rate } from "../format.js";
import { h, replaceChildren } from "../dom.js";
import { t } from "../i18n/index.js";
import { VERDICTS, legend, verdictName } from "../verdicts.js";
import { explainLink } from "../key-parse.js";
import { badge, bar, code, errorMessage, facts, loading, section, trackInteraction } from "../components.js";
import { isBandwidthOnly, ruleBadges, ruleChart } from "../rulecard.js";
import { topLists } from "../toplist.js";
import { Lifetime, state } from "../state.js";

export function show(query) {
  const name = query.get("name") ?? "";
  const life = new Lifetime();
  const element = h("div", { class: "view rule" });
  let inner = null;
  const build = () => {
    inner?.end();
    inner = new Lifetime();
    const rule = state.rules.get(name);
    replaceChildren(element, rule === undefined ? unknownRule(name) : parts(rule, inner));
  };
  build();
  life.on("rules", build);
  life.onEnd(() => inner?.end());
  return { title: name, element, leave: () => life.end() };
}

function unknownRule(name) {
  return section(name, { level: 1 }, h("p", {}, t("rule.unknown")), h("p", {}, h("a", { href: "#/" }, t("nav.overview"))));
}

function parts(rule, life) {
  const chart = ruleChart(rule, { height: 240, tall: true });
  const badges = h("span", { class: "badges" });
  const counts = h("div", {});
  const usage = bar(t("limit_usage"));
  const update = () => {
    chart.show(state.series.of(rule.name));
    const counters = state.counters.get(rule.name);
    replaceChildren(badges, ruleBadges(rule, counters));
    if (counters !== undefined) replaceChildren(counts, countFacts(rule, counters));
    const used = counters?.used ?? null;
    usage.element.hidden = used === null;
    if (used !== null) usage.show(used);
  };
  life.on("tick", update);
  life.onEnd(() => chart.end());
  update();
  const limits = state.limits.get(rule.name);
  const texts = limitTexts(rule);
  const settings = facts([
    [t("rule.match"), rule.match === null ? t("everything") : code(rule.match)],
    rule.when ? [t("rule.when"), code(rule.when)] : null,
    [t("rule.key"), rule.key.length === 0 ? t("all_together") : rule.key.map((part) => code(part))],
    texts.length === 0 ? null : [t("rule.limits"), texts.map((limit) => code(limit))],
    limits?.degraded ? [t("degraded"), limits.share_of_nodes ? t("degraded.share", { n: limits.share_of_nodes }) : t("degraded.help")] : null,
    [t("rule.direction"), t(`direction.${rule.direction}`)],
    [t("rule.scope"), t(`scope.${rule.scope}`)],
    [t("rule.mode"), t(`mode.${rule.mode}`)],
    rule.ban ? [t("rule.ban"), banText(rule.ban)] : null,
    rule.priority ? [t("rule.priority"), t(`priority.${rule.priority}`)] : null,
  ]);
  return [
    section(
      rule.name,
      { level: 1, side: h("div", { class: "side" }, badges, isBandwidthOnly(rule) ? null : legend()), kind: "total" },
      chart.element,
      usage.element,
    ),
    h(
      "div",
      { class: "columns" },
      section(t("rule.settings"), { side: h("a", { class: "button", href: explainLink(rule) }, t("rule.explain")) }, settings),
      section(t("rule.counts"), {}, counts),
    ),
    rule.adaptive_kind ? adaptive(rule, life) : null,
    rule.key.length === 0 ? null : keys(rule, life),
  ];
}

function countFacts(rule, counters) {
  const mean = state.series.recent(rule.name, 10);
  const totals = { admitted: counters.admitted, refused: counters.refused, banned: counters.banned, queued: counters.waited };
  const permits = counters.permits ?? null;
  return facts([
    ...(isBandwidthOnly(rule) ? [] : VERDICTS.map((verdict) => [verdictName(verdict), h("span", { class: "pair" }, h("b", {}, count(totals[verdict])), h("small", {}, rate(mean[verdict])))])),
    counters.bytes > 0 || isBandwidthOnly(rule) ? [verdictName("bytes"), count(counters.bytes)] : null,
    counters.degraded > 0 ? [t("rule.degraded"), count(counters.degraded)] : null,
    counters.waiting > 0 ? [t("rule.waiting"), count(counters.waiting)] : null,
    permits === null ? null : [t("rule.permits"), count(permits)],
  ]);
}

/** State of the overload protection. */
function adaptive(rule, life) {
  const content = h("div", {});
  const update = () => {
    const current = state.tick?.adaptive.find(({ name }) => name === rule.name);
    if (current === undefined) return;
    const reason = adaptiveReason(current);
    replaceChildren(
      content,
      facts([
        [t("adaptive.kind"), t(`adaptive.kind.${rule.adaptive_kind}`)],
        [t("adaptive.state"), badge(adaptiveState(current.state))],
        [t("adaptive.limit"), adaptiveLimit(current)],
        reason === "" ? null : [t("adaptive.reason"), reason],
      ]),
    );
  };
  life.on("tick", update);
  update();
  return section(t("adaptive.title"), {}, content);
}

function keys(rule, life) {
  const content = h("div", {}, loading());
  let previous = "";
  const isInUse = trackInteraction(content);
  const load = life.every(3000, async () => {
    try {
      const { rules } = await api.top(rule.name, 10);
      if (life.ended) return;
      const top = rules.find((one) => one.rule === rule.name);
      const text = JSON.stringify(top);
      if (text === previous || isInUse()) return;
      previous = text;
      replaceChildren(content, top === undefined ? h("p", { class: "lead" }, t("top.not_counted")) : topLists(top, () => load()));
    } catch (error) {
      replaceChildren(content, errorMessage(error));
    }
  });
  return section(t("rule.keys"), { lead: t("top.lead") }, content);
}
