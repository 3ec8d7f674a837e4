// @ts-check
// Forecast of cost: what today and this month come to if it goes on as it does today. No DOM.

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** So many whole days before today say how far days differ. */
const WEEK = 7;

/** A date, so many days from another. @param {string} date @param {number} days */
export const shifted = (date, days) => new Date(Date.parse(date) + days * DAY).toISOString().slice(0, 10);

/** The first day that a forecast asks for. @param {string} today */
export const firstDay = (today) => shifted(today, -Math.max(Number(today.slice(8)) - 1, WEEK));

/**
 * The rest of today is taken to be like what has passed of it, of which at least an hour counts; each day of the month that is
 * left is taken to be like today, and in the range like the cheapest and the dearest of the last seven.
 * @param {{key: string, usd?: number}[]} days what was spent, by date @param {string} today @param {number} endsAt when today is over @param {number} now
 */
export function forecast(days, today, endsAt, now) {
  const known = new Map(days.map((row) => [row.key, row.usd ?? 0]));
  const on = (/** @type {number} */ before) => known.get(shifted(today, -before)) ?? 0;
  const passed = Math.min(DAY, Math.max(HOUR, DAY - (endsAt - now)));
  const spent = on(0);
  const likely = (spent / passed) * DAY;
  const month = today.slice(0, 7);
  const before = [...known].reduce((sum, [date, usd]) => sum + (date.startsWith(month) && date < today ? usd : 0), 0);
  const left =
    new Date(Date.UTC(Number(today.slice(0, 4)), Number(today.slice(5, 7)), 0)).getUTCDate() - Number(today.slice(8));
  const others = Array.from({ length: WEEK }, (_, at) => on(at + 1));
  const [least, most] = [Math.min(likely, ...others), Math.max(likely, ...others)];
  return {
    passed,
    left,
    today: { spent, likely },
    month: {
      before,
      likely: before + likely * (1 + left),
      least: before + spent + least * left,
      most: before + likely + most * left,
    },
  };
}
