/** Texts that are not deployed yet. They stay in this browser, one for each workflow. */

import type { Graph } from "../../fold/types.ts";
import type { WrittenNode } from "../../document/outline.ts";
import { labelOf, roleOf } from "../../graph/label.ts";

export interface Draft {
  text: string;
  at: number;
  /** What it began with. */
  base: string;
}

const keyOf = (name: string): string => `minuet.draft.${name}`;

export function readDraft(name: string): Draft | null {
  try {
    const found = JSON.parse(localStorage.getItem(keyOf(name)) ?? "null") as Draft | null;
    return found && typeof found.text === "string" ? found : null;
  } catch {
    return null;
  }
}

/** Keep a draft; a text that is as it began needs none. False: the browser has no room for it. */
export function keepDraft(name: string, draft: Draft): boolean {
  try {
    if (draft.text === draft.base) localStorage.removeItem(keyOf(name));
    else localStorage.setItem(keyOf(name), JSON.stringify(draft));
    return true;
  } catch {
    return false;
  }
}

export interface ShownNode {
  id: string;
  /** Its handler, or its type. */
  about: string;
  type: string;
  /** Written, but not part of a valid document. */
  isDraft: boolean;
}

export interface ShownEdge {
  from: string;
  to: string;
  role: string;
  /** null: it says nothing. */
  label: string | null;
}

export interface Shown {
  nodes: ShownNode[];
  edges: ShownEdge[];
}

/**
 * The graph of a text: that of the last valid document, changed by what is written since then. So nodes
 * that are not finished can be seen, and connected.
 */
export function shownGraph(valid: Graph | null, written: readonly WrittenNode[], isCurrent: boolean): Shown {
  const nodes = new Map<string, ShownNode>();
  const edges = new Map<string, ShownEdge>();
  const isWritten = new Set(written.map((one) => one.id));
  for (const one of valid?.nodes ?? []) {
    if (one.is_output || (!isCurrent && !isWritten.has(one.id))) continue;
    nodes.set(one.id, { id: one.id, about: one.handler ?? one.type, type: one.type, isDraft: false });
  }
  if (!isCurrent) {
    for (const one of written) {
      if (one.id && !nodes.has(one.id)) nodes.set(one.id, { id: one.id, about: one.handler || one.type, type: one.type, isDraft: true });
    }
  }
  for (const edge of valid?.edges ?? []) {
    const { from, to, roles } = edge;
    if (nodes.has(from) && nodes.has(to)) edges.set(`${from}\0${to}`, { from, to, role: roleOf(roles), label: labelOf(edge) });
  }
  if (!isCurrent) {
    const own = new Map(written.map((one) => [one.id, one.dependencies]));
    for (const [key, edge] of edges) if (edge.role === "static" && !own.get(edge.to)?.includes(edge.from)) edges.delete(key);
    for (const [to, before] of own) for (const from of before) if (nodes.has(from) && nodes.has(to) && !edges.has(`${from}\0${to}`)) edges.set(`${from}\0${to}`, { from, to, role: "static", label: null });
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}
