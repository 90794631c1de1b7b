// Overview: all rules together, then each rule, by default those with the most refusals first.

import { field, input, select } from "../actions.js";
import { Chart } from "../chart.js";
import { adaptiveLimit, adaptiveReason, adaptiveState, limitTexts, signalName, signalValue } from "../describe.js";
import { count, rate, share } from "../format.js";
import { h, replaceChildren, set, setText } from "../dom.js";
import { t } from "../i18n/index.js";
import { VERDICTS, legend, swatch, verdictName } from "../verdicts.js";
import { ruleLink } from "../key-parse.js";
import { badge, bar, section, table, trackInteraction } from "../components.js";
import { RuleCard } from "../rulecard.js";
import { language } from "../settings.js";
import { Lifetime, state } from "../state.js";

/** Maximum number of cards. */
const MAX_CARDS = 50;
/** Interval of sorting: cards that move all the time cannot be read. */
const SORT_INTERVAL_MS = 5000;

// The selection stays until the page is closed.
const selected = { sort: "refused", filter: "" };

const sorts = {
  refused: (name) => {
    const recent = state.series.recent(name, 60);
    return recent.refused + recent.banned;
  },
  admitted: (name) => state.series.recent(name, 60).admitted,
  used: (name) => state.counters.get(name)?.used ?? -1,
  file: () => 0,
};

export function show() {
  const life = new Lifetime();
  const tiles = new Tiles();
  const total = new Chart({ label: t("overview.total"), bands: ["admitted", "refused", "banned"], line: "queued", height: 180, tall: true });
  const rules = new RuleGrid();
  const shadow = new ShadowRules();
  const adaptive = new AdaptiveRules();
  const traffic = h("p", { class: "flow" });
  const parts = [tiles, rules, shadow, adaptive];
  const update = () => {
    total.show(state.series.of(null));
    parts.forEach((part) => part.update());
    setText(traffic, trafficText());
  };
  life.on("tick", update);
  life.on("rules", () => {
    rules.rebuild();
    update();
  });
  life.onEnd(() => {
    total.end();
    rules.end();
  });
  update();
  return {
    title: t("nav.overview"),
    element: h(
      "div",
      { class: "view overview" },
      h("h1", { class: "visually-hidden" }, t("nav.overview")),
      tiles.element,
      section(t("overview.total"), { lead: t("overview.total.lead"), side: legend(), kind: "total" }, total.element, traffic),
      rules.element,
      shadow.element,
      adaptive.element,
    ),
    leave: () => life.end(),
  };
}

/** Decisions by lists, and connections of the gateway. */
function trafficText() {
  const tick = state.tick;
  if (tick === null) return "";
  const texts = [t("overview.lists", { allow: count(tick.lists.allow), deny: count(tick.lists.deny) })];
  if (tick.gateway) {
    const { connections, in_flight: inFlight, requests } = tick.gateway;
    texts.push(t("overview.gateway", { connections: count(connections), in_flight: count(inFlight), requests: count(requests) }));
  }
  return texts.join(" · ");
}

class Tiles {
  #values = new Map();
  #notes = new Map();

