// Colours for YAML: enough to find one's way, line by line. The pieces of a line together are always the line.

/** A line in pieces `[kind, text]`; kinds: comment, name, text, mark, or the empty one. */
export function pieces(line) {
  const found = [];
  const rest = line;
  let at = 0;
  const take = (kind, length) => {
    if (length > 0) found.push([kind, rest.slice(at, at + length)]);
    at += length;
  };
  take("", /^\s*/.exec(rest)[0].length);
  while (rest[at] === "-" && (rest[at + 1] === " " || rest[at + 1] === undefined)) {
    take("mark", 1);
    take("", /^\s*/.exec(rest.slice(at))[0].length);
  }
  let plain = "";
  const flush = () => {
    if (plain !== "") found.push(["", plain]);
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
  return found;
}
