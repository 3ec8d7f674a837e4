// OP-127: what a day and a month will come to.

import assert from "node:assert/strict";
import { test } from "node:test";
import { firstDay, forecast } from "../../src/http/ui/views/forecast.js";

const rows = (days) => Object.entries(days).map(([key, usd]) => ({ key, usd }));

test("the rest of the day and of the month are like today, within what the last days were", () => {
  const days = rows({ "2026-10-31": 9, "2026-11-01": 5, "2026-11-08": 3, "2026-11-14": 1, "2026-11-15": 2 });

  const half = forecast(days, "2026-11-15", Date.parse("2026-11-16T00:00:00Z"), Date.parse("2026-11-15T12:00:00Z"));

  assert.deepEqual(half, {
    passed: 12 * 3_600_000,
    left: 15,
    today: { spent: 2, likely: 4 },
    // Some of the last seven days cost nothing.
    month: { before: 9, likely: 9 + 4 * 16, least: 9 + 2, most: 9 + 4 + 4 * 15 },
  });
});

test("a day that has just begun counts for an hour, and the last one of a month for itself", () => {
  const days = rows(Object.fromEntries([24, 25, 26, 27, 28, 29, 30].map((day) => [`2026-11-${day}`, 6])));
  const ends = Date.parse("2026-12-01T08:00:00Z");

  const early = forecast([...days, { key: "2026-12-01", usd: 1 }], "2026-12-01", ends + 24 * 3_600_000, ends + 60_000);
  const last = forecast(days, "2026-11-30", ends, ends - 1);

  assert.equal(early.today.likely, 24);
  assert.deepEqual(early.month, { before: 0, likely: 24 * 31, least: 1 + 6 * 30, most: 24 * 31 });
  assert.ok(Math.abs(last.month.likely - 42) < 0.001, `${last.month.likely}`);
  assert.equal(last.left, 0);
});

test("as many days are asked for as are reckoned with", () => {
  assert.equal(firstDay("2026-11-15"), "2026-11-01");
  assert.equal(firstDay("2026-03-02"), "2026-02-23");
});

test("where nothing was spent nothing is foreseen", () => {
  const { today, month } = forecast(
    [],
    "2026-11-15",
    Date.parse("2026-11-16T00:00:00Z"),
    Date.parse("2026-11-15T12:00:00Z"),
  );

  assert.deepEqual([today.likely, month.likely, month.least, month.most], [0, 0, 0, 0]);
});
