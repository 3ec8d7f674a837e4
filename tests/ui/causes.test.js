// OP-127: what led to what, in the order of time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { causes, drawing, leading } from "../../src/http/ui/views/tasks/causes.js";

const at = (second) => new Date(Date.UTC(2026, 10, 15, 12, 0, second)).toISOString();

const task = (id, team, begun, ended, more = {}) => ({
  id,
  team,
  type: "delegate",
  created_at: at(begun),
  outcome: ended === null ? null : { finished_at: at(ended), notified: false, ...more.outcome },
  lineage: { root: "a", parent: null, ...more.lineage },
  ...more.task,
});

/** A message, work that it gave away, and the answer that this woke the first team for. In any order, as lists are. */
const work = [
  task("b-end", "main", 5, 6, {
    task: { type: "result" },
    lineage: { parent: "a", result_of: "b" },
    outcome: { notified: true },
  }),
  task("b", "research", 2, 5, { lineage: { parent: "a" } }),
  task("a", "main", 1, 3, { task: { type: "chat" } }),
  task("c", "research", 3, null, { lineage: { parent: "a" } }),
];

test("everything comes after what led to it", () => {
  const all = causes(work);

  assert.deepEqual(
    all.map(({ id, kind, from }) => [id, kind, from]),
    [
      ["a cause", "message", null],
      ["a", "task", "a cause"],
      ["b", "task", "a"],
      ["a end", "result", "a"],
      ["c", "task", "a"],
      ["b end", "result", "b"],
      ["b-end", "task", "b end"],
      ["b-end end", "result", "b-end"],
      ["b-end told", "notice", "b-end end"],
    ],
  );
  assert.deepEqual([...leading(all, "b-end")], ["b-end", "b end", "b", "a", "a cause"]);
});

test("what is not known any more is a beginning", () => {
  const trigger = task("x", "ops", 1, null, { task: { type: "trigger" }, lineage: { parent: "gone" } });
  const order = task("y", "ops", 2, null);

  assert.deepEqual(
    causes([trigger, order]).map(({ kind }) => kind),
    ["trigger", "task", "order", "task"],
  );
  assert.deepEqual(causes([]), []);
  assert.deepEqual([...leading([], "x")], []);
});

test("each moment has a line, each team a column, and an edge goes down", () => {
  const { lanes, placed, edges } = drawing(causes(work));

  assert.deepEqual(lanes, ["", "main", "research"]);
  assert.equal(new Set(placed.map(({ y }) => y)).size, 9);
  assert.equal(edges.length, 8);
  assert.ok(edges.every(({ from, to }) => from.y < to.y));
});
