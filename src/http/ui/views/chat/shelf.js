// @ts-check
// What a browser keeps of the conversation, within bounds: the oldest goes first.

const KEY = "hivewright.conversation";
const TURNS_PER_TOPIC = 80;
const TOPICS_KEPT = 30;
const BYTES_KEPT = 3_000_000;

/** The key of messages whose topic the server has not told yet. */
export const UNDECIDED = "";

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} Place */
/** @typedef {{principal: string, channel: string | null, lastSeq: number, topics: any[], logs: Record<string, any>, drafts: Record<string, string>}} Kept */

/** @param {Place} storage @param {string} principal @returns {Kept | null} */
export function read(storage, principal) {
  try {
    const kept = JSON.parse(storage.getItem(KEY) ?? "null");
    // Another person's words are never shown to this one.
    return kept?.version === 1 && kept.principal === principal ? kept : null;
  } catch {
    // An unreadable copy is no copy; the server replays what it has.
    return null;
  }
}

/** @param {Place} storage @param {Kept} kept */
export function write(storage, kept) {
  trim(kept.logs);
  for (;;) {
    const text = JSON.stringify({ version: 1, ...kept });
    try {
      if (text.length > BYTES_KEPT) throw new Error("too much to keep");
      storage.setItem(KEY, text);
      return;
    } catch {
      if (!forgetOldest(kept.logs)) return;
    }
  }
}

/** @param {Place} storage */
export const clear = (storage) => storage.removeItem(KEY);

/** @param {Record<string, any>} logs */
function trim(logs) {
  for (const log of Object.values(logs)) {
    if (log.items.length > TURNS_PER_TOPIC) log.items = log.items.slice(-TURNS_PER_TOPIC);
  }
  while (Object.keys(logs).length > TOPICS_KEPT && forgetOldest(logs));
}

/** @param {Record<string, any>} logs */
function forgetOldest(logs) {
  const keys = Object.keys(logs).filter((key) => key !== UNDECIDED);
  keys.sort((a, b) => logs[a].touched - logs[b].touched);
  if (keys.length > 1) {
    delete logs[keys[0]];
    return true;
  }
  const items = keys.length ? logs[keys[0]].items : [];
  return items.splice(0, Math.ceil(items.length / 2)).length > 0;
}
