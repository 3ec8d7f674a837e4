// @ts-check
// What the page knows: topics, their turns, and what the server has not confirmed. No DOM in here.
//
// Frames may be replayed after a reconnect, so taking one in twice must change nothing.

import { take } from "./frames.js";
import { hasEnded } from "./said.js";
import * as shelf from "./shelf.js";
import { UNDECIDED } from "./shelf.js";

export { UNDECIDED };

export function makeId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "m-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {string} name @param {number} number */
const numbered = (name, number) => (number === 1 ? name : `${name} ${number}`);

export class Conversation {
  /** Called with the topic that changed, or null if the list did, and the item. @type {(key: string | null, item?: any) => void} */
  onChange = () => {};
  /** Called when a message was given another topic. @type {(turn: any, from: string, to: string) => void} */
  onMoved = () => {};
  /** The topic on the page. @type {string | null} */
  viewed = null;
  /** The messages that this tab sends: what was written in it, and what it found unsent. @type {Set<string>} */
  mine = new Set();
  /** Drafts that were changed in this tab; empty means that one was sent. @type {Map<string, string>} */
  typed = new Map();
  /** @type {string | null} */ channel = null;
  lastSeq = 0;
  /** As the server lists them. @type {any[]} */ topics = [];
  /** What was said, by topic. @type {Record<string, any>} */ logs = {};
  /** What was typed and not sent, by topic. @type {Record<string, string>} */ drafts = {};
  /** Words of another tab or device whose topic is not known yet, by message. @type {Record<string, string>} */ heard =
    {};
  /** Frames were dropped: an end may be missing. */
  expectLoss = false;

  /** @param {Pick<Storage, "getItem" | "setItem" | "removeItem">} storage @param {string} principal */
  constructor(storage, principal) {
    this.storage = storage;
    this.principal = principal;
    this.load();
  }

  // ---- what is kept in the browser

  load() {
    const kept = shelf.read(this.storage, this.principal);
    this.channel = kept?.channel ?? null;
    this.lastSeq = kept?.lastSeq ?? 0;
    this.topics = kept?.topics ?? [];
    this.logs = kept?.logs ?? {};
    this.drafts = kept?.drafts ?? {};
    this.heard = kept?.heard ?? {};
    this.expectLoss = false;
    for (const turn of this.unacknowledged()) this.mine.add(turn.id);
  }

  saveSoon() {
    this.timer ??= setTimeout(() => this.save(), 800);
  }

