// OP-65: what went wrong is there until somebody has read it.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { opened, serving, settled, toasts } from "./opened.js";
import { act, toast } from "../../src/http/ui/parts/toast.js";
import "../../src/http/ui/views/approvals/approvals.js";

mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
beforeEach(() => toasts.replaceChildren());
const said = () => toasts.children.map((one) => one.textContent);

test("what succeeded goes by itself, what was refused stays until it is dismissed", async () => {
  toast("Saved.");
  await act(null, () => Promise.reject(new Error("The team is busy.")));
  const before = said();
  mock.timers.tick(60_000);
  const after = said();
  toasts.querySelector("[aria-label]").onclick();

  assert.deepEqual(before, ["Saved.", "The team is busy."]);
  assert.deepEqual([after, said()], [["The team is busy."], []]);
});

test("where there is no room, what goes by itself makes it", () => {
  toast("Refused.", { bad: true });
  for (const number of [1, 2, 3, 4]) toast(`Done ${number}.`);

  assert.deepEqual(said(), ["Refused.", "Done 2.", "Done 3.", "Done 4."]);
});

test("OP-36: all refusals of a batch are told, in one list", async () => {
  const rows = Array.from({ length: 9 }, (_, at) => ({ id: `apr-${at}`, short_id: `A${at}`, digest: "d" }));
  const refusal = (id) => ({ id, error: { code: "expired", message: `${id} has expired` } });
  serving((method) => method === "POST" && { data: { items: rows.map(({ id }) => refusal(id)) } });
  const view = await opened("hw-approvals");
  toasts.replaceChildren();

  await view.decide(rows, ({ id, digest }) => ({ id, digest, decision: "approve" }));
  await settled();

  const lines = toasts.querySelectorAll("li").map((line) => line.textContent);
  view.remove();
  assert.equal(toasts.childElementCount, 1);
  assert.equal(lines.length, 9);
  assert.match(lines[8], /^A8: /);
});
