/**
 * A run as people see it, node by node: what `GET /runs/{id}/state?at=SEQ` answers.
 *
 * Only nodes that have changed are looked at again; the others keep their object, so that what shows
 * them need not be drawn again.
 */

import type { Cursor } from "./cursor.ts";
import { decodeScope, encodeScope, type Scope } from "./scope.ts";
import type {
  Graph,
  GraphNode,
  InstanceState,
  Join,
  NodeState,
  NodeStatus,
  Token,
  Waiting,
} from "./types.ts";
import { sourcesOf } from "./types.ts";

/** Which of several instances a node shows: the one whose status comes first here. */
const ATTENTION: readonly NodeStatus[] = [
  "RUNNING",
  "WAITING",
  "QUEUED",
  "FAILED",
  "CANCELLED",
  "COMPLETED",
  "SKIPPED",
];
const RANK = Object.fromEntries(ATTENTION.map((status, rank) => [status, rank])) as Record<NodeStatus, number>;

const TERMINAL = new Set(["COMPLETED", "FAILED", "CANCELLED"]);
export const isOver = (status: string): boolean => TERMINAL.has(status);

/** Whether a worker holds an instance. The history does not tell: `Segments.isRunning`, or the server. */
export type IsHeld = (place: number) => boolean;
const nobody: IsHeld = () => false;

/** The items of a foreach: how many have which status, and of each scope the one that it shows. */
interface Items {
  total: number;
  counts: Partial<Record<NodeStatus, number>>;
  groups: Map<string, { place: number; status: NodeStatus; started: boolean }>;
}

export class View {
  readonly nodes = new Map<string, NodeState>();
  private readonly byId = new Map<string, GraphNode>();
  private readonly below = new Map<string, string[]>();
  private readonly above = new Map<string, string[]>();
  private status = "";
  /** By place of an item: the scope of its foreach. */
  private readonly outer: string[] = [];

  readonly graph: Graph;
  readonly cursor: Cursor;

  constructor(graph: Graph, cursor: Cursor) {
    this.graph = graph;
    this.cursor = cursor;
    for (const node of graph.nodes) this.byId.set(node.id, node);
    for (const { from, to, roles } of graph.edges) {
      if (roles.length === 1 && roles[0] === "back") continue;
      push(this.below, from, to);
      push(this.above, to, from);
    }
  }

  /** Bring the nodes up to the cursor; those whose state has changed. */
  update(isHeld: IsHeld = nobody, touched: Iterable<string> = []): Set<string> {
    const changed = new Set<string>();
    const dirty = this.cursor.takeDirty();
    for (const id of touched) dirty.add(id);
    const all = this.nodes.size === 0;
    const run = this.cursor.run;
    const status = run.endsAs || run.status;
    const isOther = all || status !== this.status;
    const global = isOther || dirty.size > 0;
    this.status = status;
    if (!global) return changed;
    const reached = new Map<string, NodeState>();
    for (const node of this.graph.nodes) {
      const known = this.nodes.get(node.id);
      if (!all && !dirty.has(node.id)) {
        if (known && known.place >= 0) reached.set(node.id, known);
        continue;
      }
      const found = this.summarize(node, isHeld);
      if (found) reached.set(node.id, found);
    }
    const failed = status === "FAILED" ? this.belowFailure() : null;
    const skipped = this.decidedSkips(reached);
    for (const node of this.graph.nodes) {
      const before = this.nodes.get(node.id);
      // Most nodes of a large graph: not reached before, not now, and nothing has arrived since.
      const wasSkipped = before?.reason === "all_arrivals_skipped";
      if (!isOther && !failed && before && before.place < 0 && !dirty.has(node.id) && !reached.has(node.id) && skipped.has(node.id) === wasSkipped) continue;
      const next = skipped.has(node.id)
        ? this.untouched(node, "SKIPPED", "all_arrivals_skipped")
        : (reached.get(node.id) ?? this.without(node, status, failed));
      if (before && (before === next || (next.place < 0 && isSame(before, next)))) continue;
      this.nodes.set(node.id, next);
      changed.add(node.id);
    }
    return changed;
  }

  /** The places of all instances of a node, in the order of their scopes; of a foreach, of its items. */
  places(id: string): number[] {
    const { history, tokens } = this.cursor;
    const reached = (name: string): number[] => (history.byNode.get(name) ?? []).filter((place) => tokens[place]);
    const items = this.byId.get(id)?.foreach ? reached(`${id}$item`) : [];
    return items.length ? items : reached(id);
  }

  /** The instance at a place; null: it has not been reached. */
  at(place: number, isHeld: IsHeld = nobody): InstanceState | null {
    const token = this.cursor.tokens[place];
    return token ? this.instance(place, token, isHeld) : null;
  }

