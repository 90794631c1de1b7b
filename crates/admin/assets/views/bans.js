// Who is shut out and who is let through whatever the rules say: bans, and the lists.

import { api } from "../api.js";
import { button, field, form, input, select } from "../actions.js";
import { count, span } from "../format.js";
import { h, put, say } from "../dom.js";
import { t } from "../i18n/index.js";
import { done } from "../notices.js";
import { ruleLink, whyLink } from "../keytext.js";
import { badge, busyHands, code, section, table, trouble } from "../pieces.js";
import { Lifetime, watch } from "../watch.js";

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
  #table = table([{ label: t("key") }, { label: t("rule") }, { label: t("bans.left"), number: true }, { label: "" }], t("bans.title"));
  #trouble = h("div", {});
  #heard = 0;
  #bans = [];
  #held = busyHands(this.#table.element);
  #count = h("span", { class: "count" });
  #rule = select([], "", { name: "ban-rule" });
  #parts = h("div", { class: "fields" });
  #lasting = input({ name: "ban-for", placeholder: "10m", class: "mono short" });

  constructor(life) {
    const ban = button(t("bans.ban"), () => this.#ban(), { kind: "primary", write: true, submit: true, why: () => (this.#rule.value === "" ? t("bans.no_rule") : null) });
    this.element = section(
      t("bans.title"),
      { lead: t("bans.lead"), side: this.#count },
      this.#trouble,
      this.#table.element,
      h(
        "details",
        { class: "adding" },
        h("summary", {}, t("bans.add")),
        form(ban, { class: "line", name: "ban" }, field(t("rule"), this.#rule), this.#parts, field(t("bans.for"), this.#lasting, t("bans.for.help")), ban),
      ),
    );
    this.#rules();
    this.#rule.addEventListener("change", () => this.#fields());
    life.on("rules", () => this.#rules());
    life.every(2000, () => this.#read());
    // What is left runs down before the eyes, whatever the network does.
    const timer = setInterval(() => this.#runDown(), 1000);
    life.then(() => clearInterval(timer));
  }

  /** `now`: whoever has just lifted one wants to see it gone. */
  async #read(now = false) {
    try {
      const { bans } = await api.bans();
      const same = JSON.stringify(bans.map(({ rule, key }) => [rule, key])) === JSON.stringify(this.#bans.map(({ rule, key }) => [rule, key]));
      put(this.#trouble);
      say(this.#count, t("bans.count", { n: bans.length, count: count(bans.length) }));
      if (!same && this.#held() && !now) return;
      this.#bans = bans;
      this.#heard = performance.now();
      if (!same || bans.length === 0) this.#draw();
      this.#runDown();
    } catch (error) {
      put(this.#trouble, trouble(error));
    }
  }

  #draw() {
    const most = 500;
    this.#table.rows(
      this.#bans.slice(0, most).map(({ rule, key }) => {
        const known = watch.rules.get(rule);
        return [
          code(key),
          h("a", { href: ruleLink(rule) }, rule),
          h("span", { class: "left" }),
          h(
            "div",
            { class: "buttons" },
            known === undefined ? null : h("a", { href: whyLink(known, key) }, t("top.why")),
            button(
              t("bans.lift"),
              async () => {
                const { lifted } = await api.lift(rule, key);
                done(lifted ? t("bans.lifted", { key }) : t("bans.was_over", { key }));
                await this.#read(true);
              },
              { write: true },
            ),
          ),
        ];
      }),
      t("bans.none"),
    );
  }

  #runDown() {
    const gone = (performance.now() - this.#heard) / 1000;
    [...this.#table.element.querySelectorAll(".left")].forEach((element, nth) => {
      const left = this.#bans[nth]?.remaining_s;
      say(element, left === undefined ? "–" : span(Math.max(0, Math.round(left - gone))));
    });
  }

  #rules() {
    const before = this.#rule.value;
    const rules = [...watch.rules.values()].filter((rule) => rule.ban);
    put(this.#rule, rules.map(({ name }) => h("option", { value: name, selected: name === before }, name)));
    if (rules.length === 0) put(this.#rule, h("option", { value: "" }, t("bans.no_rule")));
    this.#fields();
  }

  #fields() {
    const rule = watch.rules.get(this.#rule.value);
    const names = (rule?.key ?? []).join();
    if (this.#parts.dataset.names === names) return;
    this.#parts.dataset.names = names;
    put(this.#parts, (rule?.key ?? []).map((part) => field(part, input({ name: "ban-part", class: "mono" }))));
  }

  async #ban() {
    const values = [...this.#parts.querySelectorAll("input")].map(({ value }) => value.trim());
    const { key, remaining_s: remaining } = await api.ban(this.#rule.value, values, this.#lasting.value.trim());
    done(t("bans.banned", { key, time: span(remaining) }));
    this.#parts.querySelectorAll("input").forEach((field) => (field.value = ""));
    await this.#read(true);
  }
}

class Lists {
  #tables = {};
  #notes = {};
  #trouble = h("div", {});
  #told = "";
  #ask;

  constructor(life) {
    const parts = ["allow", "deny"].map((list) => this.#part(list));
    this.element = h("div", { class: "columns" }, parts);
    this.element.prepend(this.#trouble);
    this.#ask = life.every(3000, () => this.#read());
  }

  #part(list) {
    this.#tables[list] = table([{ label: t("lists.condition") }, { label: t("lists.source") }, { label: t("lists.until"), number: true }, { label: "" }], t(`lists.${list}`));
    this.#notes[list] = h("span", { class: "count" });
    const condition = input({ name: `${list}-condition`, placeholder: "client.ip in 203.0.113.0/24", class: "mono" });
    const lasting = input({ name: `${list}-for`, placeholder: "1h", class: "mono short" });
    const add = button(
      t("lists.add"),
      async () => {
        await api.enlist(list, condition.value.trim(), lasting.value.trim());
        done(t("lists.added", { condition: condition.value.trim() }));
        condition.value = "";
        await this.#ask();
      },
      { write: true, submit: true, kind: "primary" },
    );
    return section(
      t(`lists.${list}`),
      { lead: t(`lists.${list}.lead`), side: this.#notes[list] },
      this.#tables[list].element,
      form(add, { class: "line", name: `list-${list}` }, field(t("lists.condition"), condition, t("lists.condition.help")), field(t("lists.for"), lasting, t("lists.for.help")), add),
    );
  }

  async #read() {
    try {
      const told = await api.lists();
      put(this.#trouble);
      for (const list of ["allow", "deny"]) say(this.#notes[list], t("lists.hits", { n: told.hits[list], count: count(told.hits[list]) }));
      const text = JSON.stringify([told.allow, told.deny].map((entries) => entries.map(({ condition, source, expires_in_s: left }) => [condition, source, left === null ? null : Math.round(left / 5)])));
      if (text === this.#told) return;
      this.#told = text;
      for (const list of ["allow", "deny"]) this.#draw(list, told[list]);
    } catch (error) {
      put(this.#trouble, trouble(error));
    }
  }

  #draw(list, entries) {
    this.#tables[list].rows(
      entries.map(({ condition, source, expires_in_s: left }) => [
        code(condition),
        badge(t(`source.${source}`), source === "file" ? "" : "added"),
        left === null || left === undefined ? t("lists.always") : span(left),
        button(
          t("lists.remove"),
          async () => {
            const { removed } = await api.delist(list, condition);
            done(removed ? t("lists.removed", { condition }) : t("lists.was_gone", { condition }));
            await this.#ask();
          },
          { write: true, why: () => (source === "file" ? t("lists.in_file") : null) },
        ),
      ]),
      t(`lists.${list}.none`),
    );
  }
}
