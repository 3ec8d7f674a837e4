// @ts-check
// What a browser keeps between visits, for all its tabs: what was typed, and messages that the service has not taken in. The
// conversation itself is in the store of the service.

const KEY = "hivewright.conversation";
const VERSION = 2;

/** The key of messages whose topic the server has not told yet. */
export const UNDECIDED = "";

/** Words to another team than the main one belong to no topic; what is said with it is under this key. @param {string} team */
export const keyOfTeam = (team) => `@${team}`;

/** The team whose key it is; null if it is a topic's. @param {string | null} key */
export const teamOfKey = (key) => (key?.startsWith("@") ? key.slice(1) : null);

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} Place */
/** @typedef {{principal: string, channel: string | null, unsent: any[], drafts: Record<string, string>}} Kept */

/** Each person has a place of their own. @param {string} principal */
const placeOf = (principal) => `${KEY}.${principal}`;

/** @param {Place} storage @param {string} principal @returns {Kept | null} */
export function read(storage, principal) {
  try {
    const kept = JSON.parse(storage.getItem(placeOf(principal)) ?? "null");
    // Another person's words are never shown to this one.
    if (kept?.principal !== principal) return null;
    if (kept.version === VERSION) return kept;
    // A former version kept the conversation too; of that, only what was on its way is nowhere else.
    const items = Object.values(kept.logs ?? {}).flatMap((log) => log.items ?? []);
    const unsent = items.filter((item) => item.kind === "turn" && item.status === "sending");
    return { principal, channel: kept.channel ?? null, unsent, drafts: kept.drafts ?? {} };
  } catch {
    // An unreadable copy is no copy.
    return null;
  }
}

/** @param {Place} storage @param {Kept} kept */
export function write(storage, kept) {
  try {
    storage.setItem(placeOf(kept.principal), JSON.stringify({ version: VERSION, ...kept }));
  } catch {
    // There is no room, or none is given: what is on its way is sent as long as the page is open.
  }
}

/**
 * What to keep when another tab has kept something since: its messages that are on their way, and each draft as it was typed
 * last.
 * @param {Kept} own @param {Kept | null} kept @param {Set<string>} mine messages of this tab @param {Map<string, string>} typed drafts of this tab
 * @returns {Kept}
 */
export function merge(own, kept, mine, typed) {
  const drafts = { ...kept?.drafts };
  for (const [key, text] of typed) {
    if (text) drafts[key] = text;
    else delete drafts[key];
  }
  const others = (kept?.unsent ?? []).filter((turn) => !mine.has(turn.id));
  return { ...own, drafts, unsent: [...others, ...own.unsent] };
}
