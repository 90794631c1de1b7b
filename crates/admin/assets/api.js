// Client of the admin API. Calls return the response body; every failure is a `Problem`.

import { token } from "./settings.js";

/** Error of a call (RFC 9457). `status` is 0 if the server could not be reached. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `HTTP ${status}`);
    this.status = status;
    this.title = body?.title ?? null;
    this.type = String(body?.type ?? "").replace("urn:sluicegate:", "");
    this.errors = Array.isArray(body?.errors) ? body.errors : null;
  }
}

const unauthorizedListeners = new Set();

/** Calls `listener` whenever the server requires another token. */
export function onUnauthorized(listener) {
  unauthorizedListeners.add(listener);
}

function buildUrl(path, query) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined) url.searchParams.append(name, item);
    }
  }
  return url;
}

/** Sends a request, with the token if there is one. Throws a `Problem` unless it succeeds. */
export async function request(method, path, { query, body, signal, accept } = {}) {
  const headers = { accept: accept ?? "application/json" };
  const sentToken = token.get();
  if (sentToken) headers.authorization = `Bearer ${sentToken}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(buildUrl(path, query), {
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
  let problem = null;
  try {
    problem = JSON.parse(text);
  } catch {
    problem = { detail: text.slice(0, 300) };
  }
  // If another token has been entered in the meantime, there is no need to ask again.
  if (response.status === 401 && sentToken === token.get()) unauthorizedListeners.forEach((listener) => listener());
  throw new Problem(response.status, problem);
}

async function json(method, path, options) {
  const response = await request(method, path, options);
  if (response.status === 204) return null;
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

const segment = (name) => encodeURIComponent(name);

export const api = {
  status: () => json("GET", "v1/status"),
  rules: () => json("GET", "v1/rules"),
  limits: () => json("GET", "v1/limits"),
  top: (rule, maxKeys) => json("GET", "v1/top", { query: { rule: rule || undefined, limit: maxKeys } }),
  peek: (rule, key) => json("GET", "v1/keys", { query: { rule, key } }),
  reset: (rule, key) => json("DELETE", "v1/keys", { query: { rule, key } }),
  bans: () => json("GET", "v1/bans"),
  ban: (rule, key, duration) => json("POST", "v1/bans", { body: { rule, key, for: duration || undefined } }),
  removeBan: (rule, key) => json("DELETE", "v1/bans", { query: { rule, key } }),
  lists: () => json("GET", "v1/lists"),
  addListEntry: (list, condition, duration) =>
    json("POST", `v1/lists/${segment(list)}`, { body: { condition, for: duration || undefined } }),
  removeListEntry: (list, condition) => json("DELETE", `v1/lists/${segment(list)}`, { query: { condition } }),
  store: () => json("GET", "v1/store"),
  source: () => json("GET", "v1/source"),
  check: (text, signal) => json("POST", "v1/source/check", { body: { text }, signal }),
  save: (text, basedOn, comment) =>
    json("PUT", "v1/source", { body: { text, based_on: basedOn, comment: comment || undefined } }),
  versions: () => json("GET", "v1/versions"),
  version: (number) => json("GET", `v1/versions/${segment(number)}`),
  restore: (number, comment) =>
    json("POST", `v1/versions/${segment(number)}/restore`, { body: { comment: comment || undefined } }),
  reload: () => json("POST", "v1/reload"),
  explain: (request) => json("POST", "v1/explain", { body: request }),
};
