// @ts-check
// Stopping a task; that it was stopped is no news to whoever did that on this page.

import { part, post } from "../core/api.js";

/** @type {Set<string>} */
const stopped = new Set();

/** @param {string} task @param {{reason?: string, cascade?: boolean}} [how] */
export function stop(task, how = {}) {
  // The news may be faster than the answer.
  stopped.add(task);
  return post(`/tasks/${part(task)}/cancel`, how);
}

/** @param {any} frame */
export const isOwnStop = ({ status, task_id: task }) => status === "cancelled" && stopped.has(task);
