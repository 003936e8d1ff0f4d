/** A large graph on canvases: all lines, and nodes as boxes that show their status, with names where they can be read. */

import type { Viewport } from "@xyflow/react";
import { statusKey } from "../../components/StatusBadge.tsx";
import type { Drawing } from "./drawing.ts";
import type { GraphModel } from "./graphContext.ts";

/** Below these sizes, names cannot be read, and lines are only grey. */
const ZOOM_NAMES = 0.35;
const ZOOM_CURVES = 0.15;

const COLOURS: Record<string, string> = {
  pending: "--line-strong",
  queued: "--slate",
  running: "--blue",
  waiting: "--violet",
  completed: "--green",
  failed: "--red",
  cancelled: "--grey",
  skipped: "--line",
  undone: "--orange",
};
const MARKS: Record<string, string> = { ready: "--blue", cut_off: "--red", undone: "--orange", skipped: "--grey", ahead: "--accent" };

interface Sight {
  drawing: Drawing;
  viewport: Viewport;
  width: number;
  height: number;
}

interface Scene extends Sight {
  model: GraphModel;
  chosen: string;
}

/** What a canvas shows already: the status of each node, as long as nothing else has changed. */
export interface Painted {
  place: string;
  marks: ReadonlyMap<string, string>;
  statuses: string[];
}

interface Prepared {
  context: CanvasRenderingContext2D;
  colour: (name: string) => string;
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** A canvas of the right size, in the coordinates of the graph. */
function prepare(canvas: HTMLCanvasElement, { viewport: { x, y, zoom }, width, height }: Sight, isEmpty = true): Prepared {
  const ratio = Math.min(devicePixelRatio, 2);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d")!;
  const style = getComputedStyle(canvas);
  context.setTransform(1, 0, 0, 1, 0, 0);
  if (isEmpty) context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(ratio * zoom, 0, 0, ratio * zoom, ratio * x, ratio * y);
  return { context, colour: (name) => style.getPropertyValue(name), left: -x / zoom, top: -y / zoom, right: (width - x) / zoom, bottom: (height - y) / zoom };
}

/** All lines. They change only with what is in sight: they have a canvas of their own. */
export function drawLines(canvas: HTMLCanvasElement, sight: Sight): void {
  const { context, colour, left, top, right, bottom } = prepare(canvas, sight);
  const { drawing, viewport: { zoom } } = sight;
  context.strokeStyle = colour("--line-strong");
  context.lineWidth = Math.max(1, 0.6 / zoom);
  context.globalAlpha = zoom < ZOOM_CURVES ? 0.6 : 1;
  context.beginPath();
  for (const { source, target, data } of drawing.edges) {
    const from = drawing.boxes.get(source)!;
    const to = drawing.boxes.get(target)!;
    if (Math.max(from.x + from.width, to.x + to.width) < left || Math.min(from.x, to.x) > right) continue;
    if (Math.max(from.y + from.height, to.y + to.height) < top || Math.min(from.y, to.y) > bottom) continue;
    let lastX = from.x + from.width / 2;
    let lastY = from.y + from.height;
    context.moveTo(lastX, lastY);
    for (const point of [...data!.points, { x: to.x + to.width / 2, y: to.y }]) {
      if (zoom < ZOOM_CURVES) context.lineTo(point.x, point.y);
      else {
        const bend = (point.y - lastY) / 2;
        context.bezierCurveTo(lastX, lastY + bend, point.x, point.y - bend, point.x, point.y);
      }
      lastX = point.x;
      lastY = point.y;
    }
  }
  context.stroke();
  context.globalAlpha = 1;
}

export function clear(canvas: HTMLCanvasElement): void {
  const context = canvas.getContext("2d")!;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
}

/** All nodes in sight; if the canvas shows the same part already, only those that have changed. */
export function drawNodes(canvas: HTMLCanvasElement, scene: Scene, place: string, before: Painted | null): Painted {
  const { drawing, model, chosen, viewport: { zoom } } = scene;
  const isSame = before !== null && before.place === place && before.marks === model.marks;
  const { context, colour, left, top, right, bottom } = prepare(canvas, scene, !isSame);
  const painted: Painted = { place, marks: model.marks, statuses: isSame ? before.statuses : [] };
  const fills = new Map<string, string>();
  const line = Math.max(2, 2 / zoom);
  context.font = "550 13px system-ui, sans-serif";
  context.textBaseline = "middle";
  const ink = colour("--ink");
  const surface = colour("--surface");
  for (const [at, { id, position, width, height }] of drawing.nodes.entries()) {
    if (position.x + width < left || position.x > right || position.y + height < top || position.y > bottom) continue;
    const state = model.node(id);
    const status = state?.undo ? "undone" : statusKey(state?.status ?? "PENDING");
    if (painted.statuses[at] === status) continue;
    painted.statuses[at] = status;
    let fill = fills.get(status);
    if (fill === undefined) fills.set(status, (fill = colour(COLOURS[status] ?? "--grey")));
    context.fillStyle = fill;
    if (zoom < ZOOM_NAMES) context.fillRect(position.x, position.y, width, height);
    else {
      context.fillRect(position.x, position.y, 6, height);
      context.fillStyle = surface;
      context.fillRect(position.x + 6, position.y, width - 6, height);
      context.fillStyle = ink;
      context.fillText(id, position.x + 14, position.y + height / 2, width - 20);
    }
    const mark = id === chosen ? "--accent" : MARKS[model.marks.get(id) ?? ""];
    if (mark) {
      context.strokeStyle = colour(mark);
      context.lineWidth = line;
      context.strokeRect(position.x - line, position.y - line, width + 2 * line, height + 2 * line);
    }
  }
  return painted;
}
