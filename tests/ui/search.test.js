// Search: where hits lead to, what is marked in them, and when the palette offers one.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { pieces, placeOf } from "../../src/http/ui/parts/hits.js";
import { ranked, searches } from "../../src/http/ui/shell/palette.js";

test("a hit leads to its place in the transcript, to its task, or to its team", () => {
  const step = { session_id: "main:t-1", seq: 7, task_id: "task-1", team: "main" };

  assert.equal(placeOf(step), "#/history/main%3At-1?item=7");
  assert.equal(placeOf({ ...step, seq: undefined }), "#/tasks/task-1");
  assert.equal(placeOf({ team: "ops" }), "#/team/ops");
});

test("marks count characters, whatever these take in memory", () => {
  const marked = (excerpt, ...marks) =>
    pieces(
      excerpt,
      marks.map(([start, end]) => ({ start, end })),
    ).map(({ text, found }) => (found ? `[${text}]` : text));

  assert.deepEqual(marked("🐝 the bee 🐝 bee", [6, 9], [12, 15]), ["🐝 the ", "[bee]", " 🐝 ", "[bee]"]);
  assert.deepEqual(marked("no mark"), ["no mark"]);
  assert.deepEqual(marked("short", [3, 99]), ["sho", "[rt]"]);
});

test("OP-66: what is called as it was typed stands first in the palette", () => {
  const item = (word, about) => ({ word, about, picture: "", run() {} });
  const all = [item("coder says hello", "Topic"), item("decoder", "Team"), item("Coder", "Team"), item("Chat", "View")];

  assert.deepEqual(
    ranked(all, "coder").map(({ word }) => word),
    ["Coder", "coder says hello", "decoder"],
  );
});

test("the palette offers a search for words", () => {
  assert.deepEqual(
    searches(" two words ").map((item) => item.word),
    ["Search everything for “two words”"],
  );
  for (const nothing of ["", "  ", '"', "🐝"]) assert.deepEqual(searches(nothing), []);
});
