/**
 * Where things are in a document's text: maps, lists and scalars of YAML and JSON with their places.
 *
 * Not a parser: the server's is the one that counts. This one never refuses a text, so that it can be used
 * while somebody types, and it keeps no values but the short ones that edits and completion look at.
 */

export interface Part {
  kind: "map" | "list" | "scalar";
  start: number;
  /** After its last character; blank lines and comments that follow are not part of it. */
  end: number;
  /** Written with brackets, as in JSON. */
  flow: boolean;
  /** The column of its keys or dashes; of a flow, that of its line. */
  indent: number;
  entries: Entry[];
  /** Of a scalar, without quotes. */
  text: string;
}

export interface Entry {
  /** "" in a list. */
  key: string;
  /** Where its key or its dash begins; in a flow list, its value. */
  start: number;
  end: number;
  value: Part | null;
}

interface Line {
  start: number;
  end: number;
  /** The column of its first character; -1: blank or a comment. */
  indent: number;
}

export function outline(text: string): Part {
  const first = /^(?:\s|#[^\n]*\n|---[^\n]*\n)*/.exec(text)![0].length;
  if (text[first] === "{" || text[first] === "[") return new Flow(text, text.length, 0).value(first);
  const block = new Block(text);
  return block.value(-1) ?? { kind: "map", start: text.length, end: text.length, flow: false, indent: 0, entries: [], text: "" };
}

/** The value of a key, or of an item. */
export function member(part: Part | null | undefined, key: string | number): Part | null {
  if (!part) return null;
  const entry = typeof key === "number" ? part.entries[key] : part.entries.find((one) => one.key === key);
  return entry?.value ?? null;
}

/** A key with its colon: quoted, or plain. */
const KEY = /("(?:[^"\\\n]|\\.)*"|'(?:[^'\n]|'')*'|[^\s#,[\]{}"'&*!|>%@`-][^\n#]*?|-[^\s][^\n#]*?)[ \t]*:(?=[ \t\n]|$)/y;

class Block {
  private readonly lines: Line[] = [];
  private at = 0;
  private readonly text: string;

  constructor(text: string) {
    this.text = text;
    for (let start = 0; start <= text.length; ) {
      let end = text.indexOf("\n", start);
      if (end < 0) end = text.length;
      let first = start;
      while (text[first] === " ") first++;
      const rest = text[first];
      const blank = first >= end || rest === "#" || rest === "\r" || (first === start && text.startsWith("---", start));
      this.lines.push({ start, end: text[end - 1] === "\r" ? end - 1 : end, indent: blank ? -1 : first - start });
      start = end + 1;
    }
  }

  /** What is indented by more than `outer`; null: nothing is. `same`: a list may have the same column as its key. */
  value(outer: number, same = false): Part | null {
    const line = this.next();
    if (!line) return null;
    const isItem = this.isItem(line);
    if (line.indent <= outer && !(same && isItem && line.indent === outer)) return null;
    return isItem ? this.list(line.indent) : this.map(line.indent);
  }

  private next(): Line | null {
    while (this.at < this.lines.length && this.lines[this.at]!.indent < 0) this.at++;
    return this.lines[this.at] ?? null;
  }

  private isItem(line: Line): boolean {
    const start = line.start + line.indent;
    return this.text[start] === "-" && (start + 1 >= line.end || this.text[start + 1] === " ");
  }

  private list(indent: number): Part {
    const part: Part = { kind: "list", start: -1, end: 0, flow: false, indent, entries: [], text: "" };
    for (let line = this.next(); line && line.indent === indent && this.isItem(line); line = this.next()) {
      const start = line.start + indent;
      let content = start + 1;
      while (this.text[content] === " ") content++;
      const entry: Entry = { key: "", start, end: start + 1, value: null };
      if (content >= line.end || this.text[content] === "#") {
        this.at++;
        entry.value = this.value(indent);
      } else {
        // What is beside the dash is the first line of the item.
        line.indent = content - line.start;
        KEY.lastIndex = content;
        const isMap = !"{[".includes(this.text[content]!) && KEY.test(this.text) && KEY.lastIndex <= line.end;
        entry.value = isMap ? this.map(line.indent) : this.isItem(line) ? this.list(line.indent) : this.inline(content, indent);
      }
      entry.end = entry.value?.end ?? entry.end;
      part.entries.push(entry);
    }
    return close(part);
  }

  private map(indent: number): Part {
    const part: Part = { kind: "map", start: -1, end: 0, flow: false, indent, entries: [], text: "" };
    for (let line = this.next(); line && line.indent === indent; line = this.next()) {
      const start = line.start + indent;
      KEY.lastIndex = start;
      const found = KEY.exec(this.text);
      if (!found || KEY.lastIndex > line.end) {
        // A key that is not finished, most likely.
        part.entries.push({ key: unquote(this.text.slice(start, line.end).trim()), start, end: line.end, value: null });
        this.at++;
        continue;
      }
      let content = KEY.lastIndex;
      const entry: Entry = { key: unquote(found[1]!), start, end: content, value: null };
      while (this.text[content] === " " || this.text[content] === "\t") content++;
      if (content >= line.end || this.text[content] === "#") {
        this.at++;
        entry.value = this.value(indent, true);
      } else entry.value = this.inline(content, indent);
      entry.end = entry.value?.end ?? entry.end;
      part.entries.push(entry);
    }
    const line = this.next();
    // Lines that fit nowhere must not stop it.
    if (!part.entries.length && line) this.at++;
    else if (line && line.indent > indent) {
      this.at++;
      const rest = this.map(indent);
      part.entries.push(...rest.entries);
    }
    return close(part);
  }

