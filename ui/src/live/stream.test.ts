import assert from "node:assert/strict";
import { test } from "node:test";

// The stream listens to the browser's events; the parser needs none of it.
Object.assign(globalThis, { addEventListener: () => {}, document: {}, localStorage: undefined });
const { Parser } = await import("./stream.ts");

test("messages are found however the text is cut", () => {
  const text = 'id: 3\nevent: node.completed\ndata: {"a":\ndata: 1}\n\n: still here\n\nid: 4\r\ndata: x\r\n\r\n';
  for (let at = 0; at <= text.length; at++) {
    const parser = new Parser();
    const found = [...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))];
    assert.deepEqual(found, [
      { id: "3", type: "node.completed", data: '{"a":\n1}' },
      { id: "4", type: "message", data: "x" },
    ]);
  }
});

test("an id without data moves the position", () => {
  const parser = new Parser();
  assert.deepEqual(parser.push("id: s1-2\n\n"), []);
  assert.equal(parser.lastId, "s1-2");
});
