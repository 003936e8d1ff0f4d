import assert from "node:assert/strict";
import { test } from "node:test";
import { showPhrase, showRelative } from "./format.ts";

const NOW = 1_000_000_000_000;

test("relative times", () => {
  assert.equal(showRelative(NOW - 57_000, NOW), "57 s ago");
  assert.equal(showRelative(NOW + 169_200_000, NOW), "in 47 h");
  assert.equal(showRelative(NOW, NOW), "just now");
  assert.equal(showRelative(NOW + 1, NOW), "in a moment");
});

test("a word before a relative time becomes part of a phrase", () => {
  assert.equal(showPhrase("since", NOW - 57_000, NOW), "for 57 s");
  assert.equal(showPhrase("since", NOW, NOW), "for a moment");
  assert.equal(showPhrase("until", NOW + 25_000, NOW), "for another 25 s");
  assert.equal(showPhrase("until", NOW - 25_000, NOW), "until 25 s ago");
  assert.equal(showPhrase("at", NOW + 169_200_000, NOW), "in 47 h");
});