  private show(name: string, isHeld: IsHeld): InstanceState[] {
    const found: InstanceState[] = [];
    for (const place of this.cursor.history.byNode.get(name) ?? []) {
      const token = this.cursor.tokens[place];
      if (token) found.push(this.instance(place, token, isHeld));
    }
    return found;
  }

  private instance(place: number, token: Token, isHeld: IsHeld): InstanceState {
    const status = statusOf(token, () => isHeld(place));
    const begun = status !== "QUEUED" && status !== "CANCELLED";
    return {
      scope: decodeScope(this.cursor.history.places[place]!.scope),
      status,
      attempts: token.skip ? 0 : begun ? token.attempt : token.attempt - 1,
      error: token.error,
      reason: reasonOf(token, status),
      startedAt: token.startedAt,
      endedAt: token.endedAt,
      event: token.hasOutput ? token.event : 0,
      waiting: waitingOf(token),
      place,
    };
  }

  /** A node with a foreach in each of its scopes: its list, its items and their gathering. */
  private asOne(node: GraphNode, items: Items, isHeld: IsHeld): InstanceState[] {
    const found = new Map<string, InstanceState>();
    for (const one of this.show(`${node.id}$items`, isHeld)) found.set(encodeScope(one.scope), { ...one, event: 0 });
    for (const [key, { place, started }] of items.groups) {
      const shown = this.instance(place, this.cursor.tokens[place]!, isHeld);
      const listed = found.get(key) ?? shown;
      const idle = shown.status === "QUEUED" || shown.status === "COMPLETED";
      const status = idle && started ? "RUNNING" : shown.status;
      found.set(key, {
        ...listed,
        status,
        attempts: 1,
        error: shown.error,
        reason: shown.reason,
        endedAt: status === "FAILED" || status === "CANCELLED" ? shown.endedAt : null,
        event: 0,
        waiting: shown.waiting,
      });
    }
    for (const one of this.show(node.id, isHeld)) {
      const key = encodeScope(one.scope);
      found.set(key, { ...one, startedAt: found.get(key)?.startedAt ?? one.startedAt });
    }
    return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  }

  /** All items of a foreach, without an object for each: there may be many, and each event asks again. */
  private survey(name: string, isHeld: IsHeld): Items {
    const { history, tokens } = this.cursor;
    const found: Items = { total: 0, counts: {}, groups: new Map() };
    for (const place of history.byNode.get(name) ?? []) {
      const token = tokens[place];
      if (!token) continue;
      const status = statusOf(token, () => isHeld(place));
      found.total++;
      found.counts[status] = (found.counts[status] ?? 0) + 1;
      const key = (this.outer[place] ??= encodeScope(decodeScope(history.places[place]!.scope).slice(0, -1)));
      const group = found.groups.get(key);
      const started = token.startedAt !== null;
      if (!group) found.groups.set(key, { place, status, started });
      else {
        group.started ||= started;
        if (RANK[status] < RANK[group.status]) {
          group.place = place;
          group.status = status;
        }
      }
    }
    return found;
  }

  private summarize(node: GraphNode, isHeld: IsHeld): NodeState | null {
    const items = node.foreach ? this.survey(`${node.id}$item`, isHeld) : null;
    const own = items ? this.asOne(node, items, isHeld) : this.show(node.id, isHeld);
    if (own.length === 0) return null;
    const chosen = this.choose(node, own);
    const latest = own.findLast((one) => one.event > 0);
    const instances = items?.total || own.length;
    const counts: Partial<Record<NodeStatus, number>> = items?.total ? items.counts : {};
    if (!items?.total && (own.length > 1 || items)) for (const one of own) counts[one.status] = (counts[one.status] ?? 0) + 1;
    return {
      ...chosen,
      id: node.id,
      event: latest?.event ?? 0,
      instances,
      items: node.foreach ? this.listed(node.id) : null,
      counts,
      join: this.joinOf(node, chosen.scope),
      undo: this.undoOf(node.id, isHeld),
    };
  }

  /** How many items the lists of a foreach have. */
  private listed(id: string): number | null {
    const { history, tokens } = this.cursor;
    let count: number | null = null;
    for (const place of history.byNode.get(`${id}$items`) ?? []) {
      const token = tokens[place];
      if (!token?.hasOutput) continue;
      const output = history.events[token.event - 1]!.data.output as { count?: number } | null;
      count = (count ?? 0) + (output?.count ?? 0);
    }
    return count;
  }

