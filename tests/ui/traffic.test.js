// OP-127: what moves along the edges of the teams' drawing.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { CROSSING, Traffic, way } from "../../src/http/ui/views/org/traffic.js";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout"] }));
afterEach(() => mock.timers.reset());

const tree = {
  name: "main",
  teams: [{ name: "research", teams: [{ name: "books", teams: [] }] }, { name: "writing" }],
};

/** A task that a team gave to another. */
const task = (change) => ({
  id: "task-1",
  type: "delegate",
  state: "accepted",
  attempts: 0,
  parent: "task-0",
  team: "research",
  created_by: "main",
  ...change,
});

const shown = ({ marks }) => marks.map(({ team, up, fault, count }) => [team, up ? "up" : "down", fault, count]);

test("a way goes over the nearest team above both", () => {
  assert.deepEqual(way(tree, "main", "books"), [
    { team: "research", up: false },
    { team: "books", up: false },
  ]);
  assert.deepEqual(way(tree, "books", "writing"), [
    { team: "books", up: true },
    { team: "research", up: true },
    { team: "writing", up: false },
  ]);
  assert.deepEqual(way(tree, "main", "main"), []);
  assert.deepEqual(way(tree, "main", "gone"), []);
});

test("work goes down and its end comes back, once each, edge by edge", () => {
  let told = 0;
  const traffic = new Traffic(() => (told += 1));

  traffic.take(tree, task({ team: "books" }));
  traffic.take(tree, task({ team: "books", state: "running", attempts: 1 }));
  assert.deepEqual(shown(traffic), [["research", "down", false, 1]]);
  mock.timers.tick(CROSSING);
  assert.deepEqual(shown(traffic), [["books", "down", false, 1]]);
  mock.timers.tick(CROSSING);
  assert.deepEqual(shown(traffic), []);
  traffic.take(tree, task({ team: "books", state: "failed", attempts: 1 }));
  assert.deepEqual(shown(traffic), [["books", "up", true, 1]]);
  mock.timers.tick(CROSSING);
  assert.deepEqual(shown(traffic), [["research", "up", true, 1]]);
  mock.timers.tick(CROSSING);
  assert.deepEqual(shown(traffic), []);
  assert.ok(told >= 8, `${told}`);
});

test("what is no handover between teams moves nothing", () => {
  const traffic = new Traffic(() => {});

  traffic.take(tree, task({ parent: null, created_by: "operator" }));
  traffic.take(tree, task({ type: "result", team: "main", created_by: "research" }));
  traffic.take(tree, task({ type: "agent", created_by: "research" }));
  traffic.take(tree, task({ state: "waiting", attempts: 1 }));

  assert.deepEqual(shown(traffic), []);
});

test("however much happens at once, an edge has one mark each way", () => {
  const traffic = new Traffic(() => {});

  for (let number = 0; number < 1_000; number += 1) {
    traffic.take(tree, task({ id: `task-${number}` }));
    traffic.take(tree, task({ id: `task-${number}`, state: number === 7 ? "dead" : "done" }));
  }

  assert.deepEqual(shown(traffic), [
    ["research", "down", false, 1_000],
    ["research", "up", true, 1_000],
  ]);
  assert.ok(traffic.told.size <= 500);
  mock.timers.tick(CROSSING);
  assert.deepEqual(shown(traffic), []);
});
