// OP-55: what whoever looks elsewhere is told.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { titleOf } from "../../src/http/ui/shell/notify.js";

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
