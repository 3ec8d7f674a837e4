// The small decisions of the page: places, differences, the tree, the palette, charts.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { read, write } from "../../src/http/ui/core/place.js";
import { actor, several, size, taskLine, taskWords } from "../../src/http/ui/core/format.js";
import { ceiling } from "../../src/http/ui/parts/chart.js";
import { between, lines } from "../../src/http/ui/parts/diff.js";
import { moment } from "../../src/http/ui/parts/moment.js";
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
  assert.equal(between("", "a").textContent, "+ a\n");
});

test("PL-76: a transcript tells a call that was decided against from one that failed", () => {
  const answer = { role: "toolResult", toolName: "bash", seq: 1, timestamp: 0, content: [] };
  const ends = [{ isError: true, denied: true }, { isError: true }, { isError: false }];

  const marks = ends.map((end) => moment({ ...answer, ...end }, "main:t-1").querySelector(".pill")?.textContent);

  assert.deepEqual(marks, ["denied", "failed", undefined]);
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
  assert.deepEqual(["operator:ann", "main"].map(actor), ["ann", "main"]);
});

test("a call says what it is about, also where its arguments were cut", () => {
  assert.equal(brief('{"content":"x","file_path":"a.md"}'), "a.md");
  assert.equal(brief('{"limit":3}'), "3");
  assert.equal(brief('{"overlap_policy":"allow","task":"Find out\\nwho \\"it\\" was and th'), "Find out");
  assert.equal(brief("words"), "words");
});

test("OP-65: what was refused is named as the form names it", async () => {
  const { reason } = await import("../../src/http/ui/parts/dialog.js");
  const label = { closest: () => ({ firstElementChild: { textContent: "Cron pattern" } }) };
  const form = /** @type {any} */ ({ elements: { namedItem: (name) => (name === "config.cron" ? label : null) } });

  assert.equal(
    reason({ field: "config.cron", message: "Config.cron: field 1 is not 0-59" }, form),
    "Cron pattern: Field 1 is not 0-59",
  );
  assert.equal(
    reason({ field: "config.cron", message: "Expected five fields" }, form),
    "Cron pattern: Expected five fields",
  );
  assert.equal(reason({ message: "`config.cron`: `x` is taken" }, form), "Cron pattern: `x` is taken");
  assert.equal(reason({ field: "uses", message: "Expected 2 to 50" }, form), "uses: Expected 2 to 50");
  assert.equal(reason({ message: "The team is busy" }, form), "The team is busy");
});

test("OP-54: a list tells of a trigger's task what the trigger says", () => {
  const body = "Sum up the week\n\nBriefly.\n\n## When you are done\n\nCall `report_run` once";

  assert.equal(taskLine({ type: "trigger", body }), "Sum up the week\n\nBriefly.");
  assert.equal(taskLine({ type: "delegate", body }), body);
  assert.equal([...taskLine({ type: "chat", body: "a".repeat(300) })].length, 200);
});

test("OP-52: a task that brings an answer says which", () => {
  const told = { event: "operator_answered", question: "Which tone?", by: "ann" };
  const words = (more) => taskWords(JSON.stringify({ ...told, ...more }));

  assert.equal(words({ selected: ["Formal"], text: "" }), "Answer to “Which tone?”: Formal");
  assert.equal(words({ selected: [], text: "As you like" }), "Answer to “Which tone?”: As you like");
  assert.equal(words({ reference: "${vault:TONE}" }), "Answer to “Which tone?”: in the vault");
  assert.equal(words({ expired: true }), "No answer to “Which tone?”");
  for (const other of ["Sum up the week", '{"a": 1}', '{"half', '{"event":"x"}']) assert.equal(taskWords(other), other);
});
