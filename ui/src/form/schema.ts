/**
 * JSON Schemas as forms: which field a schema asks for, what it begins with, and what is wrong with it.
 *
 * Problems are found here to be shown while somebody types. The server decides: what is not understood
 * here is a field of JSON, and is checked there.
 */

export type Schema = Readonly<Record<string, unknown>>;

export type FieldKind = "object" | "array" | "text" | "long" | "number" | "integer" | "boolean" | "choice" | "choices" | "date" | "moment" | "json";

/** Where something is in a value: `/address/lines/0`. */
export type Pointer = string;
export type Problems = ReadonlyMap<Pointer, string>;

export interface Choice {
  value: unknown;
  label: string;
}

/** Stands in a value for a text that should be JSON and is not (yet). */
export class NotJson {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** A schema with `$ref` to its own document followed, and `null` taken out of what it allows. */
export function resolve(schema: unknown, root: Schema): Schema {
  let found: unknown = schema;
  for (let depth = 0; depth < 20 && isObject(found); depth++) {
    if (typeof found.$ref === "string") {
      const { $ref, ...beside } = found;
      found = { ...lookUp(root, $ref as string), ...beside };
      continue;
    }
    const options = (found.anyOf ?? found.oneOf) as unknown;
    const others = Array.isArray(options) ? options.filter((one) => !isObject(one) || one.type !== "null") : null;
    if (others?.length === 1 && others.length < (options as unknown[]).length) {
      const { anyOf: _any, oneOf: _one, ...beside } = found;
      found = { ...(others[0] as Schema), ...beside };
      continue;
    }
    break;
  }
  return isObject(found) ? found : {};
}

function lookUp(root: Schema, ref: string): Schema {
  if (!ref.startsWith("#")) return {};
  let found: unknown = root;
  for (const part of ref.slice(1).split("/").slice(1)) {
    found = isObject(found) ? found[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  }
  return isObject(found) ? found : {};
}

function typeOf(schema: Schema): string {
  const { type } = schema;
  if (typeof type === "string") return type;
  if (Array.isArray(type)) {
    const others = type.filter((one) => one !== "null");
    return others.length === 1 ? String(others[0]) : "";
  }
  if (isObject(schema.properties)) return "object";
  return "items" in schema ? "array" : "";
}

export function choicesOf(schema: Schema): Choice[] | null {
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => ({ value, label: labelOf(value) }));
  const options = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(options) && options.length > 0 && options.every((one) => isObject(one) && "const" in one)) {
    return options.map((one) => ({ value: one.const, label: typeof one.title === "string" ? one.title : labelOf(one.const) }));
  }
  return null;
}

const labelOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

/** Groups and lists within each other; a schema that contains itself has no end, and goes on as JSON. */
export const DEPTH_MAX = 5;

export function kindOf(schema: Schema, root: Schema, depth = 0): FieldKind {
  if (choicesOf(schema)) return "choice";
  switch (typeOf(schema)) {
    case "object":
      return isObject(schema.properties) && depth < DEPTH_MAX ? "object" : "json";
    case "array": {
      const items = resolve(schema.items, root);
      if (schema.uniqueItems === true && choicesOf(items)) return "choices";
      return isObject(schema.items) && depth < DEPTH_MAX && kindOf(items, root, depth + 1) !== "json" ? "array" : "json";
    }
    case "string":
      if (schema.format === "date") return "date";
      if (schema.format === "date-time") return "moment";
      return schema.format === "textarea" || schema.format === "multiline" || Number(schema.maxLength) > 200 ? "long" : "text";
    case "number":
      return "number";
    case "integer":
      return "integer";
    case "boolean":
      return "boolean";
    default:
      return "json";
  }
}

export const membersOf = (schema: Schema): [string, unknown][] => Object.entries(isObject(schema.properties) ? schema.properties : {});
export const isRequired = (schema: Schema, name: string): boolean => Array.isArray(schema.required) && schema.required.includes(name);

/** `due_date` → "Due date". */
export function titleOf(schema: Schema, name: string): string {
  if (typeof schema.title === "string") return schema.title;
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ").trim();
  return words ? words[0]!.toUpperCase() + words.slice(1) : name;
}

/** What a field begins with; undefined: nothing. */
export function initialOf(schema: unknown, root: Schema, needed = true, depth = 0): unknown {
  const own = resolve(schema, root);
  const kind = kindOf(own, root, depth);
  if (kind === "object" && !needed) return groupOf(own, beginOf(own, root, depth), root, depth);
  if ("default" in own) return structuredClone(own.default);
  if ("const" in own) return structuredClone(own.const);
  if (kind === "object") return beginOf(own, root, depth);
  if (!needed) return undefined;
  if (kind === "boolean") return false;
  return kind === "array" || kind === "choices" ? [] : undefined;
}

/** What the fields of a group begin with. */
export function beginOf(group: Schema, root: Schema, depth = 0): Record<string, unknown> {
  if (isObject(group.default)) return structuredClone(group.default);
  const made: Record<string, unknown> = {};
  for (const [name, member] of membersOf(group)) {
    const value = initialOf(member, root, isRequired(group, name), depth + 1);
    if (value !== undefined) made[name] = value;
  }
  return made;
}

/**
 * The value of an optional group whose fields have these values. While nobody has filled in anything, it is left out, so
 * that none of its members are needed; unless it has defaults, and they are enough.
 */
