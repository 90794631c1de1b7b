// Top keys of all rules, and the state of one key.

import { api } from "../api.js";
import { button, field, form, input, select } from "../actions.js";
import { h, replaceChildren } from "../dom.js";
import { t } from "../i18n/index.js";
import { ruleLink } from "../key-parse.js";
import { errorMessage, loading, section, trackInteraction } from "../components.js";
import { keyState, topLists } from "../toplist.js";
import { Lifetime, state } from "../state.js";

let selected = "";

export function show(query) {
  const life = new Lifetime();
  if (query.has("rule")) selected = query.get("rule");
  const keyedRules = () => [...state.rules.values()].filter((rule) => rule.key.length > 0);
  const content = h("div", {}, loading());
  const options = () => [["", t("top.all_rules")], ...keyedRules().map(({ name }) => [name, name])];
  const choice = select(options(), selected, { name: "rule" });
  if (choice.value !== selected) selected = "";

  let previous = "";
  const isInUse = trackInteraction(content);
  const load = life.every(3000, async () => {
    try {
      const { rules } = await api.top(selected, selected === "" ? 5 : 20);
      if (life.ended) return;
      const text = JSON.stringify(rules);
      if (text === previous || isInUse()) return;
      previous = text;
      const busiest = rules.toSorted((a, b) => b.refused.total - a.refused.total || b.checked.total - a.checked.total).slice(0, 20);
      replaceChildren(
        content,
        busiest.map((top) => h("div", { class: "topgroup" }, selected === "" ? h("h3", { class: "of" }, h("a", { href: ruleLink(top.rule) }, top.rule)) : null, topLists(top, () => load()))),
        rules.length === 0 ? h("p", { class: "lead" }, keyedRules().length === 0 ? t("top.no_keys") : t("top.not_counted")) : null,
      );
    } catch (error) {
      replaceChildren(content, errorMessage(error));
    }
  });
  const lookup = new KeyLookup(life, keyedRules, query);
  choice.addEventListener("change", () => {
    selected = choice.value;
    previous = "";
    replaceChildren(content, loading());
    lookup.selectRule(selected);
    load();
  });
  life.on("rules", () => {
    replaceChildren(choice, options().map(([value, text]) => h("option", { value, selected: value === selected }, text)));
    lookup.updateRules();
  });
  return {
    title: t("nav.keys"),
    element: h(
      "div",
      { class: "view keys" },
      h("h1", {}, t("nav.keys")),
      lookup.element,
      section(t("top.title"), { lead: t("top.lead"), side: h("div", { class: "controls" }, field(t("rule"), choice)) }, content),
    ),
    leave: () => life.end(),
  };
}

/** Form that looks up one key. */
class KeyLookup {
  #keyedRules;
  #rule;
  #parts = h("div", { class: "fields" });
  #result = h("div", { role: "status" });
  #life;

  constructor(life, keyedRules, query) {
    this.#life = life;
    this.#keyedRules = keyedRules;
    this.#rule = select([], "", { name: "key-rule" });
    this.updateRules();
    if (query.has("rule")) this.#rule.value = query.get("rule");
    this.#updateFields(query.getAll("key"));
    this.#rule.addEventListener("change", () => this.#updateFields([]));
    const submit = button(t("key.look_up"), () => this.#lookUp(), { kind: "primary", submit: true });
    this.element = section(
      t("key.title"),
      { lead: t("key.lead") },
      form(submit, { class: "line", name: "key" }, field(t("rule"), this.#rule), this.#parts, submit),
      this.#result,
    );
    if (query.has("key")) submit.run();
  }

  updateRules() {
    const previous = this.#rule.value;
    replaceChildren(this.#rule, this.#keyedRules().map(({ name }) => h("option", { value: name, selected: name === previous }, name)));
    if (this.#rule.value !== previous) this.#updateFields([]);
  }

  selectRule(name) {
    if (name === "") return;
    this.#rule.value = name;
    this.#updateFields([]);
  }

  #updateFields(values) {
    const rule = state.rules.get(this.#rule.value);
    replaceChildren(this.#parts, (rule?.key ?? []).map((part, index) => field(part, input({ value: values[index] ?? "", name: "part", class: "mono", required: true }))));
    replaceChildren(this.#result);
  }

  async #lookUp() {
    const rule = state.rules.get(this.#rule.value);
    if (rule === undefined) return;
    const values = [...this.#parts.querySelectorAll("input")].map(({ value }) => value);
    try {
      const key = await api.peek(rule.name, values);
      if (!this.#life.ended) replaceChildren(this.#result, keyState(rule, values, key, () => this.#lookUp()));
    } catch (error) {
      replaceChildren(this.#result, errorMessage(error));
    }
  }
}
