// @ts-check
// The conversation of this browser, for the whole life of the page: it goes on whichever view is open. Listeners hear
// `changed`, `frame` and `moved`.

import { call, may, me } from "../../core/api.js";
import { clean } from "../../core/dom.js";
import { here, write } from "../../core/place.js";
import { isLoggedIn } from "../../core/session.js";
import { live } from "../../live/live.js";
import { toast } from "../../parts/toast.js";
import { Conversation, UNDECIDED } from "./conversation.js";
import { Link } from "./link.js";
import { bytesOf, MOST_BYTES, tooBig } from "./size.js";

/** Of so many tasks. */
const EXTRAS_KEPT = 100;

class Talk extends EventTarget {
  constructor() {
    super();
    /** The topic on the page; null while another view is open. @type {string | null} */
    this.viewed = null;
    /** The topic that was looked at last. */
    this.last = UNDECIDED;
    /** Ids of the turns that were told to stop. @type {Set<string>} */
    this.stopping = new Set();
    /** Ids of the messages whose new topic was asked for. @type {Set<string>} */
    this.beginning = new Set();
    /** What events told of tasks, the newest last. @type {Map<string, {thinking: string, calls: Map<string, {args?: string, result?: string}>}>} */
    this.extras = new Map();
    /** @type {Conversation} */ this.conversation = /** @type {any} */ (null);
    /** @type {Link} */ this.link = /** @type {any} */ (null);
  }

  open() {
    if (!may("chat")) return;
    this.conversation = new Conversation(localStorage, me.principal);
    this.conversation.onChange = (key) => {
      const log = key === null ? null : this.conversation.logs[key];
      if (log && key === this.viewed && !document.hidden) log.unread = 0;
      this.tell("changed");
    };
    this.conversation.onMoved = (turn, from, to) => {
      this.dispatchEvent(new CustomEvent("moved", { detail: { from, to } }));
      if (this.stopping.has(turn.id)) this.link.send({ type: "cancel", topic_id: to });
    };
    this.link = new Link(this.conversation, {
      onState: () => this.tell("changed"),
      onFrame: (frame) => this.took(frame),
      onRenewed: () =>
        this.topics().length > 0 &&
        toast("The earlier conversation could not be continued on the server. Its text stays here to read."),
      deliver: (turn) => this.deliver(turn),
      onTooBig: () => this.endTooBig(),
      onLoggedOut: () => location.reload(),
      isLoggedIn,
    });
    live.addEventListener("turn", (event) => this.heard(/** @type {CustomEvent} */ (event).detail));
    live.addEventListener("resync", () => {
      for (const task of live.state.running.keys()) this.enrich(task);
    });
    // A request fails by itself, while the socket may stay open.
    live.addEventListener("changed", () => {
      if (live.connection !== "online" || this.state !== "online") return;
      for (const turn of this.conversation.unacknowledged()) if (turn.fresh) this.deliver(turn);
    });
    document.addEventListener(
      "visibilitychange",
      () => !document.hidden && this.viewed !== null && this.conversation.seen(this.viewed),
    );
    this.link.open();
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

  /** @param {string} text @param {string} topic */
  say(text, topic) {
    const turn = this.conversation.compose(text, topic);
    // Kept before it is sent: a page that dies in between sends it again under the same id.
    this.conversation.save();
    this.deliver(turn);
  }

  /** @param {any} turn */
  deliver(turn) {
    const bytes = bytesOf(turn.text);
    if (bytes > MOST_BYTES) this.conversation.refuse(turn, tooBig(bytes));
    else if (turn.fresh) this.beginTopic(turn);
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

  /** A frame cannot ask for a new topic, a request can; its answer comes by frames all the same. @param {any} turn */
  async beginTopic(turn) {
    if (this.beginning.has(turn.id)) return;
    const key = turn.id;
    this.beginning.add(key);
    const body = { content: turn.text, topic: turn.fresh, channel_id: this.conversation.channel };
    turn.attempted = true;
    try {
      const { data } = await call("POST", "/messages", { body, headers: { "Idempotency-Key": key } });
      this.conversation.adopt(turn, data);
      if (this.stopping.has(key)) this.link.send({ type: "cancel", topic_id: data.topic_id });
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
    // Without a topic yet it is stopped as soon as the server names one.
    if (topic !== UNDECIDED) this.link.send({ type: "cancel", topic_id: topic });
    this.tell("changed");
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
    if (frame.type === "progress" && frame.gap) {
      const { dropped } = frame.gap;
      // What a restored backup does not have, nobody can count.
      toast(
        dropped ? `The connection was away for long: ${dropped} older update(s) are no longer kept.` : frame.content,
      );
    }
    if (frame.type === "error" && !frame.message_id && !frame.task_id) {
      this.stopping.clear();
      toast(frame.error, { code: frame.code, bad: true });
      this.tell("changed");
    }
    if (frame.task_id) this.enrich(frame.task_id);
    // What a topic says that is only just being made is seen there.
    const elsewhere = here().view !== "chat" || (frame.topic_id !== this.viewed && !this.beginning.size);
    if (frame.type === "notification" && elsewhere)
      toast(shortened(frame.content), frame.topic_id ? { link: ["Open", write("chat", [frame.topic_id])] } : {});
    this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
  }

  /** Events tell more than frames do: what was thought, and whole arguments and results. @param {any} event */
  heard({ kind, task_id: task, value }) {
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

  /** At logout. What was said stays with the server, and a copy of it here for when the same person comes again. */
  leave() {
    this.link?.close();
    this.conversation?.save();
  }

  /** @param {string} type */
  tell(type) {
    this.dispatchEvent(new Event(type));
  }
}

/** @param {string} text */
const shortened = (text) => {
  const line = text.split("\n").find((one) => one.trim()) ?? "";
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
};

export const talk = new Talk();
