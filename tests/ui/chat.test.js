// OP-51: what a person does in the chat, in front of a conversation that is there.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { opened, serving, settled, storage, toasts } from "./opened.js";
import { me } from "../../src/http/ui/core/api.js";
import { live } from "../../src/http/ui/live/live.js";
import { save } from "../../src/http/ui/views/chat/acts.js";
import { Conversation } from "../../src/http/ui/views/chat/conversation.js";
import { EXAMPLES } from "../../src/http/ui/views/chat/examples.js";
import { Menu } from "../../src/http/ui/views/chat/menu.js";
import { talk } from "../../src/http/ui/views/chat/talk.js";
import "../../src/http/ui/views/chat/chat.js";

mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
Object.assign(globalThis, {
  innerHeight: 800,
  requestAnimationFrame: (draw) => setImmediate(draw),
  ResizeObserver: class {
    observe() {}
    disconnect() {}
  },
});

const LIST = { data: [], total: 0 };
/** What went over the socket. */
let sent = [];

beforeEach(() => {
  toasts.replaceChildren();
  for (const view of document.body.children) if (view !== toasts) view.remove();
  sent = [];
  serving(() => LIST);
  live.state.overview = null;
  talk.conversation = new Conversation(storage(), "someone");
  talk.conversation.begin({ id: "ws:1", seq: 0, topics: [topic("t-1", "First"), topic("t-2", "Second")] });
  talk.link = /** @type {any} */ ({
    state: "online",
    prepared: true,
    askTopics() {},
    send: (frame) => sent.push(frame),
  });
});

const topic = (id, name, more = {}) => ({
  id,
  name,
  state: "active",
  unread: 0,
  queued: 0,
  last_activity: "2026-01-01T00:00:00Z",
  ...more,
});

const FILE = { id: "f-1", name: "a.txt", mime: "text/plain", size: 3 };
/** A message as the service lists it. */
const message = (id, more = {}) => ({
  type: "message",
  message_id: id,
  task_id: `task-${id}`,
  text: `Words of ${id}.`,
  at: 5,
  seq: 1,
  state: "done",
  files: [],
  blocks: [],
  end: { at: 6 },
  ...more,
});
const said = (key, rows, next = null) => talk.conversation.fill(key, { rows, next });
const typed = () => document.getElementById("composer").value;
const names = (chat) => chat.attachments.all.map((one) => one.name);

test("what is taken back comes back with its files, and none of them twice", async () => {
  said("t-1", [message("m-1", { files: [FILE] })]);
  const chat = await opened("hw-chat", "#/chat/t-1");
  const [turn] = chat.items();
  serving((method) => (method === "POST" ? { data: {} } : LIST));

  await chat.takeBack(turn);
  const once = [typed(), names(chat)];
  await chat.takeBack(turn);

  assert.deepEqual(once, ["Words of m-1.", ["a.txt"]]);
  assert.deepEqual(names(chat), ["a.txt"]);
});

test("an example does not take the place of what was typed, and is not sent with it", async () => {
  const chat = await opened("hw-chat", "#/chat");
  const use = () => document.body.querySelector(".example").onclick();
  const example = EXAMPLES.model[0][2];

  chat.write("My own words");
  use();
  await settled();
  const both = [typed(), chat.items().length];
  chat.write("");
  use();
  await settled();

  assert.deepEqual(both, [`${example}\n\nMy own words`, 0]);
  assert.deepEqual([typed(), chat.items().map((turn) => turn.text)], ["", [example]]);
});

test("examples are for the model that answers, also where one was connected since", async () => {
  const first = async () => (await opened("hw-chat", "#/chat")).querySelector(".example").firstElementChild.textContent;
  me.demo = true;
  const before = await first();
  document.body.lastElementChild.remove();
  live.state.overview = { demo: false };
  const after = await first();
  me.demo = false;

  assert.deepEqual([before, after], [EXAMPLES.demo[0][0], EXAMPLES.model[0][0]]);
});

test("a topic that cannot be read whole is not saved as if it were", async () => {
  said("t-1", [message("m-1")], "older");
  const chat = await opened("hw-chat", "#/chat/t-1");
  serving(() => undefined);

  await chat.export();

  const [told] = toasts.children;
  assert.match(told.textContent, /^Not all of the topic could be read, so it was not saved\./);
  assert.ok(told.hasAttribute("data-bad"));
});

