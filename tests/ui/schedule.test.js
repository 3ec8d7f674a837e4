// A schedule in people's words and as a trigger has it.

import assert from "node:assert/strict";
import test from "node:test";
import "./document.js";
import { ownZone, saidOf, scheduleOf, scheduleWords } from "../../src/http/ui/views/triggers/schedule.js";

test("what people say becomes a pattern and is read back from it", () => {
  const said = { repeats: "", time: "08:05", weekday: "1", day: "1", date: "" };
  for (const [change, config] of [
    [{ repeats: "hour", time: "00:05" }, { cron: "5 * * * *" }],
    [{ repeats: "day" }, { cron: "5 8 * * *" }],
    [{ repeats: "workday" }, { cron: "5 8 * * 1-5" }],
    [{ repeats: "week", weekday: "3" }, { cron: "5 8 * * 3" }],
    [{ repeats: "month", day: "15" }, { cron: "5 8 15 * *" }],
    [{ repeats: "once", date: "2030-12-24" }, { at: "2030-12-24T08:05:00" }],
  ]) {
    assert.deepEqual(scheduleOf({ ...said, ...change }), config);
    assert.deepEqual(saidOf(config), { ...said, ...change });
  }
});

test("a pattern that says more than that stays one", () => {
  for (const cron of ["*/5 * * * *", "0 9-17 * * *", "0 9 1 1 *", "0 9 * * MON", "0 9 1 * 1", ""])
    assert.equal(saidOf({ cron }), null, cron);
  for (const at of ["2030-12-24T18:00:00Z", "2030-12-24T18:00:00+09:00"]) assert.equal(saidOf({ at }), null, at);
  assert.equal(scheduleOf({ repeats: "", time: "", weekday: "1", day: "", date: "" }), null);
  assert.equal(scheduleOf({ repeats: "once", time: "09:00", weekday: "1", day: "", date: "" }), null);
});

test("OP-56: a list says a schedule as people do", () => {
  const words = scheduleWords;
  assert.equal(words({ cron: "5 * * * *" }), "every hour, 5 min past");
  assert.equal(words({ cron: "0 9 * * *" }), "every day at 09:00");
  assert.equal(words({ cron: "30 8 * * 1-5" }), "on weekdays at 08:30");
  assert.equal(words({ cron: "0 9 * * 1" }), "every Monday at 09:00");
  assert.equal(words({ cron: "0 9 15 * *" }), "on day 15 of each month at 09:00");
  assert.equal(words({ at: "2030-12-24T18:00:00" }), "once, 2030-12-24 at 18:00");
  assert.equal(words({ at: "2030-12-24T18:00:00Z" }), "once, 2030-12-24T18:00:00Z");
  assert.equal(words({ cron: "*/5 * * * *" }), "*/5 * * * *");
  assert.equal(words({ every: "30m" }), "every 30m");
});

test("OP-56: nine is nine o'clock where it is written, also where the service is elsewhere", () => {
  const [before, midnight] = [process.env.TZ, "2026-01-02T00:00:00.000Z"];
  const zones = ["Asia/Tokyo", "America/St_Johns", "UTC"].map((zone) => {
    process.env.TZ = zone;
    return ownZone(midnight);
  });
  process.env.TZ = before ?? "UTC";

  assert.deepEqual(zones, ["Asia/Tokyo", "America/St_Johns", ""]);
  assert.equal(ownZone(undefined), "");
});
