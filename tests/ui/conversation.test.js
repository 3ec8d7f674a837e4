// CH-85, CH-89, CH-160, OP-67: the chat from the store and from frames, also when both tell the same, or twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { familyOf, forks, leading } from "../../src/http/ui/views/chat/branches.js";
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

/** A conversation of a channel in which nothing was said yet. */
function begun(place = storage(), principal = "someone") {
  const conversation = new Conversation(place, principal);
  conversation.begin({ id: "ws:1", seq: 0, topics: [] });
  return conversation;
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
  const conversation = begun();
  const turn = conversation.compose("question", "");
  const all = frames(turn.id);

  assert.ok(all.map((frame) => conversation.apply(frame)).every(Boolean));
  const once = JSON.stringify(conversation.logs);
  assert.ok(!all.map((frame) => conversation.apply(frame)).some(Boolean));
  conversation.lastSeq = 0;
  for (const frame of all) conversation.apply(frame);

  assert.equal(JSON.stringify(conversation.logs), once);
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
  const conversation = begun(place);
  conversation.compose("question", "");
  conversation.save();

  const stranger = new Conversation(place, "another");

  assert.deepEqual([stranger.former, Object.keys(stranger.logs)], [null, []]);
});

test("what a person was asked for has one card, whatever is told of it", () => {
  const conversation = begun();
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
  const conversation = begun();
  const sent = conversation.compose("sent", "");
  conversation.frameOf(sent);
  const waiting = conversation.compose("never sent", "");

  conversation.begin({ id: "ws:2", seq: 0, topics: [] });

  assert.deepEqual([sent.status, waiting.status], ["unconfirmed", "sending"]);
});

