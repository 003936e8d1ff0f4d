import assert from "node:assert/strict";
import { test } from "node:test";
import { highlight, type Language } from "./highlight.ts";

const seen = (text: string, language: Language): string[] =>
  highlight(text, language)
    .flat()
    .filter((one) => one.text.trim())
    .map((one) => `${one.kind}:${one.text.trim()}`);

test("JSON has keys, strings, numbers and words", () => {
  assert.deepEqual(seen('{"a": "x {{ b }}", "n": -1.5, "t": true}', "json"), [
    "mark:{", "key:\"a\"", "mark::", 'string:"x', "template:{{ b }}", 'string:"', "mark:,", 'key:"n"', "mark::", "number:-1.5",
    "mark:,", 'key:"t"', "mark::", "word:true", "mark:}",
  ]);
});

test("YAML has keys, lists, blocks and comments", () => {
  const text = "# top\nname: order # why\nnodes:\n  - id: a\n    config: {x: 1, y: [b, \"c\"]}\n    text: |\n      key: no\n    on: yes";
  assert.deepEqual(seen(text, "yaml"), [
    "comment:# top", "key:name", "mark::", "string:order", "comment:# why", "key:nodes", "mark::", "mark:-", "key:id", "mark::", "string:a",
    "key:config", "mark::", "mark:{", "key:x", "mark::", "number:1", "mark:,", "key:y", "mark::", "mark:[", "string:b", "mark:,", 'string:"c"',
    "mark:]", "mark:}", "key:text", "mark::", "string:|", "string:key: no", "key:on", "mark::", "word:yes",
  ]);
});

test("nothing is lost, whatever the text is", () => {
  for (const text of ['{"a', "a: 'b\n  - : {{ x", "\t\u0000[}}", "- - -", "key with words: 1: 2"]) {
    for (const language of ["json", "yaml"] as const) {
      assert.equal(highlight(text, language).map((line) => line.map((one) => one.text).join("")).join("\n"), text);
    }
  }
});
