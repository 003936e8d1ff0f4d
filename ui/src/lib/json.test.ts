import assert from "node:assert/strict";
import { test } from "node:test";
import { diffLines, linesOf } from "./json.ts";

test("a value is opened as far as asked for", () => {
  const value = { a: [1, { b: null }], c: {} };
  assert.deepEqual(
    linesOf(value, (_, depth) => depth === 0).map((one) => [one.kind, one.path]),
    [
      ["open", ""],
      ["closed", "/a"],
      ["leaf", "/c"],
      ["close", ""],
    ],
  );
  assert.equal(linesOf(value, () => true).length, 9);
});

test("a difference names what changed, whatever the order of keys", () => {
  const changes = diffLines({ b: 1, a: [1, 2] }, { a: [1, 3], b: 1 }).filter((one) => one.change !== " ");
  assert.deepEqual(changes, [
    { change: "-", text: "    2" },
    { change: "+", text: "    3" },
  ]);
  assert.ok(diffLines({ a: 1 }, { a: 1 }).every((one) => one.change === " "));
});
