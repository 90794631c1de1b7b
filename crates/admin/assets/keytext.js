// Keys as people read them (`203.0.113.9, header['x-tier']=vip`), back into the values they are made of, and from
// these into a request that has that key. So a refused key in a table is one click away from its explanation.

/** The attributes of a rule's key: `client.ip (IPv6/64)` is `client.ip`. */
const bare = (attribute) => attribute.replace(/\s*\(.*\)$/, "");

/** The values in a readable key, one for each attribute; `null` if it cannot be told. */
export function partsOf(readable, attributes) {
  const names = attributes.map(bare);
  if (names.length === 0 || readable.endsWith("...")) return null;
  const head = (name) => (name === "client.ip" ? "" : `${name}=`);
  const values = [];
  let rest = readable;
  for (const [nth, name] of names.entries()) {
    if (!rest.startsWith(head(name))) return null;
    rest = rest.slice(head(name).length);
    let value = rest;
    if (nth + 1 < names.length) {
      const end = rest.indexOf(`, ${head(names[nth + 1])}`);
      if (end < 0) return null;
      value = rest.slice(0, end);
      rest = rest.slice(end + 2);
    }
    values.push(name === "client.ip" ? value.replace(/\/\d+$/, "") : value);
  }
  return values;
}

/** A path that a pattern matches: `/api/**` -> `/api/x`, `/orders/{id}` -> `/orders/1`. */
function pathLike(pattern, values) {
  return pattern.replace(/\{\*?(\w+)\}|\*\*|\*/g, (all, name) => (name && values[name]) || (all.startsWith("{") && all[1] !== "*" ? "1" : "x"));
}

/** A request that a rule looks at and that has this key, as the parameters of the page that explains. */
export function requestFor(rule, readable) {
  const asked = new URLSearchParams();
  const values = readable === null ? null : partsOf(readable, rule.key);
  const given = {};
  const query = [];
  let [method, path] = ["GET", "/"];
  rule.key.map(bare).forEach((name, nth) => {
    const value = values?.[nth];
    if (value === undefined) return;
    const named = /^(header|query|cookie|param|descriptor)\['(.*)'\]$/.exec(name);
    if (name === "client.ip") asked.set("ip", value);
    else if (name === "method") method = value;
    else if (name === "path") path = value;
    else if (name === "host" || name === "service") asked.set(name, value);
    else if (named === null) asked.append("attribute", `${name}=${value}`);
    else if (named[1] === "header") asked.append("header", `${named[2]}: ${value}`);
    else if (named[1] === "cookie") asked.append("cookie", `${named[2]}=${value}`);
    else if (named[1] === "descriptor") asked.append("descriptor", `${named[2]}=${value}`);
    else if (named[1] === "query") query.push(`${encodeURIComponent(named[2])}=${encodeURIComponent(value)}`);
    else given[named[2]] = value;
  });
  const words = (rule.match ?? "").split(/\s+/).filter((word) => word !== "");
  for (let nth = 0; nth < words.length; nth += 1) {
    const word = words[nth];
    if (["service", "host", "caller-of"].includes(word)) {
      nth += 1;
      asked.set(word === "host" ? "host" : "service", (words[nth] ?? "").replace(/^\*\./, "www."));
    } else if (word.startsWith("/")) {
      path = pathLike(word, given);
    } else if (/^[A-Z|]+$/.test(word)) {
      [method] = word.split("|");
    }
  }
  if (rule.side === "inbound" || rule.side === "outbound") {
    asked.set("method", method);
    asked.set("path", query.length === 0 ? path : `${path}${path.includes("?") ? "&" : "?"}${query.join("&")}`);
  }
  if (rule.side !== "inbound") asked.set("side", rule.side);
  asked.set("rule", rule.name);
  return asked;
}

/** The page that explains what would happen to such a request. */
export const whyLink = (rule, readable = null) => `#/why?${requestFor(rule, readable)}`;

/** The page that shows one key's state. */
export const keyLink = (rule, readable) =>
  `#/keys?${new URLSearchParams([["rule", rule.name], ...(partsOf(readable, rule.key) ?? []).map((value) => ["key", value])])}`;

/** The page of a rule. */
export const ruleLink = (name) => `#/rule?${new URLSearchParams({ name })}`;
