/** A graph as it is drawn: where each node lies and how large it is, and the points of each edge. Pure. */

import type { Edge, Node, Viewport } from "@xyflow/react";
import type { Graph, GraphEdge, GraphNode } from "../../fold/types.ts";
import { roleOf } from "../../graph/label.ts";
import { layOut, type LayoutResult, type Point } from "../../graph/layout.ts";

export const WIDTH = 184;
export const HEIGHT = 46;

export interface Size {
  width: number;
  height: number;
}

export type StepNode = Node<{ node: GraphNode; isOpen: boolean }, "step">;
export type FlowNode = StepNode & Size;
export type FlowEdge = Edge<{ edge: GraphEdge; role: string; points: Point[]; slot: number }, "way">;
export type Box = Point & Size;

export interface Drawing {
  layout: LayoutResult;
  nodes: FlowNode[];
  edges: FlowEdge[];
  boxes: ReadonlyMap<string, Box>;
}

const CLOSED: Size = { width: WIDTH, height: HEIGHT };

/** Lay a graph out; `open` are the nodes that show what is inside them, and how large they are. */
export function toDrawing(graph: Graph, open: ReadonlyMap<string, Size>): Drawing {
  const isBack = (roles: string[]): boolean => roles.length === 1 && roles[0] === "back";
  const sizeOf = (id: string): Size => open.get(id) ?? CLOSED;
  const layout = layOut({
    nodes: graph.nodes.map(({ id }) => ({ id, ...sizeOf(id) })),
    edges: graph.edges.map(({ from, to, roles }) => ({ from, to, back: isBack(roles) })),
  });
  const boxes = new Map<string, Box>();
  const nodes = graph.nodes.map((node): FlowNode => {
    const box = { ...layout.nodes.get(node.id)!, ...sizeOf(node.id) };
    boxes.set(node.id, box);
    return { id: node.id, type: "step", position: box, width: box.width, height: box.height, data: { node, isOpen: open.has(node.id) } };
  });
  // Labels stand above the node that their edge leads to, one above the other if there are several.
  const labels = new Map<string, number>();
  const edges = graph.edges.map((edge, at): FlowEdge => {
    const role = roleOf(edge.roles);
    const slot = role === "static" ? 0 : (labels.get(edge.to) ?? 0);
    if (role !== "static") labels.set(edge.to, slot + 1);
    return {
      id: String(at),
      type: "way",
      source: edge.from,
      target: edge.to,
      // A label lies above the lines of other edges.
      zIndex: role === "static" ? 0 : 1,
      ...(isBack(edge.roles) ? { sourceHandle: "side", targetHandle: "side" } : {}),
      data: { edge, role, points: layout.waypoints.get(at) ?? [], slot },
    };
  });
  return { layout, nodes, edges, boxes };
}

export function inSight({ nodes }: Drawing, { x, y, zoom }: Viewport, width: number, height: number): FlowNode[] {
  const [left, top, right, bottom] = [-x / zoom, -y / zoom, (width - x) / zoom, (height - y) / zoom];
  return nodes.filter(({ position, width, height }) => position.x + width > left && position.x < right && position.y + height > top && position.y < bottom);
}

/** Only edges with something to read: the canvas has all lines. */
export function labelled(edges: readonly FlowEdge[], nodes: readonly FlowNode[]): FlowEdge[] {
  const shown = new Set(nodes.map((node) => node.id));
  return edges.filter(({ source, target, data }) => data!.role !== "static" && shown.has(source) && shown.has(target));
}

/** The node at a point, or the nearest within some distance; "": none. */
export function nodeAt({ nodes }: Drawing, { x, y }: Point, within: number): string {
  let [nearest, best] = ["", within];
  for (const { id, position, width, height } of nodes) {
    const away = Math.hypot(Math.max(position.x - x, 0, x - position.x - width), Math.max(position.y - y, 0, y - position.y - height));
    if (away < best) [nearest, best] = [id, away];
  }
  return nearest;
}
