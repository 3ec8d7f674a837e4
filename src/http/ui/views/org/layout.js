// @ts-check
// Where each team of the tree is drawn, no two in one place: few upright, every team above the middle of those below it; many
// lying, every team in the line of the first below it, so that names stay as large as text. No DOM.

export const STEP_X = 168;
export const STEP_Y = 176;
/** Of a drawing that lies. */
const LEVEL = 270;
const LINE = 48;
/** So many beside each other still stand. */
const BESIDE = 7;

/**
 * @typedef {{node: any, x: number, y: number, folded: number}} Placed
 * @param {any} root @param {Set<string>} folded names of the teams whose children are not drawn
 * @returns {{placed: Placed[], edges: {from: Placed, to: Placed}[], width: number, height: number, lying: boolean}}
 */
export function layout(root, folded) {
  const lying = ends(root, folded) > BESIDE;
  /** @type {Placed[]} */ const placed = [];
  /** @type {{from: Placed, to: Placed}[]} */ const edges = [];
  let column = 0;
  let deepest = 0;
  const place = (/** @type {any} */ node, /** @type {number} */ depth) => {
    deepest = Math.max(deepest, depth);
    const shut = folded.has(node.name);
    const below = shut ? [] : (node.teams ?? []).map((/** @type {any} */ child) => place(child, depth + 1));
    const [first, last] = [below[0], below.at(-1)];
    const at = first ? null : column++;
    const where = lying
      ? { x: LEVEL * depth + 40, y: at === null ? first.y : LINE * (at + 0.5) + 10 }
      : { x: at === null ? (first.x + last.x) / 2 : STEP_X * (0.5 + at), y: STEP_Y * depth + 64 };
    const here = { node, ...where, folded: shut ? size(node) - 1 : 0 };
    placed.push(here);
    for (const to of below) edges.push({ from: here, to });
    return here;
  };
  place(root, 0);
  return lying
    ? { placed, edges, lying, width: (deepest + 1) * LEVEL, height: column * LINE + 20 }
    : { placed, edges, lying, width: Math.max(1, column) * STEP_X, height: deepest * STEP_Y + 160 };
}

/** How many teams have none drawn below them. @param {any} node @param {Set<string>} folded @returns {number} */
const ends = (node, folded) =>
  folded.has(node.name) || !node.teams?.length
    ? 1
    : node.teams.reduce((/** @type {number} */ sum, /** @type {any} */ child) => sum + ends(child, folded), 0);

/** How many teams a tree has. @param {any} node @returns {number} */
export const size = (node) =>
  1 + (node.teams ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ child) => sum + size(child), 0);

/** All teams with how deep they are, as a list reads. @param {any} node @returns {{node: any, depth: number}[]} */
export const flat = (node, depth = 0) => [
  { node, depth },
  ...(node.teams ?? []).flatMap((/** @type {any} */ child) => flat(child, depth + 1)),
];
