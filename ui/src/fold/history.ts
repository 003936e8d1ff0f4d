/**
 * The history of a run, folded event by event.
 *
 * Each event becomes a list of changes (place, before, after). A `Cursor` moves over them in both
 * directions, so that a slider over 50,000 events costs only the events between its old and its new
 * position. The rules are those of the server's fold; a test compares the two at every event.
 */

import { authorOf } from "./scope.ts";
import type { Fault, Join, Place, RunEvent, RunState, Segment, SegmentKind, Token } from "./types.ts";

type Sent = [node: string, scope: string, sort: number, need: number, total: number];

/** Added to the third part of what an item of a foreach has sent. */
const COUNTED = 2;

const EMPTY_RUN: RunState = {
  status: "",
  generation: 1,
  plan: "",
  error: null,
  undos: 0,
  endsAs: "",
  input: 0,
};

const NEW_TOKEN: Token = {
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

const RUN_STATUS: Record<string, string> = {
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

const TOKEN_STATE: Record<string, Token["state"]> = {
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

export class History {
  readonly events: RunEvent[] = [];
  /** When each event happened, in ms. */
  readonly times: number[] = [];
  readonly places: Place[] = [];
  /** Places by the name of their node, hidden ones included. */
  readonly byNode = new Map<string, number[]>();
  readonly segments: Segment[][] = [];
  /** By place: the place whose event made it ready, the last to arrive at a join; -1: the run itself. */
  readonly causes: number[] = [];
  /** The state of the run after each event; the first is before all of them. */
  readonly runs: RunState[] = [EMPTY_RUN];

  // The changes of event n are those from offsets[n - 1] to offsets[n]. A join's place is negative.
  readonly offsets: number[] = [0];
  readonly changed: number[] = [];
  readonly before: (Token | Join | undefined)[] = [];
  readonly after: (Token | Join | undefined)[] = [];

  private readonly index = new Map<string, number>();
  private readonly tokens: (Token | undefined)[] = [];
  private readonly joins: (Join | undefined)[] = [];
  private readonly open: (Segment | null)[] = [];
  private readonly live = new Set<number>();
  private now = 0;
  /** The place that the event is about. */
  private origin = -1;

  get seq(): number {
    return this.events.length;
  }

  get run(): RunState {
    return this.runs[this.seq]!;
  }

  get begin(): number {
    return this.times[0] ?? 0;
  }

  get end(): number {
    return this.times[this.seq - 1] ?? 0;
  }

  /** Take the next events. Those that are known already are left out; a gap stops it. */
  append(events: readonly RunEvent[]): boolean {
    for (const event of events) {
      if (event.seq <= this.seq) continue;
      if (event.seq !== this.seq + 1) return false;
      this.now = Date.parse(event.at);
      this.events.push(event);
      this.times.push(this.now);
      this.runs.push(this.apply(event));
      this.offsets.push(this.changed.length);
    }
    return true;
  }

  /** The number of the last event at or before a time. */
  seqAt(time: number): number {
    let low = 0;
    let high = this.seq;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle]! <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  placeOf(node: string, scope: string): number {
    return this.index.get(`${node}\0${scope}`) ?? -1;
  }

  /** Whether a worker held an instance at a time, as far as the history tells afterwards. */
  isRunning(place: number, time: number): boolean {
    return this.segments[place]!.some(
      (one) => one.kind === "running" && one.from <= time && (one.to === null || time < one.to),
    );
  }

  // ── events ──────────────────────────────────────────────────────────────────────────────

  private apply(event: RunEvent): RunState {
    const { data } = event;
    const type = baseType(event.type);
    const before = this.runs[event.seq - 1]!;
    const status = RUN_STATUS[type] ?? before.status;
    const run = status === before.status ? before : { ...before, status };
    const sent = (data.to ?? []) as Sent[];
    this.origin = -1;
    switch (type) {
      case "run.created":
        return { ...run, plan: data.plan as string, input: event.seq };
      case "run.started":
        this.deliver("", sent);
        return data.input == null ? run : { ...run, input: event.seq };
      case "run.patched":
        for (const [source, one] of (data.to ?? []) as [string, Sent][]) this.deliver(source, [one]);
        this.withdraw(data.withdrawn);
        return { ...run, plan: data.plan as string };
      case "run.retried":
        for (const [node, scope] of (data.tokens ?? []) as [string, string][]) this.revive(node, scope);
        return { ...run, generation: data.generation as number, error: null };
      case "run.failed":
        this.cutOff();
        return { ...run, error: { ...(data.error as Fault), node: data.node, scope: data.scope } };
      case "run.cancelled":
        this.cutOff();
        return { ...run, error: { code: data.reason, message: data.reason } };
      case "run.compensating":
        this.deliver("", sent);
        return { ...run, undos: run.undos + 1, endsAs: before.status };
      case "run.compensated":
        this.cutOff();
        return { ...run, status: data.status as string, endsAs: "" };
    }
    if (typeof data.node === "string") this.settle(event, type, data.node, (data.scope ?? "") as string);
    return run;
  }

  /** An event of one instance. */
  private settle(event: RunEvent, type: string, node: string, scope: string): void {
    const { data, seq } = event;
    const place = this.placeOf(node, scope);
    const token = this.tokens[place];
    if (!token) return;
    this.origin = place;
    const next: { -readonly [K in keyof Token]: Token[K] } = { ...token };
    next.state = TOKEN_STATE[type] ?? token.state;
    const taken = (data.taken_ms ?? 0) as number;
    if (taken) next.startedAt = taken;
    if (typeof data.session === "string" && data.session) next.session = data.session;
    if ((next.state === "done" || next.state === "dead") && type !== "node.edited") next.endedAt = this.now;
    if (next.state !== "waiting") next.dueAt = null;
    const failed = data.error != null;
    if (taken) this.worked(place, taken, next.session, seq, failed, token.attempt);

    switch (type) {
      case "node.completed":
        next.event = seq;
        next.hasOutput = true;
        next.error = (data.error ?? null) as Fault | null;
        next.notes = (data.notes ?? null) as unknown[] | null;
        this.finish(place, next, failed ? "failed" : "completed", data);
        return;
      case "node.sent":
        this.finish(place, next, "completed", data);
        return;
      case "node.skipped":
        next.event = seq;
        this.finish(place, next, "skipped", data);
        return;
      case "node.retried": {
        const due = data.due_ms as number;
        next.attempt = (data.attempt as number) + 1;
        next.error = data.error as Fault;
        next.dueAt = due;
        if (due > this.now) this.segment(place, "backoff", this.now, due, token.attempt, seq);
        this.beginSegment(place, "queued", Math.max(due, this.now), next.attempt);
        break;
      }
      case "node.failed":
        next.outcome = "failed";
        next.error = data.error as Fault;
        this.close(place, seq);
        this.live.delete(place);
        break;
      case "node.held":
        next.wait = "hold";
        next.error = data.error as Fault;
        next.waitEvent = seq;
        next.waitSince = this.now;
        this.beginSegment(place, "waiting", this.now, token.attempt);
        break;
      case "node.repaired":
        next.wait = next.waitKey = "";
        next.waitUntil = null;
        if (data.action === "skip") next.skip = true;
        if (data.action === "retry") {
          next.attempt = 1;
          next.expiry = 0;
        }
        next.decided = (data.action ?? "") as string;
        next.decidedBy = (data.by ?? "") as string;
        next.decidedWhy = (data.why ?? "") as string;
        this.beginSegment(place, "queued", this.now, next.attempt);
        break;
      case "node.waiting":
        next.wait = data.kind as string;
        next.waitKey = (data.key ?? "") as string;
        next.waitUntil = (data.due_ms ?? null) as number | null;
        next.waitEvent = seq;
        next.waitSince = this.now;
        this.beginSegment(place, "waiting", this.now, token.attempt);
        break;
      case "node.resumed":
        next.wait = next.waitKey = "";
        next.waitUntil = null;
        this.beginSegment(place, "queued", this.now, token.attempt);
        break;
      case "lease.expired": {
        next.expiry = data.expiry as number;
        const open = this.open[place];
        // It lay in the queue, then with a worker that did not come back; the history has no more.
        if (open) open.kind = "held";
        this.beginSegment(place, "queued", this.now, token.attempt);
        break;
      }
      case "lease.returned":
        next.expiry = data.expiry as number;
        break;
    }
    this.setToken(place, next);
  }

  private finish(
    place: number,
    next: { -readonly [K in keyof Token]: Token[K] },
    outcome: Token["outcome"],
    data: Record<string, unknown>,
  ): void {
    next.cursor = data.more === true;
    if (next.cursor) next.state = "ready";
    else {
      next.outcome = outcome;
      this.close(place, this.seq);
      this.live.delete(place);
    }
    this.setToken(place, next);
    this.deliver(data.node as string, (data.to ?? []) as Sent[]);
    this.withdraw(data.withdrawn);
  }

  private deliver(source: string, sent: readonly Sent[]): void {
    for (const [node, scope, sort, need, total] of sent) {
      const counted = sort >= COUNTED;
      const live = sort % COUNTED;
      if (total <= 1) {
        this.emit(node, scope, live === 1, counted ? "" : source);
        continue;
      }
      const place = this.intern(node, scope);
      const known = this.joins[place] ?? { need, total, live: 0, skipped: 0, fired: false, arrived: null };
      const join = {
        ...known,
        live: known.live + live,
        skipped: known.skipped + 1 - live,
        arrived: counted ? known.arrived : { source, isLive: live === 1, before: known.arrived },
      };
      const wanted = counted ? need : known.need;
      const fires = !join.fired && (join.live >= wanted || join.live + join.skipped >= join.total);
      this.setJoin(place, fires ? { ...join, fired: true } : join);
      if (fires) this.emit(node, scope, join.live > 0, "");
    }
  }

  private emit(node: string, scope: string, live: boolean, source: string): void {
    const place = this.intern(node, scope);
    this.live.add(place);
    this.causes[place] = this.origin;
    this.setToken(place, { ...NEW_TOKEN, skip: !live, createdAt: this.now, source });
    this.beginSegment(place, "queued", this.now, 1);
  }

  private withdraw(places: unknown): void {
    for (const [node, scope] of (places ?? []) as [string, string][]) {
      this.endToken(this.placeOf(node, scope), "superseded");
    }
  }

  private cutOff(): void {
    for (const place of [...this.live]) this.endToken(place, "cancelled");
  }

  private endToken(place: number, outcome: Token["outcome"]): void {
    const token = this.tokens[place];
    if (!token) return;
    this.live.delete(place);
    this.close(place, this.seq);
    const ended = { state: "dead", outcome, wait: "", waitKey: "", waitUntil: null, endedAt: this.now } as const;
    this.setToken(place, { ...token, ...ended });
  }

  private revive(node: string, scope: string): void {
    const place = this.placeOf(node, scope);
    const token = this.tokens[place];
    if (!token) return;
    this.live.add(place);
    this.setToken(place, { ...token, state: "ready", outcome: "", attempt: 1, expiry: 0, endedAt: null });
    this.beginSegment(place, "queued", this.now, 1);
  }

  // ── places and changes ──────────────────────────────────────────────────────────────────

  private intern(node: string, scope: string): number {
    const key = `${node}\0${scope}`;
    let place = this.index.get(key);
    if (place === undefined) {
      place = this.places.length;
      this.index.set(key, place);
      this.places.push({ node, scope, author: authorOf(node) });
      this.segments.push([]);
      this.open.push(null);
      const all = this.byNode.get(node);
      if (!all) this.byNode.set(node, [place]);
      else {
        // In the order of scopes, which their texts sort by.
        let at = all.length;
        while (at > 0 && this.places[all[at - 1]!]!.scope > scope) at--;
        all.splice(at, 0, place);
      }
    }
    return place;
  }

  private setToken(place: number, token: Token): void {
    this.log(place, this.tokens[place], token);
    this.tokens[place] = token;
  }

  private setJoin(place: number, join: Join): void {
    this.log(~place, this.joins[place], join);
    this.joins[place] = join;
  }

  private log(place: number, before: Token | Join | undefined, after: Token | Join): void {
    this.changed.push(place);
    this.before.push(before);
    this.after.push(after);
  }

  // ── segments ────────────────────────────────────────────────────────────────────────────

  /** A worker had it since `taken`. */
  private worked(place: number, taken: number, session: string, seq: number, failed: boolean, attempt: number): void {
    const open = this.open[place];
    if (open) {
      open.to = Math.max(open.from, taken);
      open.seq = seq;
      if (open.to === open.from) this.segments[place]!.pop();
      this.open[place] = null;
    }
    this.segments[place]!.push({ kind: "running", from: taken, to: this.now, attempt, session, seq, failed });
  }

  private segment(place: number, kind: SegmentKind, from: number, to: number, attempt: number, seq: number): void {
    this.segments[place]!.push({ kind, from, to, attempt, session: "", seq, failed: false });
  }

  private beginSegment(place: number, kind: SegmentKind, from: number, attempt: number): void {
    this.close(place, this.seq);
    const made: Segment = { kind, from, to: null, attempt, session: "", seq: 0, failed: false };
    this.segments[place]!.push(made);
    this.open[place] = made;
  }

  private close(place: number, seq: number): void {
    const open = this.open[place];
    if (!open) return;
    open.to = Math.max(open.from, this.now);
    open.seq = seq;
    this.open[place] = null;
  }
}

/** The state of a run after one of its events. It can move to any other. */
export class Cursor {
  readonly tokens: (Token | undefined)[] = [];
  readonly joins: (Join | undefined)[] = [];
  seq = 0;
  /** The nodes of authors that have changed since they were last asked for. */
  private dirty = new Set<string>();

  readonly history: History;

  constructor(history: History) {
    this.history = history;
  }

  get run(): RunState {
    return this.history.runs[this.seq]!;
  }

  get time(): number {
    return this.seq ? this.history.times[this.seq - 1]! : this.history.begin;
  }

  moveTo(seq: number): void {
    const { history } = this;
    const target = Math.max(0, Math.min(seq, history.seq));
    if (target > this.seq) {
      const end = history.offsets[target]!;
      for (let at = history.offsets[this.seq]!; at < end; at++) this.set(history.changed[at]!, history.after[at]);
    } else {
      const end = history.offsets[target]!;
      for (let at = history.offsets[this.seq]! - 1; at >= end; at--) this.set(history.changed[at]!, history.before[at]);
    }
    this.seq = target;
  }

  private set(place: number, value: Token | Join | undefined): void {
    if (place >= 0) this.tokens[place] = value as Token | undefined;
    else this.joins[~place] = value as Join | undefined;
    this.dirty.add(this.history.places[place >= 0 ? place : ~place]!.author);
  }

  takeDirty(): Set<string> {
    const found = this.dirty;
    this.dirty = new Set();
    return found;
  }
}
