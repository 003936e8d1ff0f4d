import assert from "node:assert/strict";
import { test } from "node:test";
import { criticalPath } from "./critical.ts";
import { Cursor } from "./cursor.ts";
import { History } from "./history.ts";
import { sourcesOf } from "./types.ts";

/** `first` leads to `slow` and `quick`, which meet in `join`. */
const EVENTS: [number, string, Record<string, unknown>][] = [
  [0, "run.created", { plan: "p" }],
  [0, "run.started", { to: [["first", "", 1, 1, 1]] }],
  [10, "node.completed", { node: "first", scope: "", output: 1, to: [["slow", "", 1, 1, 1], ["quick", "", 1, 1, 1]] }],
  [20, "node.completed", { node: "quick", scope: "", output: 1, to: [["join", "", 1, 2, 2]] }],
  [90, "node.completed", { node: "slow", scope: "", output: 1, to: [["join", "", 1, 2, 2]] }],
  [95, "node.completed", { node: "join", scope: "", output: 1, to: [] }],
];

test("the critical path leads through what came last to a join", () => {
  const history = new History();
  history.append(EVENTS.map(([at, type, data], number) => ({ seq: number + 1, type, at: new Date(at).toISOString(), data })));
  const cursor = new Cursor(history);
  const names = (): string[] => [...criticalPath(cursor)].map((place) => history.places[place]!.node);
  cursor.moveTo(history.seq);
  assert.deepEqual(names(), ["join", "slow", "first"]);
  assert.deepEqual([...sourcesOf(cursor.joins[history.placeOf("join", "")]!)], [["slow", true], ["quick", true]]);
  cursor.moveTo(4);
  assert.deepEqual(names(), ["slow", "first"]);
});
