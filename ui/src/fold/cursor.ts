import type { History } from "./history.ts";
import type { Join, RunState, Token } from "./types.ts";

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
