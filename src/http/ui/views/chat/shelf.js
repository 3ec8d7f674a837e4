// @ts-check
// What a browser keeps of a person's conversation, within bounds: the oldest goes first. Tabs share it.

const KEY = "hivewright.conversation";
const TURNS_PER_TOPIC = 80;
const TOPICS_KEPT = 30;
const BYTES_KEPT = 3_000_000;

/** The key of messages whose topic the server has not told yet. */
export const UNDECIDED = "";

/** @typedef {Pick<Storage, "getItem" | "setItem" | "removeItem">} Place */
/** @typedef {{principal: string, channel: string | null, lastSeq: number, topics: any[], logs: Record<string, any>, drafts: Record<string, string>, heard: Record<string, string>}} Kept */

/** Each person has a place of their own. @param {string} principal */
const placeOf = (principal) => `${KEY}.${principal}`;

/** @param {Place} storage @param {string} principal @returns {Kept | null} */
export function read(storage, principal) {
  // The second is where it was when a browser kept one conversation only.
  for (const key of [placeOf(principal), KEY]) {
    try {
      const kept = JSON.parse(storage.getItem(key) ?? "null");
      // Another person's words are never shown to this one.
      if (kept?.version === 1 && kept.principal === principal) return kept;
    } catch {
      // An unreadable copy is no copy; the server replays what it has.
    }
  }
  return null;
}

/** @param {Place} storage @param {Kept} kept */
export function write(storage, kept) {
  trim(kept.logs);
  for (;;) {
    const text = JSON.stringify({ version: 1, ...kept });
    try {
      if (text.length > BYTES_KEPT) throw new Error("too much to keep");
      storage.setItem(placeOf(kept.principal), text);
      return;
    } catch {
      if (!forgetOldest(kept.logs)) return;
    }
  }
}

/**
 * What to keep when another tab has kept something since: the logs of whoever knows more, the other's messages that
 * are still on their way, and each draft as it was typed last.
 * @param {Kept} own @param {Kept | null} kept @param {Set<string>} mine messages of this tab @param {Map<string, string>} typed drafts of this tab
 * @returns {Kept}
 */
export function merge(own, kept, mine, typed) {
  if (!kept || kept.channel !== own.channel) return own;
  const drafts = { ...kept.drafts };
  for (const [key, text] of typed) {
    if (text) drafts[key] = text;
    else delete drafts[key];
  }
  const behind = kept.lastSeq > own.lastSeq;
  const [ahead, other] = behind ? [kept, own] : [own, kept];
  /** @type {Record<string, any>} */
  const logs = { ...ahead.logs };
  const known = new Set(
    Object.values(ahead.logs).flatMap((log) => log.items.map((/** @type {any} */ item) => item.id)),
  );
  for (const [key, log] of Object.entries(other.logs)) {
    const underway = log.items.filter(
      (/** @type {any} */ item) => item.status === "sending" && !known.has(item.id) && (behind || !mine.has(item.id)),
    );
    if (underway.length) logs[key] = { ...(logs[key] ?? log), items: [...(logs[key]?.items ?? []), ...underway] };
  }
  return { ...ahead, drafts, logs };
}

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
