// OP-66: what the page says of its connection through a break.

import assert from "node:assert/strict";
import { test } from "node:test";

class Socket {
  static OPEN = 1;
  static made = [];
  readyState = Socket.OPEN;
  sent = [];
  constructor() {
    Socket.made.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  close() {}
}

/** A connection that is not open yet, the states that it tells of, and what it sends again. @param {() => Promise<void>} prepare */
async function unopened(prepare) {
  Socket.made = [];
  Object.assign(globalThis, {
    addEventListener: () => {},
    document: { addEventListener: () => {}, hidden: false },
    location: { href: "http://127.0.0.1/", protocol: "http:" },
    WebSocket: Socket,
  });
  const { Link } = await import("../../src/http/ui/views/chat/link.js");
  const [states, delivered] = [[], []];
  const conversation = { channel: null, lastSeq: 0, apply: () => false, unacknowledged: () => ["m-1"], save: () => {} };
  const link = new Link(/** @type {any} */ (conversation), {
    onState: (state) => states.push(state),
    onFrame: () => {},
    prepare,
    deliver: (turn) => delivered.push(turn),
    onTooBig: () => {},
    onLoggedOut: () => {},
    isLoggedIn: async () => true,
  });
  return { link, states, delivered };
}

test("while a lost connection is tried again, the page stays offline", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const { link, states } = await unopened(async () => {});
  assert.equal(link.state, "connecting");

  link.open();
  Socket.made[0].onmessage({ data: '{"type":"topic_list"}' });
  Socket.made[0].onclose({ code: 1006 });
  for (let tries = 2; tries <= 4; tries++) {
    context.mock.timers.tick(60_000);
    await new Promise(setImmediate);
    assert.equal(Socket.made.length, tries);
    assert.equal(link.state, "offline");
    if (tries < 4) Socket.made[tries - 1].onclose({ code: 1006 });
  }
  Socket.made[3].onmessage({ data: '{"type":"topic_list"}' });
  link.close();

  assert.deepEqual(states, ["online", "offline", "online"]);
});

test("CH-160: what the store has is fetched once, however long that takes and whatever breaks meanwhile", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let fetched = 0;
  let answer = () => {};
  const { link } = await unopened(() => {
    fetched += 1;
    return new Promise((resolve) => (answer = () => resolve(undefined)));
  });

  link.open();
  Socket.made[0].onopen();
  context.mock.timers.tick(60_000);
  const [alive, unasked] = [link.socket === Socket.made[0], Socket.made[0].sent.length];
  Socket.made[0].onclose({ code: 1006 });
  context.mock.timers.tick(60_000);
  await new Promise(setImmediate);
  Socket.made[1].onopen();
  answer();
  await new Promise(setImmediate);
  link.close();

  assert.deepEqual([alive, unasked, fetched], [true, 0, 1]);
  const types = Socket.made.map((socket) => socket.sent.map((frame) => frame.type));
  assert.deepEqual(types, [[], ["resume", "topic_list_request"]]);
});

test("CH-89: a connection that begins again with the store sends what was not confirmed, and stays awake", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const { link, states, delivered } = await unopened(async () => {});
  link.open();
  Socket.made[0].onmessage({ data: '{"type":"topic_list"}' });

  link.restart();
  // Whoever speaks before has given up the channel.
  const early = link.send({ type: "cancel" });
  await new Promise(setImmediate);
  await Socket.made[1].onopen();
  Socket.made[1].onmessage({ data: '{"type":"topic_list"}' });
  context.mock.timers.tick(16_000);
  const asked = Socket.made[1].sent.map((frame) => frame.type);
  link.close();

  assert.ok(!early);
  assert.deepEqual(delivered, ["m-1", "m-1"]);
  assert.deepEqual(asked, ["resume", "topic_list_request", "topic_list_request"]);
  assert.deepEqual(states, ["online"]);
});
