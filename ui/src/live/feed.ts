/** The events of all runs: one connection for the whole page, open while anything listens. */

import { useEffect, useRef } from "react";
import type { FeedEvent } from "../api/types.ts";
import { report } from "./connection.ts";
import { EventStream } from "./stream.ts";

export interface FeedListener {
  onEvents: (events: FeedEvent[]) => void;
  /** Events may be missing: load again. */
  onReset: () => void;
}

const listeners = new Set<FeedListener>();
let stream: EventStream | null = null;
let waiting: FeedEvent[] = [];
let timer: ReturnType<typeof setTimeout> | null = null;
const owner = {};

/** However many events come, listeners are told five times a second at most. */
const PACE = 200;

function flush(): void {
  timer = null;
  const events = waiting;
  waiting = [];
  for (const one of [...listeners]) one.onEvents(events);
}

function reset(): void {
  for (const one of [...listeners]) one.onReset();
}

function open(): void {
  stream = new EventStream(
    "/events",
    {
      onMessages: (messages) => {
        for (const one of messages) waiting.push(JSON.parse(one.data) as FeedEvent);
        timer ??= setTimeout(flush, PACE);
      },
      onConnection: (state) => report(owner, state),
      onFresh: reset,
      onReset: reset,
    },
    { rests: true },
  );
}

export function listen(listener: FeedListener): () => void {
  listeners.add(listener);
  if (!stream) open();
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      stream?.close();
      stream = null;
      waiting = [];
      report(owner, null);
    }
  };
}

export function useFeed(listener: FeedListener): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(
    () => listen({ onEvents: (events) => latest.current.onEvents(events), onReset: () => latest.current.onReset() }),
    [],
  );
}
