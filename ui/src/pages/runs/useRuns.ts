/** The runs that fit a filter, as they are now: pages from the API, kept current by the feed. */

import { useCallback, useEffect, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { FeedEvent, Page, RunRow, Shape } from "../../api/types.ts";
import { useWhenBack } from "../../live/connection.ts";
import { useFeed } from "../../live/feed.ts";
import { KEPT_MAX, mergeAsked, mergeFirst, patchRows, type Filter } from "./list.ts";

const LIMIT = 100;
/** Runs that are looked at again by their ids, beside the first page. */
const ASKED_MAX = 40;
/** Between two answers: however much happens, most of the time is left for those who read. */
const PAUSE = 300;

type RunPage = Page<RunRow> & { searched: Shape<"Searched"> };

export interface Runs {
  rows: RunRow[];
  next: string | null;
  searched: Shape<"Searched"> | null;
  loading: boolean;
  error: Error | null;
  more: () => void;
  reload: () => void;
}

interface State {
  rows: RunRow[];
  next: string | null;
  searched: Shape<"Searched"> | null;
  loading: boolean;
  error: Error | null;
}

const EMPTY: State = { rows: [], next: null, searched: null, loading: true, error: null };

/** The last run that the first page spans; those below are asked for by their ids. */
function endOf({ items, next }: RunPage): string {
  return next === null ? "" : (items.at(-1)?.run_id ?? "~");
}

export function useRuns(filter: Filter): Runs {
  const [state, setState] = useState(EMPTY);
  const live = useRef({ filter, rows: state.rows, generation: 0, busy: false, stale: new Set<string>(), isNew: false, firstEnd: "", timer: undefined as ReturnType<typeof setTimeout> | undefined });
  const mine = live.current;
  mine.filter = filter;
  mine.rows = state.rows;

  const ask = useCallback((more: Record<string, string | null> = {}, words = "") => {
    const { q, since, until } = live.current.filter;
    const text = `${q} ${words}`.trim();
    return get<RunPage>("/runs", { query: { q: text || null, since: since || null, until: until || null, limit: LIMIT, ...more } });
  }, []);

  /** Everything from the beginning. */
  const load = useCallback(async () => {
    const generation = ++live.current.generation;
    live.current.stale.clear();
    setState((before) => ({ ...before, loading: true }));
    try {
      const page = await ask();
      if (generation !== live.current.generation) return;
      live.current.firstEnd = endOf(page);
      setState({ rows: page.items, next: page.next, searched: page.searched, loading: false, error: null });
    } catch (error) {
      if (generation === live.current.generation) setState((before) => ({ ...before, loading: false, error: error as Error }));
    }
  }, [ask]);

  /** What has changed since: the first page, and the changed ones of those below. */
  const refresh = useCallback(async () => {
    const own = live.current;
    const { generation } = own;
    const begun = performance.now();
    own.busy = true;
    const stale = own.stale;
    const isNew = own.isNew;
    own.stale = new Set();
    own.isNew = false;
    const below = own.rows.filter((row) => row.run_id < own.firstEnd && stale.has(row.run_id)).slice(0, ASKED_MAX);
    const asked = new Set(below.map((row) => row.run_id));
    try {
      const first = isNew || stale.size > asked.size ? await ask() : null;
      const checked = asked.size ? await ask({}, `run:${[...asked].join(",")}`) : null;
      if (generation !== own.generation) return;
      if (first) own.firstEnd = endOf(first);
      setState((before) => {
        const merged = first ? mergeFirst(first.items, before.rows, first.next) : before.rows;
        return { ...before, error: null, rows: checked ? mergeAsked(merged, asked, checked.items) : merged };
      });
    } catch (error) {
      if (generation === own.generation) setState((before) => ({ ...before, error: error as Error }));
    } finally {
      own.busy = false;
      if (own.stale.size || own.isNew) schedule(Math.max(PAUSE, 3 * (performance.now() - begun)));
    }
  }, [ask]);

  const schedule = (pause: number): void => {
    if (mine.busy) return;
    mine.timer ??= setTimeout(() => {
      mine.timer = undefined;
      void refresh();
    }, pause);
  };

  useEffect(() => {
    void load();
  }, [filter.q, filter.since, filter.until, load]);
  useEffect(
    () => () => {
      clearTimeout(mine.timer);
      mine.timer = undefined;
    },
    [mine],
  );

  const more = useCallback(async () => {
    const { generation } = live.current;
    if (!state.next) return;
    setState((before) => ({ ...before, loading: true }));
    try {
      const page = await ask({ cursor: state.next });
      if (generation !== live.current.generation) return;
      setState((before) => ({ ...before, rows: [...before.rows, ...page.items].slice(0, KEPT_MAX), next: page.next, searched: page.searched, loading: false }));
    } catch (error) {
      setState((before) => ({ ...before, loading: false, error: error as Error }));
    }
  }, [ask, state.next]);

  const follow = (events: FeedEvent[]): void => {
    let changed = false;
    for (const event of events) {
      // Only these change what a row shows.
      if (!event.type.startsWith("run.")) continue;
      changed = true;
      if (event.type === "run.created") mine.isNew = true;
      else mine.stale.add(event.run_id);
    }
    if (!changed) return;
    if (!mine.filter.q) setState((before) => ({ ...before, rows: patchRows(before.rows, events) }));
    schedule(PAUSE);
  };
  useFeed({ onEvents: follow, onReset: () => void load() });
  useWhenBack(state.error, () => void load());
  return { ...state, more: () => void more(), reload: () => void load() };
}
