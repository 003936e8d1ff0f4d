import assert from "node:assert/strict";
import { test } from "node:test";
import { Cursor } from "../../fold/cursor.ts";
import { History } from "../../fold/history.ts";
import { groupPlaces, readZoom, ticksOf } from "./timeline.ts";

test("ticks are round and few", () => {
  assert.deepEqual(ticksOf(0, 1000), [0, 200, 400, 600, 800, 1000]);
  assert.deepEqual(ticksOf(130, 190), [130, 140, 150, 160, 170, 180, 190]);
  for (const size of [3, 77, 4e3, 9e6, 4e9]) assert.ok(ticksOf(0, size).length <= 9);
});

test("a zoom that is no zoom is none", () => {
  assert.deepEqual(readZoom("120-480"), [120, 480]);
  assert.equal(readZoom("480-120"), null);
  assert.equal(readZoom("x"), null);
});

test("items of a foreach are one row until it is opened", () => {
  const history = new History();
  const to = [..."012"].map((number) => ["each$item", `a${number}`, 1, 1, 1]);
  history.append([
    { seq: 1, type: "run.created", at: "1970-01-01T00:00:00Z", data: { plan: "" } },
    { seq: 2, type: "run.started", at: "1970-01-01T00:00:01Z", data: { to: [["list", "", 1, 1, 1]] } },
    { seq: 3, type: "node.completed", at: "1970-01-01T00:00:02Z", data: { node: "list", scope: "", to } },
  ]);
  const cursor = new Cursor(history);
  cursor.moveTo(3);
  const closed = groupPlaces(history, cursor, new Set(), null);
  assert.deepEqual(closed.map(({ node, count, from, to }) => [node, count, from, to]), [["list", 1, 1000, 2000], ["each$item", 3, 2000, null]]);
  assert.equal(groupPlaces(history, cursor, new Set(["each$item"]), new Set([2])).filter((row) => row.isInner).length, 3);
});
