/** The rows of the list of runs, and how events and answers change them. Pure. */

import type { FeedEvent, RunRow } from "../../api/types.ts";

export interface Filter {
  q: string;
  since: string;
  until: string;
}

/** All of a filter as one text: what a change of all that fit must ask for. */
export function wholeText({ q, since, until }: Filter): string {
  return [q, since && `since:${since}`, until && `until:${until}`].filter(Boolean).join(" ");
}

/** However long somebody scrolls, the page stays small. */
export const KEPT_MAX = 10_000;

const STATUS: Record<string, RunRow["status"]> = {
  "run.started": "RUNNING",
  "run.paused": "PAUSED",
  "run.resumed": "RUNNING",
  "run.completed": "COMPLETED",
  "run.failed": "FAILED",
  "run.cancelled": "CANCELLED",
  "run.retried": "RUNNING",
  "run.compensating": "COMPENSATING",
};
const OVER = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

/** Rows with what events say about them at once, before the server is asked. Without a change, they are the same. */
export function patchRows(rows: RunRow[], events: readonly FeedEvent[]): RunRow[] {
  const latest = new Map<string, FeedEvent>();
  for (const event of events) if (STATUS[event.type]) latest.set(event.run_id, event);
  if (latest.size === 0) return rows;
  let changed = false;
  const next = rows.map((row) => {
    const event = latest.get(row.run_id);
    if (!event || event.seq <= row.seq) return row;
    changed = true;
    const status = STATUS[event.type]!;
    const begun = row.started_at ?? (status === "RUNNING" ? event.at : null);
    const isOver = OVER.has(status);
    return {
      ...row,
      status,
      seq: event.seq,
      started_at: begun,
      ended_at: isOver ? event.at : null,
      duration_ms: isOver && begun ? Date.parse(event.at) - Date.parse(begun) : null,
    };
  });
  return changed ? next : rows;
}

/** The first page again: its rows in place of those it spans; what is older stays. */
export function mergeFirst(first: RunRow[], before: RunRow[], next: string | null): RunRow[] {
  if (next === null) return first;
  // None of those that the server has looked at fits: it knows nothing of those below.
  if (first.length === 0) return before;
  const last = first.at(-1)?.run_id ?? "";
  const known = new Map(before.map((row) => [row.run_id, row]));
  const newest = first.map((row) => ((known.get(row.run_id)?.seq ?? -1) > row.seq ? known.get(row.run_id)! : row));
  return [...newest, ...before.filter((row) => row.run_id < last)].slice(0, KEPT_MAX);
}

/** Rows that were asked for by their ids: those that were not found do not fit any more. */
export function mergeAsked(rows: RunRow[], asked: ReadonlySet<string>, found: readonly RunRow[]): RunRow[] {
  const fresh = new Map(found.map((row) => [row.run_id, row]));
  return rows.flatMap((row) => (!asked.has(row.run_id) ? [row] : fresh.has(row.run_id) ? [fresh.get(row.run_id)!] : []));
}

const INPUT_MAX = 120;

/** What tells a run from its neighbours: its input in a few words, `customer Bela, count 12`. What is inside a value is left out. */
export function inputText(input: unknown): string {
  if (input === null || typeof input !== "object" || Array.isArray(input)) return "";
  const parts: string[] = [];
  let length = 0;
  for (const [name, value] of Object.entries(input)) {
    if (value === null || typeof value === "object") continue;
    const part = `${name} ${String(value).slice(0, INPUT_MAX)}`;
    parts.push(part);
    length += part.length;
    if (length > INPUT_MAX) break;
  }
  return parts.join(", ");
}
