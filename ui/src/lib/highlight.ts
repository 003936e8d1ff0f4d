/** JSON and YAML in colours: lines of pieces, each with a kind. Not a parser: nothing is refused. */

export type PieceKind = "" | "key" | "string" | "number" | "word" | "comment" | "mark" | "template";

export interface Piece {
  kind: PieceKind;
  text: string;
}

export type Language = "json" | "yaml";

export function highlight(text: string, language: Language): Piece[][] {
  const lines = text.split("\n");
  return language === "json" ? lines.map(jsonLine) : yamlLines(lines);
}

const JSON_PIECE = /("(?:[^"\\]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b|([{}[\],:])|(\s+|.)/gu;

function jsonLine(line: string): Piece[] {
  const found: Piece[] = [];
  for (const [, text, colon, number, word, mark, other] of line.matchAll(JSON_PIECE)) {
    if (text !== undefined) {
      if (colon !== undefined) found.push({ kind: "key", text }, { kind: "mark", text: colon });
      else found.push(...inText(text));
    } else if (number !== undefined) found.push({ kind: "number", text: number });
    else if (word !== undefined) found.push({ kind: "word", text: word });
    else if (mark !== undefined) found.push({ kind: "mark", text: mark });
    else found.push({ kind: "", text: other! });
  }
  return found;
}

/** Templates stand out in texts. */
function inText(text: string): Piece[] {
  return text
    .split(/(\{\{.*?\}\})/u)
    .filter(Boolean)
    .map((part) => ({ kind: part.startsWith("{{") ? "template" : "string", text: part }));
}

const YAML_KEY = /^(\s*(?:- +)*)((?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#:,[\]{}"'&*!|>%@`-][^#:]*?|-[^\s#:][^#:]*?))(\s*:)(?=\s|$)(.*)$/u;
const YAML_ITEM = /^(\s*(?:- +)*-?)(.*)$/u;

function yamlLines(lines: string[]): Piece[][] {
  let block = -1; // The indentation of a block of text, while in one.
  return lines.map((line) => {
    const indent = /^ */.exec(line)![0].length;
    if (block >= 0) {
      if (line.trim() === "" || indent > block) return inText(line);
      block = -1;
    }
    if (/[|>][+-]?\d?\s*(?:#.*)?$/u.test(line) && /(?::|-)\s+[|>]/u.test(line)) block = indent;
    if (line.trimStart().startsWith("#")) return [{ kind: "comment", text: line }];
    const key = YAML_KEY.exec(line);
    if (key) return [...marks(key[1]!), { kind: "key", text: key[2]! }, { kind: "mark", text: key[3]! }, ...yamlValue(key[4]!)];
    const item = YAML_ITEM.exec(line)!;
    return [...marks(item[1]!), ...yamlValue(item[2]!)];
  });
}

const marks = (text: string): Piece[] => (text ? [{ kind: "mark", text }] : []);

const YAML_PIECE = /(\s#.*$)|("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)(\s*:(?=\s|$))?|(\{\{.*?\}\})|([{}[\],])|([^\s{}[\],"'#][^{}[\],#]*?)(\s*:(?=\s|$))|([^\s{}[\],"']+)|(\s+|.)/gu;

function yamlValue(text: string): Piece[] {
  const found: Piece[] = [];
  for (const [, comment, quoted, quotedColon, template, mark, name, colon, plain, other] of text.matchAll(YAML_PIECE)) {
    if (comment !== undefined) found.push({ kind: "comment", text: comment });
    else if (quoted !== undefined) {
      if (quotedColon !== undefined) found.push({ kind: "key", text: quoted }, { kind: "mark", text: quotedColon });
      else found.push(...inText(quoted));
    } else if (template !== undefined) found.push({ kind: "template", text: template });
    else if (mark !== undefined) found.push({ kind: "mark", text: mark });
    else if (name !== undefined) found.push({ kind: "key", text: name }, { kind: "mark", text: colon! });
    else if (plain !== undefined) found.push({ kind: kindOfPlain(plain), text: plain });
    else found.push({ kind: "", text: other! });
  }
  return found;
}

function kindOfPlain(text: string): PieceKind {
  if (/^-?\d[\d_]*(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return "number";
  return /^(true|false|null|yes|no|~)$/i.test(text) ? "word" : "string";
}
