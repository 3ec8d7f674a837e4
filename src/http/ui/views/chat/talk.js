// @ts-check
// The conversation of a person, for the whole life of the page: it goes on whichever view is open. Listeners hear `changed`,
// `frame`, `moved` and `forgotten`.

import { call, get, list, may, me, part, Refusal } from "../../core/api.js";
import { clean } from "../../core/dom.js";
import { Pace } from "../../core/pace.js";
import { here, write } from "../../core/place.js";
import { Retry } from "../../core/retry.js";
import { isLoggedIn } from "../../core/session.js";
import { live } from "../../live/live.js";
import { isOwnStop, stop } from "../../parts/stop.js";
import { act, toast, withdraw } from "../../parts/toast.js";
import { branchOf } from "./branches.js";
import { Conversation, UNDECIDED } from "./conversation.js";
import { Link } from "./link.js";
import { hasEnded } from "./said.js";
import { keyOfTeam, teamOfKey } from "./shelf.js";
import { bytesOf, MOST_BYTES, tooBig } from "./size.js";

/** Of so many tasks. */
const EXTRAS_KEPT = 100;
/** So much of a topic is fetched at once. */
const PAGE = 30;
/** Among so many of the newest chats those with other teams are looked for. */
const CHATS = 100;
/** Among so many of the newest notices those that a team waits for are looked for. */
const NOTICES = 100;
/** From a frame about something unknown to the request for it, or from a look to the word that it was read; and between two. */
const PAUSE = 200;
const APART = 1_000;

class Talk extends EventTarget {
  constructor() {
    super();
    /** The topic on the page; null while another view is open. @type {string | null} */
    this.viewed = null;
    /** The topic that was looked at last. */
    this.last = UNDECIDED;
    /** Files for the next message, by topic. @type {Map<string, import("./files.js").Attached[]>} */
    this.attached = new Map();
    /** Messages whose words are being changed, by topic: the words so far, and what was typed before. @type {Map<string, {turn: any, text: string, draft: string}>} */
    this.edits = new Map();
    /** Ids of the turns that were told to stop. @type {Set<string>} */
    this.stopping = new Set();
    /** Ids of the messages whose new topic was asked for. @type {Set<string>} */
    this.beginning = new Set();
    /** What events told of tasks, the newest last. @type {Map<string, {thinking: string, calls: Map<string, {args?: string, result?: string}>}>} */
    this.extras = new Map();
    /** Topics that frames told more of than is known. @type {Set<string>} */
    this.stale = new Set();
    this.refreshing = new Pace(() => this.refresh(), PAUSE, APART);
    /** Up to when topics are read that the service was not told of yet. @type {Map<string, number>} */
    this.read = new Map();
    this.telling = new Pace(() => this.tellRead(), PAUSE, APART);
    /** Why a topic could not be fetched. @type {Map<string, any>} */
    this.refusals = new Map();
    this.recalling = new Retry(() => this.recallTeams(), 2_000, 60_000);
    /** Topics that are being fetched. @type {Map<string, Promise<void>>} */
    this.fetching = new Map();
    /** @type {Conversation} */ this.conversation = /** @type {any} */ (null);
    /** @type {Link} */ this.link = /** @type {any} */ (null);
  }

