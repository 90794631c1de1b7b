// The admin API. Answers are what it says; anything but success is a `Problem`.

import { token } from "./settings.js";

/** What the API says when it does not do what it was asked (RFC 9457). `status` 0: it was not reached. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `HTTP ${status}`);
    this.status = status;
    this.title = body?.title ?? null;
    this.faults = Array.isArray(body?.faults) ? body.faults : null;
  }
}

const unauthorised = new Set();

/** Calls `listener` whenever a token is asked for. */
export function onUnauthorised(listener) {
  unauthorised.add(listener);
}

function address(path, query) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) url.searchParams.append(name, one);
    }
  }
  return url;
}

/** Asks, with the token if there is one, and answers the response if it is a success. */
export async function request(method, path, { query, body, signal, accept } = {}) {
  const headers = { accept: accept ?? "application/json" };
  const shown = token.get();
  if (shown) headers.authorization = `Bearer ${shown}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(address(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: error.message });
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let told = null;
  try {
    told = JSON.parse(text);
  } catch {
    told = { detail: text.slice(0, 300) };
  }
  // Somebody who has entered another token meanwhile need not be asked again.
  if (response.status === 401 && shown === token.get()) unauthorised.forEach((listener) => listener());
  throw new Problem(response.status, told);
}

async function json(method, path, options) {
  const response = await request(method, path, options);
  if (response.status === 204) return null;
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

const one = (name) => encodeURIComponent(name);

export const api = {
  status: () => json("GET", "v1/status"),
  rules: () => json("GET", "v1/rules"),
  limits: () => json("GET", "v1/limits"),
  top: (rule, most) => json("GET", "v1/top", { query: { rule: rule || undefined, most } }),
  peek: (rule, key) => json("GET", "v1/keys", { query: { rule, key } }),
  reset: (rule, key) => json("DELETE", "v1/keys", { query: { rule, key } }),
  bans: () => json("GET", "v1/bans"),
  ban: (rule, key, lasting) => json("POST", "v1/bans", { body: { rule, key, for: lasting || undefined } }),
  lift: (rule, key) => json("DELETE", "v1/bans", { query: { rule, key } }),
  lists: () => json("GET", "v1/lists"),
  enlist: (list, condition, lasting) =>
    json("POST", `v1/lists/${one(list)}`, { body: { condition, for: lasting || undefined } }),
  delist: (list, condition) => json("DELETE", `v1/lists/${one(list)}`, { query: { condition } }),
  store: () => json("GET", "v1/store"),
  source: () => json("GET", "v1/source"),
  check: (text, signal) => json("POST", "v1/source/check", { body: { text }, signal }),
  save: (text, basedOn, comment) =>
    json("PUT", "v1/source", { body: { text, based_on: basedOn, comment: comment || undefined } }),
  versions: () => json("GET", "v1/versions"),
  version: (number) => json("GET", `v1/versions/${one(number)}`),
  restore: (number, comment) =>
    json("POST", `v1/versions/${one(number)}/restore`, { body: { comment: comment || undefined } }),
  reload: () => json("POST", "v1/reload"),
  explain: (asked) => json("POST", "v1/explain", { body: asked }),
};
