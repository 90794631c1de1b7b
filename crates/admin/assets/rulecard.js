// One rule at a glance: what it is, what it does now, how full its limit is, and its last five minutes.

import { Chart } from "./chart.js";
import { byteRate, count, rate } from "./format.js";
import { h, put, say, set } from "./dom.js";
import { t } from "./i18n/index.js";
import { KINDS, kindName, swatch } from "./kinds.js";
import { ruleLink } from "./keytext.js";
import { badge, bar } from "./pieces.js";
import { watch } from "./watch.js";

/** Whether a rule slows bytes down and refuses nothing. */
export const paces = (rule) => rule !== undefined && rule.limits.length > 0 && rule.limits.every((limit) => limit.startsWith("bandwidth"));

/** The plot of a rule: of requests, or of bytes. */
export function ruleChart(rule, options) {
  return paces(rule)
    ? new Chart({ label: rule.name, bands: ["bytes"], tell: byteRate, base: 1024, ...options })
    : new Chart({ label: rule.name, bands: ["passed", "limited", "banned"], line: "queued", ...options });
}

/** The marks of a rule that is not like most. */
export function ruleBadges(rule, figures) {
  const limits = watch.limits.get(rule.name);
  return [
    rule.mode === "shadow" ? badge(t("mode.shadow"), "shadow", t("mode.shadow.help")) : null,
    rule.scope === "cluster" ? badge(t("scope.cluster"), "", t("scope.cluster.help")) : null,
    limits?.degraded ? badge(t("degraded"), "warn", t("degraded.help")) : null,
    rule.side === "inbound" ? null : badge(t(`side.${rule.side}`)),
    rule.priority === "normal" || !rule.priority ? null : badge(t("priority", { p: rule.priority })),
    figures?.waiting > 0 ? badge(t("waiting_now", { n: count(figures.waiting) }), "queued") : null,
  ];
}

/** What a rule limits, in a line. */
export function ruleLine(rule) {
  const parts = [rule.match ?? t("everything"), rule.when ? t("when", { condition: rule.when }) : null];
  return parts.filter((part) => part !== null).join(" ");
}

/** The limits that hold: those of the file, or this process' share of them. */
export function limitTexts(rule) {
  const now = watch.limits.get(rule.name);
  if (!now?.degraded) return rule.limits;
  const texts = now.limits.map(({ limit }) => limit);
  return texts.length === 0 ? rule.limits : texts;
}

export class RuleCard {
  #name;
  #chart;
  #values;
  #badges = h("span", { class: "badges" });
  #use;

  constructor(rule) {
    this.#name = rule.name;
    this.#chart = ruleChart(rule, { height: 76 });
    const kinds = paces(rule) ? ["bytes"] : KINDS;
    this.#values = new Map(kinds.map((kind) => [kind, h("dd", {})]));
    this.#use = rule.key.length === 0 && !paces(rule) ? bar(t("use")) : null;
    const per = rule.key.length === 0 ? t("all_together") : t("per_key", { key: rule.key.join(", ") });
    this.element = h(
      "article",
      { class: "card rule", "data-rule": rule.name },
      h("header", {}, h("h3", {}, h("a", { href: ruleLink(rule.name) }, rule.name)), this.#badges),
      h("p", { class: "what" }, h("span", { class: "for", title: ruleLine(rule) }, ruleLine(rule)), " ", h("span", { class: "per" }, per)),
      h("p", { class: "limits" }, limitTexts(rule).map((limit) => h("code", {}, limit))),
      this.#chart.element,
      h("dl", { class: "counts" }, [...this.#values].map(([kind, dd]) => h("div", { "data-kind": kind }, h("dt", {}, swatch(kind), kindName(kind)), dd))),
      this.#use?.element,
    );
  }

  end() {
    this.#chart.end();
  }

  update() {
    const rule = watch.rules.get(this.#name);
    const figures = watch.figures.get(this.#name);
    if (rule === undefined) return;
    const marks = ruleBadges(rule, figures);
    const marked = marks.map((mark) => mark?.textContent ?? "").join("|");
    if (this.#badges.dataset.marks !== marked) {
      this.#badges.dataset.marks = marked;
      put(this.#badges, marks);
    }
    this.#chart.show(watch.series.of(this.#name));
    const now = watch.series.recent(this.#name, 3);
    for (const [kind, element] of this.#values) {
      say(element, kind === "bytes" ? byteRate(now.bytes) : rate(now[kind]));
      set(element.parentElement, "data-idle", now[kind] === 0);
    }
    if (this.#use !== null) {
      const used = figures?.used;
      const known = used !== null && used !== undefined;
      set(this.#use.element, "hidden", !known);
      const permits = figures?.permits;
      if (known) this.#use.show(used, permits === null || permits === undefined ? null : t("permits", { n: count(permits), share: Math.round(used * 100) }));
    }
  }
}