  save() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { principal, channel, lastSeq, topics, logs, drafts, heard } = this;
    const own = { principal, channel, lastSeq, topics, logs, drafts, heard };
    const kept = shelf.read(this.storage, principal);
    shelf.write(this.storage, shelf.merge(own, kept, this.mine, this.typed));
  }

  /** Keeps what is typed for a topic. @param {string} key @param {string} text */
  draft(key, text) {
    if (text) this.drafts[key] = text;
    else delete this.drafts[key];
    this.typed.set(key, text);
    this.saveSoon();
  }

  // ---- reading

  log(key) {
    return (this.logs[key] ??= { name: null, items: [], unread: 0, touched: Date.now(), past: false });
  }

  turns(key) {
    return (this.logs[key]?.items ?? []).filter((item) => item.kind === "turn");
  }

  running(key) {
    return this.turns(key).find((turn) => turn.status === "running" || turn.status === "sending");
  }

  /** The topics to list: the server's, then the ones of earlier channels that only this browser has. */
  listed() {
    const known = new Set(this.topics.map((topic) => topic.id));
    const extra = Object.entries(this.logs)
      .filter(([key, log]) => key !== UNDECIDED && !known.has(key) && log.items.length > 0)
      .map(([id, log]) => ({
        id,
        name: log.name ?? "Topic",
        state: log.past ? "past" : "active",
        last_activity: log.touched,
        queued: 0,
        running: false,
      }));
    return [...this.topics, ...extra].sort((a, b) => b.last_activity - a.last_activity);
  }

  // ---- writing

  /** Notes a message to be sent. The caller sends `frameOf` it. */
  compose(content, topic) {
    const turn = {
      kind: "turn",
      id: makeId(),
      task: null,
      text: content,
      at: Date.now(),
      ended: null,
      status: "sending",
      seq: 0,
      attempted: false,
      addressed: topic || null,
      fresh: this.nameFor(content, topic),
      position: 0,
      waiting: "",
      opening: "",
      thinking: "",
      blocks: [],
      usage: null,
      error: null,
      truncated: false,
      revision: 0,
    };
    this.mine.add(turn.id);
    const log = this.log(topic);
    log.items.push(turn);
    log.touched = turn.at;
    this.changed(topic);
    return turn;
  }

  /**
   * The name of the topic that a message begins; null if it needs none: it has a topic, is a command, or is the first of all.
   * The service would look for a topic that fits, which is not what a person means who begins a new one.
   */
  nameFor(content, topic) {
    // Also those that the server has not listed yet.
    const open = this.listed().filter((one) => !["done", "past"].includes(one.state));
    if (topic !== UNDECIDED || open.length === 0 || content.startsWith("/")) return null;
    const underway = this.turns(UNDECIDED).find((turn) => turn.fresh && !hasEnded(turn));
    if (underway) return underway.fresh;
    const words = content
      .replace(/[^\p{L}\p{N}\p{P}\p{S}]|[:@#]/gu, " ")
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
      ...(turn.addressed ? { topic_id: turn.addressed } : {}),
    };
  }

  unacknowledged() {
    const all = Object.values(this.logs).flatMap((log) => log.items);
    return all.filter((item) => item.kind === "turn" && item.status === "sending").sort((a, b) => a.at - b.at);
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

  /** Empties the blank page, but not what is still on its way. */
  freshPage() {
    const log = this.log(UNDECIDED);
    log.items = log.items.filter((item) => item.kind === "turn" && !hasEnded(item));
    this.changed(UNDECIDED);
  }

  seen(key) {
    const log = this.logs[key];
    if (log?.unread) {
      log.unread = 0;
      this.changed(key);
    }
  }

  changed(key, item) {
    if (item) item.revision += 1;
    this.saveSoon();
    this.onChange(key, item);
  }

  /**
   * The service took a message in under an id and a topic of its own. Frames about it may have been faster than this answer.
   * @param {any} turn @param {{message_id: string, task_id?: string, topic_id?: string}} taken
   */
  adopt(turn, { message_id, task_id, topic_id }) {
    const [key, name] = [topic_id ?? UNDECIDED, turn.fresh];
    this.remove(turn);
    let known = this.find({ message_id })?.turn;
    if (known) Object.assign(known, { text: turn.text, at: turn.at });
    else {
      known = Object.assign(turn, {
        id: message_id,
        task: task_id ?? null,
        addressed: topic_id ?? null,
        fresh: null,
        status: "running",
      });
      this.log(key).items.push(known);
    }
    this.log(key).name ??= name;
    this.changed(key, known);
    this.onMoved(turn, UNDECIDED, key);
  }

  /** A message was not taken in. @param {any} turn @param {{code: string, message: string}} refusal */
  refuse(turn, { code, message }) {
    Object.assign(turn, { status: "failed", refused: true, error: { code, text: message } });
    const key = Object.keys(this.logs).find((one) => this.logs[one].items.includes(turn));
    this.end(key ?? UNDECIDED, turn);
  }

  /** The old channel is gone: its topics become history, and a new channel begins. */
  beginChannel(channel) {
    const lost = this.channel !== null;
    this.channel = channel;
    this.lastSeq = 0;
    this.topics = [];
    for (const [key, log] of Object.entries(this.logs)) {
      if (key !== UNDECIDED) log.past = lost;
      for (const item of log.items) {
        if (item.kind !== "turn" || hasEnded(item)) continue;
        // What the lost channel may have accepted is not sent again unasked: it could run twice.
        if (item.status !== "sending") item.status = "unknown";
        else if (item.attempted) item.status = "unconfirmed";
        else item.addressed = null;
        item.revision += 1;
      }
      this.changed(key);
    }
  }

  // ---- frames

  /** Takes a frame in. Returns false if it was seen before. */
  apply(frame) {
    if (Number.isInteger(frame.seq)) {
      if (frame.seq <= this.lastSeq) return false;
      this.lastSeq = frame.seq;
    }
    take(this, frame);
    this.saveSoon();
    return true;
  }

  find(frame) {
    const same = (item) =>
      item.kind === "turn" &&
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
    const key = frame.topic_id ?? found?.key ?? UNDECIDED;
    const log = this.log(key);
    if (frame.topic_name) log.name = frame.topic_name;
    log.touched = Math.max(log.touched, frame.ts ?? 0);
    if (!found) {
      // A message of another topic, or one this browser has not written.
      const twin = this.find({ ...frame, topic_id: null, task_id: null })?.turn;
      const turn = this.compose(twin?.text ?? this.heard[frame.message_id] ?? "", key);
      delete this.heard[frame.message_id];
      turn.id = frame.message_id ?? turn.id;
      turn.at = frame.ts ?? turn.at;
      found = { key, turn };
    } else if (found.key !== key) {
      this.remove(found.turn);
      log.items.push(found.turn);
      this.onMoved(found.turn, found.key, key);
    }
    const { turn } = found;
    turn.task ??= frame.task_id ?? null;
    if (Number.isInteger(frame.seq)) {
      if (frame.seq <= turn.seq) return null;
      turn.seq = frame.seq;
    }
    return { key, turn };
  }

  /** @param {string} key @param {any} turn @param {number} [ts] */
  end(key, turn, ts) {
    turn.ended = ts ?? Date.now();
    turn.waiting = "";
    for (const block of turn.blocks) if (block.kind === "tool" && block.ok === null) block.ok = "ended";
    this.log(key).unread += 1;
    // The ones behind it move up; no frame says so.
    for (const other of this.turns(key)) {
      if (other.status !== "queued") continue;
      other.position = Math.max(0, other.position - 1);
      other.waiting = "";
      if (other.position === 0) other.status = "running";
      other.revision += 1;
    }
    this.changed(key, turn);
  }
}
