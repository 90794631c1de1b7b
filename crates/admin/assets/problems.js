// Error texts in the language of the page. The API describes errors in English; its problem type has a translated
// title, and the detail follows it unless it is the title itself.

import { Problem } from "./api.js";
import { t } from "./i18n/index.js";
import { language } from "./settings.js";

/** Translated title of a problem; `null` if its type is unknown. */
function title(error) {
  const name = `problem.${error.type}`;
  const text = t(name);
  return text === name ? null : text;
}

/** Short title of an error. */
export function errorTitle(error) {
  if (!(error instanceof Problem)) return t("failed");
  if (error.status === 0) return t("unreachable");
  return title(error) ?? error.title ?? t("failed");
}

/** Description of an error; empty if the title says everything. */
export function errorDetail(error) {
  if (error instanceof Problem && error.status === 0) return "";
  return error.message === errorTitle(error) ? "" : error.message;
}

/** Title and detail in one text. */
export function errorText(error) {
  if (!(error instanceof Problem)) return error.message;
  const detail = errorDetail(error);
  if (detail === "") return errorTitle(error);
  return language.get() === "en" ? detail : `${errorTitle(error)}${t("colon")}${detail}`;
}
