/** The lives of all instances, in parts: in the queue, with a worker, before a retry, waiting. */

import type { Segment, SegmentKind } from "./types.ts";

export class Segments {
  /** By place. */
  readonly all: Segment[][] = [];
  /** The part that goes on, of each. */
  private readonly open: (Segment | null)[] = [];

  /** A place that was not there before. */
  add(): void {
    this.all.push([]);
    this.open.push(null);
  }

  /** Whether a worker held an instance at a time, as far as the history tells afterwards. */
  isRunning(place: number, time: number): boolean {
    return this.all[place]!.some((one) => one.kind === "running" && one.from <= time && (one.to === null || time < one.to));
  }

  /** It begins a part of its life at a time, which is `now` or later; event `seq` has ended the part before. */
  begin(place: number, kind: SegmentKind, from: number, attempt: number, now: number, seq: number): void {
    this.end(place, now, seq);
    const made: Segment = { kind, from, to: null, attempt, session: "", seq: 0, failed: false };
    this.all[place]!.push(made);
    this.open[place] = made;
  }

  end(place: number, now: number, seq: number): void {
    const open = this.open[place];
    if (!open) return;
    open.to = Math.max(open.from, now);
    open.seq = seq;
    this.open[place] = null;
  }

  /** A part that is over already. */
  push(place: number, one: Segment & { to: number }): void {
    this.all[place]!.push(one);
  }

  /** A worker has had it since `one.from`. What went on until then may have taken no time. */
  worked(place: number, one: Segment & { to: number }): void {
    const open = this.open[place];
    if (open) {
      open.to = Math.max(open.from, one.from);
      open.seq = one.seq;
      if (open.to === open.from) this.all[place]!.pop();
      this.open[place] = null;
    }
    this.push(place, one);
  }

  /** It lay in the queue, then with a worker that did not come back; the history has no more. */
  lost(place: number): void {
    const open = this.open[place];
    if (open) open.kind = "held";
  }
}
