/** What runs and tokens begin as, and what they are after an event of some type. */

import type { RunState, Token } from "./types.ts";

export const EMPTY_RUN: RunState = {
  status: "",
  generation: 1,
  plan: "",
  error: null,
  undos: 0,
  endsAs: "",
  input: 0,
};

export const NEW_TOKEN: Token = {
  state: "ready",
  outcome: "",
  skip: false,
  attempt: 1,
  expiry: 0,
  cursor: false,
  wait: "",
  waitKey: "",
  waitUntil: null,
  waitSince: 0,
  waitEvent: 0,
  event: 0,
  hasOutput: false,
  createdAt: 0,
  startedAt: null,
  endedAt: null,
  dueAt: null,
  error: null,
  notes: null,
  source: "",
  session: "",
  decided: "",
  decidedBy: "",
  decidedWhy: "",
};

export const RUN_STATUS: Record<string, string> = {
  "run.created": "PENDING",
  "run.started": "RUNNING",
  "run.paused": "PAUSED",
  "run.resumed": "RUNNING",
  "run.completed": "COMPLETED",
  "run.failed": "FAILED",
  "run.cancelled": "CANCELLED",
  "run.retried": "RUNNING",
  "run.compensating": "COMPENSATING",
};

export const TOKEN_STATE: Record<string, Token["state"]> = {
  "node.completed": "done",
  "node.sent": "done",
  "node.skipped": "done",
  "node.retried": "ready",
  "node.failed": "dead",
  "node.held": "waiting",
  "node.repaired": "ready",
  "node.waiting": "waiting",
  "node.resumed": "ready",
  "lease.expired": "ready",
};

/** Events of approvals have names of their own beside their type. */
const BASE_TYPE: Record<string, string> = {
  "approval.created": "node.waiting",
  "approval.reminded": "node.waiting",
  "approval.reassigned": "node.waiting",
  "approval.decided": "node.resumed",
};

export const baseType = (type: string): string => BASE_TYPE[type] ?? type;

/** What an event says, as a status: its colour. */
const EVENT_STATUS: Record<string, string> = {
  "node.sent": "running",
  "node.retried": "backoff",
  "node.held": "failed",
  "node.repaired": "running",
  "node.resumed": "running",
  "signal.received": "waiting",
  "lease.expired": "stale",
  "run.created": "running",
  "run.started": "running",
  "run.resumed": "running",
  "run.retried": "running",
  "run.stalled": "stale",
  "run.compensated": "undone",
};

/** Others are named after what they say: `node.failed`, `run.paused`. */
export function eventStatus(type: string): string {
  return EVENT_STATUS[type] ?? (type.startsWith("approval.") ? "waiting" : type.slice(type.indexOf(".") + 1));
}
