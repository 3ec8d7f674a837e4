// @ts-check
// The connection to the server: opens it, joins the channel that all devices of a person share, and comes back after a break.

import { Retry } from "../../core/retry.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 15_000;
const HEARTBEAT = 15_000;
const PATIENCE = 4_000;

const TOO_BIG = 1009;
const TRY_AGAIN = 1013;
const CREDENTIAL_ENDED = 4401;
const DENIED = 4403;

/** States: `connecting` at first, `online`, `offline` until a try has succeeded, `denied`. */
export class Link {
  /** @type {"connecting" | "online" | "offline" | "denied"} */
  state = "connecting";
  finished = false;
  /** What the store has is known: frames go on from there. */
  prepared = false;
  /** What the store has is being fetched. @type {Promise<boolean> | null} */ preparing = null;
  /** The channel was asked for … */
  joined = false;
  /** … or will be, and the answer is not there yet. */
  resuming = false;
  /** As many devices as may be have the channel open. */
  crowded = false;
  /** @type {WebSocket | null} */ socket = null;
  retrying = new Retry(() => this.comeBack(), FIRST_PAUSE, LONGEST_PAUSE);
  /** @type {any} */ beat;
  /** @type {any} */ overdue;

  /**
   * @param {import("./conversation.js").Conversation} conversation
   * @param {{onState: (state: string) => void, onFrame: (frame: any) => void, prepare: () => Promise<void>, deliver: (turn: any) => void, onTooBig: () => void, onLoggedOut: () => void,
   *   isLoggedIn: () => Promise<boolean | null>}} hooks
   */
  constructor(conversation, { onState, onFrame, prepare, deliver, onTooBig, onLoggedOut, isLoggedIn }) {
    this.conversation = conversation;
    this.onState = onState;
    this.onFrame = onFrame;
    this.prepare = prepare;
    this.deliver = deliver;
    this.onTooBig = onTooBig;
    this.onLoggedOut = onLoggedOut;
    this.isLoggedIn = isLoggedIn;
    addEventListener("online", () => this.hurry());
    addEventListener("offline", () => this.drop());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
    addEventListener("pagehide", () => this.conversation.save());
    addEventListener("pageshow", (event) => event.persisted && this.hurry());
  }

  set(state) {
    if (state === this.state) return;
    this.state = state;
    this.onState(state);
  }

  open() {
    this.retrying.stop();
    if (this.socket) return;
    const address = new URL("/ws", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address);
    this.socket = socket;
    this.joined = false;
    this.resuming = true;
    this.expect();
    // What the store has is fetched while the connection is made.
    const ready = this.fetch();
    socket.onopen = async () => {
      // However long that takes: it is no sign of a dead connection.
      clearTimeout(this.overdue);
      const prepared = await ready;
      if (socket !== this.socket) return;
      if (!prepared) return this.drop();
      this.expect();
      this.join();
    };
    socket.onmessage = (event) => socket === this.socket && this.receive(event.data);
    socket.onclose = (event) => socket === this.socket && this.closed(event.code);
  }

  /** What the store has, once for all connections that are tried meanwhile. Returns whether it was to be had. */
  fetch() {
    if (this.prepared) return Promise.resolve(true);
    this.preparing ??= this.prepare()
      .then(
        () => (this.prepared = true),
        () => false,
      )
      .finally(() => (this.preparing = null));
    return this.preparing;
  }

  join() {
    const { channel, former, lastSeq } = this.conversation;
    const named = channel ?? former;
    this.joined = true;
    this.send({
      type: "resume",
      home: true,
      ...(named ? { channel_id: named } : {}),
      last_seq: channel ? lastSeq : 0,
    });
    this.askTopics();
  }

  /** What is known has holes, or is of another channel: begins again with what the store has. */
  restart() {
    if (this.finished) return;
    this.prepared = false;
    this.forget();
    this.open();
  }

  /** Gives the connection up for good, as at logout. */
  close() {
    this.finished = true;
    this.retrying.stop();
    this.forget();
  }

  forget() {
    clearInterval(this.beat);
    clearTimeout(this.overdue);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  drop() {
    if (!this.socket) return;
    this.forget();
    this.closed(1006);
  }

  hurry() {
    if (this.state === "offline" && !this.finished) this.open();
  }

  /** Returns whether it was sent: nothing is before the channel is asked for, or it could not be had any more. */
  send(frame) {
    if (!this.joined || this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(JSON.stringify(frame));
    return true;
  }

  askTopics() {
    this.send({ type: "topic_list_request" });
  }

  /** Anything the server says is a sign of life; silence after a question is not. */
  expect() {
    clearTimeout(this.overdue);
    this.overdue = setTimeout(() => this.drop(), PATIENCE);
  }

  receive(text) {
    clearTimeout(this.overdue);
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      return;
    }
    if (this.resuming && frame.type === "error") {
      if (frame.code === "not_authorized") {
        this.forget();
        this.set("denied");
        return;
      }
      if (frame.code === "rate_limited") {
        this.drop();
        return;
      }
      if (["cannot_resume", "bad_resume", "resume_too_late"].includes(frame.code)) {
        // The channel or our place in it is gone. The next try begins with what the store has.
        this.prepared = false;
        this.drop();
        return;
      }
    }
    if (frame.channel_id && frame.channel_id !== this.conversation.channel) {
      // There was none when the store was asked; or another device has made one since, and this knows nothing of it.
      if (this.conversation.channel !== null) return this.restart();
      this.conversation.opened(frame.channel_id);
    }
    const fresh = this.conversation.apply(frame);
    if (frame.type === "topic_list") this.arrived();
    if (fresh) this.onFrame(frame);
  }

  /** The list of topics comes after all that was replayed, so what is still unconfirmed was never received. */
  arrived() {
    if (!this.resuming) return;
    this.resuming = false;
    this.crowded = false;
    this.retrying.hope();
    this.set("online");
    for (const turn of this.conversation.unacknowledged()) this.deliver(turn);
    this.beat = setInterval(() => {
      this.askTopics();
      this.expect();
    }, HEARTBEAT);
  }

  closed(code) {
    this.forget();
    if (this.finished) return;
    if (code === TOO_BIG) this.onTooBig();
    // Later on it means that this client was too slow.
    this.crowded = code === TRY_AGAIN && this.resuming;
    if (code === DENIED) {
      this.set("denied");
    } else if (code === CREDENTIAL_ENDED) {
      this.onLoggedOut();
    } else {
      this.set("offline");
      this.retrying.later();
    }
  }

  async comeBack() {
    // A refused upgrade looks like a dead server from here, so the session is asked for.
    if ((await this.isLoggedIn()) === false) this.onLoggedOut();
    else if (!this.finished) this.open();
  }
}
