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
  /** Source node → whether it was live. */
  readonly sources: Readonly<Record<string, boolean>>;
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
  dependencies: string[];
  dependents: string[];
  is_entry: boolean;
  is_terminal: boolean;
  is_output: boolean;
  foreach: boolean;
}

export interface GraphEdge {
  from: string;
  to: string;
  roles: string[];
}

export interface Graph {
  name: string;
  constructs: Record<string, string>;
  nodes: GraphNode[];
  edges: GraphEdge[];
}
