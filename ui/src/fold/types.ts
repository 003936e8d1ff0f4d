/** What a fold of a run's history gives. Everything here is immutable: a change is a new object. */

import type { Scope } from "./scope.ts";

export interface RunEvent {
  seq: number;
  type: string;
  at: string;
  data: Record<string, unknown>;
  cause?: number | null;
}

export type Fault = Record<string, unknown>;

/** A node instance (node, scope). Places are numbered in the order in which they appear. */
export interface Place {
  readonly node: string;
  readonly scope: string;
  /** The node that the author wrote. */
  readonly author: string;
}

export interface Token {
  readonly state: "ready" | "waiting" | "done" | "dead";
  readonly outcome: "" | "completed" | "skipped" | "failed" | "cancelled" | "superseded";
  readonly skip: boolean;
  readonly attempt: number;
  /** Expired leases of workers that have not come back. */
  readonly expiry: number;
  /** A large fan-out goes on. */
  readonly cursor: boolean;
  readonly wait: string;
  readonly waitKey: string;
  readonly waitUntil: number | null;
  readonly waitSince: number;
  /** Number of the event with which it began to wait. */
  readonly waitEvent: number;
  /** Number of the event that committed its result, and whether that has an output. */
  readonly event: number;
  readonly hasOutput: boolean;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Not before this time: a retry. */
  readonly dueAt: number | null;
  readonly error: Fault | null;
  /** Rules that decided, or could not be evaluated. */
  readonly notes: readonly unknown[] | null;
  readonly source: string;
  readonly session: string;
  readonly decided: string;
  readonly decidedBy: string;
  readonly decidedWhy: string;
}

export interface Join {
  readonly need: number;
  readonly total: number;
  readonly live: number;
  readonly skipped: number;
  readonly fired: boolean;
  /** What has arrived, the newest first. */
  readonly arrived: Arrival | null;
}

/** A source of a join. A chain rather than a map: a join of thousands of sources has as many states. */
export interface Arrival {
  readonly source: string;
  readonly isLive: boolean;
  readonly before: Arrival | null;
}

/** Source node → whether it was live. */
export function sourcesOf(join: Join | null): Map<string, boolean> {
  const found = new Map<string, boolean>();
  for (let one = join?.arrived ?? null; one; one = one.before) if (!found.has(one.source)) found.set(one.source, one.isLive);
  return found;
}

export interface RunState {
  readonly status: string;
  readonly generation: number;
  readonly plan: string;
  readonly error: Fault | null;
  readonly undos: number;
  readonly endsAs: string;
  /** Number of the event that holds the input. */
  readonly input: number;
}

export type SegmentKind = "queued" | "held" | "running" | "backoff" | "waiting";

/** A part of an instance's life. `to` is null while it goes on. */
export interface Segment {
  kind: SegmentKind;
  from: number;
  to: number | null;
  attempt: number;
  session: string;
  /** Number of the event that ended it; 0: none has. */
  seq: number;
  failed: boolean;
}

export type NodeStatus =
  | "PENDING"
  | "QUEUED"
  | "RUNNING"
  | "WAITING"
  | "COMPLETED"
  | "FAILED"
  | "CANCELLED"
  | "SKIPPED";

export interface Waiting {
  readonly kind: string;
  readonly key: string;
  readonly since: number;
  readonly until: number | null;
  readonly event: number;
}

/** A node, or one instance of it, as people see it. */
export interface InstanceState {
  readonly scope: Scope;
  readonly status: NodeStatus;
  readonly attempts: number;
  readonly error: Fault | null;
  readonly reason: string;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
  /** Number of the event that holds the output; 0: there is none. */
  readonly event: number;
  readonly waiting: Waiting | null;
  /** Number of its place, for its segments; -1: it was never reached. */
  readonly place: number;
}

export interface NodeState extends InstanceState {
  readonly id: string;
  readonly instances: number;
  /** Of a foreach: how many items its lists have, begun or not; null: no list is known yet. */
  readonly items: number | null;
  /** How many instances have which status, if there are several. */
  readonly counts: Readonly<Partial<Record<NodeStatus, number>>>;
  /** Arrivals of the instance shown, if it is a join. */
  readonly join: Join | null;
  /** What has become of its compensator. */
  readonly undo: NodeStatus | null;
}

export interface GraphNode {
  id: string;
  type: string;
  handler: string | null;
  nest: string[];
  need: number;
  is_output: boolean;
  foreach: boolean;
  title: string | null;
  branch: { type: string; rules: unknown[]; default: string[] } | null;
  loop: { condition: string; max_iterations: number; entry: string } | null;
  /** The workflow that it starts. */
  child: string | null;
  /** As it was written, with templates. */
  config: unknown;
  queue: string;
  max_attempts: number;
  has_compensator: boolean;
}

export interface GraphEdge {
  from: string;
  to: string;
  roles: string[];
  rules: { rule: number; condition: string }[];
  is_default: boolean;
}

export interface Graph {
  name: string;
  constructs: Record<string, string>;
  nodes: GraphNode[];
  edges: GraphEdge[];
}
