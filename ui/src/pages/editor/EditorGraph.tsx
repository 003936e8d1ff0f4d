import { Controls, Handle, MiniMap, Position, ReactFlow, ReactFlowProvider, useReactFlow, type Connection, type Edge, type EdgeProps, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { createContext, memo, use, useCallback, useEffect, useMemo, useRef, useState, type DragEvent } from "react";
import { Icon } from "../../components/index.ts";
import { layOut, type Point } from "../../graph/layout.ts";
import { cut } from "../../graph/label.ts";
import { curve, loop } from "../../graph/path.ts";
import type { Shown, ShownNode } from "./draft.ts";
import { iconOf } from "../../graph/icons.ts";
import "../run/graph.css";

const WIDTH = 172;
const HEIGHT = 44;
export const DRAGGED = "application/x-minuet-node";

interface Context {
  chosen: string;
  problems: ReadonlySet<string>;
  statuses: Readonly<Record<string, string>>;
  onChoose: (id: string) => void;
}
const GraphContext = createContext<Context | null>(null);

type FlowNode = Node<{ node: ShownNode }, "written">;
type FlowEdge = Edge<{ role: string; label: string | null; points: Point[]; slot: number }, "way">;

interface EditorGraphProps extends Context {
  graph: Shown;
  /** Whether the graph is that of the text, not of an earlier one. */
  isCurrent: boolean;
  onConnect: (from: string, to: string) => void;
  /** Something of the palette was dropped: onto a node, or beside all of them. */
  onAdd: (what: string, after: string | null) => void;
}

export const EditorGraph = memo((props: EditorGraphProps) => (
  <ReactFlowProvider>
    <Inner {...props} />
  </ReactFlowProvider>
));

/** The graph of the text. It changes when the text does; what is done here changes the text. */
function Inner({ graph, chosen, problems, statuses, isCurrent, onChoose, onConnect, onAdd }: EditorGraphProps) {
  const flow = useReactFlow();
  const { nodes, edges } = useMemo(() => toFlow(graph), [graph]);
  const context = useMemo(() => ({ chosen, problems, statuses, onChoose }), [chosen, problems, statuses, onChoose]);
  const [over, setOver] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const isMoved = useRef(false);
  const about = useRef({ chosen, count: 0 });
  about.current = { chosen, count: graph.nodes.length };
  // Names stay readable: of a large graph, the part around the chosen node is shown.
  const fit = useCallback(() => {
    const { chosen: id, count } = about.current;
    void flow.fitView({ padding: 0.12, minZoom: 0.3, maxZoom: 1, ...(id && count > 60 && flow.getNode(id) ? { nodes: [{ id }], maxZoom: 0.8 } : {}) });
  }, [flow]);
  // It stays where it is while somebody types; more or fewer nodes are brought into sight, and so are the first edges that the server finds.
  const wasChecked = useRef(false);
  wasChecked.current ||= isCurrent && edges.length > 0;
  const { current: isChecked } = wasChecked;
  useEffect(() => {
    const frame = requestAnimationFrame(fit);
    return () => cancelAnimationFrame(frame);
  }, [graph.nodes.length, isChecked, fit]);
  useEffect(() => {
    const observer = new ResizeObserver(() => isMoved.current || fit());
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [fit]);
  const accepts = (event: DragEvent): boolean => event.dataTransfer.types.includes(DRAGGED);
  return (
    <div
      ref={box}
      className="graph editor-graph"
      data-stale={!isCurrent || undefined}
      data-over={over || undefined}
      onDragOver={(event) => {
        if (!accepts(event)) return;
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
        setOver(true);
      }}
      onDragLeave={(event) => event.currentTarget.contains(event.relatedTarget as Element | null) || setOver(false)}
      onDrop={(event) => {
        setOver(false);
        if (!accepts(event)) return;
        event.preventDefault();
        const target = (event.target as Element).closest("[data-node]");
        onAdd(event.dataTransfer.getData(DRAGGED), target?.getAttribute("data-node") ?? null);
      }}
    >
      <GraphContext value={context}>
        <ReactFlow
          nodes={nodes}
          edges={edges}
          nodeTypes={NODE_TYPES}
          edgeTypes={EDGE_TYPES}
          onlyRenderVisibleElements
          nodesDraggable={false}
          nodesConnectable
          elementsSelectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          isValidConnection={({ source, target }) => source !== target}
          onConnect={({ source, target }: Connection) => onConnect(source, target)}
          onMoveStart={(event) => event && (isMoved.current = true)}
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

function toFlow(graph: Shown): { nodes: FlowNode[]; edges: FlowEdge[] } {
  const layout = layOut({
    nodes: graph.nodes.map(({ id }) => ({ id, width: WIDTH, height: HEIGHT })),
    edges: graph.edges.map(({ from, to, role }) => ({ from, to, back: role === "back" })),
  });
  // Labels stand above the node that their edge leads to, one above the other if there are several.
  const labels = new Map<string, number>();
  return {
    nodes: graph.nodes.map((node) => ({ id: node.id, type: "written", position: layout.nodes.get(node.id)!, width: WIDTH, height: HEIGHT, data: { node } })),
    edges: graph.edges.map(({ from, to, role, label }, at) => {
      const slot = labels.get(to) ?? 0;
      if (label) labels.set(to, slot + 1);
      return { id: `${from} → ${to}`, type: "way", source: from, target: to, zIndex: label ? 1 : 0, data: { role, label, points: layout.waypoints.get(at) ?? [], slot } };
    }),
  };
}

const Written = memo(({ data: { node } }: NodeProps<FlowNode>) => {
  const { chosen, problems, statuses, onChoose } = use(GraphContext)!;
  const hasProblem = problems.has(node.id);
  return (
    <>
      <Handle type="target" position={Position.Top} />
      <button
        type="button"
        className="node editor-node"
        data-node={node.id}
        data-status={statuses[node.id]?.toLowerCase()}
        data-draft={node.isDraft || undefined}
        data-problem={hasProblem || undefined}
        data-chosen={chosen === node.id || undefined}
        onClick={() => onChoose(node.id)}
      >
        <Icon name={iconOf(node.type)} />
        <span className="editor-node-words">
          <b className="truncate">{node.id}</b> <span className="truncate muted">{node.about}</span>
          {hasProblem && <span className="visually-hidden">has a problem</span>}
        </span>
      </button>
      <Handle type="source" position={Position.Bottom} />
    </>
  );
});

const Way = memo(({ sourceX, sourceY, targetX, targetY, data }: EdgeProps<FlowEdge>) => {
  const { role, label, points, slot } = data!;
  const path =
    role === "back"
      ? loop({ x: sourceX + WIDTH / 2, y: sourceY - HEIGHT / 2 }, { x: targetX + WIDTH / 2, y: targetY + HEIGHT / 2 })
      : curve([{ x: sourceX, y: sourceY }, ...points, { x: targetX, y: targetY }]);
  return (
    <>
      <path className="edge" data-role={role} d={path} />
      {label && (
        <text className="edge-label" x={targetX} y={targetY - 10 - slot * 13} textAnchor="middle">
          <title>{label}</title>
          {cut(label)}
        </text>
      )}
    </>
  );
});

const NODE_TYPES = { written: Written };
const EDGE_TYPES = { way: Way };
