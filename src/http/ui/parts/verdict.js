// @ts-check
// What a person's decision says to the service, and what it would allow from then on. No DOM.

/** A grant of some uses holds for a day at most. */
export const MOST_USES = 100;

/** How often a call may run: once, so many times, or `always`. @typedef {number | "always"} Uses */

/** What was typed, as a count. @param {string} often @param {string} times @returns {Uses} */
export function usesOf(often, times) {
  if (often !== "times") return often === "always" ? "always" : 1;
  const wanted = Number(times);
  if (!Number.isInteger(wanted) || wanted < 2 || wanted > MOST_USES)
    throw new Error(`Between 2 and ${MOST_USES} times.`);
  return wanted;
}

/** The digest says what was looked at: if the call has changed since, nothing is decided. @param {any} row @param {Uses} [uses] */
export const approval = (row, uses = 1) => ({
  decision: "approve",
  digest: row.digest,
  ...(uses === 1 ? {} : { uses }),
});

/** @param {any} row @param {string} [note] */
export const denial = (row, note) => ({ decision: "deny", digest: row.digest, ...(note ? { note } : {}) });

/** For how long a grant holds. @param {Uses} uses @returns {{uses: string, until: string}} */
export const term = (uses) =>
  uses === "always"
    ? { uses: "any number", until: "somebody revokes it" }
    : { uses: `${uses}, this one included`, until: "they are used up, at most 24 hours" };

/** Of so many decisions a request may consist. */
const MOST_ITEMS = 100;

/** What is asked for when many are decided at once. @param {any[]} rows @param {(row: any) => any} word */
export function batches(rows, word) {
  const items = rows.map((row) => ({ id: row.id, ...word(row) }));
  return Array.from({ length: Math.ceil(items.length / MOST_ITEMS) }, (_, at) => ({
    items: items.slice(at * MOST_ITEMS, (at + 1) * MOST_ITEMS),
  }));
}

/** What was refused of many, each with its reason. @param {any[]} answers @returns {{id: string, message: string}[]} */
export const refusals = (answers) =>
  answers.filter((item) => item.error).map((item) => ({ id: item.id, message: item.error.message }));