  /** The latest iteration; of several arrivals, the one that most needs attention. */
  private choose(node: GraphNode, all: InstanceState[]): InstanceState {
    const each = node.nest.flatMap((name, at) => (this.graph.constructs[name] === "each" ? [at] : []));
    const latest = new Map<string, InstanceState>();
    for (const one of all) latest.set(each.map((at) => one.scope[at]).join("."), one);
    let chosen: InstanceState | null = null;
    for (const one of latest.values()) if (!chosen || RANK[one.status] < RANK[chosen.status]) chosen = one;
    return chosen!;
  }

  private joinOf(node: GraphNode, scope: Scope): Join | null {
    const head = node.foreach ? `${node.id}$items` : node.id;
    return this.cursor.joins[this.cursor.history.placeOf(head, encodeScope(scope))] ?? null;
  }

  private undoOf(id: string, isHeld: IsHeld): NodeStatus | null {
    const all = this.show(`${id}$undo`, isHeld);
    return all.length ? all.reduce((a, b) => (RANK[b.status] < RANK[a.status] ? b : a)).status : null;
  }

  /** Nodes that no token has reached and that only skips can still reach. */
  private decidedSkips(reached: Map<string, NodeState>): Set<string> {
    const decided = new Set<string>();
    for (const [id, node] of reached) {
      if (node.status === "SKIPPED" && this.places(id).every((place) => statusOf(this.cursor.tokens[place]!, () => false) === "SKIPPED")) decided.add(id);
    }
    const found = new Set<string>();
    const waiting = [...decided].flatMap((id) => this.below.get(id) ?? []);
    while (waiting.length) {
      const id = waiting.pop()!;
      const node = this.byId.get(id);
      if (!node || found.has(id) || reached.has(id) || this.isInEach(node)) continue;
      const arrived = sourcesOf(this.joinOf(node, node.nest.map(() => 0)));
      const sources = this.above.get(id) ?? [];
      if (sources.every((one) => (arrived.has(one) ? !arrived.get(one) : decided.has(one)))) {
        found.add(id);
        decided.add(id);
        waiting.push(...(this.below.get(id) ?? []));
      }
    }
    return found;
  }

  private isInEach(node: GraphNode): boolean {
    return node.nest.some((name) => this.graph.constructs[name] === "each");
  }

  private belowFailure(): Set<string> {
    const { history, tokens } = this.cursor;
    const found = new Set<string>();
    const waiting: string[] = [];
    tokens.forEach((token, place) => {
      if (token?.state === "dead" && token.outcome === "failed") waiting.push(history.places[place]!.author);
    });
    while (waiting.length) {
      for (const target of this.below.get(waiting.pop()!) ?? []) {
        if (found.has(target)) continue;
        found.add(target);
        waiting.push(target);
      }
    }
    return found;
  }

  /** What a node that was never reached shows. */
  private without(node: GraphNode, status: string, failed: Set<string> | null): NodeState {
    if (!isOver(status)) return this.untouched(node, "PENDING", "");
    if (status === "COMPLETED") return this.untouched(node, "SKIPPED", "not_reached");
    if (failed?.has(node.id)) return this.untouched(node, "FAILED", "upstream_failed");
    return this.untouched(node, "CANCELLED", "run_ended");
  }

  private untouched(node: GraphNode, status: NodeStatus, reason: string): NodeState {
    return {
      id: node.id,
      status,
      reason,
      scope: [],
      attempts: 0,
      error: null,
      startedAt: null,
      endedAt: null,
      event: 0,
      waiting: null,
      place: -1,
      instances: 0,
      items: null,
      counts: {},
      join: this.joinOf(node, node.nest.map(() => 0)),
      undo: null,
    };
  }
}

export function statusOf(token: Token, isHeld: () => boolean): NodeStatus {
  if (token.skip) return "SKIPPED";
  if (token.state === "done") return token.outcome === "failed" ? "FAILED" : token.outcome === "skipped" ? "SKIPPED" : "COMPLETED";
  if (token.state === "dead") return token.outcome === "failed" ? "FAILED" : "CANCELLED";
  if (token.state === "waiting") return "WAITING";
  return isHeld() ? "RUNNING" : "QUEUED";
}

function reasonOf(token: Token, status: NodeStatus): string {
  if (status === "SKIPPED") return token.decided === "skip" ? "skipped_by_hand" : "all_arrivals_skipped";
  if (token.outcome === "cancelled") return "run_ended";
  return token.outcome === "superseded" ? "withdrawn_by_join" : "";
}

function waitingOf(token: Token): Waiting | null {
  if (token.state !== "waiting") return null;
  return {
    kind: token.wait,
    key: token.waitKey,
    since: token.waitSince,
    until: token.waitUntil,
    event: token.waitEvent,
  };
}

function isSame(a: NodeState, b: NodeState): boolean {
  return a.place === b.place && a.status === b.status && a.reason === b.reason && a.join === b.join;
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}
