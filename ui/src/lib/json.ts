/** JSON values as lines: what a viewer shows, opened as far as somebody wants. */

export interface JsonLine {
  /** Where it is: `/a/0`. A closing bracket has the path of its value. */
  path: string;
  depth: number;
  key: string | null;
  kind: "open" | "close" | "closed" | "leaf";
  value: unknown;
}


/** The lines of a value. `isOpen` says which of its objects and arrays are open. */
export function linesOf(value: unknown, isOpen: (path: string, depth: number, size: number) => boolean): JsonLine[] {
  const lines: JsonLine[] = [];
  const add = (one: unknown, path: string, depth: number, key: string | null): void => {
    if (one === null || typeof one !== "object") {
      lines.push({ path, depth, key, kind: "leaf", value: one });
      return;
    }
    const members = Object.keys(one);
    if (members.length === 0 || !isOpen(path, depth, members.length)) {
      lines.push({ path, depth, key, kind: members.length ? "closed" : "leaf", value: one });
      return;
    }
    lines.push({ path, depth, key, kind: "open", value: one });
    const isList = Array.isArray(one);
    for (const name of members) add((one as Record<string, unknown>)[name], `${path}/${name}`, depth + 1, isList ? null : name);
    lines.push({ path, depth, key: null, kind: "close", value: one });
  };
  add(value, "", 0, null);
  return lines;
}

/** Lines of two values, side by side in one list: what was taken away, what was added. */
export function diffLines(a: unknown, b: unknown): { change: " " | "-" | "+"; text: string }[] {
  const [left, right] = [a, b].map((one) => (one === undefined ? [] : JSON.stringify(one, sorted, 2).split("\n")));
  return diff(left!, right!);
}

function sorted(_: string, value: unknown): unknown {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1)));
}

/** Above this, only equal beginnings and ends are left out: finding more would take too long. */
const COMPARED_MAX = 2000;

function diff(left: string[], right: string[]): { change: " " | "-" | "+"; text: string }[] {
  let begin = 0;
  while (begin < left.length && begin < right.length && left[begin] === right[begin]) begin++;
  let end = 0;
  while (end < left.length - begin && end < right.length - begin && left[left.length - 1 - end] === right[right.length - 1 - end]) end++;
  const a = left.slice(begin, left.length - end);
  const b = right.slice(begin, right.length - end);
  const same = (text: string) => ({ change: " " as const, text });
  const middle = a.length > COMPARED_MAX || b.length > COMPARED_MAX ? [...a.map((text) => ({ change: "-" as const, text })), ...b.map((text) => ({ change: "+" as const, text }))] : common(a, b);
  return [...left.slice(0, begin).map(same), ...middle, ...left.slice(left.length - end).map(same)];
}

/** By the longest common subsequence. */
function common(a: string[], b: string[]): { change: " " | "-" | "+"; text: string }[] {
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1]! + 1 : Math.max(best[(i + 1) * width + j]!, best[i * width + j + 1]!);
    }
  }
  const found: { change: " " | "-" | "+"; text: string }[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ change: " ", text: a[i]! });
      i++;
      j++;
    } else if (i < a.length && (j === b.length || best[(i + 1) * width + j]! >= best[i * width + j + 1]!)) found.push({ change: "-", text: a[i++]! });
    else found.push({ change: "+", text: b[j++]! });
  }
  return found;
}
