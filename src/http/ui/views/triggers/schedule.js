// @ts-check
// A schedule as people say it: how often, on which day, at what time. It fills in the fields of the trigger.

import { make } from "../../core/dom.js";
import { input, select } from "../../parts/fields.js";

/** @type {[string, string][]} */
const REPEATS = [
  ["hour", "Every hour"],
  ["day", "Every day"],
  ["workday", "On weekdays"],
  ["week", "Every week"],
  ["month", "Every month"],
  ["once", "Once"],
  ["", "In another way, written below"],
];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** @typedef {{repeats: string, time: string, weekday: string, day: string, date: string}} Said */

/** What is said, as the trigger has it; null if something is missing. @param {Said} said @returns {{cron?: string, at?: string} | null} */
export function scheduleOf({ repeats, time, weekday, day, date }) {
  const [hour, minute] = (time || "09:00").split(":").map(Number);
  if (repeats === "once") return date ? { at: `${date}T${time || "09:00"}:00` } : null;
  const rest = { hour: "*", day: "* * *", workday: "* * 1-5", week: `* * ${weekday}`, month: `${day || 1} * *` }[
    repeats
  ];
  if (!rest) return null;
  return { cron: repeats === "hour" ? `${minute} * * * *` : `${minute} ${hour} ${rest}` };
}

/** What a schedule says, as people do; null if it takes a pattern to say it. @param {any} config @returns {Said | null} */
export function saidOf(config) {
  const nothing = { repeats: "", time: "09:00", weekday: "1", day: "1", date: "" };
  // With an offset it is not of the zone below.
  const once = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?$/.exec(config?.at ?? "");
  if (once) return { ...nothing, repeats: "once", date: once[1], time: once[2] };
  const [minute, hour, day, month, weekday, more] = String(config?.cron ?? "").split(/\s+/);
  if (!/^\d+$/.test(minute) || month !== "*" || more !== undefined) return null;
  const time = `${/^\d+$/.test(hour) ? hour.padStart(2, "0") : "00"}:${minute.padStart(2, "0")}`;
  if (hour === "*") return day === "*" && weekday === "*" ? { ...nothing, repeats: "hour", time } : null;
  if (!/^\d+$/.test(hour)) return null;
  if (day === "*" && weekday === "*") return { ...nothing, repeats: "day", time };
  if (day === "*" && weekday === "1-5") return { ...nothing, repeats: "workday", time };
  if (day === "*" && /^[0-6]$/.test(weekday)) return { ...nothing, repeats: "week", time, weekday };
  return /^\d+$/.test(day) && weekday === "*" ? { ...nothing, repeats: "month", time, day } : null;
}

/** A schedule in a few words; a pattern that says more than that stays one. @param {any} config */
export function scheduleWords(config) {
  const said = saidOf(config);
  if (!said) return config?.cron ?? (config?.at ? `once, ${config.at}` : `every ${config?.every}`);
  const { repeats, time, weekday, day, date } = said;
  const when = {
    hour: `every hour, ${Number(time.slice(3))} min past`,
    day: "every day",
    workday: "on weekdays",
    week: `every ${DAYS[Number(weekday)]}`,
    month: `on day ${day} of each month`,
    once: `once, ${date}`,
  }[repeats];
  return repeats === "hour" ? String(when) : `${when} at ${time}`;
}

/**
 * @param {any} config of the trigger that is changed; a new one runs every day
 * @param {(fields: {cron: string, every: string, at: string}) => void} onSaid
 * @param {(written: boolean) => void} onWritten whether the fields of the trigger are written by hand
 */
export function scheduleFields(config, onSaid, onWritten) {
  const said = saidOf(config ?? { cron: "0 9 * * *" }) ?? {
    repeats: "",
    time: "09:00",
    weekday: "1",
    day: "1",
    date: "",
  };
  const tell = () => {
    arrange();
    const fields = scheduleOf(said);
    if (fields) onSaid({ cron: "", every: "", at: "", ...fields });
  };
  const changed = () => {
    for (const part of ["repeats", "time", "weekday", "day", "date"])
      said[/** @type {keyof Said} */ (part)] = /** @type {any} */ (
        element.querySelector(`[name="said.${part}"]`)
      ).value;
    tell();
  };
  const field = {
    repeats: select("Repeats", "said.repeats", REPEATS, { value: said.repeats, onchange: changed }),
    weekday: select(
      "On",
      "said.weekday",
      DAYS.map((name, at) => [String(at), name]),
      { value: said.weekday, onchange: changed },
    ),
    day: input("On day", "said.day", { type: "number", min: 1, max: 31, value: said.day, oninput: changed }),
    date: input("On", "said.date", { type: "date", value: said.date, oninput: changed }),
    time: input("At", "said.time", { type: "time", value: said.time, oninput: changed }),
  };
  const element = make("div", { class: "pair" }, Object.values(field));
  const arrange = () => {
    field.weekday.hidden = said.repeats !== "week";
    field.day.hidden = said.repeats !== "month";
    field.date.hidden = said.repeats !== "once";
    field.time.hidden = said.repeats === "";
    onWritten(said.repeats === "");
  };
  return { element, begin: config ? arrange : tell };
}

/** The time zone of whoever writes, where the days of the service end at another time: nine is nine o'clock here. @param {string | undefined} dayEnds */
export function ownZone(dayEnds) {
  const end = new Date(dayEnds ?? "");
  const isOther = !Number.isNaN(end.getTime()) && (end.getHours() > 0 || end.getMinutes() > 0);
  return isOther ? Intl.DateTimeFormat().resolvedOptions().timeZone : "";
}

/** The names of all time zones, for a field to offer. */
export const zones = () =>
  make(
    "datalist",
    { id: "zones" },
    (Intl.supportedValuesOf?.("timeZone") ?? []).map((zone) => make("option", { value: zone })),
  );
