// Why was this refused? A request is described, and its way is told as a story: the lists, then the rules, then
// what came of it. Nothing is taken by asking.

import { api } from "../api.js";
import { button, field, form, input, select } from "../actions.js";
import { count, span } from "../format.js";
import { h, put } from "../dom.js";
import { t } from "../i18n/index.js";
import { ruleLink } from "../keytext.js";
import { badge, bar, code, section, trouble } from "../pieces.js";
import { Lifetime, watch } from "../watch.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

export function show(query) {
  const life = new Lifetime();
  const story = h("div", { class: "story", role: "status", "aria-live": "polite" });
  const controls = fields(query);
  const ask = button(
    t("why.ask"),
    async () => {
      try {
        const asked = requestOf(controls);
        const told = await api.explain(asked);
        if (!life.over) put(story, tell(told, query.get("rule")));
      } catch (error) {
        put(story, trouble(error));
      }
    },
    { kind: "primary", submit: true },
  );
  const { method, path, ip, host, headers, cookies, attributes, side, service, descriptor, cost } = controls;
  const lists = h("datalist", { id: "methods" }, METHODS.map((value) => h("option", { value })));
  const more = h(
    "details",
    { class: "adding", open: ["cookie", "attribute", "side", "service", "descriptor", "host"].some((name) => query.has(name)) },
    h("summary", {}, t("why.more")),
    h(
      "div",
      { class: "fields" },
      field(t("why.host"), host),
      field(t("why.attributes"), attributes, t("why.attributes.help")),
      field(t("why.cookies"), cookies, t("why.cookies.help")),
      field(t("why.side"), side),
      field(t("why.service"), service, t("why.service.help")),
      field(t("why.descriptor"), descriptor, t("why.descriptor.help")),
      field(t("why.cost"), cost),
    ),
  );
  if (query.has("ip") || query.has("path") || query.has("descriptor")) ask.run();
  return {
    title: t("nav.why"),
    element: h(
      "div",
      { class: "view why" },
      h("h1", {}, t("why.title")),
      section(
        t("why.request"),
        { lead: t("why.lead") },
        form(
          ask,
          { name: "why" },
          h("div", { class: "request" }, field(t("why.method"), method), field(t("why.path"), path), field(t("why.ip"), ip)),
          field(t("why.headers"), headers, t("why.headers.help")),
          more,
          h("div", { class: "buttons" }, ask),
        ),
        lists,
      ),
      story,
    ),
    leave: () => life.end(),
  };
}

