/** What edges say. */

import type { GraphEdge } from "../fold/types.ts";

/** A label is no wider than a node: beside it is the label of the next one. */
const LETTERS = 30;

/** What an edge is for. */
export const roleOf = (roles: readonly string[]): string => roles.find((one) => one !== "static") ?? "static";

/** What an edge says: its condition, or what it is for; null: it is always taken. */
export function labelOf({ roles, rules, is_default }: GraphEdge): string | null {
  const role = roleOf(roles);
  if (role === "static" || role === "back") return null;
  const [rule] = rules;
  if (rule) return rule.condition;
  return is_default ? "otherwise" : role;
}

/** As much of a label as there is room for. */
export const cut = (text: string): string => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);
