/** A graph as the server sends it, compact: with what it leaves out. */

import type { Shape } from "../api/types.ts";
import type { Graph, GraphEdge, GraphNode } from "./types.ts";

const NODE = {
  handler: null,
  nest: [],
  need: 0,
  is_output: false,
  foreach: false,
  title: null,
  branch: null,
  loop: null,
  child: null,
  config: null,
  has_compensator: false,
};
const EDGE = { roles: ["static"], rules: [], is_default: false };

export function wholeGraph({ name, constructs, nodes, edges }: Shape<"Graph">): Graph {
  return {
    name,
    constructs: constructs as Graph["constructs"],
    nodes: nodes.map((node) => ({ ...NODE, ...node }) as unknown as GraphNode),
    edges: edges.map((edge) => ({ ...EDGE, ...edge }) as unknown as GraphEdge),
  };
}
