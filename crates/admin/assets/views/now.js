// What happens now: all rules together, then each of them, those that refuse most first.

import { field, input, select } from "../actions.js";
import { Chart } from "../chart.js";
import { count, rate, share } from "../format.js";
import { h, put, say, set } from "../dom.js";
import { t } from "../i18n/index.js";
import { KINDS, kindName, legend, swatch } from "../kinds.js";
import { ruleLink } from "../keytext.js";
import { badge, bar, busyHands, section, table } from "../pieces.js";
import { RuleCard } from "../rulecard.js";
import { Lifetime, watch } from "../watch.js";

/** No more rules than this are drawn at once. */
const MOST = 50;
/** Order follows the figures this often: cards that jump about cannot be read. */
const REORDER_MS = 5000;

// What was chosen last holds until the page is closed.
const chosen = { sort: "refused", filter: "" };

const sorts = {
  refused: (name) => {
    const recent = watch.series.recent(name, 60);
    return recent.limited + recent.banned;
  },
  passed: (name) => watch.series.recent(name, 60).passed,
  used: (name) => watch.figures.get(name)?.used ?? -1,
  file: () => 0,
};

export function show() {
  const life = new Lifetime();
  const tiles = new Tiles();
  const total = new Chart({ label: t("now.total"), bands: ["passed", "limited", "banned"], line: "queued", height: 240, tall: true });
  const rules = new Grid();
  const shadow = new Shadow();
  const adaptive = new Adaptive();
  const flow = h("p", { class: "flow" });
  const parts = [tiles, rules, shadow, adaptive];
  const update = () => {
    total.show(watch.series.of(null));
    parts.forEach((part) => part.update());
    say(flow, flowText());
  };
  life.on("tick", update);
  life.on("rules", () => {
    rules.rebuild();
    update();
  });
  life.then(() => {
    total.end();
    rules.end();
  });
  update();
  return {
    title: t("nav.now"),
    element: h(
      "div",
      { class: "view now" },
      h("h1", { class: "unseen" }, t("nav.now")),
      tiles.element,
      section(t("now.total"), { lead: t("now.total.lead"), side: legend(), kind: "total" }, total.element, flow),
      rules.element,
      shadow.element,
      adaptive.element,
    ),
    leave: () => life.end(),
  };
}

