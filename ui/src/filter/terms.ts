/**
 * Filters of runs as text (`status:failed workflow:order age<1h refund`). The server reads them, so that they mean the
 * same everywhere; the page only puts terms in and takes them out.
 */

const words = (text: string): string[] => text.match(/(?:"[^"]*"?|[^\s"])+/g) ?? [];

/** The value of a term; null: there is none. */
export function termOf(text: string, name: string): string | null {
  const found = words(text).find((part) => part.toLowerCase().startsWith(`${name}:`));
  return found === undefined ? null : found.slice(name.length + 1);
}

/** Put a term into a filter, in place of one of the same name; without a value, take it out. */
export function withTerm(text: string, name: string, value: string | null): string {
  const rest = words(text).filter((part) => !part.toLowerCase().startsWith(`${name}:`));
  return [...(value === null ? [] : [`${name}:${value}`]), ...rest].join(" ");
}
