// @ts-check
// Hits of a search: where they lead to, and what is marked in them.

import { write } from "../core/place.js";

/** Where a hit is to be seen: in the transcript, with its task, or with its team. @param {any} hit */
export const placeOf = (hit) =>
  hit.session_id && hit.seq
    ? write("history", [hit.session_id], { item: hit.seq })
    : hit.task_id
      ? write("tasks", [hit.task_id])
      : write("team", [hit.team]);

/**
 * An excerpt in parts, those that were found and those around them. Marks count characters.
 * @param {string} excerpt @param {{start: number, end: number}[]} marks
 * @returns {{text: string, found: boolean}[]}
 */
export function pieces(excerpt, marks) {
  const characters = Array.from(excerpt);
  const parts = [];
  let at = 0;
  for (const { start, end } of marks) {
    parts.push({ text: characters.slice(at, start).join(""), found: false });
    parts.push({ text: characters.slice(Math.max(at, start), end).join(""), found: true });
    at = Math.max(at, end);
  }
  parts.push({ text: characters.slice(at).join(""), found: false });
  return parts.filter((part) => part.text);
}
