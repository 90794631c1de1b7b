// Keys of a rule with the most requests and the most refusals, with error bounds and actions: explain, show the state,
// ban.

import { api } from "./api.js";
import { button } from "./actions.js";
import { limitText } from "./describe.js";
import { count, duration, share } from "./format.js";
import { h, replaceChildren } from "./dom.js";
import { t } from "./i18n/index.js";
import { explainLink, keyLink, parseKey } from "./key-parse.js";
import { notifyDone } from "./notices.js";
import { bar, code } from "./components.js";
import { state } from "./state.js";

/** Shows the top keys of one rule from /v1/top; `onChange` is called when a key was banned. */
export function topLists(top, onChange = () => {}) {
  const rule = state.rules.get(top.rule) ?? { name: top.rule, key: [], limits: [], direction: "inbound", ban: null };
  return h(
    "div",
    { class: "columns" },
    list(rule, top.checked, top.over_s, "checked", onChange),
    list(rule, top.refused, top.over_s, "refused", onChange),
  );
}

function list(rule, { total, error, keys }, over, kind, onChange) {
  const max = keys.reduce((max, { count }) => Math.max(max, count), 1);
  return h(
    "div",
    { class: `toplist ${kind}` },
    h("h3", {}, t(`top.${kind}`)),
    keys.length === 0 ? h("p", { class: "lead" }, t(`top.none.${kind}`)) : null,
    h(
      "ol",
      {},
      keys.map(({ key, count: value }) =>
        h(
          "li",
          {},
          h("div", { class: "key" }, code(key), h("span", { class: "value", title: share(value / Math.max(1, total)) }, count(value))),
          track(value / max),
          h("div", { class: "links" }, actions(rule, key, onChange)),
        ),
      ),
    ),
    h("p", { class: "small" }, error === 0 ? t("top.exact", { total: count(total), over: duration(over) }) : t("top.error", { total: count(total), over: duration(over), error: count(error) })),
  );
}

function track(part) {
  const fill = h("span", { class: "fill" });
  fill.style.width = `${part * 100}%`;
  return h("span", { class: "track", "aria-hidden": "true" }, fill);
}

function actions(rule, key, onChange) {
  const values = parseKey(key, rule.key);
  return [
    h("a", { href: explainLink(rule, key) }, t("top.explain")),
    values === null ? null : h("a", { href: keyLink(rule, key) }, t("top.state")),
    rule.ban && values !== null
      ? button(
          t("bans.ban"),
          async () => {
            const { remaining_s: remaining } = await api.ban(rule.name, values);
            notifyDone(t("bans.banned", { key, time: duration(remaining) }));
            onChange();
          },
          { kind: "link", write: true },
        )
      : null,
  ];
}

/** State of one key of a rule, with a button that resets it. */
export function keyState(rule, values, key, reload) {
  const limits = state.limits.get(rule.name)?.limits ?? [];
  const bannedFor = key.banned_for_s ?? null;
  return h(
    "div",
    { class: "keystate" },
    h("p", {}, code(key.key), " ", key.known === false ? t("key.unknown") : null),
    bannedFor === null ? null : h("p", { class: "error-text" }, t("key.banned", { time: duration(bannedFor) })),
    key.limits.map((limit, index) => {
      const amount = limits[index]?.burst ?? limits[index]?.amount;
      const max = Math.max(amount ?? 0, limit.remaining);
      const retryAfter = limit.retry_after_s ?? null;
      const name = limitText(rule.name, limit.limit);
      return h(
        "div",
        { class: "limit" },
        code(name),
        bar(name, max > 0 ? 1 - limit.remaining / max : NaN, t("key.remaining", { n: count(limit.remaining) })).element,
        h("small", {}, retryAfter === null ? t("key.reset_in", { time: duration(limit.reset_s) }) : t("key.retry", { time: duration(retryAfter) })),
      );
    }),
    replaceChildren(
      h("div", { class: "buttons" }),
      button(
        t("key.reset"),
        async () => {
          await api.reset(rule.name, values);
          notifyDone(t("key.reset.done", { key: key.key }));
          await reload();
        },
        { write: true, title: t("key.reset.help") },
      ),
      h("a", { class: "button", href: explainLink(rule, key.key) }, t("top.explain")),
    ),
  );
}
