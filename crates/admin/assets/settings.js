// User settings. Language and theme are stored in the browser; the token is stored for the tab only.

const memory = new Map();

function read(storage, name) {
  try {
    return window[storage].getItem(name);
  } catch {
    return memory.get(name) ?? null;
  }
}

function write(storage, name, value) {
  memory.set(name, value);
  try {
    if (value === null) window[storage].removeItem(name);
    else window[storage].setItem(name, value);
  } catch {
    // Storage is disabled: the value is kept until the page is closed.
  }
}

export const language = {
  get: () => (document.documentElement.lang.startsWith("zh") ? "zh" : "en"),
  set(value) {
    write("localStorage", "sluicegate.language", value);
    document.documentElement.lang = value === "zh" ? "zh-CN" : "en";
  },
};

export const theme = {
  /** `light`, `dark`, or `auto` for the system preference. */
  get: () => document.documentElement.dataset.theme ?? "auto",
  set(value) {
    write("localStorage", "sluicegate.theme", value === "auto" ? null : value);
    if (value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = value;
  },
};

export const token = {
  get: () => read("sessionStorage", "sluicegate.token"),
  set: (value) => write("sessionStorage", "sluicegate.token", value),
};
