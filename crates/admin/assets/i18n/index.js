// Texts in the language chosen. Both tables have the same names; a test holds them together.

import { language } from "../settings.js";
import { strings as en } from "./en.js";
import { strings as zh } from "./zh.js";

export const tables = { en, zh };

/** The text of this name; `{word}` in it stands for a parameter, and a function is given all of them. */
export function t(name, parameters = {}) {
  const text = tables[language.get()][name] ?? en[name];
  if (text === undefined) return name;
  if (typeof text === "function") return text(parameters);
  return text.replace(/\{(\w+)\}/g, (all, word) => (word in parameters ? String(parameters[word]) : all));
}

/** The language for `Intl`. */
export const locale = () => (language.get() === "zh" ? "zh-CN" : "en-GB");
