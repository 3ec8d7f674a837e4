// OP-127: the hours of the next day, in the zone of whoever looks.

process.env.TZ = "Europe/Berlin";

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";

const { hours } = await import("../../src/http/ui/views/triggers/agenda.js");

const due = (at, count = 1) => ({ at, count });
const shown = (rows, now) =>
  hours(rows, Date.parse(now)).map(({ at, rows: due }) => [new Date(at).toISOString(), due.length]);

test("what is due within an hour is together, and what has passed is gone", () => {
  const rows = ["2026-11-15T08:45:00Z", "2026-11-15T07:05:00Z", "2026-11-15T07:30:00Z", "2026-11-15T06:59:00Z"];

  assert.deepEqual(
    shown([...rows.map((at) => due(at)), due("2026-11-15T06:45:00Z", 15), due(null)], "2026-11-15T07:00:00Z"),
    [
      ["2026-11-15T06:00:00.000Z", 1],
      ["2026-11-15T07:00:00.000Z", 2],
      ["2026-11-15T08:00:00.000Z", 1],
    ],
  );
});

test("the hour that comes twice is two hours", () => {
  const rows = [due("2026-10-25T00:30:00Z"), due("2026-10-25T01:30:00Z"), due("2026-10-25T02:30:00Z")];

  assert.deepEqual(
    rows.map(({ at }) => new Date(at).getHours()),
    [2, 2, 3],
  );
  assert.deepEqual(shown(rows, "2026-10-24T12:00:00Z"), [
    ["2026-10-25T00:00:00.000Z", 1],
    ["2026-10-25T01:00:00.000Z", 1],
    ["2026-10-25T02:00:00.000Z", 1],
  ]);
});
