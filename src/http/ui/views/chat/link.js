// @ts-check
// The connection to the server: opens it, goes on with the earlier channel, and comes back after a break.

import { Retry } from "../../core/retry.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 15_000;
const HEARTBEAT = 15_000;
const PATIENCE = 4_000;

const TOO_BIG = 1009;
const CREDENTIAL_ENDED = 4401;
const DENIED = 4403;

/** States: `connecting` at first, `online`, `offline` until a try has succeeded, `denied`. */
export class Link {
  /** @type {"connecting" | "online" | "offline" | "denied"} */
  state = "connecting";
  finished = false;
  /** The earlier channel was asked for, and the answer is not there yet. */
  resuming = false;
  /** @type {WebSocket | null} */ socket = null;
  retrying = new Retry(() => this.comeBack(), FIRST_PAUSE, LONGEST_PAUSE);
  /** @type {any} */ beat;
  /** @type {any} */ overdue;

  /**
   * @param {import("./conversation.js").Conversation} conversation
   * @param {{onState: (state: string) => void, onFrame: (frame: any) => void, onRenewed: () => void, deliver: (turn: any) => void, onTooBig: () => void, onLoggedOut: () => void,
   *   isLoggedIn: () => Promise<boolean | null>}} hooks
   */
  constructor(conversation, { onState, onFrame, onRenewed, deliver, onTooBig, onLoggedOut, isLoggedIn }) {
    this.conversation = conversation;
    this.onState = onState;
    this.onFrame = onFrame;
    this.onRenewed = onRenewed;
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
    this.expect();
    socket.onopen = () => {
      const { channel, lastSeq } = this.conversation;
      this.resuming = channel !== null;
      if (this.resuming) this.send({ type: "resume", channel_id: channel, last_seq: lastSeq });
      this.askTopics();
    };
    socket.onmessage = (event) => this.receive(event.data);
    socket.onclose = (event) => socket === this.socket && this.closed(event.code);
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

  send(frame) {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
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
      if (frame.code === "bad_resume" && this.conversation.lastSeq > 0) {
        // Our count is of no use; everything kept is asked for, and known frames change nothing.
        this.conversation.lastSeq = 0;
        this.send({ type: "resume", channel_id: this.conversation.channel, last_seq: 0 });
        this.askTopics();
        return;
      }
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
        this.resuming = false;
        this.conversation.beginChannel(frame.channel_id);
        this.onRenewed();
        return;
      }
    }
    if (frame.channel_id && frame.channel_id !== this.conversation.channel) {
      // An answer of the unused fresh channel, given while the earlier one was being asked for.
      if (this.resuming) return;
      this.conversation.beginChannel(frame.channel_id);
    }
    const fresh = this.conversation.apply(frame);
    if (frame.type === "topic_list") this.arrived();
    if (fresh) this.onFrame(frame);
  }

  /** The list of topics comes after all that was replayed, so what is still unconfirmed was never received. */
  arrived() {
    if (this.state === "online") return;
    this.resuming = false;
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
