// CH-85, CH-89, OP-67: frames of the chat, also when they come twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../../src/http/ui/views/chat/conversation.js";
import { bytesOf, MOST_BYTES } from "../../src/http/ui/views/chat/size.js";

function storage() {
  const kept = new Map();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
}

const about = { channel_id: "ws:1", topic_id: "t-1", topic_name: "Topic", task_id: "task-1", ts: 5 };

function frames(message_id) {
  const of = { ...about, message_id };
  return [
    { ...of, seq: 1, type: "ack", content: "Let me see.", generated: true, position: 0 },
    { ...of, seq: 2, type: "progress", kind: "text_delta", content: "Let me " },
    { ...of, seq: 3, type: "progress", kind: "text_delta", content: "see." },
    {
      ...of,
      seq: 5,
      type: "progress",
      kind: "tool_call",
      content: "Using read",
      tool: "read",
      call_id: "c",
      preview: "{}",
    },
    {
      ...of,
      seq: 6,
      type: "progress",
      kind: "tool_result",
      content: "Used read",
      tool: "read",
      call_id: "c",
      ok: true,
      duration_ms: 7,
      preview: "text",
    },
    { ...of, seq: 8, type: "progress", kind: "text_delta", content: "half a sen" },
    { ...of, seq: 9, type: "progress", kind: "note", content: "Trying again", reset: true },
    { ...of, seq: 10, type: "progress", kind: "text_delta", content: "The end" },
    { ...of, seq: 12, type: "response", content: "The end.", status: "done" },
    { ...about, seq: 13, type: "notification", content: "[team] Ready.", team: "team", status: "done", kind: "task" },
  ];
}

test("a frame that comes twice changes nothing", () => {
  const place = storage();
  const conversation = new Conversation(place, "someone");
  conversation.beginChannel("ws:1");
  const turn = conversation.compose("question", "");
  const all = frames(turn.id);

  assert.ok(all.map((frame) => conversation.apply(frame)).every(Boolean));
  const once = JSON.stringify(conversation.logs);
  assert.ok(!all.map((frame) => conversation.apply(frame)).some(Boolean));
  conversation.lastSeq = 0;
  for (const frame of all) conversation.apply(frame);
  conversation.save();

  assert.equal(JSON.stringify(conversation.logs), once);
  assert.equal(JSON.stringify(new Conversation(place, "someone").logs), once);
  assert.deepEqual(
    conversation.turns("t-1").map((one) => one.blocks.map((block) => [block.kind, block.text ?? block.result])),
    [
      [
        ["text", "Let me see."],
        ["tool", "text"],
        ["note", "Trying again"],
        ["text", "The end."],
      ],
    ],
  );
  assert.equal(conversation.unacknowledged().length, 0);
});

test("another person sees nothing of it", () => {
  const place = storage();
  const conversation = new Conversation(place, "someone");
  conversation.beginChannel("ws:1");
  conversation.compose("question", "");
  conversation.save();

  const stranger = new Conversation(place, "another");

  assert.deepEqual([stranger.channel, Object.keys(stranger.logs)], [null, []]);
});

test("what a person was asked for has one card, whatever is told of it", () => {
  const conversation = new Conversation(storage(), "someone");
  conversation.beginChannel("ws:1");
  const asked = {
    ...about,
    type: "notification",
    kind: "approval",
    ref_id: "apr-1",
    team: "main",
    status: "pending",
    content: "May I?",
  };

  conversation.apply({ ...asked, seq: 1 });
  conversation.apply({ ...asked, seq: 2, status: "done", content: "Approved." });

  assert.deepEqual(
    conversation.logs["t-1"].items.map((item) => [item.about, item.ref]),
    [["approval", "apr-1"]],
  );
});

test("what may have been accepted is not sent again unasked", () => {
  const conversation = new Conversation(storage(), "someone");
  conversation.beginChannel("ws:1");
  const sent = conversation.compose("sent", "");
  conversation.frameOf(sent);
  const waiting = conversation.compose("never sent", "");

  conversation.beginChannel("ws:2");

  assert.deepEqual([sent.status, waiting.status], ["unconfirmed", "sending"]);
});

// OP-51
test("what is discarded right after a reload does not come back from what the browser kept", () => {
  const place = storage();
  const before = new Conversation(place, "someone");
  before.beginChannel("ws:1");
  const other = new Conversation(place, "someone");
  other.beginChannel("ws:1");
  before.compose("not wanted", "");
  before.save();
  const after = new Conversation(place, "someone");
  other.compose("of another tab", "");
  other.save();

  after.remove(after.unacknowledged()[0]);
  after.save();

  const kept = new Conversation(place, "someone").unacknowledged();
  assert.deepEqual(
    kept.map((turn) => turn.text),
    ["of another tab"],
  );
});

