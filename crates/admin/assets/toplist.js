// The heaviest and the most refused keys of a rule, with how far the counts can be off, and what can be done
// about each: see why, look at its state, shut it out.

import { api } from "./api.js";
import { button } from "./actions.js";
import { count, share, span } from "./format.js";
import { h, put } from "./dom.js";
import { t } from "./i18n/index.js";
import { keyLink, partsOf, whyLink } from "./keytext.js";
import { done } from "./notices.js";
import { bar, code } from "./pieces.js";
import { watch } from "./watch.js";

/** Shows one rule's answer of /v1/top; `changed` is called when a key was shut out. */
export function topLists(top, changed = () => {}) {
  const rule = watch.rules.get(top.rule) ?? { name: top.rule, key: [], limits: [], side: "inbound", ban: null };
  return h(
    "div",
    { class: "columns" },
    list(rule, top.asked, top.over_s, "asked", changed),
    list(rule, top.refused, top.over_s, "refused", changed),
  );
}

function list(rule, { total, error, keys }, over, kind, changed) {
  const most = keys.reduce((most, { count }) => Math.max(most, count), 1);
  return h(
    "div",
    { class: `toplist ${kind}` },
    h("h3", {}, t(`top.${kind}`)),
    keys.length === 0 ? h("p", { class: "lead" }, t(`top.none.${kind}`)) : null,
    h(
      "ol",
      {},
      keys.map(({ key, count: counted }) =>
        h(
          "li",
          {},
          h("div", { class: "key" }, code(key), h("span", { class: "value", title: share(counted / Math.max(1, total)) }, count(counted))),
          scale(counted / most),
          h("div", { class: "links" }, actions(rule, key, changed)),
        ),
      ),
    ),
    h("p", { class: "small" }, error === 0 ? t("top.exact", { total: count(total), over: span(over) }) : t("top.error", { total: count(total), over: span(over), error: count(error) })),
  );
}

function scale(part) {
  const full = h("span", { class: "full" });
  full.style.width = `${part * 100}%`;
  return h("span", { class: "track", "aria-hidden": "true" }, full);
}

function actions(rule, key, changed) {
  const parts = partsOf(key, rule.key);
  return [
    h("a", { href: whyLink(rule, key) }, t("top.why")),
    parts === null ? null : h("a", { href: keyLink(rule, key) }, t("top.state")),
    rule.ban && parts !== null
      ? button(
          t("bans.ban"),
          async () => {
            const { remaining_s: remaining } = await api.ban(rule.name, parts);
            done(t("bans.banned", { key, time: span(remaining) }));
            changed();
          },
          { kind: "link", write: true },
        )
      : null,
  ];
}

/** The state of one key of a rule, with a button that forgets it. */
export function keyState(rule, values, state, again) {
  const definition = watch.limits.get(rule.name)?.limits ?? [];
  return h(
    "div",
    { class: "keystate" },
    h("p", {}, code(state.key), " ", state.known === false ? t("key.unknown") : null),
    state.banned_for_s === null || state.banned_for_s === undefined ? null : h("p", { class: "trouble" }, t("key.banned", { time: span(state.banned_for_s) })),
    state.limits.map((limit, nth) => {
      const amount = definition[nth]?.burst ?? definition[nth]?.amount;
      const most = Math.max(amount ?? 0, limit.remaining);
      return h(
        "div",
        { class: "limit" },
        code(limit.limit),
        bar(limit.limit, most > 0 ? 1 - limit.remaining / most : NaN, t("key.left", { n: count(limit.remaining) })).element,
        h("small", {}, limit.retry_after_s === null || limit.retry_after_s === undefined ? t("key.reset", { time: span(limit.reset_s) }) : t("key.retry", { time: span(limit.retry_after_s) })),
      );
    }),
    put(
      h("div", { class: "buttons" }),
      button(
        t("key.forget"),
        async () => {
          await api.reset(rule.name, values);
          done(t("key.forgotten", { key: state.key }));
          await again();
        },
        { write: true, title: t("key.forget.help") },
      ),
      h("a", { class: "button", href: whyLink(rule, state.key) }, t("top.why")),
    ),
  );
}
