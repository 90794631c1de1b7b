// Applies theme and language before the first paint, so that the page does not flash in the wrong theme.
// Only known values are accepted.
(function () {
  "use strict";
  const root = document.documentElement;
  let theme = null;
  let language = null;
  try {
    theme = localStorage.getItem("sluicegate.theme");
    language = localStorage.getItem("sluicegate.language");
  } catch {
    // Storage is disabled in this browser: the system preferences apply.
  }
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  if (language !== "en" && language !== "zh") language = /^zh/i.test(navigator.language) ? "zh" : "en";
  root.lang = language === "zh" ? "zh-CN" : "en";
})();