test("what is downloaded bears the name of its topic, whatever is looked at meanwhile", async () => {
  const saved = [];
  said("t-1", [message("m-1")]);
  said("t-2", [message("m-2")]);
  const chat = await opened("hw-chat", "#/chat/t-1");
  chat.toTopic = async (act, one) =>
    act({ save: (name, items) => saved.push([name, items.length]) }, one ?? chat.topic());

  const exporting = chat.export();
  chat.choose("t-2");
  await exporting;

  assert.deepEqual(saved, [["First", 1]]);
});

test("a file is named as its topic, in whatever letters that is written", () => {
  /** @type {(string | null)[]} */ const given = [];
  URL.createObjectURL = () => "blob:1";
  HTMLElement.prototype.click = function () {
    given.push(this.getAttribute("download"));
  };

  for (const name of ["Überblick: Mai", "会議", "a/b\\c"])
    save(name, [{ kind: "notice", team: "ops", content: "Ready." }]);

  assert.deepEqual(given, ["Überblick-Mai.md", "会議.md", "a-b-c.md"]);
});

test("OP-51: what is downloaded tells questions from answers, and names what came with them", async () => {
  /** @type {string[]} */ const given = [];
  globalThis.Blob = /** @type {any} */ (
    class {
      constructor([text]) {
        given.push(text);
      }
    }
  );
  const blocks = [
    { type: "note", text: "Going on." },
    { type: "tool_call", call_id: "c-1", tool: "read", arguments: "{}", ok: true },
    { type: "text", text: "It is short." },
  ];
  said("t-1", [message("m-1", { files: [FILE], blocks })]);

  save("First", talk.conversation.logs["t-1"].items);

  const [text] = given;
  assert.equal(
    text,
    "# First\n\n## You, 1970-01-01T00:00:00.005Z\n\nWords of m-1.\n\n- a.txt\n\n## Answer\n\n> Going on.\n\n> read {}\n\nIt is short.\n",
  );
});

test("OP-67: what was typed in a topic that somebody deletes is kept", async () => {
  talk.attached.clear();
  const chat = await opened("hw-chat", "#/chat/t-1");
  chat.write("half a thought");
  chat.attachments.put([FILE]);

  talk.conversation.apply({ type: "topic_list", topics: [topic("t-2", "Second")], deleted: ["t-1"] });
  chat.forgotten("t-1");

  assert.deepEqual([chat.chosen, typed(), names(chat)], ["", "half a thought", ["a.txt"]]);
  assert.match(toasts.textContent, /What you had not sent is kept here\./);
});

test("OP-61: the message of a task is found, however long ago it was said", async () => {
  said("t-1", [message("m-9", { at: 9 })], /** @type {any} */ ({ topic: "t-1", cursor: "earlier" }));
  serving((_, path, { cursor }) => {
    if (path !== "/me/topics/t-1/messages") return LIST;
    const [id, at] = cursor === "earlier" ? ["m-5", 5] : ["m-1", 1];
    return { data: [message(id, { at })], total: 3, ...(cursor === "earlier" ? { next_cursor: "first" } : {}) };
  });

  const chat = await opened("hw-chat", "#/chat/t-1?task=task-m-1");
  await settled();

  const found = chat.querySelectorAll(".turn").filter((one) => one.hasAttribute("data-found"));
  assert.deepEqual(
    found.map((one) => one.getAttribute("data-message")),
    ["m-1"],
  );
  assert.equal(chat.pinned, false);
});

test("PL-76: a call that was decided against did not fail, from a frame and from the store", async () => {
  const call = { type: "tool_call", call_id: "c-1", tool: "write", arguments: "{}", ok: false, duration_ms: 0 };
  said("t-1", [
    message("m-1", {
      blocks: [
        { ...call, denied: true },
        { ...call, call_id: "c-2" },
      ],
    }),
  ]);
  const about = { message_id: "m-2", task_id: "task-2", topic_id: "t-1", call_id: "c-3", tool: "write" };
  talk.conversation.apply({ ...about, type: "ack", content: "", position: 0 });
  talk.conversation.apply({ ...about, type: "progress", kind: "tool_result", ok: false, denied: true });

  const chat = await opened("hw-chat", "#/chat/t-1");

  const states = chat.querySelectorAll(".tool-state").map((one) => one.textContent);
  assert.deepEqual(states, ["Denied", "Failed · 0 ms", "Denied"]);
});

