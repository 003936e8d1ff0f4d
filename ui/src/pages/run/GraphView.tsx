import { Controls, Handle, MiniMap, Position, ReactFlow, type Edge, type EdgeProps, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { createContext, memo, use, useMemo } from "react";
import { Icon, statusKey } from "../../components/index.ts";
import type { Graph, GraphNode, NodeState, NodeStatus } from "../../fold/types.ts";
import { layOut, type Point } from "../../graph/layout.ts";
import { showCount, showDuration } from "../../lib/format.ts";
import { useNodeState, type RunModel } from "./model.ts";

const WIDTH = 184;
const HEIGHT = 46;

interface Context {
  model: RunModel;
  chosen: string;
  onChoose: (id: string) => void;
}
const GraphContext = createContext<Context | null>(null);

type FlowNode = Node<{ node: GraphNode }, "step">;
type FlowEdge = Edge<{ role: string; points: Point[] }, "way">;

/** The whole declared graph, laid out once. Nodes change their colours, never their places. */
export function GraphView({ model, graph, chosen, onChoose }: Context & { graph: Graph }) {
  const { nodes, edges } = useMemo(() => toFlow(graph), [graph]);
  const context = useMemo(() => ({ model, chosen, onChoose }), [model, chosen, onChoose]);
  return (
    <div className="graph">
      <GraphContext value={context}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          edgeTypes={EDGE_TYPES}
          onlyRenderVisibleElements
          nodesDraggable={false}
          nodesConnectable={false}
          elementsSelectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          fitView
          fitViewOptions={{ padding: 0.15, maxZoom: 1 }}
          minZoom={0.02}
          maxZoom={2}
          zoomOnDoubleClick={false}
          proOptions={{ hideAttribution: true }}
        >
          <Controls showInteractive={false} />
          {graph.nodes.length > 30 && <MiniMap pannable zoomable nodeColor="var(--line-strong)" maskColor="rgb(128 128 140 / 12%)" />}
        </ReactFlow>
      </GraphContext>
    </div>
  );
}

function toFlow(graph: Graph): { nodes: FlowNode[]; edges: FlowEdge[] } {
  const isBack = (roles: string[]): boolean => roles.length === 1 && roles[0] === "back";
  const layout = layOut({
    nodes: graph.nodes.map(({ id }) => ({ id, width: WIDTH, height: HEIGHT })),
    edges: graph.edges.map(({ from, to, roles }) => ({ from, to, back: isBack(roles) })),
  });
  return {
    nodes: graph.nodes.map((node) => ({
      id: node.id,
      type: "step",
      position: layout.nodes.get(node.id)!,
      width: WIDTH,
      height: HEIGHT,
      data: { node },
    })),
    edges: graph.edges.map(({ from, to, roles }, at) => ({
      id: String(at),
      type: "way",
      source: from,
      target: to,
      ...(isBack(roles) ? { sourceHandle: "side", targetHandle: "side" } : {}),
      data: { role: roles.find((one) => one !== "static") ?? "static", points: layout.waypoints.get(at) ?? [] },
    })),
  };
}

const Step = memo(({ data: { node } }: NodeProps<FlowNode>) => {
  const { model, chosen, onChoose } = use(GraphContext)!;
  const state = useNodeState(model, node.id);
  const status = statusKey(state?.status ?? "PENDING");
  return (
    <>
      <Handle type="target" position={Position.Top} />
      <Handle type="target" position={Position.Right} id="side" />
      <button
        type="button"
        className="node"
        data-status={state?.undo ? "undone" : status}
        data-node={node.id}
        data-chosen={chosen === node.id || undefined}
        onClick={() => onChoose(node.id)}
        aria-label={`${node.id}: ${status}`}
      >
        <span className="node-name">
          <span className="truncate grow">{node.is_output ? "output" : node.id}</span>
          {state && state.attempts > 1 && <span className="node-count">×{state.attempts}</span>}
        </span>
        <span className="node-line">{state ? <Line node={node} state={state} /> : node.type}</span>
      </button>
      <Handle type="source" position={Position.Bottom} />
      <Handle type="source" position={Position.Right} id="side" />
    </>
  );
});

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
    if (join) return <>{`${join.live + join.skipped} of ${join.total} arrived`}</>;
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
  const { model } = use(GraphContext)!;
  const from = useNodeState(model, source);
  const to = useNodeState(model, target);
  const taken = from?.event !== undefined && from.event > 0 && to !== null && to.place >= 0 && to.status !== "SKIPPED";
  const { role, points } = data!;
  const path = role === "back" ? loopPath(sourceX, sourceY, targetX, targetY) : wayPath([{ x: sourceX, y: sourceY }, ...points, { x: targetX, y: targetY }]);
  const label = role === "static" || role === "back" ? null : role;
  return (
    <>
      <path className="edge" data-role={role} data-taken={taken || undefined} d={path} />
      {label && (
        <text className="edge-label" x={(sourceX + (points[0]?.x ?? targetX)) / 2} y={sourceY + 24} textAnchor="middle">
          {label}
        </text>
      )}
    </>
  );
});

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
