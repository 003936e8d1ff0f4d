import { ControlButton, Controls, Handle, MiniMap, Position, ReactFlow, type Edge, type EdgeProps, type Node, type NodeProps, type ReactFlowInstance, type Viewport } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { createContext, memo, use, useCallback, useEffect, useMemo, useRef, useState, type MouseEvent } from "react";
import { get } from "../../api/client.ts";
import type { Explanation } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Icon, statusKey } from "../../components/index.ts";
import type { Graph, GraphEdge, GraphNode, NodeState, NodeStatus } from "../../fold/types.ts";
import { layOut, type LayoutResult, type Point } from "../../graph/layout.ts";
import { showCount, showDuration } from "../../lib/format.ts";
import { clear, drawLines, drawNodes, type Painted } from "./canvas.ts";
import { useMark, useNodeState, type RunModel } from "./model.ts";
import { operandsOf, type Decision } from "./Why.tsx";

export const WIDTH = 184;
export const HEIGHT = 46;
/** More nodes than this at once are drawn on a canvas, without details. */
const DETAILED_MAX = 300;
/** With more branches, values are shown on the edges of the chosen node only: each branch is a question to the server. */
const ASKED_MAX = 12;
/** Pixels by which a click may miss a node that is drawn small. */
const PICKED_MAX = 8;

interface Context {
  model: RunModel;
  chosen: string;
  onChoose: (id: string) => void;
}
const GraphContext = createContext<(Context & { asksAll: boolean }) | null>(null);

type FlowNode = Node<{ node: GraphNode }, "step">;
type FlowEdge = Edge<{ edge: GraphEdge; role: string; points: Point[] }, "way">;

export interface Drawing {
  layout: LayoutResult;
  nodes: FlowNode[];
  edges: FlowEdge[];
}

/** The whole declared graph, laid out once. Nodes change their colours, never their places. */
export const GraphView = memo(({ model, graph, chosen, onChoose }: Context & { graph: Graph }) => {
  const drawing = useMemo(() => toFlow(graph), [graph]);
  const asksAll = useMemo(() => graph.nodes.filter((node) => node.branch).length <= ASKED_MAX, [graph]);
  const context = useMemo(() => ({ model, chosen, onChoose, asksAll }), [model, chosen, onChoose, asksAll]);
  const View = graph.nodes.length > DETAILED_MAX ? LargeGraph : SmallGraph;
  return (
    <div className="graph">
      <GraphContext value={context}>
        <View drawing={drawing} />
      </GraphContext>
    </div>
  );
});

const FIT = { padding: 0.15, maxZoom: 1 };
const FIXED = {
  nodesDraggable: false,
  nodesConnectable: false,
  elementsSelectable: false,
  nodesFocusable: false,
  edgesFocusable: false,
  minZoom: 0.01,
  maxZoom: 2,
  zoomOnDoubleClick: false,
  proOptions: { hideAttribution: true },
} as const;

function SmallGraph({ drawing: { nodes, edges } }: { drawing: Drawing }) {
  const flow = useRef<ReactFlowInstance<FlowNode, FlowEdge>>(null);
  const box = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    // A panel beside the graph moves it aside, rather than to cover it. What somebody has zoomed stays as large as it is.
    let { clientWidth: width, clientHeight: height } = box.current!;
    const observer = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = box.current!;
      const viewport = flow.current?.getViewport();
      if (!viewport || (clientWidth === width && clientHeight === height)) return;
      if (!moved.current) void flow.current!.fitView(FIT);
      else void flow.current!.setViewport({ ...viewport, x: viewport.x + (clientWidth - width) / 2, y: viewport.y + (clientHeight - height) / 2 });
      width = clientWidth;
      height = clientHeight;
    });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <ReactFlow ref={box} onInit={(made) => void (flow.current = made)} onMoveStart={(event) => event && (moved.current = true)} {...FIXED} nodes={nodes} edges={edges} nodeTypes={NODE_TYPES} edgeTypes={EDGE_TYPES} onlyRenderVisibleElements fitView fitViewOptions={FIT}>
      <Controls showInteractive={false} fitViewOptions={FIT} />
      {nodes.length > 30 && <MiniMap pannable zoomable nodeColor="var(--line-strong)" maskColor="rgb(128 128 140 / 12%)" />}
    </ReactFlow>
  );
}

