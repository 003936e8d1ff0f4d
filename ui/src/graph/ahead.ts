/** What lies behind a node: where each of its ways leads. */

import type { Graph } from "../fold/types.ts";

export interface Ahead {
  /** The node itself and everything behind it, as a graph of its own. */
  graph: Graph;
  /** What each way can reach, by its name. */
  ways: ReadonlyMap<string, ReadonlySet<string>>;
  /** Nodes that were left out because there are too many. */
  left: number;
}

/** Everything behind `node`, the nearest `most` nodes of it. `starts` are the first nodes of each way. */
export function findAhead(graph: Graph, node: string, starts: Readonly<Record<string, readonly string[]>>, most = 24): Ahead {
  const after = new Map<string, string[]>();
  for (const { from, to, roles } of graph.edges) {
    if (roles.length === 1 && roles[0] === "back") continue;
    after.set(from, [...(after.get(from) ?? []), to]);
  }
  const reach = (from: readonly string[]): Set<string> => {
    const found = new Set(from);
    for (const one of found) for (const next of after.get(one) ?? []) if (next !== node) found.add(next);
    return found;
  };
  const ways = new Map(Object.entries(starts).map(([name, from]) => [name, reach(from)]));
  const all = reach(Object.values(starts).flat());
  // The nearest first: sets keep the order in which they were filled.
  const kept = new Set([node, ...[...all].slice(0, most)]);
  const nodes = graph.nodes.filter((one) => kept.has(one.id));
  const edges = graph.edges.filter((one) => kept.has(one.from) && kept.has(one.to) && one.to !== node);
  return { graph: { ...graph, nodes, edges }, ways, left: Math.max(0, all.size - most) };
}
