// @ts-check
// Texts that will not change any more, as the service parses them. Those asked for at the same time are one request, and what
// was answered is kept.

import { call, Refusal } from "../core/api.js";
import { Retry } from "../core/retry.js";

/** @typedef {import("./tree.js").MarkdownNode[]} Blocks */

/** So many trees are kept. */
const KEPT = 400;
/** The most texts and characters of a request; the service takes a mebibyte, of which a character may take several bytes. */
const MOST_TEXTS = 100;
const MOST_CHARACTERS = 200_000;

/** @type {Map<string, Blocks>} */ const trees = new Map();
/** A service that is away comes back. */
const retrying = new Retry(ask, 1_000, 15_000);
/** What is wanted, and who waits for it. @type {Map<string, ((blocks: Blocks) => void)[]>} */ let wanted = new Map();

/** The tree of a text, if it is here. @param {string} text */
export const known = (text) => trees.get(text);

/**
 * Has a text parsed, and hands its tree over, at the latest when the service is back. Until then the text is shown as well as the page can.
 * @param {string} text @param {(blocks: Blocks) => void} take
 */
export function parsed(text, take) {
  if (text.length > MOST_CHARACTERS) return;
  if (wanted.size === 0) setTimeout(ask, 0);
  want(text, take);
}

/** @param {string} text @param {((blocks: Blocks) => void)[]} takers */
const want = (text, ...takers) => wanted.set(text, [...(wanted.get(text) ?? []), ...takers]);

function ask() {
  const all = [...wanted];
  wanted = new Map();
  while (all.length) {
    let size = 0;
    const fits = (/** @type {[string, unknown]} */ [text]) => (size += text.length) <= MOST_CHARACTERS;
    const end = all.slice(0, MOST_TEXTS).findIndex((one) => !fits(one));
    request(all.splice(0, end < 0 ? MOST_TEXTS : Math.max(1, end)));
  }
}

/** @param {[string, ((blocks: Blocks) => void)[]][]} asked */
async function request(asked) {
  let answer;
  try {
    answer = await call("POST", "/markdown", { body: { texts: asked.map(([text]) => text) } });
  } catch (refusal) {
    const gone = /** @type {Refusal} */ (refusal).status;
    if (gone !== 0 && gone < 500 && gone !== 429) return;
    for (const [text, takers] of asked) want(text, ...takers);
    retrying.later();
    return;
  }
  retrying.hope();
  asked.forEach(([text, takers], at) => {
    const blocks = answer?.data?.[at]?.blocks;
    if (!blocks) return;
    trees.set(text, blocks);
    for (const take of takers) take(blocks);
  });
  for (const text of trees.keys()) {
    if (trees.size <= KEPT) break;
    trees.delete(text);
  }
}
