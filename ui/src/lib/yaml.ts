/** A JSON value as YAML, as people write it. */

const PLAIN = /^[A-Za-z_](?:[\w ./()-]|:(?=\S))*[\w).]$|^[A-Za-z_]$/;
const RESERVED = /^(true|false|null|yes|no|on|off|y|n|nan|inf)$/i;

export function toYaml(value: unknown): string {
  return write(value, 0, false).replace(/^\n/, "") + "\n";
}

function scalar(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value) ?? "null";
  return PLAIN.test(value) && !RESERVED.test(value) ? value : JSON.stringify(value);
}

/** Values that fit into a line stay in it. */
const WIDTH = 90;

function inline(value: unknown): string {
  if (value === null || typeof value !== "object") return scalar(value);
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  return `{${Object.entries(value).map(([name, one]) => `${scalar(name)}: ${inline(one)}`).join(", ")}}`;
}

const isFlat = (value: unknown): boolean => value === null || typeof value !== "object" || Object.keys(value).length === 0;

function write(value: unknown, depth: number, inList: boolean): string {
  const indent = "  ".repeat(depth);
  if (typeof value === "string" && /\n/.test(value) && !/[\t\r]|\n +|^ | \n/.test(value)) {
    const ends = value.endsWith("\n");
    const lines = (ends ? value.slice(0, -1) : value).split("\n");
    if (!lines.at(-1)) return ` ${JSON.stringify(value)}`;
    return ` |${ends ? "" : "-"}\n${lines.map((line) => (line ? indent + line : "")).join("\n")}`;
  }
  if (isFlat(value)) return ` ${inline(value)}`;
  const list = Array.isArray(value);
  const short = inline(value);
  const members = Object.values(value as object);
  if (depth > 1 && short.length + indent.length <= WIDTH && members.every((one) => isFlat(one) || (Array.isArray(one) && one.every(isFlat))) && (list || members.length <= 4)) return ` ${short}`;
  if (list) return `\n${(value as unknown[]).map((one) => `${indent}-${write(one, depth + 1, true)}`).join("\n")}`;
  const lines = Object.entries(value as object).map(([name, one]) => `${scalar(name)}:${write(one, depth + 1, false)}`);
  // The first member of an object in a list is beside the dash.
  return inList ? ` ${lines.join(`\n${indent}`)}` : `\n${lines.map((line) => indent + line).join("\n")}`;
}

const FIRST = ["name", "id", "description", "type", "handler", "input", "dependencies", "join", "config"];
const LAST = ["nodes"];

/** A document with its fields in the order in which people write them: the store keeps them sorted. */
export function inOrder(document: unknown): unknown {
  if (typeof document !== "object" || document === null || Array.isArray(document)) return document;
  const place = (name: string): number => (FIRST.includes(name) ? FIRST.indexOf(name) : LAST.includes(name) ? 1000 : 100);
  const entries = Object.entries(document).sort(([a], [b]) => place(a) - place(b));
  return Object.fromEntries(entries.map(([name, value]) => [name, name === "nodes" && Array.isArray(value) ? value.map(inOrder) : value]));
}
