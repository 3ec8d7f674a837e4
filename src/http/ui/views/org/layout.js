// @ts-check
// Where each team of the tree is drawn: every team above the middle of those below it, no two in one place. No DOM.

export const STEP_X = 168;
export const STEP_Y = 176;

/**
 * @typedef {{node: any, x: number, y: number, folded: number}} Placed
 * @param {any} root @param {Set<string>} folded names of the teams whose children are not drawn
 * @returns {{placed: Placed[], edges: {from: Placed, to: Placed}[], width: number, height: number}}
 */
export function layout(root, folded) {
  /** @type {Placed[]} */ const placed = [];
  /** @type {{from: Placed, to: Placed}[]} */ const edges = [];
  let column = 0;
  let deepest = 0;
  const place = (/** @type {any} */ node, /** @type {number} */ depth) => {
    deepest = Math.max(deepest, depth);
    const shut = folded.has(node.name);
    const below = shut ? [] : (node.teams ?? []).map((/** @type {any} */ child) => place(child, depth + 1));
    const x = below.length ? (below[0].x + below.at(-1).x) / 2 : STEP_X * (0.5 + column++);
    const here = { node, x, y: STEP_Y * depth + 64, folded: shut ? size(node) - 1 : 0 };
    placed.push(here);
    for (const to of below) edges.push({ from: here, to });
    return here;
  };
  place(root, 0);
  return { placed, edges, width: Math.max(1, column) * STEP_X, height: deepest * STEP_Y + 160 };
}

/** How many teams a tree has. @param {any} node @returns {number} */
export const size = (node) =>
  1 + (node.teams ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ child) => sum + size(child), 0);

/** All teams with how deep they are, as a list reads. @param {any} node @returns {{node: any, depth: number}[]} */
export const flat = (node, depth = 0) => [
  { node, depth },
  ...(node.teams ?? []).flatMap((/** @type {any} */ child) => flat(child, depth + 1)),
];
