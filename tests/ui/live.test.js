// OP-42 to OP-44, OP-66, OP-95: the page's own state, through stalls, breaks and a restart, against a server over HTTP.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Ears, Telling } from "./service.js";

const PATIENCE = 20_000;

/** What the page needs of a browser. */
async function page(service) {
  const { fetch: ask, setInterval: tick } = globalThis;
  const window = new EventTarget();
  Object.assign(globalThis, {
    fetch: (address, options) => ask(new URL(address, `http://127.0.0.1:${service.port}`), options),
    setInterval: (...what) => tick(...what).unref(),
    addEventListener: window.addEventListener.bind(window),
    document: Object.assign(new EventTarget(), { hidden: false }),
    EventSource: Ears,
  });
  return (await import("../../src/http/ui/live/live.js")).live;
}

/** The same order of happenings in every run. */
function dice(seed) {
  let state = seed;
  return (sides) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * sides);
  };
}

test("the final state is that of the snapshot, and no event counts twice", { timeout: 120_000 }, async (context) => {
  const service = new Telling();
  await service.open();
  const live = await page(service);
  context.after(() => {
    live.close();
    // Nobody is left to come back to.
    live.retrying.later = () => {};
    return service.close();
  });
  const roll = dice(7);
  const heard = [];
  const stale = [];
  let known = 0;
  live.addEventListener("resync", () => (known = live.state.seq));
  for (const type of ["turn", "topic.changed", "approval.changed"]) {
    live.addEventListener(type, ({ detail }) => {
      if (detail.seq <= known) stale.push(detail.seq);
      heard.push(`${live.state.boot}-${detail.seq}`);
    });
  }
  let told = 0;

  /** So many events with so many words; now and then others get to run. */
  async function happen(events, most = 20) {
    for (const goal = told + events; told < goal; told += 1) {
      const [what, which] = [roll(20), roll(8)];
      if (what < 14) service.say(`task-${which}`, `${roll(1000)} `.repeat(1 + roll(most)));
      else if (what < 16) service.name(`t-${which}`, `name ${roll(1000)}`);
      else if (what < 18) service.ask(`apr-${which}`, `asked ${roll(1000)}`);
      else if (what < 19) service.decide(`apr-${which}`);
      else service.end(`task-${which}`);
      if (told % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Until the page is as far as the service is. */
  function caughtUp() {
    service.name("t-last", `after ${told}`);
    return new Promise((resolve, reject) => {
      const late = setTimeout(
        () => reject(new Error(`at ${live.state.boot}-${live.state.seq} instead of ${service.boot}-${service.seq}`)),
        PATIENCE,
      );
      const look = () => {
        if (live.state.boot !== service.boot || live.state.seq < service.seq) return;
        clearTimeout(late);
        live.removeEventListener("changed", look);
        resolve(undefined);
      };
      live.addEventListener("changed", look);
      look();
    });
  }

  function same() {
    const { topics, approvals, running } = service.snapshot();
    const by = (rows, value) => Object.fromEntries(rows.map((row) => [row.id ?? row.task_id, value(row)]));
    assert.deepEqual(
      by([...live.state.topics.values()], (row) => row.name),
      by(topics, (row) => row.name),
    );
    assert.deepEqual(
      by([...live.state.approvals.values()], (row) => row.summary),
      by(approvals, (row) => row.summary),
    );
    assert.deepEqual(
      by([...live.state.running.values()], (row) => row.active_turn.text),
      by(running, (row) => row.active_turn.text),
    );
    assert.equal(new Set(heard).size, heard.length, "an event was applied twice");
    assert.deepEqual(stale, [], "what the snapshot has was applied again");
  }

  await happen(100);
  await live.open();

  // It reads while much happens.
  await happen(2_900);
  await caughtUp();
  same();

  // It stalls until more waits than is kept for it, and than the system holds on the way.
  let goOn = () => {};
  Ears.stalled = new Promise((resolve) => (goOn = () => resolve(undefined)));
  await happen(4_000, 3_000);
  goOn();
  await caughtUp();
  same();
  assert.ok(service.gaps.slow >= 1, "it never stalled");

  // It is cut off, and comes back by itself.
  service.cut();
  await happen(2_000);
  await caughtUp();
  same();

  // The service is killed and starts again, with other numbers.
  await service.restart();
  await happen(1_000);
  await caughtUp();
  same();

  assert.equal(told, 10_000);
  assert.ok(heard.length > 3_000, `${heard.length} events were followed`);
});
