import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut } from "./layout.ts";

const box = (id: string) => ({ id, width: 180, height: 44 });

test("a chain is one column from top to bottom", () => {
  const { nodes } = layOut({
    nodes: ["a", "b", "c"].map(box),
    edges: [
      { from: "a", to: "b" },
      { from: "b", to: "c" },
    ],
  });
  assert.equal(nodes.get("a")!.x, nodes.get("c")!.x);
  assert.ok(nodes.get("a")!.y < nodes.get("b")!.y && nodes.get("b")!.y < nodes.get("c")!.y);
});

test("nodes never overlap, and edges go down", () => {
  const size = 400;
  const nodes = Array.from({ length: size }, (_, at) => box(`n${at}`));
  const edges = Array.from({ length: size * 2 }, (_, at) => {
    const from = (at * 7919) % (size - 1);
    return { from: `n${from}`, to: `n${from + 1 + ((at * 31) % Math.min(40, size - from - 1))}` };
  });
  const found = layOut({ nodes, edges });
  const rows = new Map<number, number[]>();
  for (const { x, y } of found.nodes.values()) rows.set(y, [...(rows.get(y) ?? []), x]);
  for (const xs of rows.values()) {
    xs.sort((a, b) => a - b);
    xs.forEach((x, at) => at && assert.ok(x - xs[at - 1]! >= 180 - 1e-6));
  }
  for (const { from, to } of edges) assert.ok(found.nodes.get(from)!.y < found.nodes.get(to)!.y);
});

test("a cycle and an edge to nowhere do no harm", () => {
  const found = layOut({
    nodes: ["a", "b"].map(box),
    edges: [
      { from: "a", to: "b" },
      { from: "b", to: "a" },
      { from: "b", to: "gone" },
    ],
  });
  assert.equal(found.nodes.size, 2);
});

test("5,000 nodes are laid out in under a second", () => {
  const size = 5000;
  const nodes = Array.from({ length: size }, (_, at) => box(`n${at}`));
  const edges = Array.from({ length: size * 1.5 }, (_, at) => {
    const from = (at * 7919) % (size - 60);
    return { from: `n${from}`, to: `n${from + 1 + ((at * 31) % 59)}` };
  });
  const before = process.cpuUsage();
  layOut({ nodes, edges });
  const { user, system } = process.cpuUsage(before);
  console.log(`layout of 5,000 nodes: ${((user + system) / 1000).toFixed(0)} ms of CPU`);
  assert.ok(user + system < 1_000_000);
});
