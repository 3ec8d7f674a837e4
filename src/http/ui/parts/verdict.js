// @ts-check
// What a person's decision says to the service, and what it would allow from then on. No DOM.

/** A grant of some uses holds for a day at most. */
export const MOST_USES = 100;

/** How often a call may run: once, so many times, or `always`. @typedef {number | "always"} Uses */

/** What was typed, as a count. @param {string} often @param {string} times @returns {Uses} */
export function usesOf(often, times) {
  if (often !== "times") return often === "always" ? "always" : 1;
  const wanted = Number(times);
  if (!Number.isInteger(wanted) || wanted < 2 || wanted > MOST_USES) throw new Error(`Between 2 and ${MOST_USES} times.`);
  return wanted;
}

/** The digest says what was looked at: if the call has changed since, nothing is decided. @param {any} row @param {Uses} [uses] */
export const approval = (row, uses = 1) => ({ decision: "approve", digest: row.digest, ...(uses === 1 ? {} : { uses }) });

/** @param {any} row @param {string} [note] */
export const denial = (row, note) => ({ decision: "deny", digest: row.digest, ...(note ? { note } : {}) });

/** What an approval of more than one use leaves behind. @param {any} row @param {Uses} uses */
export const grantOf = (row, uses) => ({
  team: row.team,
  tool: row.tool,
  arguments: row.arguments,
  uses: uses === "always" ? "any number" : `${uses}, this one included`,
  until: uses === "always" ? "someone takes it back" : "they are used up, at most 24 hours",
});

/** Many at once. @param {any[]} rows @param {(row: any) => any} word */
export const batch = (rows, word) => ({ items: rows.map((row) => ({ id: row.id, ...word(row) })) });

/** What was refused of many, each with its reason. @param {any} answer @returns {{id: string, message: string}[]} */
export const refusals = (answer) =>
  (Array.isArray(answer) ? answer : (answer?.items ?? []))
    .filter((/** @type {any} */ item) => item.error)
    .map((/** @type {any} */ item) => ({ id: item.id, message: item.error.message ?? item.error.code ?? String(item.error) }));