// OP-67, CH-159
test("after a break the whole text of the step takes the place of its pieces", () => {
  const conversation = new Conversation(storage(), "someone");
  conversation.beginChannel("ws:1");
  const sent = conversation.compose("question", "");
  const about = {
    message_id: sent.id,
    task_id: "task-1",
    topic_id: "t-1",
    topic_name: "Bees",
    channel_id: "ws:1",
    ts: 5,
  };
  const said = (seq, content, more = {}) =>
    conversation.apply({ ...about, type: "progress", kind: "text_delta", seq, content, ...more });
  const call = (seq, id) =>
    conversation.apply({
      ...about,
      type: "progress",
      kind: "tool_call",
      seq,
      call_id: id,
      tool: "read",
      content: "Using read",
    });
  const whole = { snapshot: true };

  conversation.apply({ ...about, type: "ack", seq: 1, content: "Let me", generated: true, position: 0 });
  said(2, "Let me lo");
  // Lost: "ok around. ".
  said(3, "Let me look around. ", whole);
  call(4, "c-1");
  // A step may begin with the words of an earlier one.
  said(5, "Let me look around. Found: 1, ", whole);
  said(6, "2, ");
  // Lost: "3, ", and another call.
  said(7, "Let me look around. Found: 1, 2, 3, ", whole);
  call(8, "c-2");
  said(9, "The end");
  said(10, "The end is", whole);
  said(11, " near.");
  const shown = () => conversation.turns("t-1").map((turn) => turn.blocks.map((block) => block.text ?? block.call));
  const before = shown();
  conversation.apply({ ...about, type: "response", seq: 12, status: "done", content: "The end is near." });

  assert.deepEqual(before, [
    ["Let me look around. ", "c-1", "Let me look around. Found: 1, 2, 3, ", "c-2", "The end is near."],
  ]);
  assert.deepEqual(shown(), before);
});

/** A conversation with one open topic, and a message that begins another. */
function beginning() {
  const conversation = new Conversation(storage(), "someone");
  conversation.beginChannel("ws:1");
  conversation.apply({
    channel_id: "ws:1",
    seq: 1,
    type: "topic_list",
    topics: [{ id: "t-0", name: "Letters", state: "active", last_activity: 1, queued: 0, running: false }],
  });
  const moves = [];
  conversation.onMoved = (turn, from, to) => moves.push([from, to]);
  return { conversation, moves, turn: conversation.compose("Plan the week: with everyone", "") };
}
const taken = { message_id: "m-9", task_id: "task-1", topic_id: "t-1" };

test("OP-51: a message on the blank page names a topic that there is not", () => {
  const { conversation, turn } = beginning();

  assert.equal(turn.fresh, "Plan the week with everyone");
  assert.equal(
    conversation.compose("letters", "").fresh,
    "Plan the week with everyone",
    "what follows goes where the first goes",
  );
  assert.equal(conversation.nameFor("letters", "t-0"), null);
  assert.equal(conversation.nameFor("/help", ""), null);
  conversation.remove(turn);
  conversation.freshPage();
  conversation.logs[""].items = [];
  assert.equal(conversation.nameFor("letters", ""), "letters 2");
  assert.equal(conversation.nameFor("@ : #", ""), "New topic");
  assert.equal(new Conversation(storage(), "someone").nameFor("hello", ""), null, "the first of all needs no name");
});

test("OP-51: a topic that the server has not listed yet has its name", () => {
  const conversation = new Conversation(storage(), "someone");
  conversation.apply({ type: "topic_list", topics: [{ id: "t-0", name: "first", state: "active", last_activity: 1 }] });
  const turn = conversation.compose("letters", "");

  conversation.adopt(turn, { message_id: "m-1", task_id: "task-1", topic_id: "t-1" });

  assert.equal(conversation.nameFor("letters", ""), "letters 2");
});

test("OP-51: a new topic is the same whether its frames or its answer come first", () => {
  const early = beginning();
  const late = beginning();
  const all = frames("m-9").map((frame) => ({ ...frame, seq: frame.seq + 1 }));

  for (const frame of all) early.conversation.apply(frame);
  early.conversation.adopt(early.turn, taken);
  late.conversation.adopt(late.turn, taken);
  for (const frame of all) late.conversation.apply(frame);

  for (const { conversation, moves } of [early, late]) {
    const [turn, ...rest] = conversation.turns("t-1");
    assert.deepEqual(
      [turn.text, turn.status, turn.blocks.at(-1).text, rest.length],
      ["Plan the week: with everyone", "done", "The end.", 0],
    );
    assert.deepEqual(conversation.turns(""), []);
    assert.deepEqual(moves.at(-1), ["", "t-1"]);
  }
});

