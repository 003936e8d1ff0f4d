import { useEffect, useRef, useState } from "react";
import { post } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import type { Graph } from "../../fold/types.ts";

export type Validated = Shape<"Validated">;

export interface Checked {
  /** The text that was checked; null: none was, so far. */
  text: string | null;
  answer: Validated | null;
  error: Error | null;
  /** Of the last text that was valid. */
  graph: Graph | null;
}

/** Pause after the last change before the server is asked. */
const PAUSE = 250;

/** What the server says about a text, a moment after it has changed. `hurry` changes when there is nothing to wait for. */
export function useChecked(text: string | null, hurry: number): Checked {
  const [checked, setChecked] = useState<Checked>({ text: null, answer: null, error: null, graph: null });
  const [round, setRound] = useState(0);
  const hurried = useRef(-1);
  useEffect(() => {
    if (text === null) return;
    const control = new AbortController();
    let again: ReturnType<typeof setTimeout> | undefined;
    const ask = (): void => {
      post<Validated>("/workflows/validate", { body: { document: text }, signal: control.signal }).then(
        (answer) => {
          if (!control.signal.aborted) setChecked((before) => ({ text, answer, error: null, graph: (answer.graph as unknown as Graph | null) ?? before.graph }));
        },
        (error: Error) => {
          if (control.signal.aborted) return;
          setChecked((before) => ({ ...before, error }));
          again = setTimeout(() => setRound(round + 1), 2000);
        },
      );
    };
    const timer = setTimeout(ask, hurried.current === hurry ? PAUSE : 0);
    hurried.current = hurry;
    return () => {
      control.abort();
      clearTimeout(timer);
      clearTimeout(again);
    };
  }, [text, hurry, round]);
  return checked;
}
