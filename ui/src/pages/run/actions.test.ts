import assert from "node:assert/strict";
import { test } from "node:test";
import { callOf, nodeActions, previewOf, readData, runActions, twinOf, type Given } from "./actions.ts";

const given: Given = { why: "", data: "", name: "", to: "", undone: false };

test("every action has its twin on the command line", () => {
  assert.equal(twinOf("r1", { action: "cancel" }, { ...given, why: "ordered twice" }), "minuet runs cancel r1 --reason 'ordered twice'");
  assert.equal(twinOf("r1", { action: "pause" }, given), "minuet runs pause r1");
  assert.equal(twinOf("r1", { action: "retry" }, { ...given, undone: true }), "minuet runs retry r1 --undone");
  assert.equal(twinOf("r1", { action: "rollback" }, { ...given, to: "pay" }), "minuet runs rollback r1 --to pay");
  assert.equal(twinOf("r1", { action: "skip", node: "check[2]" }, { ...given, why: "it's done" }), "minuet runs skip r1 'check[2]' --why 'it'\\''s done'");
  assert.equal(twinOf("r1", { action: "set_output", node: "pay" }, { ...given, data: '{"a": 1}', why: "x" }), `minuet runs set-output r1 pay --data '{"a": 1}' --why x`);
  assert.equal(twinOf("r1", { action: "signal" }, { ...given, name: "paid", data: "1" }), "minuet signal r1 --data 1 paid");
  assert.equal(twinOf("r1", { action: "retry", node: "pay" }, given), "minuet runs retry r1");
  assert.equal(twinOf("r1", { action: "skip", node: "pay" }, { ...given, why: "-" }), "minuet runs skip r1 pay --why=-");
  assert.equal(twinOf("r1", { action: "signal" }, { ...given, name: "-paid" }), "minuet signal r1 -- -paid");
  assert.equal(twinOf("r1", { action: "take_back", node: "pay" }, given), "minuet runs take-back r1 pay");
});

test("data is JSON, and nothing is null", () => {
  assert.equal(readData(" "), null);
  assert.deepEqual(readData('{"a": [1]}'), { a: [1] });
  assert.throws(() => readData("{a}"));
});

test("a call and its preview say the same", () => {
  const filled = { ...given, data: "7", why: "known" };
  const [path, options] = callOf("r1", { action: "set_output", node: "pay" }, filled);
  assert.equal(path, "/runs/{run_id}/nodes/{node}/set-output");
  assert.deepEqual(options.body, { data: 7, why: "known" });
  assert.deepEqual(previewOf({ action: "set_output", node: "pay" }, filled), { action: "set_output", node: "pay", data: 7 });
  assert.deepEqual(previewOf({ action: "cancel" }, filled), { action: "cancel" });
});

test("only what can make sense is offered", () => {
  assert.deepEqual(runActions("RUNNING", true), ["pause", "cancel", "signal"]);
  assert.deepEqual(runActions("FAILED", false), ["retry"]);
  assert.deepEqual(runActions("COMPLETED", true), ["rollback"]);
  assert.deepEqual(nodeActions("RUNNING", "RUNNING"), ["take_back", "skip", "set_output"]);
  assert.deepEqual(nodeActions("COMPLETED", "COMPLETED"), []);
});
