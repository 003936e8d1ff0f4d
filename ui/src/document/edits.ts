/** Changes of a document's text: small insertions, so that comments and everybody's own style stay. */

import { member, outline, writtenNodes, type Part } from "./outline.ts";

export interface Edit {
  start: number;
  end: number;
  text: string;
  /** Where the cursor goes: after so many characters of the new text. */
  cursor: number;
}

export const isJson = (text: string): boolean => text.trimStart().startsWith("{");

export function apply(text: string, edit: Edit): string {
  return text.slice(0, edit.start) + edit.text + text.slice(edit.end);
}

export type Fields = Record<string, unknown>;

const lineStart = (text: string, at: number): number => text.lastIndexOf("\n", at - 1) + 1;
const columnOf = (text: string, at: number): number => at - lineStart(text, at);

/** An id that no node has yet: `check`, `check_2`, … */
export function freeId(text: string, wanted: string): string {
  const taken = new Set(writtenNodes(outline(text)).map((one) => one.id));
  const base = wanted.replace(/^.*[:.]/, "").replace(/[^A-Za-z0-9_-]+/g, "_") || "node";
  if (!taken.has(base)) return base;
  for (let number = 2; ; number++) if (!taken.has(`${base}_${number}`)) return `${base}_${number}`;
}

/** Add a node after the last one. */
export function addNode(text: string, fields: Fields): Edit {
  const root = outline(text);
  const nodes = member(root, "nodes");
  if (nodes?.kind === "list" && nodes.entries.length) {
    const last = nodes.entries.at(-1)!;
    const start = last.end;
    if (nodes.flow) {
      const onLine = text.slice(lineStart(text, last.start), last.start).trim() === "";
      const lead = onLine ? `,\n${" ".repeat(columnOf(text, last.start))}` : ", ";
      return insert(start, lead + flow(fields, isJson(text)), lead.length);
    }
    const lead = `\n${" ".repeat(nodes.indent)}- `;
    const gap = nodes.entries.length > 1 && /\n[ \t]*\n/.test(text.slice(nodes.entries.at(-2)!.end, last.start)) ? "\n" : "";
    return insert(start, gap + lead + block(fields, nodes.indent + 2), gap.length + lead.length);
  }
  if (root.flow && root.kind === "map") {
    const item = flow(fields, true);
    if (nodes) return replace(nodes, `[\n    ${item}\n  ]`);
    const last = root.entries.at(-1);
    const lead = last ? ",\n  " : "\n  ";
    return insert(last?.end ?? root.start + 1, `${lead}"nodes": [\n    ${item}\n  ]${last ? "" : "\n"}`, lead.length);
  }
  const item = `\n  - ${block(fields, 4)}`;
  if (nodes) return replace(nodes, item);
  const key = root.entries.find((one) => one.key === "nodes");
  if (key) return insert(key.end, item, 5);
  const end = root.entries.at(-1)?.end ?? text.trimEnd().length;
  const lead = end ? "\n\n" : "";
  return insert(end, `${lead}nodes:${item}${end ? "" : "\n"}`, lead.length + 7);
}

/** Have a node come after another one; null: it does already, or is not there. */
export function connect(text: string, from: string, to: string): Edit | null {
  const node = writtenNodes(outline(text)).find((one) => one.id === to);
  if (!node || from === to || node.dependencies.includes(from)) return null;
  const { part } = node;
  const json = isJson(text);
  const own = json ? JSON.stringify(from) : from;
  const before = member(part, "dependencies") ?? member(part, "depends_on");
  if (before?.kind === "list") {
    const last = before.entries.at(-1);
    if (before.flow) return insert(last?.end ?? before.start + 1, last ? `, ${own}` : own, last ? 2 : 0);
    if (last) return insert(last.end, `\n${" ".repeat(before.indent)}- ${own}`, before.indent + 3);
  }
  const written = part.entries.find((one) => one.key === "dependencies" || one.key === "depends_on");
  if (written) return { start: written.end, end: written.end, text: ` [${own}]`, cursor: 2 };
  const last = part.entries.filter((one) => ["id", "node_id", "description", "type", "handler"].includes(one.key)).at(-1) ?? part.entries.at(-1)!;
  if (part.flow) {
    const onLine = text.slice(lineStart(text, last.start), last.start).trim() === "";
    const lead = onLine ? `,\n${" ".repeat(columnOf(text, last.start))}` : ", ";
    const name = json ? '"dependencies"' : "dependencies";
    return insert(last.end, `${lead}${name}: [${own}]`, lead.length);
  }
  const lead = `\n${" ".repeat(part.indent)}`;
  return insert(last.end + restOfLine(text, last.end), `${lead}dependencies: [${own}]`, lead.length);
}

/** A comment behind a value belongs to its line. */
function restOfLine(text: string, at: number): number {
  return /^[ \t]+#[^\n]*/.exec(text.slice(at, at + 500))?.[0].length ?? 0;
}

const insert = (at: number, text: string, cursor: number): Edit => ({ start: at, end: at, text, cursor });
const replace = (part: Part, text: string, cursor = 0): Edit => ({ start: part.start, end: part.end, text, cursor });

const PLAIN = /^[A-Za-z_][\w./:-]*$/;

function scalar(value: unknown, json: boolean): string {
  if (!json && typeof value === "string" && PLAIN.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value) && !value.endsWith(":")) return value;
  return JSON.stringify(value) ?? "null";
}

function flow(value: unknown, json: boolean): string {
  if (Array.isArray(value)) return `[${value.map((one) => flow(one, json)).join(", ")}]`;
  if (typeof value !== "object" || value === null) return scalar(value, json);
  const inner = Object.entries(value).map(([key, one]) => `${scalar(key, json)}: ${flow(one, json)}`);
  return `{${inner.join(", ")}}`;
}

const block = (fields: Fields, indent: number): string =>
  Object.entries(fields)
    .map(([key, value]) => `${key}: ${flow(value, false)}`)
    .join(`\n${" ".repeat(indent)}`);
