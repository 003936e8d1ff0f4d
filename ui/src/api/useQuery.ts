/** Data of the API in a component: loaded when asked for, kept while it is loaded again. */

import { useCallback, useEffect, useRef, useState } from "react";

export interface Loaded<T> {
  data: T | null;
  error: Error | null;
  loading: boolean;
  reload: () => void;
}

/** `key` says what is asked for; null: nothing yet. The last answer stays until the next one is there. */
export function useQuery<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: Error | null; loading: boolean }>({
    key: null,
    data: null,
    error: null,
    loading: key !== null,
  });
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === null) return;
    const control = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    latest.current(control.signal).then(
      (data) => control.signal.aborted || setState({ key, data, error: null, loading: false }),
      (error: Error) => {
        if (!control.signal.aborted) setState((before) => ({ key, data: before.key === key ? before.data : null, error, loading: false }));
      },
    );
    return () => control.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const isOwn = state.key === key;
  return { data: isOwn ? state.data : null, error: isOwn ? state.error : null, loading: state.loading || !isOwn, reload };
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
