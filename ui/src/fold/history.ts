/**
 * The history of a run, folded event by event.
 *
 * Each event becomes a list of changes (place, before, after). A `Cursor` moves over them in both
 * directions, so that a slider over 50,000 events costs only the events between its old and its new
 * position. The rules are those of the server's fold; a test compares the two at every event.
 */

import { baseType, EMPTY_RUN, NEW_TOKEN, RUN_STATUS, TOKEN_STATE } from "./meanings.ts";
import { authorOf } from "./scope.ts";
import { Segments } from "./segments.ts";
import type { Fault, Join, Place, RunEvent, RunState, SegmentKind, Token } from "./types.ts";

type Sent = [node: string, scope: string, sort: number, need: number, total: number];

/** Added to the third part of what an item of a foreach has sent. */
const COUNTED = 2;

export class History {
  readonly events: RunEvent[] = [];
  /** When each event happened, in ms. */
  readonly times: number[] = [];
  readonly places: Place[] = [];
  /** Places by the name of their node, hidden ones included. */
  readonly byNode = new Map<string, number[]>();
  readonly segments = new Segments();
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
    if (taken) this.segments.worked(place, { kind: "running", from: taken, to: this.now, attempt: token.attempt, session: next.session, seq, failed });

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
        if (due > this.now) this.segments.push(place, { kind: "backoff", from: this.now, to: due, attempt: token.attempt, session: "", seq, failed: false });
        this.beginPart(place, "queued", Math.max(due, this.now), next.attempt);
        break;
      }
      case "node.failed":
        next.outcome = "failed";
        next.error = data.error as Fault;
        this.segments.end(place, this.now, seq);
        this.live.delete(place);
        break;
      case "node.held":
        next.wait = "hold";
        next.error = data.error as Fault;
        next.waitEvent = seq;
        next.waitSince = this.now;
        this.beginPart(place, "waiting", this.now, token.attempt);
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
        this.beginPart(place, "queued", this.now, next.attempt);
        break;
      case "node.waiting":
        next.wait = data.kind as string;
        next.waitKey = (data.key ?? "") as string;
        next.waitUntil = (data.due_ms ?? null) as number | null;
        next.waitEvent = seq;
        next.waitSince = this.now;
        this.beginPart(place, "waiting", this.now, token.attempt);
        break;
      case "node.resumed":
        next.wait = next.waitKey = "";
        next.waitUntil = null;
        this.beginPart(place, "queued", this.now, token.attempt);
        break;
      case "lease.expired":
        next.expiry = data.expiry as number;
        this.segments.lost(place);
        this.beginPart(place, "queued", this.now, token.attempt);
        break;
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
      this.segments.end(place, this.now, this.seq);
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
    this.beginPart(place, "queued", this.now, 1);
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
    this.segments.end(place, this.now, this.seq);
    const ended = { state: "dead", outcome, wait: "", waitKey: "", waitUntil: null, endedAt: this.now } as const;
    this.setToken(place, { ...token, ...ended });
  }

  private revive(node: string, scope: string): void {
    const place = this.placeOf(node, scope);
    const token = this.tokens[place];
    if (!token) return;
    this.live.add(place);
    this.setToken(place, { ...token, state: "ready", outcome: "", attempt: 1, expiry: 0, endedAt: null });
    this.beginPart(place, "queued", this.now, 1);
  }

  // ── places and changes ──────────────────────────────────────────────────────────────────

  private intern(node: string, scope: string): number {
    const key = `${node}\0${scope}`;
    let place = this.index.get(key);
    if (place === undefined) {
      place = this.places.length;
      this.index.set(key, place);
      this.places.push({ node, scope, author: authorOf(node) });
      this.segments.add();
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

  /** A part of an instance's life begins. */
  private beginPart(place: number, kind: SegmentKind, from: number, attempt: number): void {
    this.segments.begin(place, kind, from, attempt, this.now, this.seq);
  }
}
