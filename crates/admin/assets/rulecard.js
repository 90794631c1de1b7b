// Card of a rule: settings, current rates, limit usage and a chart of the last five minutes.

import { Chart } from "./chart.js";
import { byteRate, count, rate } from "./format.js";
import { h, replaceChildren, set, setText } from "./dom.js";
import { t } from "./i18n/index.js";
import { limitTexts } from "./describe.js";
import { VERDICTS, swatch, verdictName } from "./verdicts.js";
import { ruleLink } from "./key-parse.js";
import { badge, bar } from "./components.js";
import { state } from "./state.js";

/** True if the rule only limits bandwidth and refuses nothing. */
export function isBandwidthOnly(rule) {
  const { configured = [] } = state.limits.get(rule?.name) ?? {};
  return configured.length > 0 && configured.every(({ unit }) => unit === "bytes");
}

/** Chart of a rule, in requests or in bytes. */
export function ruleChart(rule, options) {
  return isBandwidthOnly(rule)
    ? new Chart({ label: rule.name, bands: ["bytes"], format: byteRate, base: 1024, ...options })
    : new Chart({ label: rule.name, bands: ["admitted", "refused", "banned"], line: "queued", ...options });
}

/** Badges for settings that differ from the default. */
export function ruleBadges(rule, counters) {
  const limits = state.limits.get(rule.name);
  return [
    rule.mode === "shadow" ? badge(t("mode.shadow"), "shadow", t("mode.shadow.help")) : null,
    rule.adaptive_kind ? badge(t(`adaptive.kind.${rule.adaptive_kind}`), "", t("adaptive.lead")) : null,
    rule.scope === "cluster" ? badge(t("scope.cluster"), "", t("scope.cluster.help")) : null,
    limits?.degraded ? badge(t("degraded"), "warn", t("degraded.help")) : null,
    rule.direction === "inbound" ? null : badge(t(`direction.${rule.direction}`)),
    rule.priority === "normal" || !rule.priority ? null : badge(t("priority", { p: t(`priority.${rule.priority}`) })),
    counters?.waiting > 0 ? badge(t("waiting_now", { n: count(counters.waiting) }), "queued") : null,
  ];
}

/** Target and condition of a rule in one line. */
export function ruleTarget(rule) {
  const parts = [rule.match ?? t("everything"), rule.when ? t("when", { condition: rule.when }) : null];
  return parts.filter((part) => part !== null).join(" ");
}

export class RuleCard {
  #name;
  #chart;
  #values;
  #badges = h("span", { class: "badges" });
  #usage;

  constructor(rule) {
    this.#name = rule.name;
    this.#chart = ruleChart(rule, { height: 76 });
    const verdicts = isBandwidthOnly(rule) ? ["bytes"] : VERDICTS;
    this.#values = new Map(verdicts.map((verdict) => [verdict, h("dd", {})]));
    this.#usage = rule.key.length === 0 && !isBandwidthOnly(rule) ? bar(t("limit_usage")) : null;
    const perKey = rule.key.length === 0 ? t("all_together") : t("per_key", { key: rule.key.join(", ") });
    this.element = h(
      "article",
      { class: "card rule", "data-rule": rule.name },
      h("header", {}, h("h3", {}, h("a", { href: ruleLink(rule.name) }, rule.name)), this.#badges),
      h("p", { class: "summary" }, h("span", { class: "target", title: ruleTarget(rule) }, ruleTarget(rule)), " ", h("span", { class: "per-key" }, perKey)),
      h("p", { class: "limits" }, limitTexts(rule).map((limit) => h("code", {}, limit))),
      this.#chart.element,
      h("dl", { class: "counts" }, [...this.#values].map(([verdict, dd]) => h("div", { "data-verdict": verdict }, h("dt", {}, swatch(verdict), verdictName(verdict)), dd))),
      this.#usage?.element,
    );
  }

  end() {
    this.#chart.end();
  }

  update() {
    const rule = state.rules.get(this.#name);
    const counters = state.counters.get(this.#name);
    if (rule === undefined) return;
    const badges = ruleBadges(rule, counters);
    const text = badges.map((element) => element?.textContent ?? "").join("|");
    if (this.#badges.dataset.text !== text) {
      this.#badges.dataset.text = text;
      replaceChildren(this.#badges, badges);
    }
    this.#chart.show(state.series.of(this.#name));
    const rates = state.series.recent(this.#name, 3);
    for (const [verdict, element] of this.#values) {
      setText(element, verdict === "bytes" ? byteRate(rates.bytes) : rate(rates[verdict]));
      set(element.parentElement, "data-idle", rates[verdict] === 0);
    }
    if (this.#usage !== null) {
      const used = counters?.used ?? null;
      set(this.#usage.element, "hidden", used === null);
      const permits = counters?.permits ?? null;
      if (used !== null) this.#usage.show(used, permits === null ? null : t("permits", { n: count(permits), share: Math.round(used * 100) }));
    }
  }
}
