/**
 * A run while somebody looks at it: its graph, its history as it grows, and the moment that is shown.
 *
 * Nodes have listeners of their own, so that an event draws only what it has changed.
 */

import { useCallback, useEffect, useMemo, useSyncExternalStore } from "react";
import { get, pages } from "../../api/client.ts";
import type { Page, RunRow, Shape } from "../../api/types.ts";
import { Cursor } from "../../fold/cursor.ts";
import { History } from "../../fold/history.ts";
import { decodeScope, showScope } from "../../fold/scope.ts";
import { wholeGraph } from "../../fold/graph.ts";
import type { Graph, NodeState, NodeStatus, RunEvent } from "../../fold/types.ts";
import { isOver, statusOf, View, type IsHeld } from "../../fold/view.ts";
import { isLost, report, whenBack } from "../../live/connection.ts";
import { listen } from "../../live/feed.ts";
import { EventStream } from "../../live/stream.ts";
import type { GraphModel } from "./graphContext.ts";

/** Between two questions about who works on what; the short one is that after an event. */
const HELD_PAUSE = 1000;
const HELD_PAUSE_SHORT = 120;
/** Events in the first answer, and in each after it. */
const FIRST = 500;
const PAGE = 10_000;

export class RunModel {
  readonly history = new History();
  readonly cursor = new Cursor(this.history);
  row: RunRow | null = null;
  graph: Graph | null = null;
  view: View | null = null;
  error: Error | null = null;
  /** The number of the event that is shown; null: the newest, as it comes. */
  at: number | null = null;
  /** Since when workers hold which places, as the server said last. */
  held = new Map<number, number>();
  /** Nodes that a change would concern, and how: what the graph highlights. */
  marks: ReadonlyMap<string, string> = new Map();
  /** The history is on its way; what is there is shown already. */
  isLoading = true;
  version = 0;

  private readonly control = new AbortController();
  private stream: EventStream | null = null;
  private stopListening: (() => void) | null = null;
  private plan = "";
  private frame = 0;
  private touched: string[] = [];
  private asking = false;
  private heldTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly listeners = new Set<() => void>();
  private readonly nodeListeners = new Map<string, Set<() => void>>();

  readonly id: string;

  constructor(id: string) {
    this.id = id;
  }

  /** Load it, and follow it until it is closed. */
  start(): void {
    void this.load();
  }

  close(): void {
    this.control.abort();
    this.stream?.close();
    this.stopListening?.();
    clearTimeout(this.heldTimer);
    cancelAnimationFrame(this.frame);
    report(this, null);
  }

  get isLive(): boolean {
    return this.at === null;
  }

  get isOver(): boolean {
    return isOver(this.history.run.status);
  }

  isHeld: IsHeld = (place) => (this.isLive ? this.held.has(place) : this.history.segments.isRunning(place, this.cursor.time));

  node(id: string): NodeState | null {
    return this.view?.nodes.get(id) ?? null;
  }

  /** The event that a number names. */
  event(seq: number): RunEvent | null {
    return this.history.events[seq - 1] ?? null;
  }

  statusAt(place: number): NodeStatus {
    return statusOf(this.cursor.tokens[place]!, () => this.isHeld(place));
  }

  /** As people write an instance: `check[2]`. */
  nameOf(place: number): string {
    const { author, scope } = this.history.places[place]!;
    return author + showScope(decodeScope(scope));
  }

  /** Show the run after an event; null: follow it. */
  show(at: number | null): void {
    this.at = at === null || (at >= this.history.seq && !this.isLoading) ? null : Math.max(1, at);
    this.later();
  }