  open() {
    if (!may("chat")) return;
    this.conversation = new Conversation(localStorage, me.principal);
    this.conversation.onChange = (key) => {
      if (key !== null && key === this.viewed && !document.hidden) this.seen(key);
      this.tell("changed");
    };
    this.conversation.onStale = (key) => {
      this.stale.add(key);
      this.refreshing.soon();
    };
    this.conversation.onLost = ({ gap, content }) => {
      // Nothing is lost, since the store has it, but for what a restored backup does not have.
      if (!gap.dropped) toast(content, { news: true });
      this.link.restart();
    };
    this.conversation.onForgotten = (key) => {
      for (const known of [this.read, this.stale, this.attached, this.edits]) known.delete(key);
      if (this.last === key) this.last = UNDECIDED;
      this.dispatchEvent(new CustomEvent("forgotten", { detail: key }));
    };
    this.conversation.onMoved = (turn, from, to) => {
      this.dispatchEvent(new CustomEvent("moved", { detail: { turn, from, to } }));
      if (this.stopping.has(turn.id)) this.link.send({ type: "cancel", topic_id: to });
    };
    this.link = new Link(this.conversation, {
      onState: (state) => this.became(state),
      onFrame: (frame) => this.took(frame),
      prepare: () => this.prepare(),
      deliver: (turn) => this.deliver(turn),
      onTooBig: () => this.endTooBig(),
      onLoggedOut: () => location.reload(),
      isLoggedIn,
    });
    live.addEventListener("turn", (event) => this.heard(/** @type {CustomEvent} */ (event).detail));
    live.addEventListener("resync", () => {
      for (const [task, { state }] of live.state.running) {
        if (state === "waiting") this.setAside(task);
        else this.goesOn(task);
        this.enrich(task);
      }
    });
    // A request fails by itself, while the socket may stay open.
    live.addEventListener("changed", () => {
      if (live.connection !== "online" || this.state !== "online") return;
      for (const turn of this.conversation.unacknowledged()) if (isPosted(turn)) this.deliver(turn);
    });
    addEventListener("storage", () => this.conversation.heed());
    document.addEventListener(
      "visibilitychange",
      () => !document.hidden && this.viewed !== null && this.seen(this.viewed),
    );
    this.link.open();
  }

  // ---- what the store has

  /** The channel of this person: its topics, and what was said in the one that is looked at and in those that are busy. */
  async prepare() {
    const [found, isMine] = await Promise.all([list("/me/channels", { home: true }), isLoggedIn()]);
    if (isMine === false) {
      // It is the channel of whoever has logged in since: nothing that was written here is for it.
      location.reload();
      throw new Refusal(401);
    }
    const [row = null] = found.rows;
    this.conversation.begin(row);
    this.refusals.clear();
    this.stale.clear();
    // What was asked for before belongs to what was known before.
    this.fetching = new Map();
    this.recallTeams();
    if (!row) return;
    const { topics } = this.conversation;
    const told = row.unread - topics.reduce((sum, topic) => sum + topic.unread, 0);
    const place = here();
    const shown = this.viewed ?? (place.view === "chat" ? (place.rest[0] ?? UNDECIDED) : UNDECIDED);
    // A turn that runs is known before frames go on with it.
    const wanted = new Set(topics.filter((topic) => topic.running || topic.queued > 0).map((topic) => topic.id));
    if (shown !== UNDECIDED) wanted.add(shown);
    await Promise.all([
      ...[...wanted].map((key) =>
        this.load(
          key,
          topics.some((topic) => topic.id === key),
        ),
      ),
      told > 0 ? this.recall(row.id, told) : null,
    ]);
  }

  /** Which other teams were talked to, as far as the newest chats tell: they are listed, and read when they are looked at. */
  async recallTeams() {
    if (!may("operate") || !may("read")) return;
    const { conversation, fetching } = this;
    this.recalling.stop();
    try {
      const { rows } = await list("/tasks", { type: "chat", limit: CHATS });
      // Meanwhile it began anew.
      if (fetching !== this.fetching) return;
      const busy = new Set();
      for (const row of rows.filter(({ team, created_by }) => team !== "main" && created_by === me.principal)) {
        const key = keyOfTeam(row.team);
        conversation.mention(key, Date.parse(row.created_at));
        // What runs is known before frames go on with it.
        if (!row.outcome) busy.add(key);
      }
      this.recalling.hope();
      this.tell("changed");
      await Promise.all([...busy].map((key) => this.load(key)));
    } catch {
      // They are there all the same, under their names.
      if (fetching === this.fetching) this.recalling.later();
    }
  }

  /** What was told and belongs to no topic, as far as nobody has seen it. @param {string} channel @param {number} count */
  async recall(channel, count) {
    const { rows } = await list(`/me/channels/${part(channel)}/messages`, { limit: count });
    this.conversation.recall(rows, count);
  }

  /** What a team that is talked to waits for, which was told of no topic. @param {string} key */
  async recallAsked(key) {
    const { conversation } = this;
    const waiting = conversation.turns(key).filter((/** @type {any} */ turn) => turn.parked);
    if (!teamOfKey(key) || !waiting.length || !conversation.channel) return;
    const tasks = new Set(waiting.map((/** @type {any} */ turn) => turn.task));
    const { rows } = await list(`/me/channels/${part(conversation.channel)}/messages`, { limit: NOTICES });
    conversation.recall(
      rows.filter((row) => tasks.has(row.task_id)),
      0,
    );
  }

