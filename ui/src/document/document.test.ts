import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { complete, fieldsOf, type Known } from "./complete.ts";
import { addNode, apply, connect, freeId } from "./edits.ts";
import { outline, writtenNodes } from "./outline.ts";

const YAML = `# An order.
name: order
description: |
  - id: not-a-node
  nodes: neither
nodes:
  # The first one.
  - id: a   # begins
    type: noop

  - {id: b, handler: "say: it", dependencies: [a]}
  - id: "c"
    handler: shop:pay # pays
    config:
      text: "{{ a.x }} # no comment"
      deep: {x: [1, {y: 2}]}
    dependencies:
      - a
      - b
# The end.
`;

test("nodes are found where they are written", () => {
  const found = writtenNodes(outline(YAML));
  assert.deepEqual(found.map(({ id, type, handler, dependencies }) => [id, type, handler, dependencies]), [
    ["a", "noop", "", []],
    ["b", "task", "say: it", ["a"]],
    ["c", "task", "shop:pay", ["a", "b"]],
  ]);
  for (const one of found) assert.match(YAML.slice(one.at), /^(a|b|"c")/);
  const json = JSON.stringify({ name: "x", nodes: [{ id: "a" }, { id: "b", dependencies: ["a"], config: { x: "}" } }] }, null, 2);
  assert.deepEqual(writtenNodes(outline(json)).map((one) => [one.id, one.dependencies]), [["a", []], ["b", ["a"]]]);
});

test("no text is refused, however it is cut", () => {
  for (const text of [YAML, JSON.stringify({ nodes: [{ id: "a", x: [1, { y: 2 }] }] }, null, 1), "- - - a\n -b: {", "a: [\n b", "\t:\n  x\n y: 1\n", ": :\n- :"]) {
    for (let at = 0; at <= text.length; at++) {
      outline(text.slice(0, at));
      outline(text.slice(at));
    }
  }
});

test("a node is added after the last one, and comments stay", () => {
  const edit = addNode(YAML, { id: "d", type: "wait", config: { seconds: 1 } });
  const text = apply(YAML, edit);
  assert.match(text, /      - b\n  - id: d\n    type: wait\n    config: \{seconds: 1\}\n# The end\.\n$/);
  assert.equal(text.slice(edit.start + edit.cursor, edit.start + edit.cursor + 5), "id: d");
  assert.equal(text.replace(edit.text, ""), YAML);
  assert.equal(writtenNodes(outline(text)).length, 4);
  assert.equal(freeId(text, "shop:pay"), "pay");
  assert.equal(freeId(text, "d"), "d_2");
});

test("the first node is added to whatever is there", () => {
  for (const before of ["", "name: x\n", "name: x\nnodes:\n", "name: x\nnodes: []\n", "{}", '{"name": "x"}', '{"name": "x", "nodes": []}', '{\n  "nodes": [\n    {"id": "a"}\n  ]\n}', "nodes: [{id: a}]"]) {
    const text = apply(before, addNode(before, { id: "z", type: "noop" }));
    assert.equal(writtenNodes(outline(text)).at(-1)?.id, "z", text);
    if (before.startsWith("{")) assert.equal((JSON.parse(text) as { nodes: { id: string }[] }).nodes.at(-1)!.id, "z");
  }
});

test("nodes are connected in the style of the text", () => {
  const after = (from: string, to: string, text = YAML): string => apply(text, connect(text, from, to)!);
  assert.match(after("c", "a"), /type: noop\n    dependencies: \[c\]\n\n  - \{id: b/);
  assert.match(after("c", "b"), /dependencies: \[a, c\]\}/);
  const more = YAML.replace("  - {id", "  - id: e\n  - {id");
  assert.match(after("e", "c", more), /      - b\n      - e\n# The end/);
  assert.equal(connect(YAML, "a", "c"), null);
  assert.equal(connect(YAML, "a", "a"), null);
  assert.match(apply("nodes:\n  - handler: f # why\n    id: a # here\n  - id: b", connect("nodes:\n  - handler: f # why\n    id: a # here\n  - id: b", "b", "a")!), /id: a # here\n    dependencies: \[b\]\n  - id: b/);
  const json = '{"nodes": [{"id": "a"}, {"id": "b", "config": {}}]}';
  assert.deepEqual(JSON.parse(after("a", "b", json)), { nodes: [{ id: "a" }, { id: "b", config: {}, dependencies: ["a"] }] });
});

const KNOWN: Known = {
  schema: JSON.parse(readFileSync(new URL("../../../docs/reference/workflow.schema.json", import.meta.url), "utf8")) as Known["schema"],
  types: [
    { name: "noop", display_name: "No-op", summary: "Does nothing.", config_schema: {} },
    { name: "http", display_name: "HTTP", summary: "Calls.", config_schema: { required: ["url"], properties: { url: { type: "string" }, method: { enum: ["GET", "POST"] } } } },
  ],
  handlers: [{ name: "shop:pay", config_schema: { properties: { amount: { type: "number" } } } }],
};

/** What is offered at the bar. */
function offered(text: string): string[] {
  const cursor = text.indexOf("¦");
  return complete(text.replace("¦", ""), cursor, KNOWN)?.items.map((one) => one.text) ?? [];
}

test("what fits at the cursor is offered", () => {
  assert.ok(offered("na¦").includes("name: "));
  assert.ok(!offered("name: x\n¦").includes("name: "));
  assert.ok(offered("name: x\nnodes:\n  - id: a\n    ty¦").includes("type: "));
  assert.ok(offered("nodes:\n  - ¦").includes("id: "));
  assert.deepEqual(offered("nodes:\n  - id: a\n    type: ht¦"), ["http"]);
  assert.deepEqual(offered("nodes:\n  - id: a\n    handler: ¦"), ["shop:pay"]);
  assert.deepEqual(offered("nodes:\n  - id: a\n  - id: b\n    dependencies: [¦]"), ["a", "b"]);
  assert.deepEqual(offered("nodes:\n  - id: a\n  - id: b\n    dependencies:\n      - ¦"), ["a", "b"]);
  assert.deepEqual(offered("nodes:\n- id: a\n  type: http\n  config:\n    me¦"), ["method: "]);
  assert.deepEqual(offered("nodes:\n  - id: a\n    handler: shop:pay\n    config: {¦}"), ["amount: "]);
  assert.deepEqual(offered("nodes:\n  - id: a\n    type: http\n    config: {url: x, method: P¦}"), ["POST"]);
  assert.deepEqual(offered("nodes:\n  - id: a\n    retry:\n      max¦"), ["max_attempts: ", "max_delay_ms: "]);
  assert.deepEqual(offered("on_failure:\n  compensate: ¦"), ["true", "false"]);
  assert.deepEqual(offered("# na¦"), []);
  assert.deepEqual(offered("description: |\n  na¦"), []);
  assert.deepEqual(offered('{"nodes": [{"id": "a", "type": "no¦"}]}'), ['"noop"']);
  assert.deepEqual(offered('{\n  "nodes": [\n    {"id": "a", "ty¦"}]}'), ['"type": ']);
});

test("a new node has what its type needs", () => {
  assert.deepEqual(fieldsOf("a", KNOWN.types[1]!, null), { id: "a", type: "http", config: { url: "" } });
  assert.deepEqual(fieldsOf("a", null, "shop:pay"), { id: "a", handler: "shop:pay" });
});
