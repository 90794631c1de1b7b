// Texts in the selected language. All tables have the same names; a test checks this.

import { language } from "../settings.js";
import { strings as en } from "./en.js";
import { limits, strings as zh } from "./zh.js";

export const tables = { en, zh };

/** Returns a text; `{name}` is replaced by a parameter, and a function gets all parameters. Unknown names are returned. */
export function t(name, parameters = {}) {
  const text = tables[language.get()][name] ?? en[name];
  if (text === undefined) return name;
  if (typeof text === "function") return text(parameters);
  return fill(text, parameters);
}

const fill = (text, parameters) => text.replace(/\{(\w+)\}/g, (match, word) => (word in parameters ? String(parameters[word]) : match));

/** Translation of a limit of this algorithm. None in English: the label of the API is English. */
export function limitTranslation(algorithm, parameters) {
  const text = language.get() === "zh" ? limits[algorithm] : undefined;
  return text === undefined ? undefined : fill(text, parameters);
}

/** Locale for `Intl`. */
export const locale = () => (language.get() === "zh" ? "zh-CN" : "en-GB");