/** What goes by beside the rules: lists, and the gateway's connections. */
function flowText() {
  const tick = watch.tick;
  if (tick === null) return "";
  const texts = [t("now.lists", { allow: count(tick.lists.allow), deny: count(tick.lists.deny) })];
  if (tick.gateway) {
    const { connections, in_flight: inFlight, requests } = tick.gateway;
    texts.push(t("now.gateway", { connections: count(connections), flight: count(inFlight), requests: count(requests) }));
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
      KINDS.map((kind) => {
        this.#values.set(kind, h("strong", {}, "–"));
        this.#notes.set(kind, h("small", {}));
        return h("li", { class: "tile", "data-kind": kind }, h("span", { class: "name" }, swatch(kind), kindName(kind)), this.#values.get(kind), this.#notes.get(kind));
      }),
    );
  }

  update() {
    if (watch.tick === null) return;
    const now = watch.series.recent(null, 3);
    const asked = now.passed + now.limited + now.banned;
    const figures = [...watch.figures.values()].filter(({ name }) => !watch.isShadow(name));
    const sum = (name) => figures.reduce((sum, figure) => sum + (figure[name] ?? 0), 0);
    const notes = {
      passed: t("tile.since_start", { n: count(sum("admitted")) }),
      limited: asked > 0 ? t("tile.of_all", { share: share(now.limited / asked) }) : t("tile.since_start", { n: count(sum("refused")) }),
      banned: t("tile.bans", { n: watch.tick.bans, count: count(watch.tick.bans) }),
      queued: t("tile.waiting", { n: count(sum("waiting")) }),
    };
    for (const kind of KINDS) {
      say(this.#values.get(kind), rate(now[kind]));
      say(this.#notes.get(kind), notes[kind]);
      set(this.#values.get(kind).parentElement, "data-idle", now[kind] === 0);
    }
  }
}

/** The rules as cards. */
class Grid {
  #cards = new Map();
  #grid = h("div", { class: "grid-cards" });
  #held = busyHands(this.#grid);
  #more = h("p", { class: "lead", role: "status" });
  #ordered = 0;
  #shown = [];

  constructor() {
    const filter = input({ type: "search", value: chosen.filter, placeholder: t("now.filter.example"), name: "filter" });
    filter.addEventListener("input", () => {
      chosen.filter = filter.value;
      this.#order();
      this.update();
    });
    const sort = select(
      ["refused", "passed", "used", "file"].map((name) => [name, t(`sort.${name}`)]),
      chosen.sort,
    );
    sort.addEventListener("change", () => {
      chosen.sort = sort.value;
      this.#order();
      this.update();
    });
    const controls = h("div", { class: "controls" }, field(t("now.filter"), filter), field(t("now.sort"), sort));
    this.element = section(t("now.rules"), { side: controls, kind: "open" }, this.#more, this.#grid);
    this.rebuild();
  }

  end() {
    for (const card of this.#cards.values()) card.end();
    this.#cards.clear();
  }

  rebuild() {
    this.end();
    this.#order();
  }

  #order() {
    this.#ordered = Date.now();
    const wanted = chosen.filter.trim().toLowerCase();
    const names = [];
    for (const rule of watch.rules.values()) {
      const text = `${rule.name} ${rule.match ?? ""} ${rule.key.join(" ")} ${rule.limits.join(" ")} ${rule.mode}`.toLowerCase();
      if (wanted.split(/\s+/).every((word) => text.includes(word))) names.push(rule.name);
    }
    const weight = new Map(names.map((name) => [name, sorts[chosen.sort](name)]));
    names.sort((a, b) => weight.get(b) - weight.get(a));
    this.#shown = names.slice(0, MOST);
    for (const [name, card] of this.#cards) {
      if (!this.#shown.includes(name)) {
        card.end();
        this.#cards.delete(name);
      }
    }
    const elements = this.#shown.map((name) => {
      if (!this.#cards.has(name)) this.#cards.set(name, new RuleCard(watch.rules.get(name)));
      return this.#cards.get(name).element;
    });
    const same = elements.length === this.#grid.childElementCount && elements.every((element, nth) => element === this.#grid.children[nth]);
    if (!same) this.#grid.replaceChildren(...elements);
    const all = watch.rules.size;
    let text = "";
    if (all === 0) text = t("now.no_rules");
    else if (names.length === 0) text = t("now.none_match");
    else if (names.length > MOST) text = t("now.top", { shown: MOST, n: count(names.length) });
    say(this.#more, text);
    set(this.#more, "hidden", text === "");
  }

  update() {
    if (Date.now() - this.#ordered > REORDER_MS && !this.#held()) this.#order();
    for (const card of this.#cards.values()) card.update();
  }
}

/** Rules on trial: what they would have refused. */
class Shadow {
  #table = table([{ label: t("rule") }, { label: t("shadow.would") }, { label: t("share") }], t("shadow.title"));
  element = section(t("shadow.title"), { lead: t("shadow.lead") }, this.#table.element);

  update() {
    const rules = [...watch.figures.values()].filter(({ name }) => watch.isShadow(name));
    set(this.element, "hidden", rules.length === 0);
    if (rules.length === 0) return;
    this.#table.rows(
      rules.map(({ name, admitted, refused, banned }) => {
        const against = refused + banned;
        const all = admitted + against;
        return [
          h("a", { href: ruleLink(name) }, name),
          t("shadow.n_of_m", { n: count(against), m: count(all) }),
          bar(t("share"), all === 0 ? 0 : against / all).element,
        ];
      }),
      "",
    );
  }
}

/** The word for a state, in the reader's language if it is one of those known here. */
function stateName(state) {
  const name = `adaptive.state.${state.replaceAll(" ", "_")}`;
  const text = t(name);
  return text === name ? state : text;
}

/** Rules that move their limits by themselves. */
class Adaptive {
  #table = table([{ label: t("rule") }, { label: t("adaptive.state") }, { label: t("adaptive.ceiling"), number: true }, { label: t("adaptive.readings") }, { label: t("adaptive.reason") }], t("adaptive.title"));
  element = section(t("adaptive.title"), { lead: t("adaptive.lead") }, this.#table.element);

  update() {
    const states = watch.tick?.adaptive ?? [];
    set(this.element, "hidden", states.length === 0);
    if (states.length === 0) return;
    this.#table.rows(
      states.map(({ name, state, ceiling, reason, readings }) => [
        h("a", { href: ruleLink(name) }, name),
        badge(state === "" ? "–" : stateName(state)),
        ceiling === "open" ? t("adaptive.open") : ceiling,
        put(h("span", { class: "readings" }), Object.entries(readings).map(([what, value]) => h("span", {}, `${what} `, h("b", {}, value)))),
        reason,
      ]),
      "",
    );
  }
}