  highlight(marks: ReadonlyMap<string, string>): void {
    const concerned = [...this.marks.keys(), ...marks.keys()];
    this.marks = marks;
    this.tell();
    this.tellNodes(new Set(concerned));
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  subscribeNode(id: string, listener: () => void): () => void {
    const all = this.nodeListeners.get(id) ?? new Set();
    this.nodeListeners.set(id, all.add(listener));
    return () => all.delete(listener);
  }

  private async load(): Promise<void> {
    const { signal } = this.control;
    try {
      await Promise.all([this.loadHistory(), this.loadGraph(), this.loadRow()]);
      this.isLoading = false;
      this.show(this.at);
      this.follow();
      this.listen();
    } catch (error) {
      if (signal.aborted) return;
      this.error = error as Error;
      this.tell();
      if (isLost(this.error)) this.loadWhenBack();
    }
  }

  private loadWhenBack(): void {
    const stop = whenBack(() => {
      stop();
      this.error = null;
      void this.load();
    });
    this.control.signal.addEventListener("abort", stop);
  }

  private async loadRow(): Promise<void> {
    this.row = await get<RunRow>("/runs/{run_id}/summary", { path: { run_id: this.id }, signal: this.control.signal });
    this.later();
  }

  /** A few events first, so that there is something to see; then the others. */
  private async loadHistory(): Promise<void> {
    const options = { path: { run_id: this.id }, signal: this.control.signal };
    const first = await get<Page<RunEvent>>("/runs/{run_id}/events", { ...options, query: { limit: FIRST } });
    this.history.append(first.items);
    this.later();
    if (first.next === null) return;
    for await (const events of pages<RunEvent>("/runs/{run_id}/events", { ...options, query: { limit: PAGE, cursor: first.next } })) {
      this.history.append(events);
      this.later();
    }
  }

  private async loadGraph(): Promise<void> {
    const options = { path: { run_id: this.id }, query: { format: "compact" }, signal: this.control.signal };
    this.graph = wholeGraph(await get<Shape<"Graph">>("/runs/{run_id}/graph", options));
    this.view = new View(this.graph, this.cursor);
    this.later();
  }

  /** The stream of a run ends with it. Somebody may retry or undo it later. */
  private listen(): void {
    const again = (): void => {
      if (!this.stream) this.follow();
    };
    this.stopListening = listen({
      onEvents: (events) => events.some((one) => one.run_id === this.id && one.seq > this.history.seq) && again(),
      onReset: again,
    });
  }

  private follow(): void {
    this.stream = new EventStream(
      `/runs/${encodeURIComponent(this.id)}/events`,
      {
        onMessages: (messages) => {
          this.history.append(messages.map((one) => JSON.parse(one.data) as RunEvent));
          this.later();
          this.askLater(HELD_PAUSE_SHORT);
        },
        onConnection: (state) => {
          report(this, state);
          if (state === "over") this.stream = null;
        },
        onRefused: (error) => {
          this.error = error;
          this.tell();
        },
      },
      { lastId: String(this.history.seq), rests: true },
    );
    void this.askHeld();
  }

  /** Who works on what is not in the history: it is asked for while the run goes on. */
  private async askHeld(): Promise<void> {
    if (this.asking) return;
    this.asking = true;
    if (!document.hidden && !this.isOver) {
      const path = { run_id: this.id };
      const page = await get<Page<Shape<"HeldInstance">>>("/runs/{run_id}/held", { path, signal: this.control.signal }).catch(() => null);
      if (page) {
        const next = new Map<number, number>();
        for (const one of page.items) {
          const place = this.history.placeOf(one.node, one.scope);
          if (place >= 0) next.set(place, Date.parse(one.since));
        }
        const changed = [...new Set([...next.keys(), ...this.held.keys()])].filter((place) => next.has(place) !== this.held.has(place));
        this.held = next;
        if (changed.length) this.later(changed.map((place) => this.history.places[place]!.author));
      }
    }
    this.asking = false;
    this.askLater(HELD_PAUSE);
  }

  private askLater(pause: number): void {
    clearTimeout(this.heldTimer);
    if (!this.isOver && !this.control.signal.aborted) this.heldTimer = setTimeout(() => void this.askHeld(), pause);
  }

  private later(touched: readonly string[] = []): void {
    this.touched.push(...touched);
    // A hidden tab has no frames.
    if (document.hidden) this.draw();
    else if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  /** Bring everything to the moment that is shown. */
  private draw(): void {
    this.frame = 0;
    this.cursor.moveTo(this.at ?? this.history.seq);
    const { plan } = this.history.run;
    if (this.plan && plan !== this.plan) void this.loadGraph().then(() => this.draw(), () => undefined);
    this.plan = plan;
    const touched = new Set(this.touched);
    this.touched = [];
    // Whether a worker holds an instance depends on the moment, not only on events.
    this.cursor.tokens.forEach((token, place) => {
      if (token?.state === "ready" && !(this.isLive && !this.held.size)) touched.add(this.history.places[place]!.author);
    });
    const changed = this.view?.update(this.isHeld, touched) ?? new Set<string>();
    this.tell();
    this.tellNodes(changed);
  }

  private tellNodes(ids: Set<string>): void {
    for (const id of ids) for (const one of this.nodeListeners.get(id) ?? []) one();
  }

  private tell(): void {
    this.version++;
    for (const one of [...this.listeners]) one();
  }
}

/** The run with this id, and a new drawing whenever it changes. */
export function useRunModel(id: string): RunModel {
  const model = useMemo(() => new RunModel(id), [id]);
  useEffect(() => {
    model.start();
    return () => model.close();
  }, [model]);
  useSyncExternalStore(model.subscribe, () => model.version);
  return model;
}

/** How a change that somebody thinks about would concern a node; "": not at all. */
export function useMark(model: GraphModel, id: string): string {
  const subscribe = useCallback((listener: () => void) => model.subscribeNode(id, listener), [model, id]);
  return useSyncExternalStore(subscribe, () => model.marks.get(id) ?? "");
}

/** The state of one node: only its changes draw again. */
export function useNodeState(model: GraphModel, id: string): NodeState | null {
  const subscribe = useCallback((listener: () => void) => model.subscribeNode(id, listener), [model, id]);
  return useSyncExternalStore(subscribe, () => model.node(id));
}
