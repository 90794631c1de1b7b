// What differs between two texts, line by line: the shortest way from one to the other (Myers), after what both
// begin and end with is set aside.

/** Beyond so many steps the texts have little in common, and the middle is shown as replaced. */
const MOST_STEPS = 2000;

/** Lines as `{ kind: "same" | "gone" | "new", text, before, after }`, with their numbers in each text. */
export function diff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const kinds = [
    ...Array(start).fill("same"),
    ...way(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...Array(end).fill("same"),
  ];
  let [left, right] = [0, 0];
  return kinds.map((kind) => {
    const line = { kind, text: kind === "new" ? b[right] : a[left], before: kind === "new" ? null : left + 1, after: kind === "gone" ? null : right + 1 };
    if (kind !== "new") left += 1;
    if (kind !== "gone") right += 1;
    return line;
  });
}

function way(a, b) {
  const replaced = [...Array(a.length).fill("gone"), ...Array(b.length).fill("new")];
  if (a.length === 0 || b.length === 0) return replaced;
  const furthest = new Map([[1, 0]]);
  const trace = [];
  for (let steps = 0; steps <= Math.min(a.length + b.length, MOST_STEPS); steps += 1) {
    trace.push(new Map(furthest));
    for (let k = -steps; k <= steps; k += 2) {
      const down = k === -steps || (k !== steps && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
      let x = down ? furthest.get(k + 1) : furthest.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return back(trace, a.length, b.length);
    }
  }
  return replaced;
}

function back(trace, x, y) {
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
    if (steps > 0) kinds.push(down ? "new" : "gone");
    [x, y] = [fromX, fromY];
  }
  return kinds.reverse();
}

/** The lines that differ, with `context` lines around them; `null` stands where lines are left out. */
export function folded(lines, context = 3) {
  const kept = lines.map((_, nth) => lines.slice(Math.max(0, nth - context), nth + context + 1).some(({ kind }) => kind !== "same"));
  const shown = [];
  lines.forEach((line, nth) => {
    if (kept[nth]) shown.push(line);
    else if (shown.length === 0 || shown.at(-1) !== null) shown.push(null);
  });
  return shown;
}
