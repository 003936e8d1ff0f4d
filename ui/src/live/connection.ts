/** How the connections of the page are: the worst of them, and whether it has just recovered. */

import { useEffect, useRef } from "react";
import { Store } from "../lib/store.ts";
import type { Connection } from "./stream.ts";

export type Shown = "fine" | "lost" | "caught-up";
export const connection = new Store<Shown>("fine");

const states = new Map<object, Connection>();
let calm: ReturnType<typeof setTimeout> | undefined;

/** Say how a connection is; null: it is no more. */
export function report(owner: object, state: Connection | null): void {
  if (state === null) states.delete(owner);
  else states.set(owner, state);
  const isLost = [...states.values()].includes("lost");
  if (isLost) {
    clearTimeout(calm);
    connection.set("lost");
  } else if (connection.get() === "lost" && ![...states.values()].includes("connecting")) {
    connection.set("caught-up");
    clearTimeout(calm);
    calm = setTimeout(() => connection.set("fine"), 2500);
  }
}

/** Whether a server did not answer at all: it is asked again once it is back. */
export const isLost = (error: Error | null): boolean => error instanceof TypeError;

/** Call back when the server answers again; to be stopped. */
export function whenBack(again: () => void): () => void {
  return connection.subscribe(() => connection.get() !== "lost" && again());
}

/** Ask again, by itself, what a server has not answered. */
export function useWhenBack(error: Error | null, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  const lost = isLost(error);
  useEffect(() => (lost ? whenBack(() => latest.current()) : undefined), [lost]);
}
