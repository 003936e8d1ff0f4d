/** What can be written at a place of a document: from its JSON Schema, the node types and the handlers. */

import { isJson } from "./edits.ts";
import { outline, writtenNodes, type Part, type WrittenNode } from "./outline.ts";

export type Schema = Readonly<Record<string, unknown>>;

export interface Known {
  schema: Schema;
  types: readonly { name: string; display_name: string; summary: string; config_schema: Schema }[];
  handlers: readonly { name: string; config_schema: Schema | null }[];
}

export interface Suggestion {
  /** What is written. */
  text: string;
  /** What it is. */
  about: string;
  kind: "key" | "value";
}

export interface Completion {
  /** What is typed so far, and replaced. */
  start: number;
  end: number;
  typed: string;
  items: Suggestion[];
}

type Path = (string | number)[];

interface Place {
  path: Path;
  isKey: boolean;
  start: number;
  typed: string;
  /** Keys that are there already. */
  taken: Set<string>;
}

/** What fits at the cursor; null: nothing is known. */
export function complete(text: string, cursor: number, known: Known): Completion | null {
  const root = outline(text);
  const place = isJson(text) ? placeInFlow(text, 0, cursor, []) : placeInBlock(text, cursor);
  if (!place) return null;
  const node = writtenNodes(root).findLast((one) => one.part.start <= place.start) ?? null;
  const schemas = schemasAt(known, place.path, node);
  const keys = place.isKey ? keysOf(schemas, known.schema, place) : [];
  // What looks like a key is a value in a list of plain values.
  const items = keys.length ? keys : valuesOf(schemas, known, place, root);
  const wanted = place.typed.toLowerCase().replace(/^["']/, "");
  const fitting = items.filter((one) => one.text.toLowerCase().includes(wanted) && one.text.replace(/: ?$/, "") !== place.typed);
  fitting.sort((a, b) => Number(b.text.toLowerCase().startsWith(wanted)) - Number(a.text.toLowerCase().startsWith(wanted)));
  if (isJson(text)) for (const one of fitting) one.text = one.kind === "key" ? `"${one.text.replace(/: ?$/, "")}": ` : /^(true|false|null|-?\d+)$/.test(one.text) ? one.text : JSON.stringify(one.text);
  return fitting.length ? { start: place.start, end: cursor + (isJson(text) && text[cursor] === '"' && place.typed.startsWith('"') ? 1 : 0), typed: place.typed, items: fitting.slice(0, 50) } : null;
}

/** Where the cursor is in the lines of YAML: by what they are indented with. */
function placeInBlock(text: string, cursor: number): Place | null {
  const from = text.lastIndexOf("\n", cursor - 1) + 1;
  const line = text.slice(from, cursor);
  if (/(^|\s)#/.test(line.replace(/"[^"]*"|'[^']*'/g, ""))) return null;
  const lead = /^ *(?:- +)*/.exec(line)![0];
  const column = lead.length;
  const content = line.slice(column);
  const above = text.slice(0, from).split("\n").slice(0, -1);
  const path = pathOf(above, lead, content === "" && !lead.includes("-") ? line.length : column);
  if (path === null) return null;
  const key = /^("[^"]*"|'[^']*'|[^\s:{[][^:{[]*?)\s*:\s+(.*)$/s.exec(content) ?? /^("[^"]*"|'[^']*'|[^\s:]+):()$/.exec(content);
  const value = key ? key[2]! : content;
  const opening = value.search(/[{[]/);
  if (opening >= 0 && !/^["']/.test(value)) {
    const base = key ? [...path, key[1]!.replace(/^["']|["']$/g, "")] : path;
    return placeInFlow(text, cursor - value.length + opening, cursor, base);
  }
  if (key) {
    if (content.endsWith(":")) return null;
    return { path: [...path, key[1]!], isKey: false, start: cursor - value.length, typed: value, taken: new Set() };
  }
  return { path, isKey: true, start: cursor - content.length, typed: content, taken: takenAround(text, from, column) };
}

/** The keys and list positions that lines above lead to, for something at a column. */
function pathOf(above: readonly string[], lead: string, column: number): Path | null {
  const path: Path = [];
  let limit = column;
  let dashes = [...lead.matchAll(/-/g)].map((one) => one.index);
  for (const dash of dashes.reverse()) {
    path.unshift(0);
    limit = dash;
  }
  // A list may have the column of its key.
  let isItem = dashes.length > 0;
  for (let at = above.length - 1; at >= 0 && (limit > 0 || isItem); at--) {
    const line = above[at]!;
    if (/^\s*(#|$)/.test(line)) continue;
    const start = /^ *(?:- +)*/.exec(line)![0];
    const key = /^("[^"]*"|'[^']*'|[^\s:{["'#][^:]*?)\s*:(\s|$)/.exec(line.slice(start.length));
    const indent = start.length;
    if (key && (indent < limit || (isItem && indent === limit && !start.includes("-")))) {
      if (/:\s+[|>]/.test(line)) return null;
      path.unshift(key[1]!.replace(/^["']|["']$/g, ""));
      limit = indent;
      isItem = false;
    }
    dashes = [...start.matchAll(/-/g)].map((one) => one.index).filter((dash) => dash < limit);
    for (const dash of dashes.reverse()) {
      path.unshift(0);
      limit = dash;
      isItem = true;
    }
  }
  return path;
}

function takenAround(text: string, from: number, column: number): Set<string> {
  const taken = new Set<string>();
  const look = (lines: readonly string[]): void => {
    for (const line of lines) {
      if (/^\s*(#|$)/.test(line)) continue;
      const start = /^ *(?:- +)*/.exec(line)![0];
      if (start.length < column) return;
      if (start.length === column) {
        const key = /^([\w$-]+)\s*:/.exec(line.slice(column))?.[1];
        if (key) taken.add(key);
        if (start.includes("-")) return;
      }
    }
  };
  const own = text.slice(from).split("\n");
  if (!/^ *-/.test(own[0]!)) look(text.slice(0, from).split("\n").slice(0, -1).reverse());
  const next = own.slice(1);
  const end = next.findIndex((line) => line.trim() && /^ *(?:- +)/.test(line) && /^ *(?:- +)*/.exec(line)![0].length <= column);
  look(end < 0 ? next : next.slice(0, end));
  return taken;
}

/** Where the cursor is between brackets. */
function placeInFlow(text: string, start: number, cursor: number, base: Path): Place | null {
  const stack: { isMap: boolean; key: string | null; number: number; keys: Set<string> }[] = [];
  let token = start;
  let colon = false;
  const piece = /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\n]|'')*'?|\{\{.*?\}\}|[{}[\],]|:(?=[\s"'{[]|$)|\s+|(?:[^\s{}[\],:"']|:(?![\s"'{[]|$))+/gy;
  piece.lastIndex = start;
  let last = "";
  for (let found = piece.exec(text); found && found.index < cursor; found = piece.exec(text)) {
    const [own] = found;
    const top = stack.at(-1);
    const ends = found.index + own.length;
    if (own === "{" || own === "[") {
      stack.push({ isMap: own === "{", key: null, number: 0, keys: new Set() });
      colon = false;
      token = ends;
      last = "";
    } else if (own === "}" || own === "]") {
      stack.pop();
      colon = false;
      token = ends;
      last = "";
    } else if (own === ",") {
      if (top) {
        top.key = null;
        top.number++;
      }
      colon = false;
      token = ends;
      last = "";
    } else if (own === ":") {
      if (top?.isMap) {
        top.key = last.replace(/^["']|["']$/g, "");
        top.keys.add(top.key);
      }
      colon = true;
      token = ends;
      last = "";
    } else if (own.trim() === "") {
      if (last === "") token = Math.min(ends, cursor);
    } else {
      if (last === "") token = found.index;
      last = text.slice(token, Math.min(ends, cursor));
    }
  }
  const top = stack.at(-1);
  if (!top) return null;
  const path = [...base, ...stack.flatMap((one, at): Path => (at === stack.length - 1 ? [] : [one.isMap ? (one.key ?? "") : one.number]))];
  const typed = text.slice(token, cursor);
  if (top.isMap && !colon) return { path, isKey: true, start: token, typed, taken: top.keys };
  return { path: [...path, top.isMap ? (top.key ?? "") : top.number], isKey: false, start: token, typed, taken: new Set() };
}

function alternatives(schema: unknown, root: Schema): Schema[] {
  if (typeof schema !== "object" || schema === null) return [];
  const one = schema as Record<string, unknown>;
  if (typeof one.$ref === "string") {
    let found: unknown = root;
    for (const part of one.$ref.slice(2).split("/")) found = (found as Record<string, unknown> | undefined)?.[part];
    return alternatives(found, root);
  }
  const choices = (one.anyOf ?? one.oneOf) as unknown[] | undefined;
  return choices ? [one, ...choices.flatMap((choice) => alternatives(choice, root))] : [one];
}

function schemasAt(known: Known, path: Path, node: WrittenNode | null): Schema[] {
  let found = alternatives(known.schema, known.schema);
  let base = known.schema;
  for (const [at, key] of path.entries()) {
    if (path[0] === "nodes" && at === 2 && key === "config") {
      const own = configSchema(known, node);
      if (own) {
        base = own;
        found = alternatives(own, own);
        continue;
      }
    }
    const from: Schema = base;
    found = found.flatMap((one) => {
      const properties = one.properties as Record<string, unknown> | undefined;
      if (typeof key === "number") return alternatives(one.items, from);
      return alternatives(properties?.[key] ?? (typeof one.additionalProperties === "object" ? one.additionalProperties : undefined), from);
    });
  }
  return found;
}

function configSchema(known: Known, node: WrittenNode | null): Schema | null {
  if (!node) return null;
  if (node.handler) return known.handlers.find((one) => one.name === node.handler)?.config_schema ?? null;
  return known.types.find((one) => one.name === node.type)?.config_schema ?? null;
}

function keysOf(schemas: readonly Schema[], root: Schema, place: Place): Suggestion[] {
  const found = new Map<string, Suggestion>();
  for (const one of schemas) {
    for (const [name, member] of Object.entries((one.properties ?? {}) as Record<string, Schema>)) {
      const about = String(member.description ?? alternatives(member, root)[0]?.description ?? "");
      if (place.taken.has(name) || about.startsWith("Another spelling") || name === "$schema") continue;
      found.set(name, { text: `${name}: `, about, kind: "key" });
    }
  }
  return [...found.values()];
}

const NODES = new Set(["dependencies", "depends_on", "dependents", "next_nodes", "default", "rejection_path", "break_path", "loop_back_to", "on_error", "from", "to"]);

function valuesOf(schemas: readonly Schema[], known: Known, place: Place, root: Part): Suggestion[] {
  const keys = place.path.filter((one): one is string => typeof one === "string");
  const key = keys.at(-1) ?? "";
  const values: Suggestion[] = [];
  const add = (text: string, about: string): void => void values.push({ text, about, kind: "value" });
  const isNode = keys[0] === "nodes" && keys.length === 2;
  if (isNode && key === "type") for (const one of known.types) add(one.name, one.summary || one.display_name);
  else if (key === "handler") for (const one of known.handlers) add(one.name, "a handler of a worker");
  else if (NODES.has(key) && keys[0] !== "input") for (const one of writtenNodes(root)) if (one.id) add(one.id, one.handler || one.type);
  for (const one of schemas) {
    for (const value of (one.enum ?? []) as unknown[]) add(String(value), String(one.description ?? ""));
    if (one.const !== undefined) add(String(one.const), "");
    if (one.type === "boolean") for (const value of ["true", "false"]) add(value, "");
  }
  return values.filter((one, at) => values.findIndex((other) => other.text === one.text) === at);
}

/** The fields of a new node: what its type needs, and nothing else. */
export function fieldsOf(id: string, type: Known["types"][number] | null, handler: string | null): Record<string, unknown> {
  if (handler !== null) return { id, handler };
  const fields: Record<string, unknown> = { id, type: type!.name };
  const needed = (type!.config_schema.required ?? []) as string[];
  const properties = (type!.config_schema.properties ?? {}) as Record<string, Schema>;
  if (needed.length) fields.config = Object.fromEntries(needed.map((name) => [name, sampleOf(properties[name] ?? {})]));
  return fields;
}

function sampleOf(schema: Schema): unknown {
  if ("default" in schema) return schema.default;
  const examples = (schema.examples ?? schema.enum) as unknown[] | undefined;
  if (examples?.length) return examples[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  return type === "object" ? {} : type === "array" ? [] : type === "number" || type === "integer" ? Number(schema.minimum ?? 1) : type === "boolean" ? false : "";
}
