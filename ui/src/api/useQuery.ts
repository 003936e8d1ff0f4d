/** Data of the API in a component: loaded when asked for, kept while it is loaded again. */

import { useCallback, useEffect, useRef, useState } from "react";
import { useWhenBack } from "../live/connection.ts";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  loading: boolean;
  reload: () => void;
}

/** Between two answers: a busy run changes all the time, and the server has others to answer. */
const PAUSE = 300;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * `key` says what is asked for; null: nothing yet. With `version`, it is asked for again whenever that changes. The last
 * answer stays until the next one is there. However often it is asked for again, one question is on its way at a time.
 */
export function useQuery<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, version: string | number = 0): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: Error | null; loading: boolean }>({
    key: null,
    data: null,
    error: null,
    loading: key !== null,
  });
  const latest = useRef(load);
  latest.current = load;
  const ask = useRef<() => void>(() => undefined);
  useEffect(() => {
    if (key === null) return;
    const control = new AbortController();
    const { signal } = control;
    let isBusy = false;
    let isStale = false;
    const askOnce = async (): Promise<void> => {
      try {
        const data = await latest.current(signal);
        if (!signal.aborted) setState({ key, data, error: null, loading: isStale });
      } catch (error) {
        if (!signal.aborted) setState((before) => ({ key, data: before.key === key ? before.data : null, error: error as Error, loading: isStale }));
      }
    };
    ask.current = async () => {
      isStale = true;
      if (isBusy) return;
      isBusy = true;
      setState((before) => ({ ...before, loading: true }));
      while (isStale && !signal.aborted) {
        isStale = false;
        const begun = performance.now();
        await askOnce();
        if (isStale) await sleep(Math.max(PAUSE, 3 * (performance.now() - begun)));
      }
      isBusy = false;
    };
    return () => {
      control.abort();
      ask.current = () => undefined;
    };
  }, [key]);
  useEffect(() => {
    if (key !== null) ask.current();
  }, [key, version]);
  const reload = useCallback(() => ask.current(), []);
  const isOwn = state.key === key;
  const error = isOwn ? state.error : null;
  useWhenBack(error, reload);
  return { data: isOwn ? state.data : null, error, loading: state.loading || !isOwn, reload };
}

/** Ask again every so often while somebody looks: for what no event tells of. */
export function useEvery(ms: number, ask: () => void): void {
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const timer = setInterval(() => document.hidden || latest.current(), ms);
    const look = (): void => void (document.hidden || latest.current());
    document.addEventListener("visibilitychange", look);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, [ms]);
}
