/** The rows of the timeline: instances of one node together, in the order in which nodes were reached. Pure. */

import type { Cursor } from "../../fold/cursor.ts";
import type { History } from "../../fold/history.ts";

export interface TimelineRow {
  node: string;
  /** -1: all instances of the node together. */
  place: number;
  count: number;
  /** Of several together: from the first to the last; `to` is null while one goes on. */
  from: number;
  to: number | null;
  isOpen: boolean;
  isInner: boolean;
  isCritical: boolean;
}

/** Hidden nodes are left out, but for items and compensators, which do the work. */
const isShown = (node: string): boolean => !node.includes("$") || node.endsWith("$item") || node.endsWith("$undo");

export function groupPlaces(history: History, { tokens }: Cursor, opened: ReadonlySet<string>, critical: ReadonlySet<number> | null): TimelineRow[] {
  const rows: TimelineRow[] = [];
  for (const [node, all] of history.byNode) {
    // Its items stand for a foreach; what lists and gathers them takes no time of its own.
    if (!isShown(node) || history.byNode.has(`${node}$item`)) continue;
    const places = all.filter((place) => tokens[place]);
    if (places.length === 0) continue;
    const isOpen = places.length === 1 || opened.has(node);
    if (places.length > 1) {
      let from = Infinity;
      let to: number | null = 0;
      let isCritical = false;
      for (const place of places) {
        const { createdAt, endedAt } = tokens[place]!;
        from = Math.min(from, createdAt);
        to = to === null || endedAt === null ? null : Math.max(to, endedAt);
        isCritical ||= critical?.has(place) ?? false;
      }
      rows.push({ node, place: -1, count: places.length, from, to, isOpen, isInner: false, isCritical });
    }
    if (!isOpen) continue;
    for (const place of places) {
      const { createdAt, endedAt } = tokens[place]!;
      rows.push({ node, place, count: 1, from: createdAt, to: endedAt, isOpen: false, isInner: places.length > 1, isCritical: critical?.has(place) ?? false });
    }
  }
  return rows;
}

/** `120-480` of the address: ms since the run began. */
export function readZoom(text: string): [number, number] | null {
  const found = /^(\d+)-(\d+)$/.exec(text);
  return found && Number(found[2]) > Number(found[1]) ? [Number(found[1]), Number(found[2])] : null;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];

/** Round times between two, at most nine. */
export function ticksOf(from: number, to: number): number[] {
  const step = STEPS.find((one) => (to - from) / one <= 8) ?? Math.ceil((to - from) / 8 / 864e5) * 864e5;
  const found: number[] = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
