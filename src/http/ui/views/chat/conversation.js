// @ts-check
// What the page knows: topics, what was said in them, and what the server has not confirmed. No DOM in here.
//
// It begins with what the store has, and goes on with frames. Either may tell of the same thing, and frames may be replayed
// after a reconnect, so taking something in twice must change nothing.

import { take } from "./frames.js";
import { goOn, hasEnded, inOrder, isUntaken, makeTurn, settle } from "./said.js";
import * as shelf from "./shelf.js";
import { keyOfTeam, teamOfKey, UNDECIDED } from "./shelf.js";
import { itemOf } from "./stored.js";

export { UNDECIDED };

export function makeId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "m-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** So much of a topic is kept that nobody looks at. */
const MOST_KEPT = 100;

/** @param {string} name @param {number} number */
const numbered = (name, number) => (number === 1 ? name : `${name} ${number}`);

export class Conversation {
  /** Called with the topic that changed, or null if the list did, and the item. @type {(key: string | null, item?: any) => void} */
  onChange = () => {};
  /** Called when a message was given another topic. @type {(turn: any, from: string, to: string) => void} */
  onMoved = () => {};
  /** Called when a frame tells of something that the page does not know. @type {(key: string) => void} */
  onStale = () => {};
  /** Called when a topic was deleted. @type {(key: string) => void} */
  onForgotten = () => {};
  /** Called when frames were dropped: what is known has holes. @type {(frame: any) => void} */
  onLost = () => {};
  /** The topic on the page. @type {string | null} */
  viewed = null;
  /** The messages that this tab sends: what was written in it, and what it found unsent. @type {Set<string>} */
  mine = new Set();
  /** Messages that the browser has kept. @type {Set<string>} */
  shelved = new Set();
  /** Drafts that were changed in this tab; empty means that one was sent. @type {Map<string, string>} */
  typed = new Map();
  /** @type {string | null} */ channel = null;
  /** The channel that this browser used last. @type {string | null} */ former = null;
  lastSeq = 0;
  /** As the server lists them. @type {any[]} */ topics = [];
  /** Topics that it lists no more, since they have long been archived. @type {Map<string, any>} */ unlisted =
    new Map();
  /** What was said, by topic. @type {Record<string, any>} */ logs = {};
  /** What was typed and not sent, by topic. @type {Record<string, string>} */ drafts = {};
  /** Words of another tab or device whose topic is not known yet, by message. @type {Record<string, {text: string, files: any[], at: number, team: string | null}>} */
  heard = {};

  /** @param {Pick<Storage, "getItem" | "setItem" | "removeItem">} storage @param {string} principal */
  constructor(storage, principal) {
    this.storage = storage;
    this.principal = principal;
    const kept = shelf.read(storage, principal);
    this.former = kept?.channel ?? null;
    this.drafts = kept?.drafts ?? {};
    for (const turn of kept?.unsent ?? []) {
      // A former version knew no files.
      turn.files ??= [];
      this.mine.add(turn.id);
      this.shelved.add(turn.id);
      this.log(turn.addressed ?? UNDECIDED).items.push(turn);
    }
  }

  // ---- what is kept in the browser

  saveSoon() {
    this.timer ??= setTimeout(() => this.save(), 800);
  }

