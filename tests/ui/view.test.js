// OP-55, OP-66: what views and figures are made of is kept fresh, however much happens.

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import "./document.js";
import { live } from "../../src/http/ui/live/live.js";
import { Source } from "../../src/http/ui/core/view.js";

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] }));
afterEach(() => mock.timers.reset());

/** Lets time pass in steps, and all that waits for it have its turn. */
async function pass(ms, step, happens = () => {}) {
  for (let passed = 0; passed < ms; passed += step) {
    happens();
    mock.timers.tick(step);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Answers after a while with what was true when it was asked, unless nobody waits any more. */
function slowly(ms, truth = () => 0) {
  const asked = { times: 0, given: 0, aborted: 0 };
  const fetch = (signal) =>
    new Promise((resolve, reject) => {
      asked.times += 1;
      const answer = truth();
      const timer = setTimeout(() => {
        asked.given += 1;
        resolve(answer);
      }, ms);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        asked.aborted += 1;
        reject(signal.reason);
      });
    });
  return { asked, fetch };
}

const view = () => ({
  lifetime: new AbortController(),
  sources: new Set(),
  updates: 0,
  update() {
    this.updates += 1;
  },
});

test("a busy service does not starve a view", async () => {
  let happened = 0;
  const { asked, fetch } = slowly(300, () => happened);
  const source = new Source(view(), fetch, ["task.changed"]);

  await pass(10_000, 50, () => {
    happened += 1;
    live.dispatchEvent(new Event("task.changed"));
  });
  const [given, times] = [asked.given, asked.times];
  await pass(2_000, 50);

  assert.equal(asked.aborted, 0);
  assert.ok(given > 10, `${given} answers while it was busy`);
  assert.ok(times <= 21, `${times} requests while it was busy`);
  assert.equal(source.data, happened);
  const settled = asked.times;
  await pass(10_000, 50);
  assert.equal(asked.times, settled);
  source.close();
});

test("a person who asks anew does not wait for the former answer", async () => {
  const { asked, fetch } = slowly(300);
  const source = new Source(view(), fetch, ["task.changed"]);

  await pass(100, 50);
  live.dispatchEvent(new Event("task.changed"));
  source.reload();
  await pass(2_000, 50);

  assert.deepEqual(asked, { times: 2, given: 1, aborted: 1 });
  source.close();
  live.dispatchEvent(new Event("task.changed"));
  await pass(2_000, 50);
  assert.equal(asked.times, 2);
});

test("a tab that nobody looks at still counts what waits for a person", async () => {
  const asked = [];
  let waiting = 1;
  globalThis.fetch = async (address) => {
    asked.push(address);
    return { ok: true, status: 200, json: async () => ({ data: { approvals_open: waiting, inbox_unread: 0 } }) };
  };
  globalThis.EventSource = class {
    addEventListener() {}
    close() {}
  };
  let told = 0;
  live.addEventListener("changed", () => (told += 1));
  Object.assign(live, { begun: true, connection: "online" });
  Object.assign(live.state, { boot: 1, seq: 1 });
  live.listen();

  document.hidden = true;
  live.seen();
  await pass(40_000, 1_000);
  const [streams, before] = [live.stream, asked.length];
  waiting = 2;
  await pass(61_000, 1_000);

  assert.deepEqual([streams, before], [null, 0]);
  assert.equal(live.state.overview.approvals_open, 2);
  assert.ok(told > 0);

  document.hidden = false;
  live.seen();
  const back = asked.length;
  await pass(200_000, 10_000);
  assert.ok(live.stream);
  assert.equal(asked.length, back);
  live.close();
});
