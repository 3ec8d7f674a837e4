// OP-55: what whoever looks elsewhere is told.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { storage, toasts } from "./opened.js";
import { notice, titleOf } from "../../src/http/ui/shell/notify.js";

mock.timers.enable({ apis: ["setTimeout", "Date"] });

class Notification {
  static permission = "default";
  static asked = 0;
  /** What the browser shows: one that has the tag of another takes its place. */
  static shown = new Map();
  static requestPermission() {
    this.asked += 1;
  }
  constructor(title, { tag }) {
    this.tag = tag;
    Notification.shown.set(tag, title);
  }
  close() {
    Notification.shown.delete(this.tag);
    this.onclose?.();
  }
}

const look = (hidden) => {
  document.hidden = hidden;
  document.dispatchEvent(new Event("visibilitychange"));
};

beforeEach(() => {
  toasts.replaceChildren();
  Object.assign(Notification, { permission: "default", asked: 0, shown: new Map() });
  Object.assign(globalThis, { window: globalThis, Notification, localStorage: storage() });
  document.hasFocus = () => !document.hidden;
  look(false);
  mock.timers.tick(10_000);
});

const frame = { type: "notification", kind: "approval", status: "pending", team: "ops", ref_id: "apr-1" };

test("only what still waits for a person is told as such", () => {
  const told = (kind, status) => titleOf({ type: "notification", kind, status, team: "ops" });

  assert.deepEqual(
    [told("approval", "pending"), told("question", "open"), told("task", "done")],
    ["Your approval is needed", "A question for you", "ops"],
  );
  assert.deepEqual(
    [told("approval", "approved"), told("approval", "expired"), told("question", "answered")],
    [null, null, null],
  );
});

test("it is offered where somebody sees it, until somebody has answered", () => {
  look(true);
  notice(frame);
  const unseen = toasts.childElementCount;
  look(false);
  const seen = toasts.childElementCount;
  // It made room for something else: nobody has answered.
  toasts.replaceChildren();
  notice(frame);
  const again = toasts.childElementCount;
  toasts.querySelector(".link").onclick();
  notice(frame);

  assert.deepEqual([unseen, seen, again, toasts.childElementCount], [0, 1, 1, 0]);
  assert.equal(Notification.asked, 1);
});

test("whoever dismisses the offer is not asked again", () => {
  notice(frame);
  toasts.querySelector(".icon-button").onclick();
  notice(frame);

  assert.deepEqual([toasts.childElementCount, Notification.asked], [0, 0]);
});

test("a tab that nobody looks at tells nothing that was seen in another", () => {
  Notification.permission = "granted";
  look(true);
  notice(frame);
  look(false);
  // The other tab hears the same, a little later.
  mock.timers.tick(100);
  notice(frame);
  mock.timers.tick(10_000);
  const read = Notification.shown.size;
  look(true);
  notice(frame);
  mock.timers.tick(10_000);

  assert.deepEqual([read, Notification.shown.size], [0, 1]);
});

test("what two teams tell in one topic are two things", () => {
  Notification.permission = "granted";
  look(true);
  for (const team of ["ops", "research", "ops"])
    notice({ type: "notification", kind: "task", status: "done", team, topic_id: "t-1", content: "Ready." });
  mock.timers.tick(10_000);

  assert.deepEqual([...Notification.shown.values()], ["ops", "research"]);
});

test("what was decided elsewhere asks nobody any more", () => {
  Notification.permission = "granted";
  look(true);
  notice(frame);
  mock.timers.tick(10_000);
  const before = Notification.shown.size;
  notice({ ...frame, status: "approved" });

  assert.deepEqual([before, Notification.shown.size], [1, 0]);
});
