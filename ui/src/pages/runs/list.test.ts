import assert from "node:assert/strict";
import { test } from "node:test";
import type { FeedEvent, RunRow } from "../../api/types.ts";
import { inputText, mergeAsked, mergeFirst, patchRows, wholeText } from "./list.ts";

const AT = "2026-11-17T08:00:00.000Z";
const row = (id: string, seq = 1): RunRow => ({ run_id: id, seq, status: "RUNNING", started_at: AT, ended_at: null, duration_ms: null }) as unknown as RunRow;
const event = (id: string, type: string, seq: number): FeedEvent => ({ run_id: id, workflow: "w", seq, type, at: "2026-11-17T08:00:02.000Z", data: {} });

test("events change their rows once, however many there are", () => {
  const rows = Array.from({ length: 5000 }, (_, at) => row(String(at).padStart(5, "0")));
  const events = rows.slice(0, 2000).flatMap(({ run_id }) => [event(run_id, "node.completed", 2), event(run_id, "run.completed", 3)]);
  const next = patchRows(rows, events);
  assert.deepEqual([next[0]!.status, next[0]!.seq, next[0]!.duration_ms], ["COMPLETED", 3, 2000]);
  assert.equal(next[2000], rows[2000]);
  assert.equal(patchRows(next, events), next);
  assert.equal(patchRows(rows, [event("00001", "node.completed", 9), event("other", "run.completed", 9)]), rows);
});

test("the first page again keeps what is older, and never goes back", () => {
  const before = [row("5", 7), row("4"), row("3"), row("2")];
  const merged = mergeFirst([row("6"), row("5", 6), row("3")], before, "more");
  assert.deepEqual(merged.map((one) => [one.run_id, one.seq]), [["6", 1], ["5", 7], ["3", 1], ["2", 1]]);
  assert.deepEqual(mergeFirst([row("6")], before, null).map((one) => one.run_id), ["6"]);
});

test("a part of the time belongs to the filter", () => {
  assert.equal(wholeText({ q: "acme", since: "1h", until: "" }), "acme since:1h");
  assert.equal(wholeText({ q: "", since: "", until: "2026-11-17T08:00:00.000Z" }), "until:2026-11-17T08:00:00.000Z");
});

test("what does not fit any more goes", () => {
  const merged = mergeAsked([row("3"), row("2"), row("1")], new Set(["2", "1"]), [row("1", 5)]);
  assert.deepEqual(merged.map((one) => [one.run_id, one.seq]), [["3", 1], ["1", 5]]);
});

test("an input in a few words", () => {
  assert.equal(inputText({ customer: "Bela", lines: [1], count: 12, note: null }), "customer Bela, count 12");
  assert.equal(inputText("text"), "");
});

test("a first page without rows says nothing of those below it", () => {
  const found = [row("9"), row("8")];
  assert.deepEqual(mergeFirst([], found, "more"), found);
  assert.deepEqual(mergeFirst([], found, null), []);
});
