/** The lines between nodes, as paths of SVG. Pure. */

import type { Point } from "./layout.ts";

/** Down through the points, with vertical ends. */
export function curve(points: readonly Point[]): string {
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
export function loop(from: Point, to: Point): string {
  const side = Math.max(from.x, to.x) + 36;
  return `M${from.x},${from.y}C${side},${from.y} ${side},${to.y} ${to.x},${to.y}`;
}