test("what a turn waits for is told as long as it waits, however often it tries", async () => {
  const blocks = [{ type: "note", text: "Waiting: the budget is spent.", waits: true }];
  said("t-1", [message("m-1", { state: "waiting", blocks, end: undefined })]);
  const chat = await opened("hw-chat", "#/chat/t-1");
  const shown = async () => {
    talk.tell("changed");
    await settled();
    return [".note", ".working"].map((part) => chat.querySelector(part)?.textContent ?? null);
  };
  const event = { task_id: "task-m-1", turn: "turn-1" };

  const before = await shown();
  talk.heard({ ...event, kind: "turn_start" });
  const tried = await shown();
  talk.heard({ ...event, kind: "state", state: "waiting", reason: "budget" });
  const again = await shown();
  talk.heard({ ...event, kind: "turn_start" });
  talk.conversation.apply({ ...event, type: "progress", kind: "text_delta", content: "There it is.", topic_id: "t-1" });
  talk.heard({ ...event, kind: "state", state: "waiting", reason: "budget" });
  const later = await shown();

  const waits = ["Waiting: the budget is spent.", "Waiting"];
  assert.deepEqual([before, tried, again, later], [waits, [null, "Working"], waits, [null, "Waiting"]]);
});

test("OP-55: a decision is told to those who did not make it, and what asked for it is withdrawn", async () => {
  me.principal = "someone";
  location.hash = "#/tasks";
  const card = { type: "notification", kind: "approval", team: "ops", topic_id: "t-2" };
  const said = () => toasts.children.map((one) => one.textContent);

  talk.took({ ...card, ref_id: "apr-1", status: "pending", content: "[ops] wants to write." });
  talk.took({ ...card, ref_id: "apr-2", status: "pending", content: "[ops] wants to read." });
  const asked = said().length;
  talk.took({ ...card, ref_id: "apr-1", status: "denied", by: "someone", content: "[ops] Denied by someone." });
  const own = said();
  talk.took({ ...card, ref_id: "apr-2", status: "approved", by: "ann", content: "[ops] Approved by ann." });
  const others = said();
  const question = { ...card, kind: "question", ref_id: "qst-1" };
  talk.took({ ...question, status: "open", content: "[ops] asks: Which?" });
  const open = said();
  talk.took({ ...question, status: "answered", by: "someone", content: "[ops] Answered by someone: Which?" });

  assert.equal(asked, 2);
  assert.deepEqual([own, others], [["[ops] wants to read.Open"], ["[ops] Approved by ann.Open"]]);
  assert.deepEqual(open, [...others, "[ops] asks: Which?Open"]);
  assert.deepEqual(said(), others);
});

test("that work was stopped is told to those who did not stop it", async () => {
  location.hash = "#/tasks";
  serving((_, path) => (path.endsWith("/cancel") ? { data: {} } : LIST));
  const end = { type: "notification", kind: "task", team: "ops", topic_id: "t-2", status: "cancelled" };

  await talk.takeBack({ task: "task-1" });
  talk.took({ ...end, task_id: "task-1", content: "[ops] Stopped here." });
  talk.took({ ...end, task_id: "task-2", content: "[ops] Stopped by another." });

  assert.deepEqual(
    toasts.children.map((one) => one.textContent),
    ["[ops] Stopped by another.Open"],
  );
});

test("a topic that was archived long ago is shown as such", async () => {
  serving((_, path) => {
    if (path === "/topics/t-9") return { data: topic("t-9", "Old", { state: "done" }) };
    return path === "/me/topics/t-9/messages" ? { data: [message("m-9")], total: 1 } : LIST;
  });

  const chat = await opened("hw-chat", "#/chat/t-9");
  await settled();

  assert.deepEqual([chat.topic().name, chat.topic().state, chat.mayWrite()], ["Old", "done", false]);
});