function fields(query) {
  const lines = (name) => query.getAll(name).join("\n");
  const area = (name, value, placeholder) => {
    const element = h("textarea", { name, rows: Math.max(2, value.split("\n").length), class: "mono", placeholder, spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
    element.value = value;
    return element;
  };
  return {
    method: input({ name: "method", list: "methods", value: query.get("method") ?? "GET", class: "mono" }),
    path: input({ name: "path", value: query.get("path") ?? "/", class: "mono" }),
    ip: input({ name: "ip", value: query.get("ip") ?? "", placeholder: "203.0.113.9", class: "mono" }),
    host: input({ name: "host", value: query.get("host") ?? "", placeholder: "shop.example.com", class: "mono" }),
    headers: area("headers", lines("header"), "x-tier: vip"),
    cookies: area("cookies", lines("cookie"), "session=abc"),
    attributes: area("attributes", lines("attribute"), "account=alice"),
    side: select(["inbound", "outbound", "descriptor"].map((side) => [side, t(`side.${side}`)]), query.get("side") ?? "inbound", { name: "side" }),
    service: input({ name: "service", value: query.get("service") ?? "", class: "mono" }),
    descriptor: area("descriptor", lines("descriptor"), "path=/api"),
    cost: input({ name: "cost", value: query.get("cost") ?? "", inputmode: "numeric", placeholder: "1", class: "mono" }),
  };
}

/** Lines such as `name: value` as pairs. */
function pairs(text, separator) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .map((line) => {
      const at = line.indexOf(separator);
      if (at < 0) throw new Error(t("why.bad_line", { line, separator }));
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
}

function requestOf(controls) {
  const text = (name) => controls[name].value.trim() || undefined;
  const side = controls.side.value;
  const descriptor = pairs(controls.descriptor.value, "=");
  const cost = text("cost");
  return {
    method: text("method"),
    path: text("path"),
    ip: text("ip"),
    host: text("host"),
    headers: Object.fromEntries(pairs(controls.headers.value, ":").map(([name, value]) => [name.toLowerCase(), value])),
    cookies: Object.fromEntries(pairs(controls.cookies.value, "=")),
    attributes: Object.fromEntries(pairs(controls.attributes.value, "=")),
    side: side === "inbound" ? undefined : side,
    service: text("service"),
    descriptor: descriptor.length === 0 ? undefined : descriptor,
    cost: cost === undefined ? undefined : Number(cost),
  };
}

/** The whole story. `asked` is the rule that somebody came from: it is marked. */
function tell(told, asked) {
  const applying = told.rules.filter((rule) => rule.applies);
  const others = told.rules.filter((rule) => !rule.applies);
  const weight = { never: 0, refused: 1, wait: 2, allowed: 3 };
  const rank = (rule) => (rule.banned_for_s ? -1 : (weight[rule.verdict] ?? 4)) + (rule.mode === "shadow" ? 10 : 0);
  applying.sort((a, b) => rank(a) - rank(b));
  const waits = applying.filter((rule) => rule.mode !== "shadow").map((rule) => rule.banned_for_s ?? rule.retry_after_s ?? 0);
  const again = told.verdict === "allowed" ? 0 : Math.max(0, ...waits);
  return [
    h(
      "section",
      { class: `verdict ${told.verdict}` },
      h("strong", {}, t(`verdict.${told.verdict}`)),
      h("p", {}, told.because),
      again > 0 ? h("p", {}, t(told.verdict === "wait" ? "why.turn_in" : "why.again_in", { time: span(again) })) : null,
    ),
    h(
      "ol",
      { class: "steps" },
      step(
        t("why.lists"),
        told.list === null || told.list === undefined
          ? h("p", {}, t("why.on_no_list"))
          : h("p", {}, t(`why.on_${told.list.list}`), " ", code(told.list.condition)),
        told.list ? (told.list.list === "allow" ? "allowed" : "refused") : "passed-by",
      ),
      step(
        t("why.rules"),
        h(
          "div",
          {},
          told.list ? h("p", { class: "lead" }, t("why.list_decided")) : applying.length === 0 ? h("p", {}, t("why.no_rule")) : null,
          applying.map((rule) => applied(rule, asked)),
          others.length === 0
            ? null
            : h(
                "details",
                { class: "adding", open: others.some((rule) => rule.name === asked) },
                h("summary", {}, t("why.others", { n: others.length })),
                h("ul", { class: "others" }, others.map((rule) => h("li", { class: rule.name === asked ? "asked" : null }, h("a", { href: ruleLink(rule.name) }, rule.name), " ", h("span", {}, rule.why_not ?? t("why.not_matched"))))),
              ),
        ),
        applying.some((rule) => rule.mode !== "shadow" && (rule.banned_for_s || ["refused", "never"].includes(rule.verdict))) ? "refused" : "allowed",
      ),
      step(t("why.together"), h("p", {}, together(told, applying)), told.verdict),
    ),
  ];
}

/** How the parts make the whole. */
function together(told, applying) {
  if (told.list) return t(told.list.list === "allow" ? "why.sum.allow" : "why.sum.deny");
  const asked = applying.filter((rule) => rule.mode !== "shadow");
  const against = asked.filter((rule) => rule.banned_for_s || ["refused", "never"].includes(rule.verdict)).map(({ name }) => name);
  const waits = asked.filter((rule) => rule.verdict === "wait").map(({ name }) => name);
  const rules = t("why.sum.rules", { n: asked.length });
  if (against.length > 0) return `${rules}${t("gap")}${t("why.sum.refused", { rules: against.join(", ") })}`;
  if (waits.length > 0) return `${rules}${t("gap")}${t("why.sum.wait", { rules: waits.join(", ") })}`;
  return asked.length === 0 ? t("why.sum.free") : `${rules}${t("gap")}${t("why.sum.allowed")}`;
}

function step(title, content, state) {
  return h("li", { class: "step", "data-state": state }, h("h2", {}, title), content);
}

function applied(rule, asked) {
  const definition = watch.limits.get(rule.name)?.limits.find(({ limit }) => limit === rule.limit);
  const most = definition?.burst ?? definition?.amount ?? null;
  const said = rule.banned_for_s ? "banned" : rule.verdict;
  const lines = [
    rule.banned_for_s ? t("why.rule.banned", { time: span(rule.banned_for_s) }) : null,
    said === "refused" ? (rule.retry_after_s === null ? t("why.rule.refused_busy") : t("why.rule.refused", { time: span(rule.retry_after_s) })) : null,
    said === "never" ? t("why.rule.never") : null,
    said === "wait" ? (rule.retry_after_s === null ? t("why.rule.wait_busy") : t("why.rule.wait", { time: span(rule.retry_after_s) })) : null,
    said === null && watch.rules.get(rule.name)?.scope === "cluster" ? t("why.rule.elsewhere") : null,
    said === "allowed" && rule.reset_s ? t("why.rule.reset", { time: span(rule.reset_s) }) : null,
    rule.mode === "shadow" ? t("why.rule.shadow") : null,
  ].filter((line) => line !== null);
  return h(
    "article",
    { class: `card applied ${said ?? ""} ${rule.name === asked ? "asked" : ""}`, "data-rule": rule.name },
    h("header", {}, h("h3", {}, h("a", { href: ruleLink(rule.name) }, rule.name)), h("span", { class: "badges" }, rule.mode === "shadow" ? badge(t("mode.shadow"), "shadow") : null, said ? badge(t(`verdict.${said}`), said) : null)),
    h("p", {}, rule.key ? [t("key"), " ", code(rule.key)] : t("all_together"), rule.cost > 1 ? ` · ${t("why.rule.cost", { n: count(rule.cost) })}` : null),
    rule.limit ? h("div", { class: "limit" }, code(rule.limit), rule.remaining === null || rule.remaining === undefined ? null : bar(rule.limit, most === null ? NaN : 1 - rule.remaining / most, most === null ? t("key.left", { n: count(rule.remaining) }) : t("key.left_of", { n: count(rule.remaining), m: count(most) })).element) : null,
    lines.map((line) => h("p", { class: "said" }, line)),
  );
}
