import { useMemo, type KeyboardEvent } from "react";
import type { Graph } from "../fold/types.ts";
import { layOut, type LayoutResult } from "../graph/layout.ts";
import { curve } from "../graph/path.ts";

const WIDTH = 116;
const HEIGHT = 26;
const LETTERS = 17;

interface MiniGraphProps {
  graph: Graph;
  /** The node in question. */
  from?: string;
  /** These are shown as what comes next; others step back. */
  lit?: ReadonlySet<string> | null;
  tone?: "green" | "red" | "accent";
  label: string;
  onChoose?: (id: string) => void;
  /** In its own size times this, however large that is: what is around it scrolls. */
  size?: number | null;
  /** What has become of its nodes. */
  statuses?: ReadonlyMap<string, string>;
  layout?: LayoutResult;
}

export function miniLayout(graph: Graph): LayoutResult {
  return layOut({
    nodes: graph.nodes.map(({ id }) => ({ id, width: WIDTH, height: HEIGHT })),
    edges: graph.edges.map(({ from: source, to, roles }) => ({ from: source, to, back: roles.length === 1 && roles[0] === "back" })),
    gap: { layer: 26, node: 12 },
  });
}

/** A graph as a small drawing: enough to see where things lead. */
export function MiniGraph({ graph, from, lit = null, tone = "accent", label, onChoose, size = null, statuses, layout: known }: MiniGraphProps) {
  const layout = useMemo(() => known ?? miniLayout(graph), [known, graph]);
  const isLit = (id: string): boolean => lit === null || lit.has(id) || id === from;
  const lines = graph.edges.map(({ from: source, to, roles }, at) => {
    const a = layout.nodes.get(source);
    const b = layout.nodes.get(to);
    if (!a || !b || roles.includes("back")) return null;
    const points = [{ x: a.x + WIDTH / 2, y: a.y + HEIGHT }, ...(layout.waypoints.get(at) ?? []), { x: b.x + WIDTH / 2, y: b.y }];
    return <path key={at} className="mini-edge" data-role={roles.find((one) => one !== "static")} data-lit={(lit !== null && isLit(source) && isLit(to)) || undefined} data-dim={!(isLit(source) && isLit(to)) || undefined} d={curve(points)} />;
  });
  return (
    <svg
      className="mini-graph"
      data-tone={tone}
      role={onChoose ? "group" : "img"}
      aria-label={label}
      viewBox={`-2 -2 ${layout.width + 4} ${layout.height + 4}`}
      data-full={size !== null || undefined}
      style={size === null ? { maxWidth: layout.width + 4 } : { width: (layout.width + 4) * size, height: (layout.height + 4) * size }}
    >
      {lines}
      {graph.nodes.map((node) => {
        const { x, y } = layout.nodes.get(node.id)!;
        const name = node.is_output ? "output" : node.id;
        return (
          <g
            key={node.id}
            className="mini-node"
            data-from={node.id === from || undefined}
            data-lit={(lit !== null && lit.has(node.id)) || undefined}
            data-dim={!isLit(node.id) || undefined}
            data-open={onChoose ? true : undefined}
            data-status={statuses && (statuses.get(node.id) ?? "pending")}
            {...(onChoose ? asButton(name, () => onChoose(node.id)) : {})}
          >
            <title>{`${name} (${statuses?.get(node.id) ?? node.type})`}</title>
            <rect x={x} y={y} width={WIDTH} height={HEIGHT} rx={6} />
            <text x={x + WIDTH / 2} y={y + HEIGHT / 2} textAnchor="middle" dominantBaseline="central">
              {name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

/** A part of a drawing that can be chosen, with keys as well. */
const asButton = (name: string, choose: () => void) => ({
  role: "button",
  tabIndex: 0,
  "aria-label": name,
  onClick: choose,
  onKeyDown: (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  },
});
