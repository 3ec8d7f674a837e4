// @ts-check
// What led to what: the messages, tasks, results and notifications of one cause, in the order of time, and where they are drawn. No DOM.

/**
 * Something that happened. `id` names it, also in the address; `from` is what led to it.
 * @typedef {"message" | "trigger" | "order" | "task" | "result" | "notice"} Kind
 * @typedef {{id: string, kind: Kind, at: number, task: any, from: string | null, depth: number}} Cause
 */

/** Whoever is no team. */
export const OUTSIDE = "";

/** @param {any} task @returns {Kind} */
const beginning = ({ type }) => (type === "chat" ? "message" : type === "trigger" ? "trigger" : "order");

/** The name of a task's end. @param {string} task */
const endOf = (task) => `${task} end`;

/** All that the tasks of one cause tell, in the order of time. @param {any[]} tasks @returns {Cause[]} */
export function causes(tasks) {
  const known = new Set(tasks.map((task) => task.id));
  /** @type {Map<string, Omit<Cause, "depth">>} */ const found = new Map();
  const add = (/** @type {Omit<Cause, "depth">} */ one) => found.set(one.id, one);
  for (const task of tasks) {
    const { parent, result_of: told } = task.lineage;
    const [begun, ended] = [Date.parse(task.created_at), Date.parse(task.outcome?.finished_at ?? "")];
    const first = `${task.id} cause`;
    const from = known.has(told) ? endOf(told) : known.has(parent) ? parent : first;
    if (from === first) add({ id: first, kind: beginning(task), at: begun, task, from: null });
    add({ id: task.id, kind: "task", at: begun, task, from });
    if (Number.isNaN(ended)) continue;
    add({ id: endOf(task.id), kind: "result", at: ended, task, from: task.id });
    if (task.outcome.notified) add({ id: `${task.id} told`, kind: "notice", at: ended, task, from: endOf(task.id) });
  }
  /** @param {string | null} id @returns {number} */
  const depth = (id) => {
    const above = found.get(id ?? "");
    return above ? 1 + depth(above.from) : 0;
  };
  // Of what has the same moment, what led to the other comes first.
  return [...found.values()]
    .map((one) => ({ ...one, depth: depth(one.from) }))
    .sort((a, b) => a.at - b.at || a.depth - b.depth || (a.id < b.id ? -1 : 1));
}

/** All that led to something, with itself. @param {Cause[]} all @param {string} id @returns {Set<string>} */
export function leading(all, id) {
  const known = new Map(all.map((one) => [one.id, one]));
  /** @type {Set<string>} */ const found = new Set();
  for (let one = known.get(id); one && !found.has(one.id); one = known.get(one.from ?? "")) found.add(one.id);
  return found;
}

/** Where something happened: with a team, or outside. @param {Cause} cause */
export const laneOf = ({ kind, task }) => (kind === "task" || kind === "result" ? task.team : OUTSIDE);

export const LANE = 200;
export const LINE = 72;
export const HEAD = 34;
export const [BOX_WIDTH, BOX_HEIGHT] = [184, 46];

/**
 * Each team has a column, in the order in which they come in, and each moment a line.
 * @param {Cause[]} all
 */
export function drawing(all) {
  const lanes = [...new Set(all.map(laneOf))];
  const placed = all.map((cause, at) => ({
    cause,
    x: LANE * (lanes.indexOf(laneOf(cause)) + 0.5),
    y: HEAD + LINE * (at + 0.5),
  }));
  const known = new Map(placed.map((one) => [one.cause.id, one]));
  const edges = placed.flatMap((to) => {
    const from = known.get(to.cause.from ?? "");
    return from ? [{ from, to }] : [];
  });
  return { lanes, placed, edges, width: LANE * lanes.length, height: HEAD + LINE * all.length };
}
