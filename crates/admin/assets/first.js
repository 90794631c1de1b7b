// Runs before the first paint, so that nobody who chose the dark theme is blinded by a white page.
// What was chosen is only ever one of the words below.
(function () {
  "use strict";
  const root = document.documentElement;
  let theme = null;
  let language = null;
  try {
    theme = localStorage.getItem("sluicegate.theme");
    language = localStorage.getItem("sluicegate.language");
  } catch {
    // Storage is forbidden in this browser: the system's preferences hold.
  }
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  if (language !== "en" && language !== "zh") language = /^zh/i.test(navigator.language) ? "zh" : "en";
  root.lang = language === "zh" ? "zh-CN" : "en";
})();
