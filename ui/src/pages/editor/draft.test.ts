import assert from "node:assert/strict";
import { test } from "node:test";
import type { Graph, GraphEdge } from "../../fold/types.ts";
import { shownGraph } from "./draft.ts";

test("an edge says its condition, or what it is for", () => {
  const node = (id: string): unknown => ({ id, type: "task", handler: "say", is_output: false });
  const edge = (to: string, roles: string[], condition?: string): GraphEdge => ({
    from: "a",
    to,
    roles,
    rules: condition ? [{ rule: 0, condition }] : [],
    is_default: to === "c",
  });
  const edges = [edge("b", ["branch"], "output > 1"), edge("c", ["branch"]), edge("d", ["reject"]), edge("e", ["static"])];
  const graph = { name: "x", constructs: {}, nodes: ["a", "b", "c", "d", "e"].map(node), edges } as Graph;

  const shown = shownGraph(graph, [], true);

  assert.deepEqual(
    shown.edges.map(({ to, label }) => [to, label]),
    [
      ["b", "output > 1"],
      ["c", "otherwise"],
      ["d", "reject"],
      ["e", null],
    ],
  );
});
