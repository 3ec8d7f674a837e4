// @ts-check
// The next 24 hours of all triggers, hour by hour. The service reckons the times; the page puts them into the hours of its own zone.

import { clean, make } from "../../core/dom.js";
import { dayWords, moment, several } from "../../core/format.js";
import { write } from "../../core/place.js";
import { fold, pill } from "../../parts/marks.js";

/**
 * What is due, by the hour it is due in, the soonest first. Of two hours with the same name, in the night when clocks go back,
 * each is one of its own.
 * @param {any[]} rows @param {number} now @returns {{at: number, rows: any[]}[]}
 */
export function hours(rows, now) {
  /** @type {Map<number, any[]>} */ const found = new Map();
  for (const row of rows) {
    const date = new Date(row.at);
    // What stands for several times is over when the last of them is, which the service knows.
    if (Number.isNaN(date.getTime()) || (date.getTime() < now && row.count === 1)) continue;
    const hour = date.getTime() - ((date.getMinutes() * 60 + date.getSeconds()) * 1_000 + date.getMilliseconds());
    found.set(hour, [...(found.get(hour) ?? []), row]);
  }
  return [...found].sort(([one], [other]) => one - other).map(([at, due]) => ({ at, rows: due }));
}

/** Why nothing comes of it as it stands. @param {any} row */
const stops = (row) => (row.state !== "active" ? row.state : row.held ? "paused" : "");

/** @param {{rows: any[], next: string | null}} found @param {boolean} open */
export function agenda({ rows, next }, open) {
  const due = hours(rows, Date.now());
  const fires = rows.filter((row) => !stops(row)).reduce((sum, row) => sum + row.count, 0);
  const body = due.length
    ? [
        make(
          "ol",
          { class: "hours" },
          due.map(({ at, rows: within }, place) => hour(at, within, due[place - 1]?.at)),
        ),
        next ? make("p", { class: "muted" }, "More is due: choose a team or a type to see all of it.") : null,
      ]
    : make("p", { class: "muted" }, "Nothing is due.");
  return fold(`Next 24 hours: ${next ? "more than " : ""}${several(fires, "run")}`, body, { class: "agenda", open });
}

/** @param {number} at @param {any[]} rows @param {number | undefined} before the hour above it */
function hour(at, rows, before) {
  const day = dayWords(at);
  return make(
    "li",
    { key: String(at) },
    make(
      "p",
      { class: "hour" },
      moment(at),
      before !== undefined && dayWords(before) === day ? null : make("span", { class: "muted" }, ` ${day}`),
    ),
    make(
      "ul",
      {},
      rows.map((row) =>
        make(
          "li",
          { key: `${row.at} ${row.trigger_id}` },
          make(
            "a",
            { class: "due", href: write("triggers", [row.trigger_id]), "data-off": Boolean(stops(row)) },
            moment(row.at),
            make("strong", {}, clean(row.name)),
            make("span", { class: "muted" }, clean(row.team)),
            row.count > 1 ? make("span", { class: "muted" }, `${row.count} times`) : null,
            row.type === "window" ? make("span", { class: "muted" }, "opens") : null,
            stops(row) ? pill(stops(row), row.state === "active" ? "team paused" : row.state) : null,
          ),
        ),
      ),
    ),
  );
}