  save() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { principal, drafts } = this;
    const own = { principal, channel: this.channel ?? this.former, unsent: this.untaken(), drafts };
    const kept = shelf.read(this.storage, principal);
    shelf.write(this.storage, shelf.merge(own, kept, this.mine, this.typed));
    this.shelved = new Set(own.unsent.map((turn) => turn.id));
  }

  /** Another tab has kept something: what was discarded or sent again there waits for nobody here. */
  heed() {
    const kept = shelf.read(this.storage, this.principal);
    const ids = new Set(kept?.unsent.map((turn) => turn.id));
    for (const turn of this.untaken())
      if (kept && turn.status !== "sending" && this.shelved.has(turn.id) && !ids.has(turn.id)) this.remove(turn);
  }

  /** Keeps what is typed for a topic. @param {string} key @param {string} text */
  draft(key, text) {
    if (text) this.drafts[key] = text;
    else delete this.drafts[key];
    this.typed.set(key, text);
    this.saveSoon();
  }

  // ---- what the store has

  /**
   * Begins with a channel as the store has it, in place of what was known; what the service has not taken in stays.
   * @param {{id: string, seq: number, topics: any[]} | null} row none if there is no channel yet
   */
  begin(row) {
    const untaken = this.untaken();
    const former = this.channel ?? this.former;
    this.channel = row?.id ?? null;
    this.lastSeq = row?.seq ?? 0;
    this.topics = (row?.topics ?? []).map((topic) => ({ ...topic, last_activity: Date.parse(topic.last_activity) }));
    this.logs = {};
    this.heard = {};
    for (const { id, name, unread, last_activity } of this.topics)
      Object.assign(this.log(id), { name, unread, latest: last_activity });
    const moved = former !== null && row !== null && former !== row.id;
    for (const turn of untaken) {
      // What another channel may have accepted is not sent again unasked: it could run twice.
      if (moved && turn.attempted && turn.status === "sending") turn.status = "unconfirmed";
      else if (moved && !teamOfKey(turn.addressed)) turn.addressed = null;
      this.log(turn.addressed ?? UNDECIDED).items.push(turn);
      turn.revision += 1;
    }
    this.changed(null);
  }

  /** A channel that there was not yet was made. @param {string} channel */
  opened(channel) {
    this.channel = channel;
    this.lastSeq = 0;
    this.saveSoon();
  }

  /**
   * Takes in a page of what was said in a topic, newest first, and where it goes on.
   * @param {string} key @param {{rows: any[], next: string | null}} page @param {boolean} earlier it follows what was taken in before
   */
  fill(key, { rows, next }, earlier = false) {
    const log = this.log(key);
    for (const row of rows) this.put(key, itemOf(row));
    if (earlier || !log.whole) log.next = next;
    log.whole = true;
    this.gather(key);
    this.number(key);
    this.advance(key);
    this.changed(key);
  }

  /** Takes what was told of no topic to the message that led to it, which was not known then. @param {string} key */
  gather(key) {
    const blank = this.logs[UNDECIDED];
    if (key === UNDECIDED || !blank) return;
    const own = blank.items.filter(
      (item) => item.kind === "notice" && this.placeOfNotice({ task_id: item.task }) === key,
    );
    for (const notice of own) {
      this.remove(notice);
      this.putNotice(key, notice);
    }
    const unread = Math.min(own.length, blank.unread);
    blank.unread -= unread;
    this.log(key).unread += unread;
  }

  /** Something was said there then; what it was is fetched when somebody looks. @param {string} key @param {number} at */
  mention(key, at) {
    const log = this.log(key);
    log.mentioned = true;
    log.latest = Math.max(log.latest, at);
  }

  /** @param {string} key @param {any} item as the store has it */
  put(key, item) {
    const log = this.log(key);
    log.latest = Math.max(log.latest, item.ended ?? item.at);
    if (item.kind === "notice") return this.putNotice(key, item);
    if (item.of === key) item.of = null;
    // A beginning that several topics share stands in each of them.
    if (item.of) {
      if (!log.items.some((/** @type {any} */ one) => one.id === item.id)) log.items.push(item);
      return;
    }
    const found = this.find({ message_id: item.id, task_id: item.task });
    if (!found) {
      log.items.push(item);
      return;
    }
    const { turn } = found;
    if (found.key !== key) {
      this.remove(turn);
      log.items.push(turn);
    }
    // Of a turn that runs, frames have told all, and go on; of one that ended, the store has all.
    const { seq, text, files, at, task } = item;
    const known = hasEnded(item) || !turn.live ? { ...item, seq: Math.max(turn.seq, seq) } : { text, files, at, task };
    Object.assign(turn, known, { revision: turn.revision + 1 });
  }

  /** What was asked before is answered where it stands: its card shows the outcome by itself. @param {string} key @param {any} notice */
  putNotice(key, notice) {
    const { items } = this.log(key);
    const asks = notice.ref && ["approval", "question"].includes(notice.about);
    const same = (/** @type {any} */ item) =>
      item.id === notice.id || (asks && item.kind === "notice" && item.ref === notice.ref);
    const at = items.findIndex(same);
    // The card stands where it was first asked.
    if (at < 0) items.push(notice);
    else if (notice.at < items[at].at) items[at] = notice;
    return at < 0;
  }

  /** Puts a topic into order, and counts what waits in it. @param {string} key */
  number(key) {
    this.log(key).items.sort(inOrder);
    let before = 0;
    for (const turn of this.turns(key)) {
      if (hasEnded(turn) || turn.status === "sending") continue;
      if (turn.status === "queued") turn.position = before;
      before += 1;
    }
  }

  /** What has nothing before it waits no longer, and no frame says so, unless the store has said that it does. @param {string} key */
  advance(key) {
    for (const turn of this.turns(key)) {
      if (turn.status !== "queued") continue;
      turn.waiting = "";
      if (turn.position === 0 && !turn.unbegun) turn.status = "running";
      turn.revision += 1;
    }
  }

  // ---- reading

  log(key) {
    return (this.logs[key] ??= {
      name: null,
      items: [],
      unread: 0,
      /** When the newest thing came, by the server's clock. */ latest: 0,
      /** The newest part is here. */ whole: false,
      /** Where to go on to what is older. */ next: null,
      /** It is known that something was said. */ mentioned: false,
    });
  }

  turns(key) {
    return (this.logs[key]?.items ?? []).filter((item) => item.kind === "turn");
  }

  running(key) {
    return this.turns(key).find((turn) => turn.status === "running" || turn.status === "sending");
  }

  /** The topics to list: the server's, and those that it has not listed yet. */
  listed() {
    const known = new Set(this.topics.map((topic) => topic.id));
    const extra = Object.entries(this.logs)
      .filter(([key, log]) => key !== UNDECIDED && !known.has(key) && (log.mentioned || log.items.length > 0))
      .map(([id, log]) => ({
        id,
        name: teamOfKey(id) ? id : (log.name ?? "Topic"),
        state: "active",
        queued: 0,
        running: false,
        ...this.unlisted.get(id),
        last_activity: log.latest,
      }));
    return [...this.topics, ...extra].sort((a, b) => b.last_activity - a.last_activity);
  }

  // ---- writing

  /**
   * Notes a message to be sent, in place of another one if that is given. The caller sends `frameOf` it.
   * @param {string} content @param {string} topic @param {any[]} [files] @param {{instead?: any, profile?: string | null}} [more]
   */
  compose(content, topic, files = [], { instead = null, profile = null } = {}) {
    const turn = makeTurn({
      id: makeId(),
      text: content,
      files,
      at: Date.now(),
      addressed: topic || null,
      fresh: instead ? null : this.nameFor(content, topic, Boolean(profile)),
      instead,
      profile,
    });
    this.mine.add(turn.id);
    this.log(topic).items.push(turn);
    this.changed(topic);
    return turn;
  }

  /**
   * The name of the topic that a message begins; null if it needs none: it has a topic, is a command, or is the first of all
   * and nothing more is to be said of its topic.
   * The service would look for a topic that fits, which is not what a person means who begins a new one.
   */
  nameFor(content, topic, always = false) {
    // Also those that the server has not listed yet.
    const open = this.listed().filter((one) => one.state !== "done");
    const pending = this.turns(UNDECIDED).filter((turn) => !hasEnded(turn));
    const first = open.length === 0 && !pending.some((turn) => turn.left);
    if (topic !== UNDECIDED || (first && !always) || content.startsWith("/")) return null;
    const underway = pending.find((turn) => turn.fresh && !turn.left);
    if (underway) return underway.fresh;
    const words = content
      .replace(/[^\p{L}\p{N}\p{P}\p{S}]|[:@#*`]/gu, " ")
      .split(" ")
      .filter(Boolean)
      .slice(0, 6)
      .join(" ");
    const name = [...words].slice(0, 40).join("").trim() || "New topic";
    const taken = new Set(open.map((one) => one.name.toLowerCase()));
    let number = 1;
    while (taken.has(numbered(name, number).toLowerCase())) number += 1;
    return numbered(name, number);
  }

  frameOf(turn) {
    turn.attempted = true;
    this.saveSoon();
    return {
      content: turn.text,
      message_id: turn.id,
      ...(turn.files.length ? { files: turn.files.map((file) => file.id) } : {}),
      ...(turn.addressed ? { topic_id: turn.addressed } : {}),
    };
  }

  /** What is to be sent, also again. */
  unacknowledged() {
    return this.untaken().filter((turn) => turn.status === "sending");
  }

  /** What the service does not have, as far as is known, so that it is nowhere else. */
  untaken() {
    const all = Object.values(this.logs).flatMap((log) => log.items);
    return all.filter(isUntaken).sort((a, b) => a.at - b.at);
  }

  remove(turn) {
    for (const [key, log] of Object.entries(this.logs)) {
      const at = log.items.indexOf(turn);
      if (at >= 0) {
        log.items.splice(at, 1);
        this.changed(key);
      }
    }
  }

  /** Empties the blank page, but not what is still on its way, or was not taken in. */
  freshPage() {
    const log = this.log(UNDECIDED);
    log.items = log.items.filter((item) => item.kind === "turn" && (!hasEnded(item) || isUntaken(item)));
    for (const turn of log.items) turn.left = true;
    this.changed(UNDECIDED);
  }

  /** Somebody looks at a topic. Returns up to when it is read then; null if nothing in it is new. @param {string} key */
  seen(key) {
    const log = this.logs[key];
    if (!log?.unread) return null;
    log.unread = 0;
    this.changed(key);
    return log.latest;
  }

  /** Somebody deleted a topic. @param {string} key */
  forget(key) {
    delete this.logs[key];
    this.draft(key, "");
    this.onForgotten(key);
  }

  /** Lets go of a long topic that nobody looks at: the store has it. @param {string} key */
  release(key) {
    const log = this.logs[key];
    if (!log || key === this.viewed || key === UNDECIDED || log.items.length <= MOST_KEPT) return;
    if (this.turns(key).some((turn) => !hasEnded(turn))) return;
    log.items = log.items.filter(isUntaken);
    Object.assign(log, { whole: false, next: null, mentioned: true });
  }

  changed(key, item) {
    if (item) item.revision += 1;
    this.saveSoon();
    this.onChange(key, item);
  }

  /**
   * The service took a message in under an id and a topic of its own. Frames about it may have been faster than this answer.
   * What nobody works on, as a command, is answered with it.
   * @param {any} turn @param {{message_id: string, task_id?: string, topic_id?: string, reply?: {text: string}}} taken
   */
  adopt(turn, { message_id, task_id, topic_id, reply }) {
    const [addressed, name] = [topic_id ?? turn.addressed, turn.fresh];
    const key = addressed ?? UNDECIDED;
    const from = Object.keys(this.logs).find((one) => this.logs[one].items.includes(turn)) ?? key;
    this.remove(turn);
    let known = this.find({ message_id })?.turn;
    if (known) {
      Object.assign(known, { text: turn.text, files: turn.files, addressed });
      this.remove(known);
      this.log(key).items.push(known);
    } else {
      const said = this.heard[message_id];
      delete this.heard[message_id];
      known = Object.assign(turn, {
        id: message_id,
        task: task_id ?? null,
        at: said?.at ?? turn.at,
        addressed,
        fresh: null,
        status: "running",
      });
      this.log(key).items.push(known);
    }
    const log = this.log(key);
    log.name ??= name;
    const { instead } = turn;
    if (instead) {
      const { topic, message, at } = instead;
      log.branch = { topic_id: topic, message_id: message, at, made_at: Date.now() };
      known.instead = null;
      // What it begins with is fetched, also where frames had it fetched before that was known.
      log.whole = false;
      this.onStale(key);
    }
    // It began here: there is nothing older.
    else log.whole = true;
    if (!task_id && reply && !hasEnded(known)) {
      known.status = "done";
      settle(known, reply.text);
      this.end(key, known);
    }
    this.number(key);
    this.changed(key, known);
    this.onMoved(turn, from, key);
  }

  /** A message was not taken in. @param {any} turn @param {{code: string, message: string}} refusal */
  refuse(turn, { code, message }) {
    Object.assign(turn, { status: "failed", refused: true, error: { code, text: message } });
    const key = Object.keys(this.logs).find((one) => this.logs[one].items.includes(turn));
    this.end(key ?? UNDECIDED, turn);
  }

  // ---- frames

  /** Takes a frame in. Returns false if it was seen before. */
  apply(frame) {
    if (Number.isInteger(frame.seq)) {
      if (frame.seq <= this.lastSeq) return false;
      this.lastSeq = frame.seq;
    }
    take(this, frame);
    return true;
  }

  find(frame) {
    const same = (item) =>
      item.kind === "turn" &&
      !item.of &&
      ((frame.message_id && item.id === frame.message_id) || (frame.task_id && item.task === frame.task_id));
    for (const [key, log] of Object.entries(this.logs)) {
      const turn = log.items.find(same);
      // A message that named no topic may be waiting anywhere until the server says where it belongs.
      const movable = key === UNDECIDED || (turn && !turn.addressed && !turn.task);
      if (turn && (frame.topic_id == null || key === frame.topic_id || movable)) return { key, turn };
    }
    return null;
  }

  /** The turn a frame is about, in the topic the frame names; null if the turn has had this frame before. */
  turnOf(frame) {
    let found = this.find(frame);
    const key = frame.topic_id ?? found?.key ?? this.placeOf(frame);
    const log = this.log(key);
    if (frame.topic_name) log.name = frame.topic_name;
    log.latest = Math.max(log.latest, frame.ts ?? 0);
    const from = found?.key;
    if (!found) {
      found = { key, turn: this.learn(key, frame) };
    } else if (from !== key) {
      this.remove(found.turn);
      log.items.push(found.turn);
      this.onMoved(found.turn, found.key, key);
    }
    const { turn } = found;
    turn.task ??= frame.task_id ?? null;
    turn.live = true;
    if (frame.accepted_at) turn.at = frame.accepted_at;
    if (from !== key || frame.accepted_at) this.number(key);
    if (Number.isInteger(frame.seq)) {
      if (frame.seq <= turn.seq) return null;
      turn.seq = frame.seq;
    }
    return { key, turn };
  }

  /** Where a message of no topic belongs: to its team, which the first frames about it name. @param {any} frame */
  placeOf(frame) {
    const team = frame.team ?? this.heard[frame.message_id]?.team;
    return team ? keyOfTeam(team) : UNDECIDED;
  }

  /** A notice of no topic stands with the message that led to it, as one to another team, or else on the blank page. @param {any} notice */
  placeOfNotice({ topic_id, task_id }) {
    return topic_id ?? (task_id && this.find({ task_id })?.key) ?? UNDECIDED;
  }

  /** Takes in notices of no topic, as the store has them, of which so many are new. @param {any[]} rows @param {number} unread */
  recall(rows, unread) {
    for (const [at, row] of rows.entries()) {
      const key = this.placeOfNotice(row);
      this.put(key, itemOf(row));
      if (at < unread) this.log(key).unread += 1;
      this.number(key);
      this.changed(key);
    }
  }

  /** A message of another topic, tab or device. @param {string} key @param {any} frame */
  learn(key, frame) {
    const twin = this.find({ ...frame, topic_id: null, task_id: null })?.turn;
    const said = this.heard[frame.message_id];
    delete this.heard[frame.message_id];
    if (teamOfKey(key)) {
      // Frames may be faster than the answer that names the message of this tab: `adopt` puts the two together.
      const isOwn = (/** @type {any} */ turn) =>
        turn.status === "sending" && turn.attempted && turn.text === said?.text;
      const own = this.turns(key).find(isOwn);
      if (own) this.remove(own);
    }
    const text = twin?.text ?? said?.text ?? "";
    // It was said before this page was there: the store has the words.
    if (!text && key !== UNDECIDED) this.onStale(key);
    const turn = makeTurn({
      id: frame.message_id ?? makeId(),
      text,
      files: twin?.files ?? said?.files ?? [],
      at: said?.at ?? frame.ts ?? Date.now(),
      status: "running",
    });
    this.log(key).items.push(turn);
    return turn;
  }

  /** @param {string} key @param {any} turn @param {number} [ts] */
  end(key, turn, ts) {
    // An answer and a frame may tell the same.
    if (turn.ended === null) this.log(key).unread += 1;
    // What waited for it goes on.
    for (const other of this.turns(key)) other.unbegun = false;
    turn.ended = ts ?? Date.now();
    turn.waiting = "";
    goOn(turn);
    for (const block of turn.blocks) if (block.kind === "tool" && block.ok === null) block.ok = "ended";
    this.number(key);
    this.advance(key);
    this.changed(key, turn);
    this.release(key);
  }
}
