// Bans, and the allow and deny lists.

import { api } from "../api.js";
import { button, field, form, input, select } from "../actions.js";
import { count, duration } from "../format.js";
import { h, replaceChildren, setText } from "../dom.js";
import { t } from "../i18n/index.js";
import { notifyDone } from "../notices.js";
import { explainLink, ruleLink } from "../key-parse.js";
import { badge, code, errorMessage, section, table, trackInteraction } from "../components.js";
import { Lifetime, state } from "../state.js";

/** Maximum number of bans in the table. */
const MAX_BANS = 500;

export function show() {
  const life = new Lifetime();
  const bans = new Bans(life);
  const lists = new Lists(life);
  return {
    title: t("nav.bans"),
    element: h("div", { class: "view bans" }, h("h1", {}, t("nav.bans")), bans.element, lists.element),
    leave: () => life.end(),
  };
}

class Bans {
  #table = table([{ label: t("key") }, { label: t("rule") }, { label: t("bans.remaining"), number: true }, { label: "" }], t("bans.title"));
  #error = h("div", {});
  #loadedAt = 0;
  #bans = [];
  #isInUse = trackInteraction(this.#table.element);
  #count = h("span", { class: "count" });
  #rule = select([], "", { name: "ban-rule" });
  #parts = h("div", { class: "fields" });
  #duration = input({ name: "ban-for", placeholder: "10m", class: "mono short" });

