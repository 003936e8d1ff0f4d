/**
 * Server-sent events read with fetch: `EventSource` cannot send a key, nor say why it failed.
 *
 * The stream connects again with the last id it has seen, after pauses that grow, and at once when the
 * browser is back online or the tab is looked at again.
 */

import { API, ApiError, fetchWithKey } from "../api/client.ts";

export interface Message {
  id: string;
  type: string;
  data: string;
}

export type Connection = "connecting" | "open" | "lost" | "over";

export interface Handlers {
  /** All messages that came together. */
  onMessages: (messages: Message[]) => void;
  onConnection: (state: Connection) => void;
  /** It is connected, but not from where it was: what happened before is not part of it. */
  onFresh?: () => void;
  /** The server cannot go on from where we were: load again. */
  onReset?: () => void;
  /** The server will not have it. Without this, it is tried again: what is between may have refused it. */
  onRefused?: (error: ApiError) => void;
}

const PAUSE_MIN = 250;
const PAUSE_MAX = 10_000;
/** The server says something every 15 s. */
const SILENCE_MAX = 40_000;

export class EventStream {
  private readonly control = new AbortController();
  private lastId: string;
  private pause = PAUSE_MIN;
  private wake: (() => void) | null = null;
  private drop: (() => void) | null = null;

  private readonly path: string;
  private readonly handlers: Handlers;
  private readonly rests: boolean;

  /** With `rests`, a hidden tab gives its connection to others: browsers have few for each server. */
  constructor(path: string, handlers: Handlers, { lastId = "", rests = false } = {}) {
    this.path = path;
    this.handlers = handlers;
    this.lastId = lastId;
    this.rests = rests;
    const { signal } = this.control;
    const wake = (): void => {
      if (!document.hidden) this.wake?.();
      else if (rests) this.drop?.();
    };
    addEventListener("online", wake, { signal });
    addEventListener("offline", () => this.drop?.(), { signal });
    document.addEventListener("visibilitychange", wake, { signal });
    void this.run();
  }

  close(): void {
    this.control.abort();
    this.wake?.();
  }

  private async run(): Promise<void> {
    const { signal } = this.control;
    this.handlers.onConnection("connecting");
    while (!signal.aborted) {
      if (this.rests && document.hidden) await new Promise<void>((resolve) => (this.wake = resolve));
      let ended = false;
      let isClosed = false;
      try {
        ended = await this.read();
        isClosed = true;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ApiError && error.status === 410) {
          this.lastId = "";
          this.handlers.onReset?.();
        } else if (this.handlers.onRefused && error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
          this.handlers.onConnection("over");
          return this.handlers.onRefused(error);
        }
      }
      if (signal.aborted) return;
      if (ended) return this.handlers.onConnection("over");
      const isResting = this.rests && document.hidden;
      // A server that has closed a stream in good order has said all, or answers again at once.
      this.handlers.onConnection(isClosed || isResting ? "connecting" : "lost");
      if (!isResting) await this.rest();
    }
  }

  private rest(): Promise<void> {
    const pause = this.pause * (0.75 + Math.random() / 2);
    this.pause = Math.min(this.pause * 2, PAUSE_MAX);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, pause);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Read until the connection ends; true: there is nothing more to come. */
  private async read(): Promise<boolean> {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.lastId) headers["Last-Event-ID"] = this.lastId;
    // A connection that is silent for too long is dead, whatever the system says.
    const silent = new AbortController();
    this.drop = () => silent.abort();
    let timer = setTimeout(this.drop, SILENCE_MAX);
    const signal = AbortSignal.any([this.control.signal, silent.signal]);
    try {
      const answer = await fetchWithKey(API + this.path, { headers, signal, cache: "no-store" });
      if (answer.status === 204) return true;
      if (!answer.ok || !answer.body) {
        const problem = await answer.json().catch(() => null);
        throw new ApiError(answer.status, problem, problem?.detail ?? `the server answered ${answer.status}`);
      }
      this.handlers.onConnection("open");
      if (!this.lastId) this.handlers.onFresh?.();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return false;
        clearTimeout(timer);
        timer = setTimeout(this.drop, SILENCE_MAX);
        this.pause = PAUSE_MIN;
        const found = parser.push(value);
        if (parser.lastId) this.lastId = parser.lastId;
        const messages = found.filter((one) => one.type !== "reset");
        if (messages.length) this.handlers.onMessages(messages);
        if (messages.length < found.length) {
          this.lastId = parser.lastId = "";
          this.handlers.onReset?.();
        }
      }
    } finally {
      this.drop = null;
      clearTimeout(timer);
    }
  }
}

/** Splits the text of a stream into its messages. */
export class Parser {
  lastId = "";
  private rest = "";
  private type = "";
  private data: string[] = [];

  push(text: string): Message[] {
    const found: Message[] = [];
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop()!;
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.data.length || this.type === "reset") {
          found.push({ id: this.lastId, type: this.type || "message", data: this.data.join("\n") });
        }
        this.type = "";
        this.data = [];
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
      if (name === "data") this.data.push(value);
      else if (name === "event") this.type = value;
      else if (name === "id") this.lastId = value;
    }
    return found;
  }
}
