// @ts-check
// Scripts that are loaded when they are first needed. A browser may remember for the life of a page that a script did not
// come. So all files that one needs are fetched first, which can be tried again, and the script comes from the cache then.

import { events, Refusal } from "./api.js";

const UPDATED = "Hivewright was updated. Reload the page to go on; what you were writing in the chat is kept.";

/** What a script needs besides itself. */
const NEEDS = /^(?:import|export)\b[^"]*?"(\.[^"]+)"/gm;

/** Scripts that are here with all that they need. @type {Set<string> | undefined} */
let complete;

/** @param {string} address @param {RequestCache} [cache] @returns {Promise<string>} the file */
async function fetchFile(address, cache) {
  const answer = await fetch(address, { cache }).catch(() => {
    throw new Refusal(0);
  });
  if (answer.ok) return answer.text();
  // The service has the files of its own version alone.
  if (answer.status !== 404) throw new Refusal(answer.status);
  events.dispatchEvent(new Event("updated"));
  throw new Refusal(404, { code: "updated", message: UPDATED });
}

/** @param {string} address @param {Set<string>} found */
async function bring(address, found) {
  if (complete?.has(address) || found.has(address)) return;
  found.add(address);
  const text = await fetchFile(address);
  await Promise.all(Array.from(text.matchAll(NEEDS), ([, path]) => bring(new URL(path, address).href, found)));
}

/** Loads a script; a failure is forgotten, and the next call tries again. @param {string} path @param {string} base the address of the caller */
export async function load(path, base) {
  // What the page names was loaded with it.
  complete ??= new Set(Array.from(document.querySelectorAll("link[rel=modulepreload]"), (link) => link["href"]));
  const address = new URL(path, base).href;
  /** @type {Set<string>} */ const found = new Set();
  await bring(address, found);
  for (const one of found) complete.add(one);
  return import(address);
}

/** Asks whether the service is still the one that this page came from; listeners of `events` hear `updated` if not. */
export const checkVersion = () => fetchFile(import.meta.url, "no-store").catch(() => {});
