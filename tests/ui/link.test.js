// OP-66: what the page says of its connection through a break.

import assert from "node:assert/strict";
import { test } from "node:test";

class Socket {
  static OPEN = 1;
  static made = [];
  readyState = Socket.OPEN;
  constructor() {
    Socket.made.push(this);
  }
  send() {}
  close() {}
}

test("while a lost connection is tried again, the page stays offline", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  Object.assign(globalThis, {
    addEventListener: () => {},
    document: { addEventListener: () => {}, hidden: false },
    location: { href: "http://127.0.0.1/", protocol: "http:" },
    WebSocket: Socket,
  });
  const { Link } = await import("../../src/http/ui/views/chat/link.js");
  const states = [];
  const conversation = { channel: null, lastSeq: 0, apply: () => false, unacknowledged: () => [], save: () => {} };
  const link = new Link(/** @type {any} */ (conversation), {
    onState: (state) => states.push(state),
    onFrame: () => {},
    onRenewed: () => {},
    deliver: () => {},
    onTooBig: () => {},
    onLoggedOut: () => {},
    isLoggedIn: async () => true,
  });
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