  /** Fetches the newest part of a topic, if it is not here. @param {string} key */
  async show(key) {
    if (key === UNDECIDED || this.conversation.logs[key]?.whole || !this.link?.prepared) return;
    await this.load(key);
  }

  /**
   * Fetches a part of a topic: the newest, or what comes before what is here.
   * @param {string} key @param {boolean} [needed] without it the page would have holes @param {boolean} [earlier]
   */
  load(key, needed = false, earlier = false) {
    const underway = this.fetching.get(key);
    // Who wants it besides waits for it; that it fails is told once.
    if (underway) return underway.catch(() => {});
    const loading = this.fetchPart(key, needed, earlier);
    this.fetching.set(key, loading);
    return loading;
  }

  /** @param {string} key @param {boolean} needed @param {boolean} earlier */
  async fetchPart(key, needed, earlier) {
    const { fetching } = this;
    try {
      const cursor = earlier ? this.conversation.log(key).next : undefined;
      const page = await this.page(key, cursor);
      if (fetching !== this.fetching) return;
      this.conversation.fill(key, page, earlier);
      this.refusals.delete(key);
      await Promise.all([this.lookUp(key), this.recallAsked(key)]);
    } catch (refusal) {
      if (fetching === this.fetching) this.refusals.set(key, refusal);
      if (needed) throw refusal;
    } finally {
      fetching.delete(key);
      // What frames told meanwhile may not be in it.
      if (this.stale.has(key)) this.refreshing.soon();
      this.tell("changed");
    }
  }

  /** The server lists only the newest of the topics that are archived. @param {string} key */
  async lookUp(key) {
    const { topics, unlisted } = this.conversation;
    if (teamOfKey(key) || !may("read") || topics.some((topic) => topic.id === key)) return;
    const row = await get(`/topics/${part(key)}`).catch(() => null);
    if (row) unlisted.set(key, { name: row.name, state: row.state, profile: row.profile });
  }

  /** A part of what was said in a topic, or with a team. A branch goes on with what it left. @param {string} key @param {any} [from] */
  async page(key, from) {
    const team = teamOfKey(key);
    if (team) return list(`/me/teams/${part(team)}/messages`, { limit: PAGE, cursor: from });
    let place = from ?? { topic: key };
    /** @type {any[]} */
    const rows = [];
    while (place && rows.length < PAGE) {
      const { topic, before, cursor } = place;
      const found = await list(`/me/topics/${part(topic)}/messages`, { limit: PAGE, before, cursor });
      rows.push(...found.rows.map((row) => ({ ...row, of: topic })));
      const left = branchOf(this.conversation, topic);
      if (found.next) place = { ...place, cursor: found.next };
      else place = left && { topic: left.topic_id, before: left.at };
    }
    return { rows, next: place };
  }

  /** Fetches all of a topic. @param {string} key */
  async loadAll(key) {
    this.refusals.delete(key);
    while (this.conversation.logs[key]?.next && !this.refusals.has(key)) await this.load(key, false, true);
  }

  async refresh() {
    const keys = [...this.stale].filter((key) => !this.fetching.has(key));
    for (const key of keys) this.stale.delete(key);
    await Promise.all(keys.map((key) => this.load(key)));
  }

  /** @param {string} state */
  became(state) {
    if (state === "online" && this.viewed !== null) {
      this.show(this.viewed);
      if (!document.hidden) this.seen(this.viewed);
    }
    if (state === "online") this.stopAgain();
    if (this.read.size > 0) this.telling.soon();
    this.tell("changed");
  }

  /** Somebody looks at a topic: it is read, on all devices. @param {string} key */
  seen(key) {
    // Before that, frames would be of another channel.
    if (this.state !== "online") return;
    const until = this.conversation.seen(key);
    // What a team answered is read on this device alone; what it told besides counts with what is of no topic.
    const isTeam = teamOfKey(key) !== null;
    if (until === null || (isTeam && this.conversation.logs[UNDECIDED]?.unread)) return;
    this.read.set(isTeam ? UNDECIDED : key, until);
    this.telling.soon();
  }

  /** What cannot be told now is told when the connection is back. */
  async tellRead() {
    for (const [key, until] of this.read) {
      const topic = key === UNDECIDED ? {} : { topic_id: key };
      if (this.state === "online" && this.link.send({ type: "read", until, ...topic })) this.read.delete(key);
    }
  }

