// Line-based syntax highlighting of YAML. The tokens of a line joined together are always the line.

/** Tokens `[kind, text]` of a line; kinds: comment, name, text, mark, or empty. */
export function tokenize(line) {
  const tokens = [];
  const rest = line;
  let at = 0;
  const take = (kind, length) => {
    if (length > 0) tokens.push([kind, rest.slice(at, at + length)]);
    at += length;
  };
  take("", /^\s*/.exec(rest)[0].length);
  while (rest[at] === "-" && (rest[at + 1] === " " || rest[at + 1] === undefined)) {
    take("mark", 1);
    take("", /^\s*/.exec(rest.slice(at))[0].length);
  }
  let plain = "";
  const flush = () => {
    if (plain !== "") tokens.push(["", plain]);
    plain = "";
  };
  while (at < rest.length) {
    const left = rest.slice(at);
    const name = /^[\w.$-]+(?=\s*:(\s|$))/.exec(left);
    const quoted = /^"(?:[^"\\]|\\.)*"|^'(?:[^']|'')*'/.exec(left);
    const before = at === 0 ? " " : rest[at - 1];
    if (left[0] === "#" && /\s/.test(before)) {
      flush();
      take("comment", left.length);
    } else if (name !== null && /[\s{,[-]/.test(before)) {
      flush();
      take("name", name[0].length);
    } else if (quoted !== null && /[\s{,[:(!=]/.test(before)) {
      flush();
      take("text", quoted[0].length);
    } else if ("{}[],:".includes(left[0])) {
      flush();
      take("mark", 1);
    } else {
      plain += left[0];
      at += 1;
    }
  }
  flush();
  return tokens;
}
