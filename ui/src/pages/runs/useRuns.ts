/** The runs that fit a filter, as they are now: pages from the API, kept current by the feed. */

import { useCallback, useEffect, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { FeedEvent, Page, RunRow } from "../../api/types.ts";
import { matches, toQuery, type RunFilter } from "../../filter/parse.ts";
import { useFeed } from "../../live/feed.ts";

const LIMIT = 100;
/** However long somebody scrolls, the page stays small. */
const KEPT_MAX = 2000;
/** Runs that are asked for one by one after their events; if more have changed, the list is loaded again. */
const SINGLE_MAX = 10;

export interface Runs {
  rows: RunRow[];
  next: string | null;
  loading: boolean;
  error: Error | null;
  more: () => void;
  reload: () => void;
}

export function useRuns(filter: RunFilter, key: string): Runs {
  const [rows, setRows] = useState<RunRow[]>([]);
  const [next, setNext] = useState<string | null>(null);
  const [loading, setLoading] = useState(true);
  const [error, setError] = useState<Error | null>(null);
  const state = useRef({ filter, busy: false, again: false });
  state.current.filter = filter;
  const generation = useRef(0);

  /** Load the first page again. What follows it stays, if it is older. */
  const reload = useCallback(async (fresh = false) => {
    if (state.current.busy && !fresh) {
      state.current.again = true;
      return;
    }
    const mine = fresh ? ++generation.current : generation.current;
    state.current.busy = true;
    if (fresh) setLoading(true);
    try {
      const query = toQuery(state.current.filter);
      query.set("limit", String(LIMIT));
      const page = await get<Page<RunRow>>("/runs", { query });
      if (mine !== generation.current) return;
      setError(null);
      setRows((before) => (fresh ? page.items : merge(page.items, before, page.next)));
      if (fresh) setNext(page.next);
    } catch (failure) {
      if (mine === generation.current) setError(failure as Error);
    } finally {
      if (mine === generation.current) {
        state.current.busy = false;
        setLoading(false);
        if (state.current.again) {
          state.current.again = false;
          setTimeout(() => void reload(), 300);
        }
      }
    }
  }, []);

  useEffect(() => {
    void reload(true);
  }, [key, reload]);

  const more = useCallback(async () => {
    if (!next) return;
    const mine = generation.current;
    const query = toQuery(state.current.filter);
    query.set("limit", String(LIMIT));
    query.set("cursor", next);
    const page = await get<Page<RunRow>>("/runs", { query });
    if (mine !== generation.current) return;
    setRows((before) => [...before, ...page.items].slice(0, KEPT_MAX));
    setNext(page.next);
  }, [next]);

  const follow = (events: FeedEvent[]): void => {
    // Only these change what a row shows.
    const changed = new Set(events.filter((one) => one.type.startsWith("run.")).map((one) => one.run_id));
    if (changed.size === 0) return;
    const isNew = events.some((one) => one.type === "run.created");
    if (isNew || changed.size > SINGLE_MAX) void reload();
    else for (const id of changed) void refresh(id);
  };

  const refresh = async (id: string): Promise<void> => {
    const row = await get<RunRow>("/runs/{run_id}/summary", { path: { run_id: id } }).catch(() => null);
    if (!row) return;
    setRows((before) => {
      const at = before.findIndex((one) => one.run_id === id);
      const fits = matches(state.current.filter, row, Date.now());
      if (at < 0) return fits ? [...before, row].sort(newest) : before;
      if (before[at]!.seq > row.seq) return before;
      return fits ? before.with(at, row) : before.toSpliced(at, 1);
    });
  };

  useFeed({ onEvents: follow, onReset: () => void reload() });
  return { rows, next, loading, error, more: () => void more(), reload: () => void reload(true) };
}

const newest = (a: RunRow, b: RunRow): number => (a.run_id < b.run_id ? 1 : -1);

function merge(first: RunRow[], before: RunRow[], next: string | null): RunRow[] {
  if (next === null) return first;
  const last = first.at(-1)?.run_id ?? "";
  return [...first, ...before.filter((one) => one.run_id < last)].slice(0, KEPT_MAX);
}