  constructor(life) {
    const ban = button(t("bans.ban"), () => this.#ban(), { kind: "primary", write: true, submit: true, disabled: () => (this.#rule.value === "" ? t("bans.no_rule") : null) });
    this.element = section(
      t("bans.title"),
      { lead: t("bans.lead"), side: this.#count },
      this.#error,
      this.#table.element,
      h(
        "details",
        { class: "disclosure" },
        h("summary", {}, t("bans.add")),
        form(ban, { class: "line", name: "ban" }, field(t("rule"), this.#rule), this.#parts, field(t("bans.for"), this.#duration, t("bans.for.help")), ban),
      ),
    );
    this.#updateRules();
    this.#rule.addEventListener("change", () => this.#updateFields());
    life.on("rules", () => this.#updateRules());
    life.every(2000, () => this.#load());
    // The remaining time counts down between two loads.
    const timer = setInterval(() => this.#countDown(), 1000);
    life.onEnd(() => clearInterval(timer));
  }

  /** `force`: redraws even while the user interacts with the table. */
  async #load(force = false) {
    try {
      const { bans } = await api.bans();
      const isSame = JSON.stringify(bans.map(({ rule, key }) => [rule, key])) === JSON.stringify(this.#bans.map(({ rule, key }) => [rule, key]));
      replaceChildren(this.#error);
      setText(this.#count, t("bans.count", { n: bans.length, count: count(bans.length) }));
      if (!isSame && this.#isInUse() && !force) return;
      this.#bans = bans;
      this.#loadedAt = performance.now();
      if (!isSame || bans.length === 0) this.#draw();
      this.#countDown();
    } catch (error) {
      replaceChildren(this.#error, errorMessage(error));
    }
  }

  #draw() {
    this.#table.rows(
      this.#bans.slice(0, MAX_BANS).map(({ rule, key }) => {
        const definition = state.rules.get(rule);
        return [
          code(key),
          h("a", { href: ruleLink(rule) }, rule),
          h("span", { class: "remaining" }),
          h(
            "div",
            { class: "buttons" },
            definition === undefined ? null : h("a", { href: explainLink(definition, key) }, t("top.explain")),
            button(
              t("bans.remove"),
              async () => {
                const { removed } = await api.removeBan(rule, key);
                notifyDone(removed ? t("bans.removed", { key }) : t("bans.was_over", { key }));
                await this.#load(true);
              },
              { write: true },
            ),
          ),
        ];
      }),
      t("bans.none"),
    );
  }

  #countDown() {
    const elapsed = (performance.now() - this.#loadedAt) / 1000;
    [...this.#table.element.querySelectorAll(".remaining")].forEach((element, index) => {
      const remaining = this.#bans[index]?.remaining_s;
      setText(element, remaining === undefined ? "–" : duration(Math.max(0, Math.round(remaining - elapsed))));
    });
  }

  #updateRules() {
    const previous = this.#rule.value;
    const rules = [...state.rules.values()].filter((rule) => rule.ban);
    replaceChildren(this.#rule, rules.map(({ name }) => h("option", { value: name, selected: name === previous }, name)));
    if (rules.length === 0) replaceChildren(this.#rule, h("option", { value: "" }, t("bans.no_rule")));
    this.#updateFields();
  }

  #updateFields() {
    const rule = state.rules.get(this.#rule.value);
    const names = (rule?.key ?? []).join();
    if (this.#parts.dataset.names === names) return;
    this.#parts.dataset.names = names;
    replaceChildren(this.#parts, (rule?.key ?? []).map((part) => field(part, input({ name: "ban-part", class: "mono" }))));
  }

  async #ban() {
    const values = [...this.#parts.querySelectorAll("input")].map(({ value }) => value.trim());
    const { key, remaining_s: remaining } = await api.ban(this.#rule.value, values, this.#duration.value.trim());
    notifyDone(t("bans.banned", { key, time: duration(remaining) }));
    this.#parts.querySelectorAll("input").forEach((field) => (field.value = ""));
    await this.#load(true);
  }
}

class Lists {
  #tables = {};
  #hits = {};
  #error = h("div", {});
  #previous = "";
  #reload;

  constructor(life) {
    const parts = ["allow", "deny"].map((list) => this.#part(list));
    this.element = h("div", { class: "columns" }, parts);
    this.element.prepend(this.#error);
    this.#reload = life.every(3000, () => this.#load());
  }

  #part(list) {
    this.#tables[list] = table([{ label: t("lists.condition") }, { label: t("lists.source") }, { label: t("lists.expires"), number: true }, { label: "" }], t(`lists.${list}`));
    this.#hits[list] = h("span", { class: "count" });
    const condition = input({ name: `${list}-condition`, placeholder: "client.ip in 203.0.113.0/24", class: "mono" });
    const time = input({ name: `${list}-for`, placeholder: "1h", class: "mono short" });
    const add = button(
      t("lists.add"),
      async () => {
        await api.addListEntry(list, condition.value.trim(), time.value.trim());
        notifyDone(t("lists.added", { condition: condition.value.trim() }));
        condition.value = "";
        await this.#reload();
      },
      { write: true, submit: true, kind: "primary" },
    );
    return section(
      t(`lists.${list}`),
      { lead: t(`lists.${list}.lead`), side: this.#hits[list] },
      this.#tables[list].element,
      form(add, { class: "line", name: `list-${list}` }, field(t("lists.condition"), condition, t("lists.condition.help")), field(t("lists.for"), time, t("lists.for.help")), add),
    );
  }

  async #load() {
    try {
      const lists = await api.lists();
      replaceChildren(this.#error);
      for (const list of ["allow", "deny"]) setText(this.#hits[list], t("lists.hits", { n: lists.hits[list], count: count(lists.hits[list]) }));
      const text = JSON.stringify([lists.allow, lists.deny].map((entries) => entries.map(({ condition, source, expires_in_s: expires }) => [condition, source, expires === null ? null : Math.round(expires / 5)])));
      if (text === this.#previous) return;
      this.#previous = text;
      for (const list of ["allow", "deny"]) this.#draw(list, lists[list]);
    } catch (error) {
      replaceChildren(this.#error, errorMessage(error));
    }
  }

  #draw(list, entries) {
    this.#tables[list].rows(
      entries.map(({ condition, source, expires_in_s: expires }) => [
        code(condition),
        badge(t(`source.${source}`), source === "file" ? "" : "added"),
        expires === null || expires === undefined ? t("lists.never") : duration(expires),
        button(
          t("lists.remove"),
          async () => {
            const { removed } = await api.removeListEntry(list, condition);
            notifyDone(removed ? t("lists.removed", { condition }) : t("lists.was_removed", { condition }));
            await this.#reload();
          },
          { write: true, disabled: () => (source === "file" ? t("lists.in_file") : null) },
        ),
      ]),
      t(`lists.${list}.none`),
    );
  }
}
