// Parses displayed keys (`203.0.113.9, header['x-tier']=vip`) into their values, and builds a request with that key.
// Tables use this to link a refused key to its explanation.

/** Attribute of a key part without its prefix lengths: `client.ip (IPv6/64)` is `client.ip`. */
const attributeName = (part) => part.replace(/\s*\(.*\)$/, "");

/** Values of a displayed key, one for each attribute; `null` if the key is ambiguous or truncated. */
export function parseKey(displayed, attributes) {
  const names = attributes.map(attributeName);
  if (names.length === 0 || displayed.endsWith("...")) return null;
  const prefix = (name) => (name === "client.ip" ? "" : `${name}=`);
  const values = [];
  let rest = displayed;
  for (const [index, name] of names.entries()) {
    if (!rest.startsWith(prefix(name))) return null;
    rest = rest.slice(prefix(name).length);
    let value = rest;
    if (index + 1 < names.length) {
      const end = rest.indexOf(`, ${prefix(names[index + 1])}`);
      if (end < 0) return null;
      value = rest.slice(0, end);
      rest = rest.slice(end + 2);
    }
    values.push(name === "client.ip" ? value.replace(/\/\d+$/, "") : value);
  }
  return values;
}

/** A path that matches a pattern: `/api/**` -> `/api/x`, `/orders/{id}` -> `/orders/1`. */
function examplePath(pattern, values) {
  return pattern.replace(/\{\*?(\w+)\}|\*\*|\*/g, (match, name) => (name && values[name]) || (match.startsWith("{") && match[1] !== "*" ? "1" : "x"));
}

/** A request that matches the rule and has this key, as query parameters of the explain view. */
export function requestFor(rule, displayed) {
  const request = new URLSearchParams();
  const values = displayed === null ? null : parseKey(displayed, rule.key);
  const params = {};
  const query = [];
  let [method, path] = ["GET", "/"];
  rule.key.map(attributeName).forEach((name, index) => {
    const value = values?.[index];
    if (value === undefined) return;
    const indexed = /^(header|query|cookie|param|descriptor)\['(.*)'\]$/.exec(name);
    if (name === "client.ip") request.set("ip", value);
    else if (name === "method") method = value;
    else if (name === "path") path = value;
    else if (name === "host" || name === "service") request.set(name, value);
    else if (indexed === null) request.append("attribute", `${name}=${value}`);
    else if (indexed[1] === "header") request.append("header", `${indexed[2]}: ${value}`);
    else if (indexed[1] === "cookie") request.append("cookie", `${indexed[2]}=${value}`);
    else if (indexed[1] === "descriptor") request.append("descriptor", `${indexed[2]}=${value}`);
    else if (indexed[1] === "query") query.push(`${encodeURIComponent(indexed[2])}=${encodeURIComponent(value)}`);
    else params[indexed[2]] = value;
  });
  const words = (rule.match ?? "").split(/\s+/).filter((word) => word !== "");
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index];
    if (["service", "host", "calls-to"].includes(word)) {
      index += 1;
      request.set(word === "host" ? "host" : "service", (words[index] ?? "").replace(/^\*\./, "www."));
    } else if (word.startsWith("/")) {
      path = examplePath(word, params);
    } else if (/^[A-Z|]+$/.test(word)) {
      [method] = word.split("|");
    }
  }
  if (rule.direction === "inbound" || rule.direction === "outbound") {
    request.set("method", method);
    request.set("path", query.length === 0 ? path : `${path}${path.includes("?") ? "&" : "?"}${query.join("&")}`);
  }
  if (rule.direction !== "inbound") request.set("direction", rule.direction);
  request.set("rule", rule.name);
  return request;
}

/** Link to the explanation of such a request. */
export const explainLink = (rule, displayed = null) => `#/explain?${requestFor(rule, displayed)}`;

/** Link to the state of one key. */
export const keyLink = (rule, displayed) =>
  `#/keys?${new URLSearchParams([["rule", rule.name], ...(parseKey(displayed, rule.key) ?? []).map((value) => ["key", value])])}`;

/** Link to the page of a rule. */
export const ruleLink = (name) => `#/rule?${new URLSearchParams({ name })}`;
