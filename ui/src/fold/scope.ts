/** Scopes: the position of a node instance, as the server writes it (`a0b12` is [0, 12]). */

export type Scope = readonly number[];

const known = new Map<string, Scope>();

export function decodeScope(text: string): Scope {
  const found = known.get(text);
  if (found) return found;
  const numbers: number[] = [];
  for (let at = 0; at < text.length; ) {
    const end = at + 1 + text.charCodeAt(at) - 96;
    numbers.push(Number(text.slice(at + 1, end)));
    at = end;
  }
  known.set(text, numbers);
  return numbers;
}

export function encodeScope(scope: Scope): string {
  return scope.map((number) => String.fromCharCode(96 + String(number).length) + number).join("");
}

/** For people: "" or "[2.0]". */
export function showScope(scope: Scope): string {
  return scope.length ? `[${scope.join(".")}]` : "";
}

/** The node that an author wrote, for one of the hidden nodes that belong to it. */
export function authorOf(node: string): string {
  const at = node.indexOf("$");
  return at > 0 ? node.slice(0, at) : node;
}
