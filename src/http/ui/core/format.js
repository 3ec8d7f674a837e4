// @ts-check
// Figures and times in words.

import { clean, make } from "./dom.js";

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  // Rounded first, or the smaller part could be a whole one of the larger.
  const [seconds, minutes, hours] = [1000, 60_000, 3_600_000].map((unit) => Math.round(ms / unit));
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** @param {number} ms */
const rough = (ms) => {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return `${Math.max(0, Math.floor(ms / 1000))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h`;
  return `${Math.floor(minutes / 1440)} d`;
};

/** @param {number | string} at */
const millis = (at) => (typeof at === "number" ? at : Date.parse(at));

/** @param {number | string} at */
export function ago(at) {
  const passed = Date.now() - millis(at);
  if (passed < 60_000) return "now";
  if (passed < 48 * 3_600_000) return rough(passed);
  return new Date(millis(at)).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** The moment with its UTC value on hover. @param {number} at @param {string} words */
const time = (at, words) => {
  const date = new Date(at);
  return make(
    "time",
    { datetime: date.toISOString(), title: `${date.toLocaleString()} · ${date.toISOString()}` },
    words,
  );
};

/** The time of day. @param {number | string} at */
export const moment = (at) =>
  time(millis(at), new Date(millis(at)).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" }));

/** The day too, where it is not today. @param {number | string | null | undefined} at */
export function when(at) {
  if (at === null || at === undefined || Number.isNaN(millis(at))) return "–";
  const date = new Date(millis(at));
  const clock = { hour: /** @type {const} */ ("2-digit"), minute: /** @type {const} */ ("2-digit") };
  const today = date.toDateString() === new Date().toDateString();
  return time(
    millis(at),
    today
      ? date.toLocaleTimeString(undefined, clock)
      : date.toLocaleString(undefined, { day: "numeric", month: "short", ...clock }),
  );
}

/** `Today`, `Monday, 3 March`; the year where it is another. @param {number} at */
export function dayWords(at) {
  const [date, now] = [new Date(at), new Date()];
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days === 0 || days === 1) return days ? "Yesterday" : "Today";
  const year = date.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long", year });
}

/** `3 min ago`, `in 2 h`. @param {number | string | null | undefined} at */
export function since(at) {
  if (at === null || at === undefined || Number.isNaN(millis(at))) return "–";
  const passed = Date.now() - millis(at);
  return time(millis(at), passed < 0 ? `in ${rough(-passed)}` : passed < 5_000 ? "just now" : `${rough(passed)} ago`);
}

/** @param {number | null | undefined} usd */
export function money(usd) {
  if (typeof usd !== "number") return "–";
  if (usd === 0) return "$0";
  return Math.abs(usd) < 0.01
    ? `$${usd.toFixed(4)}`
    : `$${usd.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

/** Without a price for the model, tokens cost nobody knows what. @param {{usd?: number, tokens?: number} | null | undefined} spent */
export const spending = (spent) => (spent?.tokens && !spent.usd ? "unknown" : money(spent?.usd ?? 0));

/** @param {number | null | undefined} value */
export const count = (value) => (typeof value === "number" ? value.toLocaleString() : "–");

/** Large figures at a glance. @param {number} value */
export const short = (value) =>
  new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 }).format(value);

/** @param {number | null | undefined} bytes */
export function size(bytes) {
  if (typeof bytes !== "number") return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${(bytes / 1024 ** step).toLocaleString(undefined, { maximumFractionDigits: step ? 1 : 0 })} ${units[step]}`;
}

/** `1 team`, `2 teams`. @param {number} number @param {string} word @param {string} [more] */
export const several = (number, word, more = `${word}s`) => `${count(number)} ${number === 1 ? word : more}`;

/** `wait_reason` → `wait reason`. @param {unknown} name */
export const words = (name) => clean(name).replaceAll("_", " ");

/** As much of what a task is about as lists tell. */
const LISTED = 200;

/** At most so many characters of a text; what is missing has its mark. @param {string} text @param {number} most */
export function beginning(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** What a task is about; the answer to a question comes as JSON. @param {unknown} body */
export function taskWords(body) {
  const text = clean(body);
  if (!text.startsWith('{"')) return text;
  try {
    const { event, question, selected = [], text: said, expired } = JSON.parse(text);
    if (event !== "operator_answered") return text;
    if (expired) return `No answer to “${question}”`;
    return `Answer to “${question}”: ${[...selected, said].filter(Boolean).join(", ") || "in the vault"}`;
  } catch {
    return text;
  }
}

/** What a task is about, for lists: of a trigger its own words, without what the run is told besides. @param {{body: string, type: string}} task */
export const taskLine = ({ body, type }) =>
  taskWords(beginning(type === "trigger" ? body.split("\n\n## ")[0] : body, LISTED));

/** @param {unknown} value */
export const pretty = (value) => {
  if (typeof value !== "string") return clean(JSON.stringify(value, null, 2));
  try {
    const parsed = JSON.parse(value);
    return clean(parsed && typeof parsed === "object" ? JSON.stringify(parsed, null, 2) : value);
  } catch {
    return clean(value); // Previews are cut, so often not whole.
  }
};

/** There is a word to search for. @param {string | undefined} text */
export const hasWord = (text) => /[\p{L}\p{N}]/u.test(text ?? "");

/** Who did something, by their name; what they act as stands before it. @param {unknown} who */
export const actor = (who) => clean(who).replace(/^operator:/, "");