// OP-51
test("what is discarded right after a reload does not come back from what the browser kept", () => {
  const place = storage();
  const before = begun(place);
  const other = begun(place);
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
  const conversation = begun();
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
  const conversation = begun();
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

test("a message whose topic was left before it was known takes nothing along", () => {
  const conversation = new Conversation(storage(), "someone");
  const first = conversation.compose("one thing", "");
  assert.equal(first.fresh, null);
  assert.equal(conversation.nameFor("the same thing", ""), null, "it goes on with the first");

  conversation.freshPage();
  const second = conversation.compose("another thing", "");

  assert.equal(second.fresh, "another thing");
  assert.equal(conversation.nameFor("more of it", ""), "another thing");
  assert.deepEqual([first.left, second.left], [true, false]);
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
  const conversation = begun();
  const moves = [];
  conversation.onMoved = (turn, from, to) => moves.push([from, to]);
  const said = { channel_id: "ws:1", topic_id: null, ts: 4, seq: 0.5, message_id: "m-other" };

  conversation.apply({ ...said, seq: 1, type: "progress", kind: "user_message", content: "question" });
  for (const frame of frames("m-other")) conversation.apply({ ...frame, seq: frame.seq + 1 });

  assert.deepEqual(listed(conversation), [["question", "done"]]);
  assert.deepEqual([conversation.turns(""), moves, conversation.heard], [[], [], {}]);
});

test("CH-91: what this tab said is confirmed when it is told again, and stands there once", () => {
  const conversation = begun();
  const turn = conversation.compose("question", "");
  conversation.frameOf(turn);
  const said = { channel_id: "ws:1", topic_id: null, ts: 4, seq: 1, message_id: turn.id };

  conversation.apply({ ...said, type: "progress", kind: "user_message", content: "question" });
  const unsent = conversation.unacknowledged();
  for (const frame of frames(turn.id)) conversation.apply({ ...frame, seq: frame.seq + 1 });

  assert.deepEqual(unsent, []);
  assert.deepEqual(listed(conversation), [["question", "done"]]);
});

test("OP-67: tabs keep each other's drafts, and what each has on its way", () => {
  const place = storage();
  const [one, other] = [begun(place), begun(place)];
  const underway = one.compose("not sent yet", "t-1");
  one.draft("t-1", "typed here");

  one.save();
  other.draft("t-2", "typed there");
  other.save();
  const kept = new Conversation(place, "someone");
  one.remove(underway);
  one.draft("t-1", "");
  one.save();
  const later = new Conversation(place, "someone");

  assert.deepEqual(
    kept.unacknowledged().map((turn) => turn.text),
    ["not sent yet"],
  );
  assert.deepEqual([kept.former, kept.drafts], ["ws:1", { "t-1": "typed here", "t-2": "typed there" }]);
  assert.deepEqual(later.unacknowledged(), [], "what was discarded does not come back");
  assert.deepEqual(later.drafts, { "t-2": "typed there" });
});

test("CH-160: of what a former version kept, only what was on its way is taken over", () => {
  const place = storage();
  const turn = (id, status) => ({ kind: "turn", id, status, text: id, at: 1, addressed: null, attempted: true });
  const logs = { "": { items: [turn("m-1", "sending")] }, "t-1": { items: [turn("m-2", "done")] } };
  const kept = { version: 1, principal: "someone", channel: "ws:1", lastSeq: 9, logs, drafts: { "t-1": "typed" } };
  place.setItem("hivewright.conversation.someone", JSON.stringify(kept));

  const conversation = new Conversation(place, "someone");
  conversation.begin({ id: "ws:1", seq: 9, topics: [] });

  assert.deepEqual(
    conversation.unacknowledged().map((one) => one.id),
    ["m-1"],
  );
  assert.deepEqual([conversation.turns("t-1"), conversation.drafts], [[], { "t-1": "typed" }]);
});

/** A message as the store has it. */
const stored = (id, at, more = {}) => ({
  type: "message",
  message_id: id,
  task_id: `task-${id}`,
  at,
  seq: 2,
  from: "someone",
  text: `says ${id}`,
  state: "done",
  blocks: [{ type: "text", text: "Done." }],
  end: { at: at + 1, usage: { input: 1, output: 2, cost_usd: null } },
  ...more,
});
const told = (at, more = {}) => ({
  type: "notification",
  at,
  content: "[team] Ready.",
  team: "team",
  task_id: "task-1",
  status: "done",
  kind: "task",
  ...more,
});
const shown = (conversation, key = "t-1") => conversation.logs[key].items.map((item) => item.text ?? item.content);

test("CH-160: a topic is shown from the store, in order, with what is older before it", () => {
  const conversation = begun();

  conversation.fill("t-1", { rows: [stored("c", 9), told(7), stored("b", 5)], next: "cursor" });
  const first = shown(conversation);
  conversation.fill("t-1", { rows: [stored("a", 1)], next: null }, true);

  assert.deepEqual(first, ["says b", "[team] Ready.", "says c"]);
  assert.deepEqual(shown(conversation), ["says a", "says b", "[team] Ready.", "says c"]);
  assert.equal(conversation.logs["t-1"].next, null);
  const [turn] = conversation.turns("t-1");
  assert.deepEqual([turn.status, turn.ended, turn.blocks], ["done", 2, [{ kind: "text", text: "Done." }]]);
});

test("CH-91, CH-160: what the store has and frames tell again stands there once", () => {
  const conversation = begun();
  const all = frames("m-1").map((frame) => ({ ...frame, seq: frame.seq + 100 }));
  const blocks = [
    { type: "text", text: "Let me see." },
    { type: "tool_call", call_id: "c", tool: "read", arguments: "{}", ok: true, duration_ms: 7, result: "text" },
  ];
  const row = stored("m-1", 4, { task_id: "task-1", seq: 106, state: "running", end: undefined, blocks });

  // The store was read after the sixth frame; the connection began before the first.
  conversation.fill("t-1", { rows: [row], next: null });
  for (const frame of all) conversation.apply(frame);
  conversation.fill("t-1", { rows: [told(5)], next: null });

  const [turn, ...rest] = conversation.turns("t-1");
  assert.deepEqual(
    [turn.status, rest.length, turn.blocks.map((block) => block.text ?? block.result)],
    ["done", 0, ["Let me see.", "text", "Trying again", "The end."]],
  );
  assert.equal(conversation.logs["t-1"].items.filter((item) => item.kind === "notice").length, 1);
});

test("CH-160: text that streams is not taken back by what was stored before it", () => {
  const conversation = begun();
  for (const frame of frames("m-1").slice(0, 3)) conversation.apply(frame);

  conversation.fill("t-1", {
    rows: [stored("m-1", 4, { seq: 99, state: "running", blocks: [], end: undefined })],
    next: null,
  });

  const [turn] = conversation.turns("t-1");
  assert.deepEqual([turn.text, turn.blocks[0].text, turn.at], ["says m-1", "Let me see.", 4]);
  // Nor are frames passed over that were on their way meanwhile.
  conversation.apply(frames("m-1")[3]);
  assert.equal(turn.blocks[1]?.kind, "tool");
});

test("CH-91: two browsers that write at the same time show the same order", () => {
  const browsers = [begun(), begun()];
  const turns = browsers.map((browser, number) => browser.compose(`from ${number}`, "t-1"));
  const ids = turns.map((turn) => turn.id);
  let seq = 10;
  const of = (number) => ({ channel_id: "ws:1", message_id: ids[number], seq: (seq += 1) });
  const all = [
    { ...of(1), type: "progress", kind: "user_message", content: "from 1", ts: 50 },
    { ...of(0), type: "progress", kind: "user_message", content: "from 0", ts: 60 },
    ...[0, 1].map((number) => ({
      ...of(number),
      ...{ type: "ack", content: "Working on it.", generated: false, position: 0, task_id: `task-${number}` },
      ...{ topic_id: "t-1", topic_name: "Bees", ts: 70, accepted_at: number ? 50 : 60 },
    })),
  ];

  // Nobody is told of what they said themselves.
  browsers.forEach((browser, number) =>
    all
      .filter((frame) => frame.kind !== "user_message" || frame.message_id !== ids[number])
      .forEach((frame) => browser.apply(frame)),
  );

  for (const browser of browsers) assert.deepEqual(shown(browser), ["from 1", "from 0"]);
});

test("CH-160: a message that was on its way is known from the store to have been accepted", () => {
  const place = storage();
  const before = begun(place);
  const turn = before.compose("hello", "t-1");
  before.frameOf(turn);
  before.save();

  const after = begun(place);
  after.fill("t-1", { rows: [stored(turn.id, 4, { text: "hello" })], next: null });

  assert.deepEqual(after.unacknowledged(), []);
  assert.deepEqual(listed(after), [["hello", "done"]]);
});

test("CH-160: what another device has read is read here", () => {
  const conversation = new Conversation(storage(), "someone");
  const topic = { id: "t-1", name: "Bees", state: "active", queued: 0, running: false };
  const last_activity = new Date(5).toISOString();
  conversation.begin({ id: "ws:1", seq: 0, topics: [{ ...topic, last_activity, unread: 2 }] });
  const list = (read_until, seq) =>
    conversation.apply({ seq, type: "topic_list", topics: [{ ...topic, last_activity: 5, read_until }] });

  list(4, 1);
  const before = conversation.logs["t-1"].unread;
  list(5, 2);

  assert.deepEqual([before, conversation.logs["t-1"].unread], [2, 0]);
  assert.equal(conversation.seen("t-1"), null, "nothing is new, so that nothing is marked");
});

test("CH-160: a frame about words that were said before the page was there asks for them", () => {
  const conversation = begun();
  const stale = [];
  conversation.onStale = (key) => stale.push(key);

  const [ack] = frames("m-1");
  conversation.apply(ack);
  conversation.fill("t-1", { rows: [stored("m-1", 4, { state: "running", end: undefined, blocks: [] })], next: null });

  assert.deepEqual(stale, ["t-1"]);
  assert.deepEqual(listed(conversation), [["says m-1", "running"]]);
});

test("CH-91: a command of another device is answered there", () => {
  const conversation = begun();
  const of = { channel_id: "ws:1", topic_id: null, message_id: "m-1", ts: 4 };

  conversation.apply({ ...of, seq: 1, type: "progress", kind: "user_message", content: "/help" });
  conversation.apply({ ...of, seq: 2, type: "response", content: "Commands: …", status: "done" });

  assert.deepEqual([conversation.logs, conversation.heard], [{}, {}]);
});

test("CH-44: a message is counted as it is sent", () => {
  assert.equal(bytesOf("a"), 3);
  assert.equal(bytesOf("ä\n"), 6);
  assert.ok(bytesOf("x".repeat(MOST_BYTES)) > MOST_BYTES);
});

test("CH-89, SC-110: after a gap the page begins again with what the store has", () => {
  const conversation = begun();
  const lost = [];
  conversation.onLost = (frame) => lost.push(frame.content);
  const turn = conversation.compose("hello", "t-1");
  conversation.apply(frames(turn.id)[0]);
  const unsent = conversation.compose("and this", "t-1");

  conversation.apply({ seq: 2 ** 50, type: "progress", kind: "note", content: "Restored.", gap: { dropped: 0 } });
  conversation.begin({ id: "ws:1", seq: 2 ** 50, topics: [] });

  assert.deepEqual(lost, ["Restored."]);
  assert.deepEqual(listed(conversation), [["and this", "sending"]]);
  assert.equal(conversation.unacknowledged()[0], unsent);
});

const picture = { id: "file-1", name: "a.png", mime: "image/png", size: 3, digest: "00" };

test("files go with a message, and are kept until it is confirmed", () => {
  const place = storage();
  const conversation = begun(place);
  const turn = conversation.compose("look", "", [picture]);
  conversation.save();

  const again = new Conversation(place, "someone");

  assert.deepEqual(conversation.frameOf(turn).files, ["file-1"]);
  assert.deepEqual(again.frameOf(again.unacknowledged()[0]).files, ["file-1"]);
  assert.equal(conversation.frameOf(conversation.compose("plain", "")).files, undefined);
});

test("files of another device and of a tool, and the mark of its result, are those that the store tells of", () => {
  const heard = begun();
  const of = { ...about, message_id: "m-1" };
  const user = { kind: "user_message", content: "look", files: [picture], topic_id: null, task_id: undefined };
  heard.apply({ ...of, ...user, seq: 1, type: "progress" });
  heard.apply({ ...of, seq: 2, type: "ack", content: "", generated: false, position: 0 });
  const call = { tool: "send_file", call_id: "c", preview: "{}" };
  heard.apply({ ...of, ...call, seq: 3, type: "progress", kind: "tool_call", content: "" });
  heard.apply({
    ...of,
    ...call,
    seq: 4,
    type: "progress",
    kind: "tool_result",
    content: "",
    ok: true,
    untrusted: true,
    files: [picture],
  });
  const read = begun();
  const done = { ok: true, untrusted: true, files: [picture] };
  const blocks = [{ type: "tool_call", call_id: "c", tool: "send_file", arguments: "{}", ...done }];
  const row = { type: "message", message_id: "m-1", task_id: "task-1", at: 5, seq: 4, text: "look", files: [picture] };
  read.fill("t-1", { rows: [{ ...row, from: "ann", state: "running", blocks }], next: null });

  for (const conversation of [heard, read]) {
    const [turn] = conversation.turns("t-1");
    const [{ files, untrusted }] = turn.blocks;
    assert.deepEqual([turn.files, files, untrusted], [[picture], [picture], true]);
  }
});

test("a branch begins with what it shares, and each version of a message leads to the others", () => {
  const conversation = new Conversation(storage(), "ann");
  const topic = (id, last_activity, more) => ({ id, name: id, state: "active", last_activity, unread: 0, ...more });
  const branch = { topic_id: "t-1", message_id: "m-2", at: 2, made_at: 9 };
  const topics = [topic("t-1", "2026-01-01T00:00:00Z"), topic("t-2", "2026-01-02T00:00:00Z", { branch })];
  conversation.begin({ id: "ws:1", seq: 0, topics });
  const row = (of, number, text) => ({
    ...{ of, type: "message", message_id: `m-${number}`, task_id: `task-${number}`, at: number, seq: 0, text },
    ...{ state: "done", blocks: [], end: { at: number } },
  });

  conversation.fill("t-2", { rows: [row("t-2", 3, "other"), row("t-1", 1, "first")], next: null });
  conversation.fill("t-1", { rows: [row("t-1", 2, "second"), row("t-1", 1, "first")], next: null });

  const said = (key) => conversation.turns(key).map((turn) => turn.text);
  assert.deepEqual(
    [said("t-1"), said("t-2")],
    [
      ["first", "second"],
      ["first", "other"],
    ],
  );
  const all = ["t-1", "t-2"];
  assert.deepEqual([...forks(conversation, "t-1")], [["m-2", { all, at: 0 }]]);
  assert.deepEqual([...forks(conversation, "t-2")], [["m-3", { all, at: 1 }]]);
  const listed = (chosen) => leading(conversation, chosen).map((one) => one.id);
  assert.deepEqual([listed(""), listed("t-1")], [["t-2"], ["t-1"]]);
  // One that is archived hides none that is open.
  conversation.topics[1].state = "done";
  assert.deepEqual([listed(""), listed("t-2")], [["t-1"], ["t-2"]]);
});

test("CH-91: a topic that was deleted is gone with its draft, and with it all its versions are counted", () => {
  const conversation = begun();
  /** @type {string[]} */ const forgotten = [];
  conversation.onForgotten = (key) => forgotten.push(key);
  const turn = conversation.compose("question", "");
  for (const frame of frames(turn.id)) conversation.apply(frame);
  conversation.draft("t-1", "more to");
  const branch = { topic_id: "t-1", message_id: turn.id, at: 5, made_at: 6 };
  const rows = [
    { id: "t-2", name: "Topic 2", state: "active", last_activity: 9, queued: 0, running: false, branch },
    { id: "t-1", name: "Topic", state: "active", last_activity: 5, queued: 0, running: false },
  ];
  conversation.apply({ type: "topic_list", seq: 20, topics: rows });

  assert.deepEqual(familyOf(conversation, "t-2"), { root: "t-1", versions: 2 });
  conversation.apply({ type: "topic_list", seq: 21, topics: [], deleted: ["t-1", "t-2"] });

  assert.deepEqual(forgotten, ["t-1", "t-2"]);
  assert.deepEqual(conversation.listed(), []);
  assert.deepEqual(conversation.drafts, {});
});

test("a turn that is set aside says so until it goes on, also from the store", () => {
  const conversation = begun();
  const turn = conversation.compose("question", "");
  const [ack, , , , , , note, more] = frames(turn.id);

  conversation.apply(ack);
  conversation.apply({ ...note, waits: true });
  const aside = turn.parked;
  conversation.apply(more);

  assert.deepEqual([aside, turn.parked], [true, false]);
  const row = { type: "message", message_id: "m-2", task_id: "task-2", at: 6, seq: 3, text: "and", blocks: [] };
  conversation.fill("t-1", { rows: [{ ...row, state: "waiting" }], next: null });
  assert.equal(conversation.find({ message_id: "m-2" })?.turn.parked, true);
});

test("what a turn waits for is told until it goes on or ends, and not above its answer", () => {
  const conversation = begun();
  const turn = conversation.compose("question", "");
  const [ack, , , call, result, , note, more, response] = frames(turn.id);
  const wait = { ...note, content: "Waiting for approval: read.", reset: false, waits: true };
  const shown = (one) => one.blocks.map((block) => block.kind);

  for (const frame of [ack, call]) conversation.apply(frame);
  conversation.apply({ ...wait, seq: 5.5 });
  const aside = shown(turn);
  conversation.apply({ ...result });
  const decided = shown(turn);
  conversation.apply({ ...wait });
  for (const frame of [more, response]) conversation.apply(frame);

  assert.deepEqual(aside.slice(-2), ["tool", "note"]);
  assert.equal(decided.at(-1), "tool");
  assert.equal(shown(turn).includes("note"), false);
  const blocks = [{ type: "note", text: "Waiting: a person has to decide on a call.", waits: true }];
  const row = { type: "message", message_id: "m-2", task_id: "task-2", at: 6, seq: 3, text: "and", blocks };
  conversation.fill("t-1", { rows: [{ ...row, state: "waiting" }], next: null });
  const stored = conversation.find({ message_id: "m-2" })?.turn;
  assert.deepEqual(shown(stored), ["note"]);
  conversation.apply({ ...response, seq: 20, message_id: "m-2", task_id: "task-2" });
  assert.deepEqual(shown(stored), ["text"]);
});

test("a message to a team moves nothing that stands on the blank page", () => {
  const conversation = begun();
  const moves = [];
  conversation.onMoved = (_turn, from, to) => moves.push([from, to]);
  const toTeam = conversation.compose("look", "@ops");
  const fresh = conversation.compose("begin", "");

  conversation.adopt(toTeam, { message_id: "m-1", task_id: "task-1" });
  conversation.adopt(fresh, { message_id: "m-2", task_id: "task-2", topic_id: "t-2" });

  assert.deepEqual(moves, [
    ["@ops", "@ops"],
    ["", "t-2"],
  ]);
});

// OP-51, CH-89
test("what was refused or is not confirmed stays through a reload and another channel, and is not sent by itself", () => {
  const place = storage();
  const before = begun(place);
  const refused = before.compose("refused", "t-1");
  before.refuse(refused, { code: "rate_limited", message: "Later." });
  before.frameOf(before.compose("unconfirmed", ""));
  before.begin({ id: "ws:2", seq: 0, topics: [] });
  before.freshPage();
  before.save();

  const after = new Conversation(place, "someone");
  after.begin({ id: "ws:2", seq: 0, topics: [] });

  const kept = after.untaken().map((turn) => [turn.text, turn.status, turn.error?.code]);
  assert.deepEqual(kept, [
    ["refused", "failed", "rate_limited"],
    ["unconfirmed", "unconfirmed", undefined],
  ]);
  assert.deepEqual(after.unacknowledged(), []);
});

// CH-85
test("a command to a team is over with its answer, whether its frame comes before, after or not at all", () => {
  const taken = { message_id: "m-9", reply: { text: "Nothing runs." } };
  const frame = { channel_id: "ws:1", seq: 1, ts: 5, type: "response", message_id: "m-9", content: "Nothing runs." };
  for (const order of [["answer"], ["frame", "answer"], ["answer", "frame"]]) {
    const conversation = begun();
    const turn = conversation.compose("/stop", "@ops");

    for (const step of order) step === "frame" ? conversation.apply(frame) : conversation.adopt(turn, taken);

    const shown = conversation.turns("@ops").map((one) => [one.status, one.blocks]);
    assert.deepEqual(shown, [["done", [{ kind: "text", text: "Nothing runs." }]]], order.join());
    assert.equal(conversation.logs["@ops"].unread, 1);
    assert.deepEqual(conversation.turns(""), []);
  }
});

// CH-91
test("words to a team stand with it in every tab, and once where they were written", () => {
  const said = { channel_id: "ws:1", topic_id: null, ts: 4, message_id: "m-9", team: "ops" };
  const all = [
    { ...said, seq: 1, type: "progress", kind: "user_message", content: "hello" },
    { ...said, seq: 2, type: "ack", task_id: "task-9", content: "Working on it.", position: 0 },
  ];
  const [other, own] = [begun(), begun()];
  const turn = own.compose("hello", "@ops");
  turn.attempted = true;

  for (const frame of all) for (const tab of [other, own]) tab.apply(frame);
  const before = own.turns("@ops").map((one) => one.text);
  own.adopt(turn, { message_id: "m-9", task_id: "task-9" });

  assert.deepEqual(before, ["hello"]);
  for (const tab of [other, own]) {
    assert.deepEqual(
      tab.turns("@ops").map((one) => [one.id, one.text, one.status]),
      [["m-9", "hello", "running"]],
    );
    assert.deepEqual(tab.turns(""), []);
  }
});

// CH-160
// OP-51
test("what a team waits for stands with the message to it, from a frame and from the store", () => {
  const told = {
    channel_id: "ws:1",
    team: "ops",
    task_id: "task-1",
    kind: "approval",
    ref_id: "apr-1",
    content: "May I?",
  };
  const row = {
    ...{
      type: "message",
      message_id: "m-1",
      task_id: "task-1",
      at: 1,
      seq: 0,
      text: "Write it.",
      state: "waiting",
      blocks: [],
    },
  };
  const shown = (conversation) =>
    Object.entries(conversation.logs).map(([key, log]) => [key, log.items.length, log.unread]);
  const [live, stored, late] = [begun(), begun(), begun()];

  late.recall([{ ...told, type: "notification", at: 2, status: "pending" }], 1);
  for (const conversation of [live, stored, late]) conversation.fill("@ops", { rows: [row], next: null });
  live.apply({ ...told, seq: 1, ts: 2, type: "notification", status: "pending" });
  live.apply({ ...told, seq: 2, ts: 3, type: "notification", task_id: "task-9", ref_id: "apr-9", status: "pending" });
  stored.recall([{ ...told, type: "notification", at: 2, status: "pending" }], 1);

  assert.deepEqual(shown(live), [
    ["@ops", 2, 1],
    ["", 1, 1],
  ]);
  assert.deepEqual(shown(stored), [["@ops", 2, 1]]);
  assert.deepEqual(shown(late), [
    ["", 0, 0],
    ["@ops", 2, 1],
  ]);
});

test("what nobody has begun with is not shown as work, until what was before it ends", () => {
  const conversation = begun();
  const waits = (id, at) => stored(id, at, { state: "accepted", blocks: [], end: undefined });

  conversation.fill("@ops", { rows: [waits("b", 2), waits("a", 1)], next: null });
  const statuses = () => conversation.turns("@ops").map((turn) => [turn.status, turn.position]);
  const before = statuses();
  conversation.apply({ channel_id: "ws:1", seq: 9, ts: 5, type: "response", task_id: "task-a", content: "Done." });

  assert.deepEqual(before, [
    ["queued", 0],
    ["queued", 1],
  ]);
  assert.deepEqual(statuses(), [
    ["done", 0],
    ["running", 0],
  ]);
});

// CH-160
test("a long topic that nobody looks at is let go of, and fetched anew", () => {
  const conversation = begun();
  const rows = Array.from({ length: 150 }, (_, at) => stored(`m-${at}`, at + 1));
  conversation.fill("t-1", { rows, next: "older" });
  conversation.viewed = "t-1";
  const refused = conversation.compose("not taken", "t-1");
  conversation.refuse(refused, { code: "busy", message: "Later." });

  conversation.release("t-1");
  const viewed = conversation.turns("t-1").length;
  conversation.viewed = "t-2";
  conversation.release("t-1");

  assert.equal(viewed, 151);
  assert.deepEqual(conversation.turns("t-1"), [refused]);
  assert.deepEqual([conversation.logs["t-1"].whole, conversation.listed().length], [false, 1]);
});

// OP-51
test("what was not taken and is discarded in one tab is gone in the others", () => {
  const place = storage();
  const one = begun(place);
  one.refuse(one.compose("refused", "t-1"), { code: "busy", message: "Later." });
  one.save();
  const other = new Conversation(place, "someone");
  other.begin({ id: "ws:1", seq: 0, topics: [] });
  const unsaved = other.compose("of the other", "t-1");
  other.refuse(unsaved, { code: "busy", message: "Later." });

  one.remove(one.untaken()[0]);
  one.save();
  other.heed();
  other.save();

  assert.deepEqual(other.untaken(), [unsaved]);
  assert.deepEqual(
    new Conversation(place, "someone").untaken().map((turn) => turn.text),
    ["of the other"],
  );
});
