// Explains the decision for a described request, step by step: lists, rules, result. No quota is consumed.

import { api } from "../api.js";
import { button, field, form, input, select } from "../actions.js";
import { adaptiveReason, limitText, mismatchText } from "../describe.js";
import { count, duration } from "../format.js";
import { h, replaceChildren } from "../dom.js";
import { t } from "../i18n/index.js";
import { ruleLink } from "../key-parse.js";
import { badge, bar, code, errorMessage, section } from "../components.js";
import { Lifetime, state } from "../state.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

export function show(query) {
  const life = new Lifetime();
  const result = h("div", { class: "explanation", role: "status", "aria-live": "polite" });
  const controls = fields(query);
  const submit = button(
    t("explain.submit"),
    async () => {
      try {
        const explanation = await api.explain(buildRequest(controls));
        if (!life.ended) replaceChildren(result, render(explanation, query.get("rule")));
      } catch (error) {
        replaceChildren(result, errorMessage(error));
      }
    },
    { kind: "primary", submit: true },
  );
  const { method, path, ip, host, headers, cookies, attributes, direction, service, descriptor, cost } = controls;
  const methods = h("datalist", { id: "methods" }, METHODS.map((value) => h("option", { value })));
  const more = h(
    "details",
    { class: "disclosure", open: ["cookie", "attribute", "direction", "service", "descriptor", "host"].some((name) => query.has(name)) },
    h("summary", {}, t("explain.more")),
    h(
      "div",
      { class: "fields" },
      field(t("explain.host"), host),
      field(t("explain.attributes"), attributes, t("explain.attributes.help")),
      field(t("explain.cookies"), cookies, t("explain.cookies.help")),
      field(t("explain.direction"), direction),
      field(t("explain.service"), service, t("explain.service.help")),
      field(t("explain.descriptor"), descriptor, t("explain.descriptor.help")),
      field(t("explain.cost"), cost),
    ),
  );
  if (query.has("ip") || query.has("path") || query.has("descriptor")) submit.run();
  return {
    title: t("nav.explain"),
    element: h(
      "div",
      { class: "view explain" },
      h("h1", {}, t("explain.title")),
      section(
        t("explain.request"),
        { lead: t("explain.lead") },
        form(
          submit,
          { name: "explain" },
          h("div", { class: "request" }, field(t("explain.method"), method), field(t("explain.path"), path), field(t("explain.ip"), ip)),
          field(t("explain.headers"), headers, t("explain.headers.help")),
          more,
          h("div", { class: "buttons" }, submit),
        ),
        methods,
      ),
      result,
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
    direction: select(["inbound", "outbound", "descriptor"].map((direction) => [direction, t(`direction.${direction}`)]), query.get("direction") ?? "inbound", { name: "direction" }),
    service: input({ name: "service", value: query.get("service") ?? "", class: "mono" }),
    descriptor: area("descriptor", lines("descriptor"), "path=/api"),
    cost: input({ name: "cost", value: query.get("cost") ?? "", inputmode: "numeric", placeholder: "1", class: "mono" }),
  };
}

/** Parses lines such as `name: value` into pairs. */
function pairs(text, separator) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .map((line) => {
      const at = line.indexOf(separator);
      if (at < 0) throw new Error(t("explain.bad_line", { line, separator }));
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
}

function buildRequest(controls) {
  const text = (name) => controls[name].value.trim() || undefined;
  const direction = controls.direction.value;
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
    direction: direction === "inbound" ? undefined : direction,
    service: text("service"),
    descriptor: descriptor.length === 0 ? undefined : descriptor,
    cost: cost === undefined ? undefined : Number(cost),
  };
}

const isRefusal = (rule) => rule.banned_for_s !== null || ["refused", "never"].includes(rule.verdict);

/** Renders an explanation. `highlighted` is the rule from which the user came. */
function render(explanation, highlighted) {
  const applying = explanation.rules.filter((rule) => rule.applies);
  const others = explanation.rules.filter((rule) => !rule.applies);
  const weight = { never: 0, refused: 1, wait: 2, allowed: 3 };
  const rank = (rule) => (rule.banned_for_s !== null ? -1 : (weight[rule.verdict] ?? 4)) + (rule.mode === "shadow" ? 10 : 0);
  applying.sort((a, b) => rank(a) - rank(b));
  const enforced = applying.filter((rule) => rule.mode !== "shadow");
  const waits = enforced.map((rule) => rule.banned_for_s ?? rule.retry_after_s ?? 0);
  const wait = explanation.verdict === "allowed" ? 0 : Math.max(0, ...waits);
  return [
    h(
      "section",
      { class: `verdict ${explanation.verdict}` },
      h("strong", {}, t(`explain.verdict.${explanation.verdict}`)),
      h("p", {}, headline(explanation, applying)),
      wait > 0 ? h("p", {}, t(explanation.verdict === "wait" ? "explain.admitted_in" : "explain.retry_in", { time: duration(wait) })) : null,
    ),
    h(
      "ol",
      { class: "steps" },
      step(
        t("explain.lists"),
        explanation.list === null ? h("p", {}, t("explain.no_list")) : h("p", {}, t(`explain.on_${explanation.list.list}`), " ", code(explanation.list.condition)),
        explanation.list ? (explanation.list.list === "allow" ? "allowed" : "refused") : "skipped",
      ),
      step(
        t("explain.rules"),
        h(
          "div",
          {},
          explanation.list ? h("p", { class: "lead" }, t("explain.list_decided")) : applying.length === 0 ? h("p", {}, t("explain.no_rule")) : null,
          applying.map((rule) => ruleResult(rule, highlighted)),
          others.length === 0
            ? null
            : h(
                "details",
                { class: "disclosure", open: others.some((rule) => rule.name === highlighted) },
                h("summary", {}, t("explain.others", { n: others.length })),
                h("ul", { class: "others" }, others.map((rule) => h("li", { class: rule.name === highlighted ? "highlighted" : null }, h("a", { href: ruleLink(rule.name) }, rule.name), " ", h("span", {}, mismatchText(rule))))),
              ),
        ),
        enforced.some(isRefusal) ? "refused" : "allowed",
      ),
      step(t("explain.result"), h("p", {}, summary(explanation, enforced)), explanation.verdict),
    ),
  ];
}

/** Reason for the verdict in one sentence: the rule that decides, or the admission by all rules. */
function headline({ verdict, list }, applying) {
  if (list) return t(list.list === "allow" ? "explain.summary.allow" : "explain.summary.deny");
  const enforced = applying.filter((rule) => rule.mode !== "shadow");
  if (verdict === "allowed") {
    if (applying.length === 0) return t("explain.no_rule");
    const shadow = applying.filter((rule) => rule.mode === "shadow" && isRefusal(rule)).map(({ name }) => name);
    const admitted = t("explain.reason.admitted", { n: applying.length });
    return shadow.length === 0 ? admitted : `${admitted}${t("gap")}${t("explain.reason.shadow", { rules: shadow.join(t("comma")) })}`;
  }
  // The rule with the longest wait decides; bans and impossible costs come before limits.
  const seconds = (rule) => rule.banned_for_s ?? rule.retry_after_s ?? Infinity;
  const longest = (rules) => rules.toSorted((a, b) => seconds(b) - seconds(a))[0];
  const refusing = enforced.filter(isRefusal);
  const rule = refusing.find((one) => one.cause === "ban") ?? refusing.find((one) => one.verdict === "never") ?? refusing.find((one) => one.cause === "overload") ?? longest(refusing) ?? longest(enforced.filter((one) => one.verdict === "wait"));
  if (rule === undefined) return t("explain.summary.admitted");
  const name = rule.key ? t("explain.rule_and_key", { rule: rule.name, key: rule.key }) : t("explain.rule_name", { rule: rule.name });
  return `${name}${t("colon")}${causeText(rule)}`;
}

function causeText(rule) {
  if (rule.cause === "ban") return t("explain.cause.ban", { time: duration(rule.banned_for_s) });
  if (rule.cause === "overload") {
    const adaptive = state.tick?.adaptive.find(({ name }) => name === rule.name);
    const reason = adaptive === undefined ? "" : adaptiveReason(adaptive);
    return reason === "" ? t("explain.cause.overload") : `${t("explain.cause.overload")}${t("comma")}${reason}`;
  }
  const limit = rule.limit === null ? t("explain.its_limit") : limitText(rule.name, rule.limit);
  if (rule.verdict === "never") return t("explain.cause.never", { limit });
  return t(rule.verdict === "wait" ? "explain.cause.queue" : "explain.cause.limit", { limit });
}

/** Combines the results of the lists and the rules. */
function summary({ list }, enforced) {
  if (list) return t(list.list === "allow" ? "explain.summary.allow" : "explain.summary.deny");
  const refusing = enforced.filter(isRefusal).map(({ name }) => name);
  const queueing = enforced.filter((rule) => rule.verdict === "wait").map(({ name }) => name);
  const rules = t("explain.summary.rules", { n: enforced.length });
  if (refusing.length > 0) return `${rules}${t("gap")}${t("explain.summary.refused", { rules: refusing.join(t("comma")) })}`;
  if (queueing.length > 0) return `${rules}${t("gap")}${t("explain.summary.queued", { rules: queueing.join(t("comma")) })}`;
  return enforced.length === 0 ? t("explain.summary.unlimited") : `${rules}${t("gap")}${t("explain.summary.admitted")}`;
}

function step(title, content, result) {
  return h("li", { class: "step", "data-state": result }, h("h2", {}, title), content);
}

/** Result of one rule that applies. */
function ruleResult(rule, highlighted) {
  const definition = state.limits.get(rule.name)?.limits.find(({ limit }) => limit === rule.limit);
  const max = definition?.burst ?? definition?.amount ?? null;
  const verdict = rule.banned_for_s !== null ? "banned" : rule.verdict;
  const retryAfter = rule.retry_after_s;
  const lines = [
    verdict === "banned" ? t("explain.rule.banned", { time: duration(rule.banned_for_s) }) : null,
    verdict === "refused" && rule.cause === "overload" ? t("explain.cause.overload") : null,
    verdict === "refused" && rule.cause !== "overload" ? (retryAfter === null ? t("explain.rule.refused_busy") : t("explain.rule.refused", { time: duration(retryAfter) })) : null,
    verdict === "never" ? t("explain.rule.never") : null,
    verdict === "wait" ? (retryAfter === null ? t("explain.rule.wait_busy") : t("explain.rule.wait", { time: duration(retryAfter) })) : null,
    verdict === null && state.rules.get(rule.name)?.scope === "cluster" ? t("explain.rule.store") : null,
    verdict === "allowed" && rule.reset_s ? t("explain.rule.reset", { time: duration(rule.reset_s) }) : null,
    rule.mode === "shadow" ? t("explain.rule.shadow") : null,
  ].filter((line) => line !== null);
  const limit = rule.limit === null ? null : limitText(rule.name, rule.limit);
  const remaining = rule.remaining;
  return h(
    "article",
    { class: `card ${verdict ?? ""} ${rule.name === highlighted ? "highlighted" : ""}`, "data-rule": rule.name },
    h("header", {}, h("h3", {}, h("a", { href: ruleLink(rule.name) }, rule.name)), h("span", { class: "badges" }, rule.mode === "shadow" ? badge(t("mode.shadow"), "shadow") : null, verdict ? badge(t(`explain.verdict.${verdict}`), verdict) : null)),
    h("p", {}, rule.key ? [t("key"), " ", code(rule.key)] : t("all_together"), rule.cost > 1 ? ` · ${t("explain.rule.cost", { n: count(rule.cost) })}` : null),
    limit === null ? null : h("div", { class: "limit" }, code(limit), remaining === null ? null : bar(limit, max === null ? NaN : 1 - remaining / max, max === null ? t("key.remaining", { n: count(remaining) }) : t("key.remaining_of", { n: count(remaining), m: count(max) })).element),
    lines.map((line) => h("p", { class: "note" }, line)),
  );
}
