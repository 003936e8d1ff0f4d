import assert from "node:assert/strict";
import { test } from "node:test";
import { findProblems, initialOf, kindOf, NotJson, readNumber, readProblems, resolve, titleOf } from "./schema.ts";

const FORM = {
  type: "object",
  required: ["amount", "lines"],
  properties: {
    amount: { type: "number", minimum: 1 },
    account: { type: "string", pattern: "^\\d+$" },
    due: { type: "string", format: "date" },
    level: { enum: ["low", "high"], default: "low" },
    urgent: { type: "boolean" },
    note: { anyOf: [{ type: "string", maxLength: 500 }, { type: "null" }] },
    lines: { type: "array", minItems: 1, items: { $ref: "#/$defs/line" } },
  },
  $defs: { line: { type: "object", required: ["count"], properties: { count: { type: "integer" } } } },
};

test("a schema says which field it asks for", () => {
  const kinds = Object.entries(FORM.properties).map(([name, one]) => [name, kindOf(resolve(one, FORM), FORM)]);
  assert.deepEqual(Object.fromEntries(kinds), {
    amount: "number",
    account: "text",
    due: "date",
    level: "choice",
    urgent: "boolean",
    note: "long",
    lines: "array",
  });
});

test("what is not understood is a field of JSON", () => {
  assert.equal(kindOf({ type: "object", additionalProperties: { type: "string" } }, {}), "json");
  assert.equal(kindOf({}, {}), "json");
});

test("a form begins with its defaults", () => {
  assert.deepEqual(initialOf(FORM, FORM), { level: "low", lines: [] });
});

test("problems are at their fields", () => {
  const value = { amount: 0, account: "x1", due: "tomorrow", level: "odd", urgent: "yes", lines: [{ count: 1.5 }, {}] };
  const found = Object.fromEntries(findProblems(FORM, value, FORM));
  assert.deepEqual(Object.keys(found).sort(), ["/account", "/amount", "/due", "/level", "/lines/0/count", "/lines/1/count", "/urgent"]);
  assert.deepEqual([...findProblems(FORM, { amount: 5, lines: [{ count: 1 }], note: null }, FORM)], []);
  assert.deepEqual([...findProblems(FORM, {}, FORM).keys()], ["/amount", "/lines"]);
});

test("the server's problems are at their fields", () => {
  const found = readProblems(['data: "account" is a required property', "lines[1].count: 1.5 is not of type", "amount: too small: 3 < 5"], "data");
  assert.deepEqual([...found], [
    ["/account", "This is needed"],
    ["/lines/1/count", "1.5 is not of type"],
    ["/amount", "too small: 3 < 5"],
  ]);
});

test("a reference that leads nowhere or in a circle ends", () => {
  assert.deepEqual(resolve({ $ref: "#/$defs/absent" }, FORM), {});
  const circle = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } };
  assert.ok(resolve(circle, circle));
});

test("names become titles", () => {
  assert.equal(titleOf({}, "due_date"), "Due date");
  assert.equal(titleOf({ title: "When?" }, "due"), "When?");
});

test("a number is read as it is typed", () => {
  const typed = ["0.10", "0.105", "-0", "-0.5", "1.0", ".5", "2.", "1e3"];
  assert.deepEqual(typed.map(readNumber), [0.1, 0.105, -0, -0.5, 1, 0.5, 2, 1000]);
  assert.deepEqual(["", " ", "-", "1e", "1.2.3", "0x1", "Infinity"].map(readNumber), [undefined, undefined, "-", "1e", "1.2.3", "0x1", "Infinity"]);
});

test("a text that is not JSON is a problem where it stands", () => {
  const schema = { type: "object", properties: { extra: {} } };
  assert.deepEqual([...findProblems(schema, { extra: new NotJson("{") }, schema)], [["/extra", "This is not JSON"]]);
  assert.deepEqual([...findProblems({}, new NotJson("{"), {})], [["", "This is not JSON"]]);
});