const listed = (conversation) => conversation.turns("t-1").map((turn) => [turn.text, turn.status]);

test("CH-91: what another tab says stands where its topic is, and not on a blank page", () => {
  const conversation = new Conversation(storage(), "someone");
  conversation.beginChannel("ws:1");
  const moves = [];
  conversation.onMoved = (turn, from, to) => moves.push([from, to]);
  const said = { channel_id: "ws:1", topic_id: null, ts: 4, seq: 0.5, message_id: "m-other" };

  conversation.apply({ ...said, seq: 1, type: "progress", kind: "user_message", content: "question" });
  for (const frame of frames("m-other")) conversation.apply({ ...frame, seq: frame.seq + 1 });

  assert.deepEqual(listed(conversation), [["question", "done"]]);
  assert.deepEqual([conversation.turns(""), moves, conversation.heard], [[], [], {}]);
});

test("CH-91: what this tab said is confirmed when it is told again, and stands there once", () => {
  const conversation = new Conversation(storage(), "someone");
  conversation.beginChannel("ws:1");
  const turn = conversation.compose("question", "");
  conversation.frameOf(turn);
  const said = { channel_id: "ws:1", topic_id: null, ts: 4, seq: 1, message_id: turn.id };

  conversation.apply({ ...said, type: "progress", kind: "user_message", content: "question" });
  const unsent = conversation.unacknowledged();
  for (const frame of frames(turn.id)) conversation.apply({ ...frame, seq: frame.seq + 1 });

  assert.deepEqual(unsent, []);
  assert.deepEqual(listed(conversation), [["question", "done"]]);
});

test("OP-67: a tab that is behind takes nothing from what another one keeps", () => {
  const place = storage();
  const begin = new Conversation(place, "someone");
  begin.beginChannel("ws:1");
  begin.save();
  const [ahead, behind] = [new Conversation(place, "someone"), new Conversation(place, "someone")];
  for (const frame of frames("m-1")) ahead.apply(frame);
  const underway = ahead.compose("not sent yet", "t-1");
  ahead.draft("t-1", "typed here");

  ahead.save();
  behind.draft("t-2", "typed there");
  behind.save();
  const kept = new Conversation(place, "someone");
  ahead.remove(underway);
  ahead.draft("t-1", "");
  ahead.save();
  const later = new Conversation(place, "someone");

  assert.deepEqual(
    kept.unacknowledged().map((turn) => turn.text),
    ["not sent yet"],
  );
  assert.equal(kept.lastSeq, 13);
  assert.deepEqual(kept.drafts, { "t-1": "typed here", "t-2": "typed there" });
  assert.deepEqual(later.unacknowledged(), [], "what was discarded does not come back");
  assert.deepEqual(later.drafts, { "t-2": "typed there" });
});

test("OP-51: whoever comes again finds the conversation, and nobody else does", () => {
  const place = storage();
  const first = new Conversation(place, "someone");
  first.beginChannel("ws:1");
  for (const frame of frames("m-1")) first.apply(frame);
  first.save();
  const other = new Conversation(place, "other");
  other.beginChannel("ws:2");
  other.save();

  assert.deepEqual(other.turns("t-1"), []);
  assert.equal(new Conversation(place, "someone").turns("t-1").length, 1);
});

test("CH-44: a message is counted as it is sent", () => {
  assert.equal(bytesOf("a"), 3);
  assert.equal(bytesOf("ä\n"), 6);
  assert.ok(bytesOf("x".repeat(MOST_BYTES)) > MOST_BYTES);
});

test("SC-110: after a gap, a turn whose topic the service no longer knows is of unknown end", () => {
  const talk = new Conversation(storage());
  const turn = talk.compose("hello", "t-1");
  const [ack] = frames(turn.id);
  talk.apply(ack);
  talk.apply({
    channel_id: "ws:1",
    seq: 2 ** 50,
    type: "progress",
    kind: "note",
    content: "Restored.",
    gap: { dropped: 0 },
  });

  talk.apply({ channel_id: "ws:1", seq: 2 ** 50 + 1, type: "topic_list", topics: [] });

  assert.equal(turn.status, "unknown");
});
