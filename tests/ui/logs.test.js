// OP-62: lines of the log, told and stored.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { isAmong } from "../../src/http/ui/views/logs.js";

test("an event is known by what it says, at nearly the same moment", () => {
  const line = (at, message) => ({ at, level: "info", target: "t", message, fields: { a: "1" } });
  const rows = [{ ...line("2026-01-01T00:00:01.000Z", "begun"), id: "1" }];

  assert.ok(isAmong({ seq: 7, ...line("2026-01-01T00:00:01.020Z", "begun") }, rows));
  assert.ok(!isAmong(line("2026-01-01T00:00:02.000Z", "begun"), rows));
  assert.ok(!isAmong(line("2026-01-01T00:00:01.000Z", "ended"), rows));
});
