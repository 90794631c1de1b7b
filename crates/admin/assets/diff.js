// Line-based difference of two texts by Myers' algorithm, without the common start and end.

/** Beyond this number of steps the texts have little in common, and the middle is shown as replaced. */
const MAX_STEPS = 2000;

/** Lines as `{ kind: "same" | "removed" | "added", text, before, after }`, with their numbers in each text. */
export function diff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const kinds = [
    ...Array(start).fill("same"),
    ...shortestEdit(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...Array(end).fill("same"),
  ];
  let [left, right] = [0, 0];
  return kinds.map((kind) => {
    const line = { kind, text: kind === "added" ? b[right] : a[left], before: kind === "added" ? null : left + 1, after: kind === "removed" ? null : right + 1 };
    if (kind !== "added") left += 1;
    if (kind !== "removed") right += 1;
    return line;
  });
}

function shortestEdit(a, b) {
  const replaced = [...Array(a.length).fill("removed"), ...Array(b.length).fill("added")];
  if (a.length === 0 || b.length === 0) return replaced;
  const furthest = new Map([[1, 0]]);
  const trace = [];
  for (let steps = 0; steps <= Math.min(a.length + b.length, MAX_STEPS); steps += 1) {
    trace.push(new Map(furthest));
    for (let k = -steps; k <= steps; k += 2) {
      const down = k === -steps || (k !== steps && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
      let x = down ? furthest.get(k + 1) : furthest.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return backtrack(trace, a.length, b.length);
    }
  }
  return replaced;
}

function backtrack(trace, x, y) {
  const kinds = [];
  for (let steps = trace.length - 1; steps >= 0; steps -= 1) {
    const furthest = trace[steps];
    const k = x - y;
    const down = k === -steps || (k !== steps && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const fromX = furthest.get(from) ?? 0;
    const fromY = fromX - from;
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      kinds.push("same");
      x -= 1;
      y -= 1;
    }
    if (steps > 0) kinds.push(down ? "added" : "removed");
    [x, y] = [fromX, fromY];
  }
  return kinds.reverse();
}

/** The changed lines with `context` lines around them; `null` stands for omitted lines. */
export function fold(lines, context = 3) {
  const kept = lines.map((_, index) => lines.slice(Math.max(0, index - context), index + context + 1).some(({ kind }) => kind !== "same"));
  const folded = [];
  lines.forEach((line, index) => {
    if (kept[index]) folded.push(line);
    else if (folded.length === 0 || folded.at(-1) !== null) folded.push(null);
  });
  return folded;
}
