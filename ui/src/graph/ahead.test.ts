import assert from "node:assert/strict";
import { test } from "node:test";
import type { Graph } from "../fold/types.ts";
import { findAhead } from "./ahead.ts";

const graphOf = (edges: [string, string, string?][]): Graph =>
  ({
    name: "g",
    constructs: {},
    nodes: [...new Set(edges.flatMap(([from, to]) => [from, to]))].map((id) => ({ id })),
    edges: edges.map(([from, to, role = "static"]) => ({ from, to, roles: [role] })),
  }) as unknown as Graph;

test("each way has what it can reach", () => {
  const graph = graphOf([["start", "ask"], ["ask", "pay"], ["ask", "refuse", "reject"], ["pay", "tell"], ["refuse", "tell"], ["pay", "ask", "back"]]);
  const { graph: part, ways, left } = findAhead(graph, "ask", { approve: ["pay"], reject: ["refuse"] });
  assert.deepEqual([...ways.get("approve")!], ["pay", "tell"]);
  assert.deepEqual([...ways.get("reject")!], ["refuse", "tell"]);
  assert.deepEqual(part.nodes.map((one) => one.id), ["ask", "pay", "refuse", "tell"]);
  assert.equal(left, 0);
});

test("the nearest nodes are kept", () => {
  const long = graphOf(Array.from({ length: 50 }, (_, at) => [`n${at}`, `n${at + 1}`] as [string, string]));
  const { graph, left } = findAhead(long, "n0", { approve: ["n1"] }, 10);
  assert.equal(graph.nodes.length, 11);
  assert.equal(left, 40);
});