  constructor() {
    this.element = h(
      "ul",
      { class: "tiles", role: "list" },
      VERDICTS.map((verdict) => {
        this.#values.set(verdict, h("strong", {}, "–"));
        this.#notes.set(verdict, h("small", {}));
        return h("li", { class: "tile", "data-verdict": verdict }, h("span", { class: "name" }, swatch(verdict), verdictName(verdict)), this.#values.get(verdict), this.#notes.get(verdict));
      }),
    );
  }

  update() {
    if (state.tick === null) return;
    const rates = state.series.recent(null, 3);
    const decisions = rates.admitted + rates.refused + rates.banned;
    const counters = [...state.counters.values()].filter(({ name }) => !state.isShadow(name));
    const sum = (name) => counters.reduce((sum, counter) => sum + (counter[name] ?? 0), 0);
    const notes = {
      admitted: t("tile.since_start", { n: count(sum("admitted")) }),
      refused: decisions > 0 ? t("tile.of_all", { share: share(rates.refused / decisions) }) : t("tile.since_start", { n: count(sum("refused")) }),
      banned: t("tile.bans", { n: state.tick.bans, count: count(state.tick.bans) }),
      queued: t("tile.waiting", { n: count(sum("waiting")) }),
    };
    for (const verdict of VERDICTS) {
      setText(this.#values.get(verdict), rate(rates[verdict]));
      setText(this.#notes.get(verdict), notes[verdict]);
      set(this.#values.get(verdict).parentElement, "data-idle", rates[verdict] === 0);
    }
  }
}

/** Cards of the rules. */
class RuleGrid {
  #cards = new Map();
  #grid = h("div", { class: "grid-cards" });
  #isInUse = trackInteraction(this.#grid);
  #more = h("p", { class: "lead", role: "status" });
  #sortedAt = 0;
  #shown = [];

  constructor() {
    const filter = input({ type: "search", value: selected.filter, placeholder: t("overview.filter.example"), name: "filter" });
    filter.addEventListener("input", () => {
      selected.filter = filter.value;
      this.#sort();
      this.update();
    });
    const sort = select(
      ["refused", "admitted", "used", "file"].map((name) => [name, t(`sort.${name}`)]),
      selected.sort,
    );
    sort.addEventListener("change", () => {
      selected.sort = sort.value;
      this.#sort();
      this.update();
    });
    const controls = h("div", { class: "controls" }, field(t("overview.filter"), filter), field(t("overview.sort"), sort));
    this.element = section(t("overview.rules"), { side: controls, kind: "open" }, this.#more, this.#grid);
    this.rebuild();
  }

  end() {
    for (const card of this.#cards.values()) card.end();
    this.#cards.clear();
  }

  rebuild() {
    this.end();
    this.#sort();
  }

  #sort() {
    this.#sortedAt = Date.now();
    const words = selected.filter.trim().toLowerCase().split(/\s+/);
    const names = [];
    for (const rule of state.rules.values()) {
      const text = `${rule.name} ${rule.match ?? ""} ${rule.key.join(" ")} ${rule.limits.join(" ")} ${limitTexts(rule).join(" ")} ${rule.mode}`.toLowerCase();
      if (words.every((word) => text.includes(word))) names.push(rule.name);
    }
    const weight = new Map(names.map((name) => [name, sorts[selected.sort](name)]));
    names.sort((a, b) => weight.get(b) - weight.get(a));
    this.#shown = names.slice(0, MAX_CARDS);
    for (const [name, card] of this.#cards) {
      if (!this.#shown.includes(name)) {
        card.end();
        this.#cards.delete(name);
      }
    }
    const elements = this.#shown.map((name) => {
      if (!this.#cards.has(name)) this.#cards.set(name, new RuleCard(state.rules.get(name)));
      return this.#cards.get(name).element;
    });
    const isSame = elements.length === this.#grid.childElementCount && elements.every((element, index) => element === this.#grid.children[index]);
    if (!isSame) this.#grid.replaceChildren(...elements);
    let text = "";
    if (state.rules.size === 0) text = t("overview.no_rules");
    else if (names.length === 0) text = t("overview.none_match");
    else if (names.length > MAX_CARDS) text = t("overview.truncated", { shown: MAX_CARDS, n: count(names.length) });
    setText(this.#more, text);
    set(this.#more, "hidden", text === "");
  }

  update() {
    if (Date.now() - this.#sortedAt > SORT_INTERVAL_MS && !this.#isInUse()) this.#sort();
    for (const card of this.#cards.values()) card.update();
  }
}

/** Refusals that shadow rules would have made. */
class ShadowRules {
  #table = table([{ label: t("rule") }, { label: t("shadow.would_refuse") }, { label: t("share") }], t("shadow.title"));
  element = section(t("shadow.title"), { lead: t("shadow.lead") }, this.#table.element);

  update() {
    const rules = [...state.counters.values()].filter(({ name }) => state.isShadow(name));
    set(this.element, "hidden", rules.length === 0);
    if (rules.length === 0) return;
    this.#table.rows(
      rules.map(({ name, admitted, refused, banned }) => {
        const wouldRefuse = refused + banned;
        const total = admitted + wouldRefuse;
        return [
          h("a", { href: ruleLink(name) }, name),
          t("shadow.n_of_m", { n: count(wouldRefuse), m: count(total) }),
          bar(t("share"), total === 0 ? 0 : wouldRefuse / total).element,
        ];
      }),
      "",
    );
  }
}

/** State of adaptive rules. */
class AdaptiveRules {
  #table = table([{ label: t("rule") }, { label: t("adaptive.state") }, { label: t("adaptive.limit"), number: true }, { label: t("adaptive.readings") }, { label: t("adaptive.reason") }], t("adaptive.title"));
  element = section(t("adaptive.title"), { lead: t("adaptive.lead") }, this.#table.element);

  update() {
    const rules = state.tick?.adaptive ?? [];
    set(this.element, "hidden", rules.length === 0);
    if (rules.length === 0) return;
    this.#table.rows(
      rules.map((rule) => [
        h("a", { href: ruleLink(rule.name) }, rule.name),
        badge(adaptiveState(rule.state)),
        adaptiveLimit(rule),
        replaceChildren(h("span", { class: "readings" }), Object.entries(rule.readings).map(([signal, value]) => h("span", {}, `${signalName(signal)} `, h("b", {}, signalValue(signal, value))))),
        // The server's text has more detail, in English.
        h("span", { title: language.get() === "en" ? rule.reason : null }, adaptiveReason(rule)),
      ]),
      "",
    );
  }
}
