// The small decisions of the page: places, differences, the tree, the palette, charts.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { read, write } from "../../src/http/ui/core/place.js";
import { several, size } from "../../src/http/ui/core/format.js";
import { ceiling } from "../../src/http/ui/parts/chart.js";
import { lines } from "../../src/http/ui/parts/diff.js";
import { brief } from "../../src/http/ui/views/chat/cards.js";
import { layout, flat, size as teams } from "../../src/http/ui/views/org/layout.js";

test("a place is read as it was written", () => {
  const place = { view: "tasks", rest: ["task/1 ä"], query: { q: "a&b", state: "done" } };

  assert.deepEqual(read(write(place.view, place.rest, place.query)), place);
  assert.deepEqual(read(""), { view: "chat", rest: [], query: {} });
  assert.deepEqual(read("#/chat/%E0%A4%A"), { view: "chat", rest: ["%E0%A4%A"], query: {} });
  assert.equal(write("tasks", [""], { q: "", team: undefined }), "#/tasks");
});

test("a difference keeps what both have", () => {
  assert.deepEqual(lines(["a", "b", "c"], ["a", "x", "c", "d"]), ["  a", "- b", "+ x", "  c", "+ d"]);
  assert.deepEqual(lines(["a"], ["a"]), ["  a"]);
});

const leaf = (name) => ({ name, teams: [] });
const tree = { name: "main", teams: [{ name: "a", teams: [leaf("b"), leaf("c")] }, leaf("d")] };

test("every team has a place of its own, above those below it", () => {
  const { placed, edges } = layout(tree, new Set());
  const at = Object.fromEntries(placed.map(({ node, x, y }) => [node.name, { x, y }]));

  assert.equal(new Set(placed.map(({ x, y }) => `${x} ${y}`)).size, 5);
  assert.equal(at.a.x, (at.b.x + at.c.x) / 2);
  assert.ok(edges.every(({ from, to }) => from.y < to.y));
});

test("a folded team hides those below it, and says how many", () => {
  const { placed } = layout(tree, new Set(["a"]));

  assert.deepEqual(placed.map(({ node }) => node.name).sort(), ["a", "d", "main"]);
  assert.equal(placed.find(({ node }) => node.name === "a").folded, 2);
  assert.equal(teams(tree), 5);
  assert.deepEqual(
    flat(tree).map(({ node, depth }) => `${depth} ${node.name}`),
    ["0 main", "1 a", "2 b", "2 c", "1 d"],
  );
});

test("an axis ends at a round figure", () => {
  assert.deepEqual(
    [0, 0.3, 1, 1.2, 7, 26, 99].map(ceiling).map((value) => Math.round(value * 100) / 100),
    [1, 0.5, 1, 2, 10, 50, 100],
  );
});

test("figures in words", () => {
  assert.equal(several(1, "team"), "1 team");
  assert.equal(several(2, "team"), "2 teams");
  assert.equal(size(2048), "2 KiB");
});

test("a call says what it is about, also where its arguments were cut", () => {
  assert.equal(brief('{"content":"x","file_path":"a.md"}'), "a.md");
  assert.equal(brief('{"limit":3}'), "3");
  assert.equal(brief('{"overlap_policy":"allow","task":"Find out\\nwho \\"it\\" was and th'), "Find out");
  assert.equal(brief("words"), "words");
});
