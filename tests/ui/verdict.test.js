// OP-36, OP-55: what a decision says, and what it would allow.

import assert from "node:assert/strict";
import { test } from "node:test";
import { approval, batches, denial, refusals, term, usesOf } from "../../src/http/ui/parts/verdict.js";

const row = { id: "apr-1", digest: "d-1" };
const other = { id: "apr-2", digest: "d-2" };

test("once, a number of times and always are told apart", () => {
  assert.deepEqual(approval(row), { decision: "approve", digest: "d-1" });
  assert.deepEqual(approval(row, usesOf("times", "5")), { decision: "approve", digest: "d-1", uses: 5 });
  assert.deepEqual(approval(row, usesOf("always", "5")), { decision: "approve", digest: "d-1", uses: "always" });
});

test("a number that cannot be meant is never sent", () => {
  for (const times of ["", "1", "0", "-3", "2.5", "101", "many"])
    assert.throws(() => usesOf("times", times), /Between 2 and 100/, times);
});

test("how long a grant holds is said as it is", () => {
  assert.deepEqual(term(3), { uses: "3, this one included", until: "they are used up, at most 24 hours" });
  assert.deepEqual(term("always"), { uses: "any number", until: "somebody revokes it" });
});

test("each of many is decided with the digest that was seen of it", () => {
  const [told, ...more] = batches([row, other], (one) => denial(one, "not today"));

  assert.deepEqual(told, {
    items: [
      { id: "apr-1", decision: "deny", digest: "d-1", note: "not today" },
      { id: "apr-2", decision: "deny", digest: "d-2", note: "not today" },
    ],
  });
  assert.deepEqual(more, []);
  assert.deepEqual(denial(row, ""), { decision: "deny", digest: "d-1" });
});

test("what was refused of many is known by its id", () => {
  const answers = [
    { id: "apr-1", status: 200, approval: { status: "approved" }, error: null },
    { id: "apr-2", status: 409, error: { code: "already_resolved", message: "ann was first" } },
  ];

  assert.deepEqual(refusals(answers), [{ id: "apr-2", message: "ann was first" }]);
});

test("no request has more than a hundred decisions, and none is left out", () => {
  const rows = Array.from({ length: 201 }, (_, at) => ({ id: `apr-${at}`, digest: "d" }));

  const asked = batches(rows, (one) => approval(one));

  assert.deepEqual(
    asked.map(({ items }) => items.length),
    [100, 100, 1],
  );
  assert.equal(new Set(asked.flatMap(({ items }) => items.map(({ id }) => id))).size, 201);
});
