// @ts-check
// Work on its way between teams: which edges of the tree it crosses, and the marks that are crossing them now. No DOM.

/** A mark takes so long for an edge; the style sheet has the same. */
export const CROSSING = 1_200;
/** So many handovers are remembered, for the same one may be told again. */
const REMEMBERED = 500;
const ENDED = ["done", "failed", "dead", "expired", "cancelled"];

/**
 * A step over an edge, which is known by the team at its lower end.
 * @typedef {{team: string, up: boolean}} Step
 * @typedef {Step & {id: number, fault: boolean, count: number}} Mark
 */

/** @param {any} node @param {string} name @returns {string[] | null} the names from the first team to this one */
function line(node, name) {
  if (node.name === name) return [name];
  for (const child of node.teams ?? []) {
    const below = line(child, name);
    if (below) return [node.name, ...below];
  }
  return null;
}

/** The edges from one team to another. @param {any} root @param {string} from @param {string} to @returns {Step[]} */
export function way(root, from, to) {
  const [start, end] = [line(root, from), line(root, to)];
  if (!start || !end) return [];
  let shared = 0;
  while (shared < start.length && start[shared] === end[shared]) shared += 1;
  const climb = start.slice(shared).reverse();
  return [...climb.map((team) => ({ team, up: true })), ...end.slice(shared).map((team) => ({ team, up: false }))];
}

/**
 * What a change of a task hands over: the work to its team, or its end to whoever gave it.
 * The task that wakes a team for a result is the result, which has been seen.
 * @param {any} change
 */
function handover({ parent, type, state, attempts, team, created_by: giver }) {
  if (!parent || type === "result") return null;
  // Where nothing else waits, the first that is told of it is that it runs.
  if (state === "accepted" || (state === "running" && attempts === 1)) return { from: giver, to: team, fault: false };
  if (ENDED.includes(state)) return { from: team, to: giver, fault: state !== "done" };
  return null;
}

/** The marks of a drawing. However much happens at once, an edge has one mark each way, which says how many it stands for. */
export class Traffic {
  /** @param {() => void} onchange */
  constructor(onchange) {
    this.onchange = onchange;
    /** @type {Mark[]} */ this.marks = [];
    /** @type {Set<string>} */ this.told = new Set();
    this.made = 0;
  }

  /** @param {any} root the tree of teams @param {any} change a task as it is now */
  take(root, change) {
    const found = handover(change);
    const name = `${change.id} ${found?.from}`;
    if (!found || this.told.has(name)) return;
    this.told.add(name);
    if (this.told.size > REMEMBERED) this.told.delete(this.told.values().next().value ?? "");
    this.go(way(root, found.from, found.to), found.fault);
  }

  /** @param {Step[]} steps @param {boolean} fault */
  go([step, ...rest], fault) {
    if (!step) return;
    const along = this.marks.find(({ team, up }) => team === step.team && up === step.up);
    if (along) {
      along.count += 1;
      along.fault ||= fault;
    } else {
      const mark = { ...step, id: (this.made += 1), fault, count: 1 };
      this.marks.push(mark);
      setTimeout(() => {
        this.marks = this.marks.filter((one) => one !== mark);
        this.onchange();
      }, CROSSING);
    }
    setTimeout(() => this.go(rest, fault), CROSSING);
    this.onchange();
  }
}
