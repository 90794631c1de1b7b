// Who weighs most: the heaviest and the most refused keys of every rule, and the state of any one key.

import { api } from "../api.js";
import { button, field, form, input, select } from "../actions.js";
import { h, put } from "../dom.js";
import { t } from "../i18n/index.js";
import { ruleLink } from "../keytext.js";
import { busyHands, section, trouble, waiting } from "../pieces.js";
import { keyState, topLists } from "../toplist.js";
import { Lifetime, watch } from "../watch.js";

let chosen = "";

export function show(query) {
  const life = new Lifetime();
  if (query.has("rule")) chosen = query.get("rule");
  const keyed = () => [...watch.rules.values()].filter((rule) => rule.key.length > 0);
  const place = h("div", {}, waiting());
  const rules = () => [["", t("top.all_rules")], ...keyed().map(({ name }) => [name, name])];
  const choice = select(rules(), chosen, { name: "rule" });
  if (choice.value !== chosen) chosen = "";

  let told = "";
  const held = busyHands(place);
  const ask = life.every(3000, async () => {
    try {
      const { rules } = await api.top(chosen, chosen === "" ? 5 : 20);
      if (life.over) return;
      const text = JSON.stringify(rules);
      if (text === told || held()) return;
      told = text;
      const busiest = rules.toSorted((a, b) => b.refused.total - a.refused.total || b.asked.total - a.asked.total).slice(0, 20);
      put(
        place,
        busiest.map((top) => h("div", { class: "topgroup" }, chosen === "" ? h("h3", { class: "of" }, h("a", { href: ruleLink(top.rule) }, top.rule)) : null, topLists(top, () => ask()))),
        rules.length === 0 ? h("p", { class: "lead" }, keyed().length === 0 ? t("top.no_keys") : t("top.not_watched")) : null,
      );
    } catch (error) {
      put(place, trouble(error));
    }
  });
  const one = new OneKey(life, keyed, query);
  choice.addEventListener("change", () => {
    chosen = choice.value;
    told = "";
    put(place, waiting());
    one.choose(chosen);
    ask();
  });
  life.on("rules", () => {
    put(choice, rules().map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
    one.rules();
  });
  return {
    title: t("nav.keys"),
    element: h(
      "div",
      { class: "view keys" },
      h("h1", {}, t("nav.keys")),
      one.element,
      section(t("top.title"), { lead: t("top.lead"), side: h("div", { class: "controls" }, field(t("rule"), choice)) }, place),
    ),
    leave: () => life.end(),
  };
}

/** The form that looks up one key, and what it found. */
class OneKey {
  #keyed;
  #rule;
  #parts = h("div", { class: "fields" });
  #found = h("div", { role: "status" });
  #life;

  constructor(life, keyed, query) {
    this.#life = life;
    this.#keyed = keyed;
    this.#rule = select([], "", { name: "key-rule" });
    this.rules();
    if (query.has("rule")) this.#rule.value = query.get("rule");
    this.#fields(query.getAll("key"));
    this.#rule.addEventListener("change", () => this.#fields([]));
    const look = button(t("key.look"), () => this.#look(), { kind: "primary", submit: true });
    this.element = section(
      t("key.title"),
      { lead: t("key.lead") },
      form(look, { class: "line", name: "key" }, field(t("rule"), this.#rule), this.#parts, look),
      this.#found,
    );
    if (query.has("key")) look.run();
  }

  rules() {
    const before = this.#rule.value;
    put(this.#rule, this.#keyed().map(({ name }) => h("option", { value: name, selected: name === before }, name)));
    if (this.#rule.value !== before) this.#fields([]);
  }

  choose(name) {
    if (name === "") return;
    this.#rule.value = name;
    this.#fields([]);
  }

  #fields(values) {
    const rule = watch.rules.get(this.#rule.value);
    put(this.#parts, (rule?.key ?? []).map((part, nth) => field(part, input({ value: values[nth] ?? "", name: "part", class: "mono", required: true }))));
    put(this.#found);
  }

  async #look() {
    const rule = watch.rules.get(this.#rule.value);
    if (rule === undefined) return;
    const values = [...this.#parts.querySelectorAll("input")].map(({ value }) => value);
    try {
      const state = await api.peek(rule.name, values);
      if (!this.#life.over) put(this.#found, keyState(rule, values, state, () => this.#look()));
    } catch (error) {
      put(this.#found, trouble(error));
    }
  }
}