export function groupOf(group: Schema, fields: Readonly<Record<string, unknown>>, root: Schema, depth = 0): unknown {
  if (!isAsBegun(fields, beginOf(group, root, depth))) return fields;
  const hasDefaults = isObject(group.default) || membersOf(group).some(([, member]) => initialOf(member, root, false, depth + 1) !== undefined);
  if (hasDefaults && Object.keys(fields).length > 0 && findProblems(group, fields, root).size === 0) return fields;
  return isObject(group.default) ? undefined : group.default;
}

/** Whether a field has nothing but what it began with, or is empty. */
const isAsBegun = (value: unknown, begin: unknown): boolean =>
  same(value, begin) ||
  value === "" ||
  (value === false && begin === undefined) ||
  (Array.isArray(value) && value.length === 0) ||
  (isObject(value) && Object.entries(value).every(([name, one]) => isAsBegun(one, isObject(begin) ? begin[name] : undefined)));

const pointerOf = (path: Pointer, part: string | number): Pointer => `${path}/${part}`;

const NUMBER = /^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$/;

/** The number that was typed; undefined: nothing; what is not a number stays a text, and is a problem. */
export const readNumber = (typed: string): number | string | undefined => (typed.trim() === "" ? undefined : NUMBER.test(typed) ? Number(typed) : typed);

/** What is wrong with a value, by the places of its fields. */
export function findProblems(schema: unknown, value: unknown, root: Schema, path: Pointer = "", found = new Map<Pointer, string>()): Map<Pointer, string> {
  const own = resolve(schema, root);
  const say = (message: string): void => void (found.has(path) || found.set(path, message));
  if (value instanceof NotJson) {
    say("This is not JSON");
    return found;
  }
  const allowsNull = value === null && !Object.is(schema, own);
  if (value === undefined || allowsNull || (Array.isArray(own.type) && value === null && own.type.includes("null"))) return found;
  const choices = choicesOf(own);
  if (choices) {
    if (!choices.some((one) => same(one.value, value))) say("Choose one of the values");
    return found;
  }
  switch (typeOf(own)) {
    case "object":
      if (!isObject(value)) {
        say("Expected an object");
        return found;
      }
      for (const [name, member] of membersOf(own)) {
        const inner = pointerOf(path, name);
        if (name in value && value[name] !== undefined) findProblems(member, value[name], root, inner, found);
        else if (isRequired(own, name)) found.set(inner, "This is needed");
      }
      return found;
    case "array":
      if (!Array.isArray(value)) {
        say("Expected a list");
        return found;
      }
      if (value.length < Number(own.minItems ?? 0)) say(`At least ${own.minItems} ${Number(own.minItems) === 1 ? "entry is" : "entries are"} needed`);
      if (value.length > Number(own.maxItems ?? Infinity)) say(`At most ${own.maxItems} entries`);
      value.forEach((one, at) => {
        if (one === undefined || one === null || one === "") found.set(pointerOf(path, at), "This is needed");
        else findProblems(own.items ?? {}, one, root, pointerOf(path, at), found);
      });
      return found;
    case "string": {
      if (typeof value !== "string") say("Expected text");
      else sayAboutText(own, value, say);
      return found;
    }
    case "integer":
    case "number": {
      if (typeof value !== "number" || !Number.isFinite(value)) say("Expected a number");
      else if (typeOf(own) === "integer" && !Number.isInteger(value)) say("Expected a whole number");
      else sayAboutNumber(own, value, say);
      return found;
    }
    case "boolean":
      if (typeof value !== "boolean") say("Choose yes or no");
  }
  return found;
}

function sayAboutText(own: Schema, value: string, say: (message: string) => void): void {
  const length = [...value].length;
  const least = Number(own.minLength ?? 0);
  if (length < least) say(least === 1 ? "This is needed" : `At least ${least} characters`);
  else if (length > Number(own.maxLength ?? Infinity)) say(`At most ${own.maxLength} characters, this has ${length}`);
  else if (typeof own.pattern === "string" && !matches(own.pattern, value)) say(`Does not fit the pattern ${own.pattern}`);
  else if (own.format === "date" && !/^\d{4}-\d\d-\d\d$/.test(value)) say("Expected a date: 2026-11-17");
  else if (own.format === "date-time" && Number.isNaN(Date.parse(value))) say("Expected a date and a time");
  else if (own.format === "email" && !/^[^@\s]+@[^@\s]+$/.test(value)) say("Expected an e-mail address");
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // The server knows it.
  }
}

function sayAboutNumber(own: Schema, value: number, say: (message: string) => void): void {
  if (value < Number(own.minimum ?? -Infinity)) say(`At least ${own.minimum}`);
  else if (value > Number(own.maximum ?? Infinity)) say(`At most ${own.maximum}`);
  else if (value <= Number(own.exclusiveMinimum ?? -Infinity)) say(`More than ${own.exclusiveMinimum}`);
  else if (value >= Number(own.exclusiveMaximum ?? Infinity)) say(`Less than ${own.exclusiveMaximum}`);
}

export const same = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

/** Problems that the server has found (`lines[0].amount: …`), by the places of their fields. `what` names the whole value. */
export function readProblems(texts: readonly string[], what: string): Map<Pointer, string> {
  const found = new Map<Pointer, string>();
  for (const text of texts) {
    const [, where = "", message = text] = /^([^\s:]+): (.*)$/su.exec(text) ?? [];
    let path = where === what || where === "" ? "" : `/${where.replace(/\[(\d+)\]/g, ".$1").replace(/^\./, "").replaceAll(".", "/")}`;
    const missing = /^"([^"]+)" is a required property/.exec(message)?.[1];
    if (missing !== undefined) path += `/${missing}`;
    if (!found.has(path)) found.set(path, missing === undefined ? message : "This is needed");
  }
  return found;
}