  get state() {
    return this.link?.state ?? null;
  }

  topics() {
    return this.conversation?.listed() ?? [];
  }

  unread() {
    if (!this.conversation) return 0;
    const logs = Object.entries(this.conversation.logs);
    return logs.reduce((sum, [key, log]) => sum + (key === this.viewed && !document.hidden ? 0 : log.unread), 0);
  }

  title() {
    const topic = this.topics().find((one) => one.id === this.viewed);
    return topic ? clean(topic.name) : "";
  }

  /** Files for the next message in a topic. @param {string} key */
  attachedTo(key) {
    const files = this.attached.get(key) ?? [];
    this.attached.set(key, files);
    return files;
  }

  /** @param {string} text @param {string} topic @param {any[]} [files] @param {{instead?: any, profile?: string | null}} [more] what it stands for on a branch, whose model answers */
  say(text, topic, files = [], more = {}) {
    const turn = this.conversation.compose(text, topic, files, more);
    // Kept before it is sent: a page that dies in between sends it again under the same id.
    this.conversation.save();
    this.deliver(turn);
  }

  /** @param {any} turn */
  deliver(turn) {
    const bytes = bytesOf(turn.text);
    if (bytes > MOST_BYTES) this.conversation.refuse(turn, tooBig(bytes));
    else if (isPosted(turn)) this.post(turn);
    else this.link.send(this.conversation.frameOf(turn));
  }

  /** The server would not read a message: that is its end, or it would be sent again for ever. */
  endTooBig() {
    const sent = this.conversation.unacknowledged().filter((turn) => turn.attempted);
    const largest = sent.sort((a, b) => bytesOf(b.text) - bytesOf(a.text))[0];
    if (largest) this.conversation.refuse(largest, tooBig(bytesOf(largest.text)));
  }

  /** What was not confirmed is not wanted any more. @param {any} turn */
  discard(turn) {
    this.conversation.remove(turn);
    this.conversation.save();
  }

  /** A frame cannot ask for a new topic, a branch or another team, a request can; its answer comes by frames all the same. @param {any} turn */
  async post(turn) {
    if (this.beginning.has(turn.id)) return;
    const key = turn.id;
    this.beginning.add(key);
    const files = turn.files.map((/** @type {any} */ file) => file.id);
    const team = teamOfKey(turn.addressed);
    const branch = turn.instead && { instead_of: turn.instead.message };
    const target = team ? { team } : (branch ?? { topic: turn.fresh, untitled: true, profile: turn.profile });
    const body = { content: turn.text, ...target, channel_id: this.conversation.channel, files };
    turn.attempted = true;
    try {
      const { data } = await call("POST", "/messages", { body, headers: { "Idempotency-Key": key } });
      this.conversation.adopt(turn, data);
      if (this.stopping.has(key)) this.cancel(data.topic_id ?? turn.addressed, { id: key, task: data.task_id });
    } catch (refusal) {
      const { status, code, message } = /** @type {any} */ (refusal);
      // Not reached: it is sent again under the same key when the connection is back.
      if (status) this.conversation.refuse(turn, { code, message });
    }
    this.beginning.delete(key);
  }

  /** @param {string} topic */
  stop(topic) {
    const turn = this.conversation.running(topic);
    if (!turn || this.state !== "online") return;
    this.stopping.add(turn.id);
    // Without a topic or a task yet it is stopped as soon as the server names one.
    if (topic !== UNDECIDED) this.cancel(topic, turn);
    this.tell("changed");
  }

  /** What was to be stopped while the connection was gone may not have been heard. */
  stopAgain() {
    for (const id of this.stopping) {
      const found = this.conversation.find({ message_id: id });
      if (!found || hasEnded(found.turn)) this.stopping.delete(id);
      else if (found.key !== UNDECIDED) this.cancel(found.key, found.turn);
    }
  }

  /** @param {string} topic @param {{id: string, task?: string | null}} turn */
  async cancel(topic, { id, task }) {
    if (!teamOfKey(topic)) this.link.send({ type: "cancel", topic_id: topic });
    else if (task && !(await act(null, () => stop(task)))) {
      this.stopping.delete(id);
      this.tell("changed");
    }
  }

  /** Keeps a message that waits from being worked on. Returns whether that came in time. @param {any} turn */
  takeBack(turn) {
    return act(null, () => stop(turn.task, { reason: "taken back" }));
  }