const NONE: { nodes: FlowNode[]; edges: FlowEdge[]; key: string } = { nodes: [], edges: [], key: "" };

/** Edges and distant nodes are on a canvas; once few enough nodes are in sight, they are drawn in full. */
function LargeGraph({ drawing }: { drawing: Drawing }) {
  const { model, chosen, onChoose } = use(GraphContext)!;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const lines = useRef<HTMLCanvasElement>(null);
  const drawn = useRef({ place: "", isDetailed: false });
  const painted = useRef<Painted | null>(null);
  const flow = useRef<ReactFlowInstance<FlowNode, FlowEdge>>(null);
  const viewport = useRef<Viewport>({ x: 0, y: 0, zoom: 0.1 });
  const frame = useRef(0);
  const [near, setNear] = useState(NONE);
  const paint = useCallback(() => {
    frame.current = 0;
    const { clientWidth: width, clientHeight: height } = box.current!;
    const { x, y, zoom } = viewport.current;
    const sight = { drawing, viewport: viewport.current, width, height };
    const theme = getComputedStyle(lines.current!).getPropertyValue("--line-strong");
    const place = [x, y, zoom, width, height, theme, drawing.layout.width, drawing.nodes.length].join(" ");
    if (place !== drawn.current.place) {
      const found = inSight(drawing, viewport.current, width, height);
      const isDetailed = found.length <= DETAILED_MAX && zoom > 0.35;
      const next = isDetailed ? found : NONE.nodes;
      const key = next.map((node) => node.id).join("\n");
      setNear((before) => (before.key === key ? before : { nodes: next, edges: labelled(drawing.edges, next), key }));
      drawLines(lines.current!, sight);
      drawn.current = { place, isDetailed };
    }
    if (drawn.current.isDetailed) {
      if (painted.current) clear(canvas.current!);
      painted.current = null;
    } else painted.current = drawNodes(canvas.current!, { ...sight, model, chosen }, `${place} ${chosen}`, painted.current);
  }, [drawing, model, chosen]);
  const latest = useRef(paint);
  latest.current = paint;
  const later = useCallback(() => {
    frame.current ||= requestAnimationFrame(() => latest.current());
  }, []);
  const fit = useCallback(() => {
    const { clientWidth: width, clientHeight: height } = box.current!;
    const { layout } = drawing;
    const zoom = Math.max(FIXED.minZoom, Math.min(1, (width * 0.94) / layout.width, (height * 0.94) / layout.height));
    void flow.current?.setViewport({ x: (width - layout.width * zoom) / 2, y: Math.max(16, (height - layout.height * zoom) / 2), zoom });
  }, [drawing]);
  useEffect(() => {
    const observer = new ResizeObserver(later);
    observer.observe(box.current!);
    const stop = model.subscribe(later);
    later();
    return () => {
      observer.disconnect();
      stop();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [model, later, paint]);
  const pick = (event: MouseEvent): void => {
    const { x, y } = flow.current!.screenToFlowPosition({ x: event.clientX, y: event.clientY }, { snapToGrid: false });
    let [nearest, best] = ["", PICKED_MAX / viewport.current.zoom];
    for (const { id, position } of drawing.nodes) {
      const away = Math.hypot(Math.max(position.x - x, 0, x - position.x - WIDTH), Math.max(position.y - y, 0, y - position.y - HEIGHT));
      if (away < best) [nearest, best] = [id, away];
    }
    if (nearest) onChoose(nearest);
  };
  return (
    <div className="graph-large" ref={box}>
      <canvas ref={lines} aria-hidden="true" />
      <canvas ref={canvas} role="img" aria-label={`${drawing.nodes.length} nodes`} />
      <ReactFlow
        {...FIXED}
        nodes={near.nodes}
        edges={near.edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        onInit={(made) => {
          flow.current = made;
          fit();
        }}
        onMove={(_, next) => {
          viewport.current = next;
          later();
        }}
        onPaneClick={pick}
      >
        <Controls showInteractive={false} showFitView={false}>
          <ControlButton onClick={fit} title="Fit view" aria-label="Fit view">
            <svg viewBox="0 0 16 16">
              <path d="M1 1h5v2H3v3H1zM10 1h5v5h-2V3h-3zM1 10h2v3h3v2H1zM13 10h2v5h-5v-2h3z" />
            </svg>
          </ControlButton>
        </Controls>
      </ReactFlow>
    </div>
  );
}

function inSight({ nodes }: Drawing, { x, y, zoom }: Viewport, width: number, height: number): FlowNode[] {
  const [left, top, right, bottom] = [-x / zoom - WIDTH, -y / zoom - HEIGHT, (width - x) / zoom, (height - y) / zoom];
  return nodes.filter(({ position }) => position.x > left && position.x < right && position.y > top && position.y < bottom);
}

/** Only edges with something to read: the canvas has all lines. */
function labelled(edges: readonly FlowEdge[], nodes: readonly FlowNode[]): FlowEdge[] {
  const shown = new Set(nodes.map((node) => node.id));
  return edges.filter(({ source, target, data }) => data!.role !== "static" && shown.has(source) && shown.has(target));
}

function toFlow(graph: Graph): Drawing {
  const isBack = (roles: string[]): boolean => roles.length === 1 && roles[0] === "back";
  const layout = layOut({
    nodes: graph.nodes.map(({ id }) => ({ id, width: WIDTH, height: HEIGHT })),
    edges: graph.edges.map(({ from, to, roles }) => ({ from, to, back: isBack(roles) })),
  });
  return {
    layout,
    nodes: graph.nodes.map((node) => ({
      id: node.id,
      type: "step",
      position: layout.nodes.get(node.id)!,
      width: WIDTH,
      height: HEIGHT,
      data: { node },
    })),
    edges: graph.edges.map((edge, at) => ({
      id: String(at),
      type: "way",
      source: edge.from,
      target: edge.to,
      ...(isBack(edge.roles) ? { sourceHandle: "side", targetHandle: "side" } : {}),
      data: { edge, role: edge.roles.find((one) => one !== "static") ?? "static", points: layout.waypoints.get(at) ?? [] },
    })),
  };
}

const Step = memo(({ data: { node } }: NodeProps<FlowNode>) => {
  const { model, chosen, onChoose } = use(GraphContext)!;
  const state = useNodeState(model, node.id);
  const status = statusKey(state?.status ?? "PENDING");
  const mark = useMark(model, node.id);
  return (
    <>
      <Handle type="target" position={Position.Top} />
      <Handle type="target" position={Position.Right} id="side" />
      <button
        type="button"
        className="node"
        data-status={state?.undo ? "undone" : status}
        data-node={node.id}
        data-mark={mark || undefined}
        data-several={node.foreach || undefined}
        data-chosen={chosen === node.id || undefined}
        onClick={() => onChoose(node.id)}
      >
        <span className="node-name">
          <span className="truncate grow">{node.is_output ? "output" : node.id}</span>
          <span className="visually-hidden">{status}</span>
          {node.child && <Icon name="workflows" />}
          {state && state.attempts > 1 && <span className="node-count">×{state.attempts}</span>}
        </span>
        <span className="node-line">{state ? <Line node={node} state={state} /> : node.type}</span>
      </button>
      <Handle type="source" position={Position.Bottom} />
      <Handle type="source" position={Position.Right} id="side" />
    </>
  );
});

function joinText({ live, skipped, need, total }: NonNullable<NodeState["join"]>): string {
  if (need > 0 && need < total) return `${live} of ${need} needed, ${total} expected`;
  return `${live + skipped} of ${total} arrived`;
}

/** What a wait is for, in a word. */
export function waitName({ kind, key }: { kind: string; key: string }): string {
  if (kind === "hold") return "a decision";
  return kind === "signal" && key ? `signal ${key}` : kind;
}

const ORDER: readonly NodeStatus[] = ["COMPLETED", "FAILED", "RUNNING", "WAITING", "QUEUED", "SKIPPED", "CANCELLED"];

function Line({ node, state }: { node: GraphNode; state: NodeState }) {
  if (state.instances > 1 || (node.foreach && state.instances > 0)) {
    const done = (state.counts.COMPLETED ?? 0) + (state.counts.SKIPPED ?? 0) + (state.counts.FAILED ?? 0) + (state.counts.CANCELLED ?? 0);
    return (
      <>
        {!node.foreach && <Icon name="loop" />}
        <span className="nums">
          {showCount(done)}/{showCount(state.instances)}
        </span>
        <span className="node-bar">
          {ORDER.map((status) => {
            const count = state.counts[status];
            return count ? <span key={status} data-status={statusKey(status)} style={{ flex: count }} /> : null;
          })}
        </span>
      </>
    );
  }
  if (state.waiting) return <b className="truncate">waits for {waitName(state.waiting)}</b>;
  if (state.place < 0) {
    const { join } = state;
    if (join) return <>{joinText(join)}</>;
    return <span className="truncate">{node.handler ?? node.type}</span>;
  }
  if (state.startedAt !== null && state.endedAt !== null) {
    return (
      <>
        <span className="truncate">{node.handler ?? node.type}</span>
        <span className="nums">{showDuration(state.endedAt - state.startedAt)}</span>
      </>
    );
  }
  return <b>{statusKey(state.status)}</b>;
}

const Way = memo(({ source, target, sourceX, sourceY, targetX, targetY, data }: EdgeProps<FlowEdge>) => {
  const { model, chosen, asksAll } = use(GraphContext)!;
  const from = useNodeState(model, source);
  const to = useNodeState(model, target);
  const taken = from?.event !== undefined && from.event > 0 && to !== null && to.place >= 0 && to.status !== "SKIPPED";
  const { edge, role, points } = data!;
  const won = taken && role === "branch";
  const values = useValues(model, won && (asksAll || chosen === source || chosen === target) ? source : "", from?.event ?? 0, edge);
  const path = role === "back" ? loopPath(sourceX, sourceY, targetX, targetY) : wayPath([{ x: sourceX, y: sourceY }, ...points, { x: targetX, y: targetY }]);
  const label = labelOf(edge, role);
  const next = points[0] ?? { x: targetX, y: targetY };
  // Nearer to the target, where ways that begin together have parted.
  const middle = { x: sourceX + (next.x - sourceX) * 0.85, y: sourceY + (next.y - sourceY) * (values ? 0.5 : 0.6) };
  return (
    <>
      <path className="edge" data-role={role} data-taken={taken || undefined} data-won={won || undefined} d={path} />
      {label && (
        <text className="edge-label" data-won={won || undefined} x={middle.x} y={middle.y} textAnchor="middle">
          <title>{values ? `${label}\n${values}` : label}</title>
          <tspan x={middle.x}>{cut(label)}</tspan>
          {values && (
            <tspan className="edge-values" x={middle.x} dy="1.2em">
              {cut(values)}
            </tspan>
          )}
        </text>
      )}
    </>
  );
});

const cut = (text: string): string => (text.length > 34 ? `${text.slice(0, 33)}…` : text);

function labelOf({ rules, is_default }: GraphEdge, role: string): string | null {
  if (role === "static" || role === "back") return null;
  const [rule] = rules;
  if (rule) return rule.condition;
  return is_default ? "otherwise" : role;
}

/** The values with which a branch has decided for an edge, as the server explains it. */
function useValues(model: RunModel, source: string, event: number, edge: GraphEdge): string {
  const path = { run_id: model.id, node: source };
  const { data } = useQuery(source ? `${source} ${event}` : null, (signal) => get<Explanation>("/runs/{run_id}/why/{node}", { path, signal }));
  const decisions = (data?.details.decisions ?? []) as Decision[];
  const tried = decisions.find((one) => one.node === source)?.rules ?? [];
  // An edge that is taken if no rule fits shows what the rules have seen.
  const deciding = edge.rules.length ? tried.filter((rule) => rule.result) : tried;
  return deciding.map(operandsOf).filter(Boolean).join(", ");
}

/** Down through the points, with vertical ends. */
function wayPath(points: readonly Point[]): string {
  let path = `M${points[0]!.x},${points[0]!.y}`;
  for (let at = 1; at < points.length; at++) {
    const a = points[at - 1]!;
    const b = points[at]!;
    const bend = (b.y - a.y) / 2;
    path += `C${a.x},${a.y + bend} ${b.x},${b.y - bend} ${b.x},${b.y}`;
  }
  return path;
}

/** Up along the right side. */
function loopPath(fromX: number, fromY: number, toX: number, toY: number): string {
  const side = Math.max(fromX, toX) + 36;
  return `M${fromX},${fromY}C${side},${fromY} ${side},${toY} ${toX},${toY}`;
}

const NODE_TYPES = { step: Step };
const EDGE_TYPES = { way: Way };
