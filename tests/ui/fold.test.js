// OP-44, OP-45, OP-66, OP-95: a snapshot and its events, each applied once.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { State } from "../../src/http/ui/live/fold.js";

/** What happened, and the turns under way after each of it, as the service itself keeps them (`src/http/tests/fold.rs`). */
const recorded = JSON.parse(readFileSync(new URL("fixtures/turns.json", import.meta.url), "utf8"));

const snapshot = (more = {}) => ({
  boot: 3,
  seq: 10,
  overview: {},
  org: null,
  running: [],
  approvals: [],
  questions: [],
  topics: [],
  channels: [],
  jobs: [],
  inbox_unread: 0,
  ...more,
});

function begun(more) {
  const state = new State();
  state.take(snapshot(more));
  return state;
}

const turn = (seq, value) => [
  "turn",
  { seq, at: "2026-01-01T00:00:00Z", task_id: "task-1", team: "main", kind: "stream", turn: "turn-1", value },
];
const start = (seq) => [
  "turn",
  {
    seq,
    at: "2026-01-01T00:00:00Z",
    task_id: "task-1",
    team: "main",
    kind: "turn_start",
    turn: "turn-1",
    body: "hello",
  },
];

test("what the snapshot holds is not applied again", () => {
  const state = begun();

  assert.equal(state.apply("approval.changed", { seq: 10, id: "apr-1", status: "pending" }), false);
  assert.equal(state.apply("approval.changed", { seq: 11, id: "apr-1", status: "pending" }), true);
  assert.equal(state.apply("approval.changed", { seq: 11, id: "apr-1", status: "pending" }), false);
  assert.equal(state.approvals.size, 1);
});

test("after a restart numbers begin anew", () => {
  const state = begun();

  assert.equal(state.apply("topic.changed", { seq: 1, id: "t-1", name: "One" }, 4), true);
});

test("a turn streams in: thinking, text, calls and results", () => {
  const state = begun();
  const events = [
    start(11),
    turn(12, { type: "thinking", data: "hm" }),
    turn(13, { type: "text", data: "Let me " }),
    turn(14, { type: "text", data: "see." }),
    turn(15, { type: "tool_call", id: "c1", name: "read", arguments: { file_path: "a" } }),
    turn(16, { type: "tool_start", id: "c1" }),
    turn(17, { type: "tool_result", id: "c1", name: "read", content: "text", isError: false }),
    turn(18, { type: "text", data: "Done." }),
  ];

  for (const [type, data] of events) state.apply(type, data);
  for (const [type, data] of events) state.apply(type, data);

  const { active_turn } = state.running.get("task-1");
  assert.equal(active_turn.thinking, "hm");
  assert.equal(active_turn.text, "Let me see.\n\nDone.");
  assert.deepEqual(
    active_turn.toolCalls.map(({ name, status, preview }) => [name, status, preview]),
    [["read", "done", "text"]],
  );
});

test("what is taken back is the text of this step only", () => {
  const state = begun();
  for (const [type, data] of [
    start(11),
    turn(12, { type: "text", data: "First." }),
    turn(13, { type: "tool_call", id: "c1", name: "read", arguments: {} }),
    turn(14, { type: "text", data: "half a sen" }),
    turn(15, { type: "reset" }),
    turn(16, { type: "text", data: "Second." }),
  ])
    state.apply(type, data);

  assert.equal(state.running.get("task-1").active_turn.text, "First.\n\nSecond.");
});

test("a turn of the snapshot goes on where it was", () => {
  const active_turn = { userText: "hello", thinking: "", text: "So f", toolCalls: [] };
  // The turn may be a little ahead of the rest of the snapshot.
  const state = begun({
    running: [
      {
        task_id: "task-1",
        turn: "turn-1",
        team: "main",
        started_at: "",
        state: "running",
        seq: 12,
        active_turn,
        step_begins: { text: 0, thinking: 0 },
      },
    ],
  });

  state.apply(...turn(9, { type: "text", data: "So" }));
  state.apply(...turn(11, { type: "text", data: "So" }));
  state.apply(...turn(12, { type: "text", data: " f" }));
  state.apply(...turn(13, { type: "text", data: "ar" }));

  assert.equal(state.running.get("task-1").active_turn.text, "So far");
});

test("a turn that ended runs no more", () => {
  const state = begun();
  state.apply(...start(11));
  state.apply("turn", { seq: 12, task_id: "task-1", kind: "turn_end", turn: "turn-1", ok: true });

  assert.equal(state.running.size, 0);
});

test("what is decided or answered no longer waits", () => {
  const state = begun({
    approvals: [{ id: "apr-1", status: "pending" }],
    questions: [{ id: "qst-1", status: "open" }],
  });
  state.apply("approval.changed", { seq: 11, id: "apr-1", status: "approved" });
  state.apply("question.changed", { seq: 12, id: "qst-1", status: "answered" });

  assert.deepEqual([state.approvals.size, state.questions.size], [0, 0]);
});

test("unknown types change nothing", () => {
  const state = begun();

  assert.equal(state.apply("brand.new", { seq: 11, id: "x" }), true);
  assert.equal(state.seq, 11);
});

/** What the page draws of turns, without what only the service keeps. */
const drawn = (turns) =>
  [...turns]
    .map(
      ({
        task_id,
        turn,
        team,
        topic_id,
        session_id,
        started_at,
        state,
        wait_reason,
        model,
        active_turn,
        step_begins,
      }) => ({
        task_id,
        turn,
        team,
        topic_id,
        session_id,
        started_at,
        state,
        wait_reason,
        model,
        active_turn,
        step_begins,
      }),
    )
    .sort((one, other) => one.task_id.localeCompare(other.task_id));

test("the page knows of each turn what the service knows", () => {
  const state = begun({ seq: 0 });

  for (const { type, data, running } of recorded) {
    state.apply(type, structuredClone(data));
    assert.deepEqual(drawn(state.running.values()), drawn(running), `after ${data.seq}`);
  }
});

test("a page that joins anywhere knows the same as one that was there from the beginning", () => {
  for (const { data: last, running } of recorded) {
    const state = begun({ seq: last.seq, running: structuredClone(running) });

    for (const { type, data, running: then } of recorded) {
      state.apply(type, structuredClone(data));
      if (data.seq >= last.seq)
        assert.deepEqual(drawn(state.running.values()), drawn(then), `joined at ${last.seq}, after ${data.seq}`);
    }
  }
});
