import { ControlButton, Controls, MiniMap, ReactFlow, type ReactFlowInstance, type Viewport } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { memo, use, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type MouseEvent, type RefObject } from "react";
import type { Graph } from "../../fold/types.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { useQueryParam } from "../../lib/router.tsx";
import { clear, drawLines, drawNodes, type Painted } from "./canvas.ts";
import { inSight, labelled, nodeAt, toDrawing, type Drawing, type FlowEdge, type FlowNode, type Size } from "./drawing.ts";
import "./graph.css";
import { DECLARED, GraphContext } from "./graphContext.ts";
import { OPEN_SIZE } from "./Inside.tsx";
import type { RunModel } from "./model.ts";
import { canOpen, Step } from "./Step.tsx";
import { Way } from "./Way.tsx";

/** More nodes than this at once are drawn on a canvas, without details. */
const DETAILED_MAX = 300;
/** With more branches, values are shown on the edges of the chosen node only: each branch is a question to the server. */
const ASKED_MAX = 12;
/** Pixels by which a click may miss a node that is drawn small. */
const PICKED_MAX = 8;

interface GraphProps {
  /** Null: the graph as it is declared. */
  run: RunModel | null;
  graph: Graph;
  chosen: string;
  onChoose: (id: string, instance?: string) => void;
}

/** The whole declared graph, laid out once. Nodes change their colours, not their places, until somebody opens one. */
export const GraphView = memo(({ run, graph, chosen, onChoose }: GraphProps) => {
  const model = run ?? DECLARED;
  const [opened, setOpened] = useQueryParam("open");
  const [sizes, setSizes] = useState<ReadonlyMap<string, Size>>(new Map());
  const open = useMemo(() => {
    const known = new Set(graph.nodes.map((node) => node.id));
    const wanted = run ? opened.split(",").filter((id) => known.has(id)) : [];
    return new Map(wanted.map((id) => [id, sizes.get(id) ?? OPEN_SIZE]));
  }, [run, graph, opened, sizes]);
  const drawing = useMemo(() => toDrawing(graph, open), [graph, open]);
  const asksAll = useMemo(() => graph.nodes.filter((node) => node.branch).length <= ASKED_MAX, [graph]);
  const onOpen = useCallback(
    (id: string) => {
      const all = opened.split(",").filter(Boolean);
      setOpened((all.includes(id) ? all.filter((one) => one !== id) : [...all, id]).join(","));
    },
    [opened, setOpened],
  );
  const onSize = useCallback((id: string, size: Size) => {
    setSizes((before) => {
      const known = before.get(id);
      return known?.width === size.width && known.height === size.height ? before : new Map(before).set(id, size);
    });
  }, []);
  const context = useMemo(() => ({ model, run, chosen, onChoose, onOpen, onSize, asksAll }), [model, run, chosen, onChoose, onOpen, onSize, asksAll]);
  const node = graph.nodes.find((one) => one.id === chosen);
  useShortcuts(run ? [{ keys: "e", label: "Open the chosen node in the graph", run: () => node && canOpen(node, run.node(chosen)) && onOpen(chosen) }] : []);
  const View = graph.nodes.length > DETAILED_MAX ? LargeGraph : SmallGraph;
  return (
    <div className="graph">
      <GraphContext value={context}>
        <View drawing={drawing} />
      </GraphContext>
    </div>
  );
});

type Flow = RefObject<ReactFlowInstance<FlowNode, FlowEdge> | null>;

/** When a node is opened, all of the graph is shown; if somebody has moved it, the node stays where it is and the others give way. */
function useSteady(drawing: Drawing, flow: Flow, isMoved: () => boolean): void {
  const latest = useRef(isMoved);
  latest.current = isMoved;
  const before = useRef(drawing);
  useLayoutEffect(() => {
    const last = before.current;
    before.current = drawing;
    const changed = drawing.nodes.find(({ id, width, height }) => {
      const box = last.boxes.get(id);
      return box && (box.width !== width || box.height !== height);
    });
    const viewport = flow.current?.getViewport();
    if (!changed || !viewport) return;
    if (!latest.current()) {
      // Once the nodes have their new sizes.
      requestAnimationFrame(() => void flow.current?.fitView(FIT));
      return;
    }
    const box = last.boxes.get(changed.id)!;
    const { x, y, zoom } = viewport;
    void flow.current!.setViewport({ x: x + (box.x - changed.position.x) * zoom, y: y + (box.y - changed.position.y) * zoom, zoom });
  }, [drawing, flow]);
}

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

function SmallGraph({ drawing }: { drawing: Drawing }) {
  const { nodes, edges } = drawing;
  const flow = useRef<ReactFlowInstance<FlowNode, FlowEdge>>(null);
  const box = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  useSteady(drawing, flow, () => moved.current);
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
  useSteady(drawing, flow, () => true);
  const paint = useCallback(() => {
    frame.current = 0;
    const { clientWidth: width, clientHeight: height } = box.current!;
    const { x, y, zoom } = viewport.current;
    const sight = { drawing, viewport: viewport.current, width, height };
    const theme = getComputedStyle(lines.current!).getPropertyValue("--line-strong");
    const place = [x, y, zoom, width, height, theme, drawing.layout.width, drawing.layout.height, drawing.nodes.length].join(" ");
    if (place !== drawn.current.place) {
      const found = inSight(drawing, viewport.current, width, height);
      const isDetailed = found.length <= DETAILED_MAX && zoom > 0.35;
      const next = isDetailed ? found : NONE.nodes;
      const key = next.map(({ id, position, width, height }) => `${id} ${position.x} ${position.y} ${width} ${height}`).join("\n");
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
    const point = flow.current!.screenToFlowPosition({ x: event.clientX, y: event.clientY }, { snapToGrid: false });
    const nearest = nodeAt(drawing, point, PICKED_MAX / viewport.current.zoom);
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

const NODE_TYPES = { step: Step };
const EDGE_TYPES = { way: Way };
