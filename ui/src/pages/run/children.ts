/** The child runs of a node, as long as somebody looks. */

import { useMemo } from "react";
import { get } from "../../api/client.ts";
import type { Page, RunRow } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { authorOf } from "../../fold/scope.ts";
import { useFeed } from "../../live/feed.ts";
import type { RunModel } from "./model.ts";

/** Those that are looked at; a list of runs has the others. */
const LIMIT = 1000;

export interface ChildRuns {
  /** The oldest first. */
  own: RunRow[];
  /** Whether the run has more, older ones. */
  hasOlder: boolean;
}

/** The newest child runs that a node has started; null: those of no node. */
export function useChildren(model: RunModel, node: string | null): ChildRuns {
  const state = node === null ? null : model.node(node);
  const begun = `${state?.status} ${state?.instances} ${state?.counts.WAITING ?? ""}`;
  const { data, reload } = useQuery(node === null ? null : model.id, (signal) => get<Page<RunRow>>("/runs", { query: { parent: model.id, limit: LIMIT }, signal }), begun);
  const own = useMemo(() => (data?.items ?? []).filter((run) => authorOf(run.parent_node ?? "") === node).reverse(), [data, node]);
  useFeed({ onEvents: (events) => node !== null && events.some((one) => one.type.startsWith("run.") && own.some((run) => run.run_id === one.run_id)) && reload(), onReset: reload });
  return { own, hasOlder: data !== null && data.next !== null };
}