test("OP-69: a screen reader is told what a team says, as what is said in a topic", async () => {
  const place = document.createElement("div");
  place.setAttribute("id", "live");
  document.body.append(place);
  await opened("hw-chat", "#/chat/@ops");
  const about = { message_id: "m-1", task_id: "task-1", team: "ops" };
  const frames = [
    { ...about, type: "progress", kind: "user_message", content: "How are you?" },
    { ...about, type: "ack", content: "", position: 0 },
    { ...about, type: "progress", kind: "text_delta", content: "Well. And" },
    { ...about, type: "response", content: "Well. And you?", status: "done" },
  ];

  for (const frame of frames) {
    talk.conversation.apply(frame);
    talk.dispatchEvent(new CustomEvent("frame", { detail: frame }));
  }

  assert.deepEqual(
    place.children.map((one) => one.textContent.trim()),
    ["Well.", "And you?", "End of the answer."],
  );
});

test("words to a team go to it, also where it was made since the page was opened", async () => {
  const told = (seq, more) => live.state.apply("team.changed", { seq, team: "ops", name: "ops", ...more }, 1);
  live.state.take({ boot: 1, seq: 0, org: { name: "main", teams: [{ name: "old", teams: [] }] } });
  const chat = await opened("hw-chat", "#/chat");
  const places = [];
  for (const [seq, state] of [
    [1, "active"],
    [2, "removed"],
  ]) {
    told(seq, { state });
    chat.choose("");
    chat.write("@ops Hello");
    chat.submit();
    places.push(chat.chosen);
  }
  chat.choose("");
  chat.write("@old Hello");
  chat.submit();

  assert.deepEqual([...places, chat.chosen], ["@ops", "", "@old"]);
});

test("what was taken back was not begun, and cost nothing", async () => {
  const end = { at: 6, usage: { input: 0, output: 0 } };
  said("t-1", [message("m-1", { state: "cancelled", end })]);

  const chat = await opened("hw-chat", "#/chat/t-1");

  const foot = chat.querySelector(".foot").textContent;
  assert.match(foot, /^Not begun/);
  assert.doesNotMatch(foot, /tokens/);
});

test("OP-51: work of a subagent stands below the turn that gave it, as that of a team does", async () => {
  const call = (id, tool) =>
    message(id, { blocks: [{ type: "tool_call", call_id: id, tool, arguments: "{}", ok: true }] });
  said("t-1", [call("m-1", "read"), call("m-2", "agent__critic"), call("m-3", "delegate_task")]);

  const chat = await opened("hw-chat", "#/chat/t-1");

  const shown = chat.querySelectorAll(".turn").map((turn) => turn.querySelector("hw-delegated") !== null);
  assert.deepEqual(shown, [false, true, true]);
});

test("a notice leads to what led to it", async () => {
  const notice = {
    id: "n-1",
    type: "notification",
    content: "[ops] Ready.",
    team: "ops",
    status: "done",
    kind: "task",
  };
  said("t-1", [{ ...notice, at: 7, task_id: "task-7", files: [] }]);

  const chat = await opened("hw-chat", "#/chat/t-1");

  const links = chat.querySelectorAll("a").map((link) => link.getAttribute("href"));
  assert.ok(links.includes("#/tasks/task-7/chain"));
  assert.equal(chat.querySelector(".markdown").textContent, "Ready.");
});

/** What the composer offers after a slash. */
function offered(hasTopics) {
  const [composer, place] = [document.createElement("textarea"), document.createElement("ul")];
  const menu = new Menu(composer, place, { hasTopics: () => hasTopics });
  composer.value = "/";
  menu.typed();
  return { menu, words: place.children.map((one) => one.textContent.split(" ")[0].replace(/[A-Z].*/, "")) };
}

test("commands about topics are offered where there are some, and all that there are", () => {
  const [here, elsewhere] = [offered(true).words, offered(false).words];

  assert.ok(here.includes("/rename") && !elsewhere.includes("/rename") && !elsewhere.includes("/new"));
  assert.deepEqual([here.at(-1), elsewhere.at(-1)], ["/help", "/help"]);
});

test("the last command is one step up from the first", () => {
  const { menu, words } = offered(true);

  menu.keyed(/** @type {any} */ ({ key: "ArrowUp", preventDefault() {}, stopPropagation() {} }));

  assert.equal(menu.at, words.length - 1);
});
