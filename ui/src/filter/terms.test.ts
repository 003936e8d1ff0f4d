import assert from "node:assert/strict";
import { test } from "node:test";
import { termOf, withTerm } from "./terms.ts";

test("a term is found, put in and taken out; quoted texts stay whole", () => {
  assert.equal(termOf('error:"no  card" status:failed', "status"), "failed");
  assert.equal(termOf('error:"status: odd"', "status"), null);
  assert.equal(withTerm('status:failed error:"no  card"', "status", "open"), 'status:open error:"no  card"');
  assert.equal(withTerm("status:failed ada", "status", null), "ada");
});
