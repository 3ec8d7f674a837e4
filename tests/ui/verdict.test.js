// OP-36, OP-55: what a decision says, and what it would allow.

import assert from "node:assert/strict";
import { test } from "node:test";
import { approval, batch, denial, grantOf, refusals, usesOf } from "../../src/http/ui/parts/verdict.js";

const row = { id: "apr-1", digest: "d-1", team: "main", tool: "write", arguments: { file_path: "a.md" } };
const other = { ...row, id: "apr-2", digest: "d-2" };

test("once, a number of times and always are told apart", () => {
  assert.deepEqual(approval(row), { decision: "approve", digest: "d-1" });
  assert.deepEqual(approval(row, usesOf("times", "5")), { decision: "approve", digest: "d-1", uses: 5 });
  assert.deepEqual(approval(row, usesOf("always", "5")), { decision: "approve", digest: "d-1", uses: "always" });
});

test("a number that cannot be meant is never sent", () => {
  for (const times of ["", "1", "0", "-3", "2.5", "101", "many"]) assert.throws(() => usesOf("times", times), /Between 2 and 100/, times);
});

test("the grant that is shown is about this team, tool and these arguments", () => {
  const { team, tool, arguments: exact, uses } = grantOf(row, 3);

  assert.deepEqual([team, tool, exact, uses], ["main", "write", { file_path: "a.md" }, "3, this one included"]);
  assert.equal(grantOf(row, "always").until, "someone takes it back");
});

test("each of many is decided with the digest that was seen of it", () => {
  const told = batch([row, other], (one) => denial(one, "not today"));

  assert.deepEqual(told, {
    items: [
      { id: "apr-1", decision: "deny", digest: "d-1", note: "not today" },
      { id: "apr-2", decision: "deny", digest: "d-2", note: "not today" },
    ],
  });
  assert.deepEqual(denial(row, ""), { decision: "deny", digest: "d-1" });
});

test("what was refused of many is known by its id", () => {
  const answer = [{ id: "apr-1", approval: { status: "approved" } }, { id: "apr-2", error: { code: "already_resolved", message: "ann was first" } }];

  assert.deepEqual(refusals(answer), [{ id: "apr-2", message: "ann was first" }]);
  assert.deepEqual(refusals({ items: answer }), [{ id: "apr-2", message: "ann was first" }]);
  assert.deepEqual(refusals(undefined), []);
});