  /** A value that begins on the line of its key. */
  private inline(start: number, outer: number): Part {
    const first = this.at++;
    while (this.at < this.lines.length && (this.lines[this.at]!.indent < 0 || this.lines[this.at]!.indent > outer)) this.at++;
    let last = this.at - 1;
    const letter = this.text[start]!;
    const isBlock = letter === "|" || letter === ">";
    while (last > first && this.lines[last]!.indent < 0) last--;
    const limit = this.lines[last]!.end;
    if (letter === "{" || letter === "[") {
      const part = new Flow(this.text, limit, outer).value(start);
      this.at = first + 1;
      while (this.at <= last && this.lines[this.at]!.start < part.end) this.at++;
      return part;
    }
    const own = isBlock ? this.text.slice(start, limit) : (/^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(this.text.slice(start, limit))?.[0] ?? this.text.slice(start, limit).replace(/\s#.*$/s, ""));
    const text = own.trimEnd();
    return { kind: "scalar", start, end: start + text.length, flow: false, indent: outer, entries: [], text: isBlock ? "" : unquote(text) };
  }
}

class Flow {
  private readonly text: string;
  private readonly limit: number;
  private readonly indent: number;
  private at = 0;

  constructor(text: string, limit: number, indent: number) {
    this.text = text;
    this.limit = limit;
    this.indent = indent;
  }

  value(start: number): Part {
    this.at = start;
    return this.read();
  }

  private skip(): void {
    for (;;) {
      const found = /^(?:\s+|#[^\n]*)/.exec(this.text.slice(this.at, Math.min(this.limit, this.at + 200)));
      if (!found || this.at >= this.limit) return;
      this.at += found[0].length;
    }
  }

  private read(): Part {
    const start = this.at;
    const letter = this.text[start];
    const part: Part = { kind: letter === "{" ? "map" : letter === "[" ? "list" : "scalar", start, end: start, flow: true, indent: this.indent, entries: [], text: "" };
    if (part.kind === "scalar") {
      part.text = unquote(this.scalar());
      part.end = this.at;
      return part;
    }
    const closing = letter === "{" ? "}" : "]";
    this.at++;
    for (;;) {
      this.skip();
      const next = this.text[this.at];
      if (this.at >= this.limit) break;
      if (next === ",") {
        this.at++;
        continue;
      }
      if (next === "}" || next === "]") {
        if (next === closing) this.at++;
        break;
      }
      const entry: Entry = { key: "", start: this.at, end: this.at, value: null };
      const before = this.at;
      if (part.kind === "map") {
        entry.key = unquote(this.scalar());
        this.skip();
        if (this.text[this.at] === ":") {
          this.at++;
          this.skip();
          if (this.at < this.limit && !",}]".includes(this.text[this.at]!)) entry.value = this.read();
        }
      } else entry.value = this.read();
      if (this.at === before) this.at++;
      entry.end = this.at;
      part.entries.push(entry);
    }
    part.end = Math.min(this.at, this.limit);
    return part;
  }

  private scalar(): string {
    const rest = /(?:"(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?|(?:[^\s,[\]{}:#"']|:(?![\s,]|$)|[ \t]+(?=[^\s,[\]{}:#])|\{\{.*?\}\})+)/y;
    rest.lastIndex = this.at;
    const found = rest.exec(this.text)?.[0] ?? "";
    this.at = Math.min(this.limit, this.at + found.length);
    return found.trimEnd();
  }
}

function close(part: Part): Part {
  part.start = part.entries[0]?.start ?? 0;
  part.end = part.entries.at(-1)?.end ?? part.start;
  return part;
}

function unquote(text: string): string {
  if (text.startsWith('"')) {
    try {
      return JSON.parse(text) as string;
    } catch {
      return text.replace(/^"|"$/g, "");
    }
  }
  return text.startsWith("'") ? text.replace(/^'|'$/g, "").replaceAll("''", "'") : text;
}

/** A node as it is written. */
export interface WrittenNode {
  id: string;
  /** Where its id is; without one, where the node begins. */
  at: number;
  part: Part;
  type: string;
  handler: string;
  /** Nodes that come before it, as far as this node says so. */
  dependencies: string[];
}

/** The nodes of a document, in their order. */
export function writtenNodes(root: Part): WrittenNode[] {
  const nodes = member(root, "nodes");
  if (nodes?.kind !== "list") return [];
  return nodes.entries.flatMap(({ value, start }) => {
    if (value?.kind !== "map") return [];
    const id = member(value, "id") ?? member(value, "node_id");
    const before = member(value, "dependencies") ?? member(value, "depends_on");
    return {
      id: id?.text ?? "",
      at: id?.start ?? start,
      part: value,
      type: member(value, "type")?.text ?? "task",
      handler: member(value, "handler")?.text ?? "",
      dependencies: before?.kind === "list" ? before.entries.flatMap((one) => (one.value?.kind === "scalar" ? [one.value.text] : [])) : [],
    };
  });
}
