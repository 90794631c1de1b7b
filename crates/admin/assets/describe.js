// Texts for structured values of the API, in the language of the page.

import { byteRate, bytes, count, duration, number, share } from "./format.js";
import { limitTranslation, t } from "./i18n/index.js";
import { state } from "./state.js";

/** A text by name, or `fallback` if there is none: a newer server may send values that this page does not know. */
export function known(name, parameters, fallback) {
  const text = t(name, parameters);
  return text === name ? fallback : text;
}

/** A limit in words: the label of the API, or its translation. Plain windows stay in rule file notation: `300/1m`. */
function formatLimit(limit) {
  if (limit.limit === limit.rate) return limit.rate;
  const amounts = {
    rate: limit.rate,
    amount: count(limit.amount),
    burst: limit.unit === "bytes" ? bytes(limit.burst) : count(limit.burst),
    cells: limit.cells,
    time: duration(limit.warm_up_s),
    factor: limit.cold_factor,
  };
  const name = limit.alignment === "first_use" ? "fixed_window.first_use" : limit.algorithm;
  return limitTranslation(name, amounts) ?? limit.label;
}

/** A limit of a rule, found by its notation. */
export function limitText(rule, notation) {
  const { limits = [], configured = [] } = state.limits.get(rule) ?? {};
  const limit = [...limits, ...configured].find((one) => one.limit === notation);
  return limit === undefined ? notation : formatLimit(limit);
}

/** Limits of a rule: the effective ones, or those of the file if the effective ones admit or refuse everything. */
export function limitTexts(rule) {
  const { limits = [], configured = [] } = state.limits.get(rule.name) ?? {};
  return (limits.length > 0 ? limits : configured).map(formatLimit);
}

export const banText = ({ after, within_s: within, for_s: time }) =>
  t("rule.ban.text", { after: count(after), within: duration(within), time: duration(time) });

const SIGNAL_FORMATS = {
  cpu: share,
  host_cpu: share,
  cpu_pressure: share,
  cpu_throttled: share,
  memory: share,
  avg_rt: duration,
  p50_rt: duration,
  p90_rt: duration,
  p99_rt: duration,
  traffic: byteRate,
};

export const signalName = (signal) => known(`signal.${signal}`, {}, signal);

export const signalValue = (signal, value) => (value === null ? t("unknown") : (SIGNAL_FORMATS[signal] ?? number)(value));

export const adaptiveState = (name) => (name === "" ? "–" : known(`adaptive.state.${name.replaceAll(" ", "_")}`, {}, name));

/** Current limit of an adaptive rule; a rate stays in rule file notation. */
export function adaptiveLimit({ ceiling, rate, concurrency_limit: limit }) {
  if (rate !== null) return ceiling;
  return limit === null ? t("adaptive.none") : t("adaptive.concurrency", { n: count(limit) });
}

const COMPARISONS = { ">": (a, b) => a > b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, "<=": (a, b) => a <= b };

/** Reason for the current limit of an adaptive rule. */
export function adaptiveReason({ kind, state: name, conditions, readings }) {
  if (kind === "auto") {
    const average = readings.avg_rt ?? null;
    return average === null ? t("adaptive.reason.idle") : t("adaptive.reason.auto", { time: duration(average) });
  }
  const isMet = ({ signal, comparison, threshold }) => {
    const value = readings[signal] ?? null;
    return value !== null && COMPARISONS[comparison]?.(value, threshold) === true;
  };
  const met = conditions
    .filter(isMet)
    .map(({ signal, comparison, threshold }) => `${signalName(signal)} ${signalValue(signal, readings[signal])} ${comparison} ${signalValue(signal, threshold)}`)
    .join(t("comma"));
  switch (name) {
    case "limited":
      return met === "" ? t("adaptive.reason.hold") : met;
    case "entering":
      return met === "" ? t("adaptive.state.entering") : t("adaptive.reason.entering", { conditions: met });
    case "learning":
      return met === "" ? t("adaptive.state.learning") : t("adaptive.reason.learning", { conditions: met });
    case "recovering":
      return t("adaptive.reason.recovering");
    default: {
      const unreadable = conditions.filter(({ signal }) => (readings[signal] ?? null) === null).map(({ signal }) => signalName(signal));
      return unreadable.length === 0 || name === "" ? "" : t("adaptive.reason.unreadable", { signals: unreadable.join(t("comma")) });
    }
  }
}

/** Reason for which a rule does not apply to a request. */
export function mismatchText({ mismatch, mismatch_reason: reason }) {
  if (mismatch === null) return reason ?? t("explain.not_matched");
  const { part, expected, actual } = mismatch;
  const values = part === "direction" ? expected.map((name) => t(`direction.${name}`)) : expected;
  const separator = part === "method" ? t("or") : t("comma");
  return known(`mismatch.${part}`, { expected: values.join(separator), actual: actual ?? t("mismatch.missing") }, reason);
}

/** Comment of a version; changes by the program itself are translated. */
export const changeText = ({ change, comment }) => (change === null ? comment : known(`change.${change.kind}`, { version: change.version }, comment));

/** Author of a version. */
export const authorText = ({ change, author }) => (change === null || change.kind === "restore" ? author : "Sluicegate");

/** Reason for which the rules cannot be edited here. */
export const readOnlyText = ({ read_only_cause: cause, read_only_reason: reason, path }) =>
  cause === null ? t("rules.not_editable") : known(`rules.read_only.${cause}`, { path }, reason);

/** Warning about the store. The server sends it in English; known ones are translated. */
export function storeWarning(text) {
  const eviction = /^(.*): maxmemory-policy is ([\w-]+):/.exec(text);
  if (eviction !== null) return t("warning.eviction", { server: eviction[1], policy: eviction[2] });
  const version = /^(.*): version (\S+) is older than ([\d.]+\d)/.exec(text);
  return version === null ? text : t("warning.version", { server: version[1], version: version[2], minimum: version[3] });
}
