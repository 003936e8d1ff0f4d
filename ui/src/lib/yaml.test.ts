import assert from "node:assert/strict";
import { test } from "node:test";
import { inOrder, toYaml } from "./yaml.ts";

test("a document is written as people write it", () => {
  const document = {
    name: "order",
    description: "Two\nlines",
    nodes: [
      { id: "a", type: "noop", config: { text: "{{ input.x }}", on: true, m: 1 } },
      { id: "b", dependencies: ["a"], retry: { max_attempts: 2 }, note: "yes" },
    ],
    empty: {},
  };
  assert.equal(
    toYaml(document),
    [
      "name: order",
      "description: |-",
      "  Two",
      "  lines",
      "nodes:",
      "  - id: a",
      "    type: noop",
      '    config: {text: "{{ input.x }}", "on": true, m: 1}',
      "  - id: b",
      "    dependencies: [a]",
      "    retry: {max_attempts: 2}",
      '    note: "yes"',
      "empty: {}",
      "",
    ].join("\n"),
  );
});

test("texts that could be something else are quoted", () => {
  for (const text of ["true", "12", "a: b", "- x", "# no", " x", "x ", "null", "", "{", "a\tb\nc", "a\n  b", "x\n"]) {
    const made = toYaml({ a: text });
    assert.ok(made.startsWith("a: ") && (made.includes('"') || made.includes("|")), made);
  }
});

test("fields are in the order of people", () => {
  const found = inOrder({ nodes: [{ config: {}, id: "a", zone: 1, type: "noop" }], name: "x", limits: {} }) as { nodes: object[] };
  assert.deepEqual(Object.keys(found), ["name", "limits", "nodes"]);
  assert.deepEqual(Object.keys(found.nodes[0]!), ["id", "type", "config", "zone"]);
});
