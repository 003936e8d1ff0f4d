import assert from "node:assert/strict";
import { test } from "node:test";
import { matches, parseFilter, toQuery, withTerm } from "./parse.ts";

const RUN = {
  run_id: "019a",
  workflow: "order",
  status: "FAILED",
  tag: "main",
  tags: { team: "web" },
  input: { customer: "Ada" },
  error: null,
  created_at: "2026-11-17T08:00:00.000Z",
};
const NOW = Date.parse("2026-11-17T08:30:00.000Z");

test("terms become parameters of the API", () => {
  const found = parseFilter("status:failed,cancelled workflow:order tag:team=web age<1h ada");
  assert.equal(toQuery(found).toString(), "status=FAILED&status=CANCELLED&workflow=order&tag=team%3Aweb");
  assert.deepEqual([found.age.max, found.words, found.problems], [3_600_000, ["ada"], []]);
  assert.ok(matches(found, RUN, NOW));
  assert.ok(!matches(found, RUN, NOW + 3_600_000));
  assert.ok(!matches(parseFilter("bob"), RUN, NOW));
});

test("groups and beginnings of statuses", () => {
  assert.deepEqual(parseFilter("status:open").status, ["PENDING", "RUNNING", "PAUSED", "COMPENSATING"]);
  assert.deepEqual(parseFilter("status:fail").status, ["FAILED"]);
});

test("what is not understood is said, not guessed", () => {
  const texts = parseFilter("state:failed age<soon status:odd status:").problems.map((one) => one.text);
  assert.deepEqual(texts, ["state:failed", "age<soon", "status:odd", "status:"]);
});

test("a term is put in and taken out", () => {
  assert.equal(withTerm("status:failed ada", "status", "open"), "status:open ada");
  assert.equal(withTerm("status:failed ada", "status", null), "ada");
});
