// Formats numbers, times and sizes. Number and unit are separated by a narrow no-break space.

import { locale, t } from "./i18n/index.js";

const NARROW = "\u202f";
const formats = new Map();

function intl(kind, options) {
  const name = `${kind}${locale()}${JSON.stringify(options)}`;
  if (!formats.has(name)) formats.set(name, new Intl[kind](locale(), options));
  return formats.get(name);
}

/** Exact count: 12,345. */
export function count(value) {
  return value === null || value === undefined ? "–" : intl("NumberFormat", { maximumFractionDigits: 0 }).format(value);
}

/** Compact count: 12.3K. */
export function compact(value) {
  if (Math.abs(value) < 10_000) return count(value);
  return intl("NumberFormat", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/** Number with significant digits only: 0.4, 12.5, 1,234. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10_000) return compact(value);
  return intl("NumberFormat", { maximumFractionDigits: size >= 100 ? 0 : size >= 1 ? 1 : 2 }).format(value);
}

/** Rate per second. */
export function rate(value) {
  return `${number(value)}${NARROW}${t("unit.per_second")}`;
}

/** Share as a percentage: 42 %. */
export function share(value) {
  if (!Number.isFinite(value)) return "–";
  const digits = value > 0 && value < 0.01 ? 2 : value < 0.1 ? 1 : 0;
  // Never rounds up to 100 % or down to 0 %.
  const shown = value < 1 && value >= 0.995 ? 0.99 : value;
  if (shown > 0 && shown < 0.0001) return `<${NARROW}${share(0.0001)}`;
  return intl("NumberFormat", { style: "percent", maximumFractionDigits: digits }).format(shown);
}

/** Bytes: 2.4 MiB. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${number(left)}${NARROW}${units[unit]}`;
}

export const byteRate = (value) => `${bytes(value)}${t("unit.per_second")}`;

/** Duration with at most two units: 120 ms, 3.2 s, 4 min 12 s, 2 d 3 h. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const unit = (value, name) => `${value}${NARROW}${t(`unit.${name}`)}`;
  if (seconds <= 0) return unit(0, "s");
  if (seconds < 0.9995) return unit(Math.max(1, Math.round(seconds * 1000)), "ms");
  if (seconds < 9.95) return unit(number(Math.round(seconds * 10) / 10), "s");
  const whole = Math.round(seconds);
  if (whole < 60) return unit(whole, "s");
  const pairs = [
    [86_400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];
  const [big, bigName, small, smallName] = pairs.find(([size]) => whole >= size);
  const rest = Math.floor((whole % big) / small);
  const first = unit(count(Math.floor(whole / big)), bigName);
  return rest === 0 ? first : `${first} ${unit(rest, smallName)}`;
}

/** Relative time: 3 minutes ago. */
export function ago(when) {
  const seconds = (new Date(when).getTime() - Date.now()) / 1000;
  const format = intl("RelativeTimeFormat", { numeric: "auto" });
  const size = Math.abs(seconds);
  if (size < 45) return format.format(Math.round(seconds), "second");
  if (size < 2700) return format.format(Math.round(seconds / 60), "minute");
  if (size < 79_200) return format.format(Math.round(seconds / 3600), "hour");
  return format.format(Math.round(seconds / 86_400), "day");
}

/** Date and time. */
export function dateTime(when) {
  return intl("DateTimeFormat", { dateStyle: "medium", timeStyle: "medium" }).format(new Date(when));
}

/** Time of day. */
export function clock(when) {
  return intl("DateTimeFormat", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).format(
    new Date(when),
  );
}