  /** @param {any} frame */
  took(frame) {
    const notKnown = frame.topic_id && !this.conversation.topics.some((topic) => topic.id === frame.topic_id);
    if (["ack", "response", "error"].includes(frame.type) || notKnown) {
      this.asked ??= setTimeout(() => {
        this.asked = undefined;
        this.link.askTopics();
      }, 250);
    }
    if (frame.type === "error" && !frame.message_id && !frame.task_id) {
      this.stopping.clear();
      toast(frame.error, { code: frame.code, bad: true });
      this.tell("changed");
    }
    if (frame.task_id) this.enrich(frame.task_id);
    // What a topic says that is only just being made is seen there.
    const { view } = here();
    const place = this.conversation.placeOfNotice(frame);
    const elsewhere = view !== "chat" || (place !== this.viewed && !this.beginning.size);
    const asks = ["approval", "question"].includes(frame.kind);
    // Whoever decided knows that, on whichever device.
    const known = (view === "approvals" && asks) || frame.by === me.principal || isOwnStop(frame);
    if (asks) withdraw(frame.ref_id);
    if (frame.type === "notification" && elsewhere && !known)
      toast(shortened(frame.content), { news: true, about: frame.ref_id, link: ["Open", write("chat", [place])] });
    this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
  }

  /** Events tell more than frames do: what was thought, and whole arguments and results. @param {any} event */
  heard({ kind, state, task_id: task, value }) {
    if (kind === "turn_start") this.goesOn(task);
    if (state === "waiting") this.setAside(task);
    if (kind !== "stream" || !["thinking", "tool_call", "tool_result"].includes(value?.type)) return;
    const known = this.extras.get(task) ?? { thinking: "", calls: new Map() };
    known.thinking = live.state.running.get(task)?.active_turn.thinking || known.thinking;
    if (value.type === "tool_call") known.calls.set(value.id, { args: JSON.stringify(value.arguments) });
    if (value.type === "tool_result")
      known.calls.set(value.id, { ...known.calls.get(value.id), result: value.content });
    this.extras.delete(task);
    this.extras.set(task, known);
    if (this.extras.size > EXTRAS_KEPT) this.extras.delete([...this.extras.keys()][0]);
    this.enrich(task);
  }

  /** Work that was set aside or waited goes on; no frame says so before it says or does something. @param {string} task */
  goesOn(task) {
    const found = this.conversation?.find({ task_id: task });
    if (!found || hasEnded(found.turn) || (!found.turn.parked && found.turn.status !== "queued")) return;
    Object.assign(found.turn, { parked: false, unbegun: false, status: "running" });
    this.conversation.changed(found.key, found.turn);
  }

  /** Work waits, maybe again: a frame says what for the first time only. @param {string} task */
  setAside(task) {
    const found = this.conversation?.find({ task_id: task });
    if (!found || hasEnded(found.turn) || found.turn.parked) return;
    found.turn.parked = true;
    this.conversation.changed(found.key, found.turn);
  }

  /** Frames and events come on two ways, so either may be first. @param {string} task */
  enrich(task) {
    const known = this.extras.get(task);
    const thinking = live.state.running.get(task)?.active_turn.thinking || known?.thinking;
    const found = thinking || known ? this.conversation?.find({ task_id: task }) : null;
    if (!found) return;
    const { turn, key } = found;
    if (thinking) turn.thinking = thinking;
    for (const block of turn.blocks) {
      const call = block.kind === "tool" ? known?.calls.get(block.call) : null;
      if (call?.args) block.args = call.args;
      if (call?.result && block.ok !== null) block.result = call.result;
    }
    this.conversation.changed(key, turn);
  }

  /** At logout. What was said stays with the server, and here what was typed for when the same person comes again. */
  leave() {
    this.link?.close();
    this.conversation?.save();
  }

  /** @param {string} type */
  tell(type) {
    this.dispatchEvent(new Event(type));
  }
}

/** It is sent by a request: frames cannot say where it goes. @param {any} turn */
const isPosted = (turn) => turn.fresh || turn.instead || teamOfKey(turn.addressed);

/** @param {string} text */
const shortened = (text) => {
  const line = text.split("\n").find((one) => one.trim()) ?? "";
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
};

export const talk = new Talk();
