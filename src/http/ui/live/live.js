// @ts-check
// What happens in the service, as it happens: a snapshot, then its events. Whoever listens hears each type by its name,
// `changed` when counts or the connection changed, `returned` when it listens again after a break, and `resync` when what was
// fetched before may be out of date.

import { barred, get, Refusal } from "../core/api.js";
import { Pace } from "../core/pace.js";
import { Retry } from "../core/retry.js";
import { State } from "./fold.js";

const TYPES = [
  "turn",
  "team.changed",
  "task.changed",
  "task.stalled",
  "message",
  "topic.changed",
  "channel.changed",
  "approval.changed",
  "question.changed",
  "inbox.changed",
  "trigger.changed",
  "trigger.run",
  "memory.changed",
  "vault.changed",
  "mcp.changed",
  "plugin.changed",
  "usage.changed",
  "config.reloaded",
  "config.invalid",
  "job.progress",
  "log",
  "drain",
  "gap",
];
const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 5_000;
/** Silence is checked so often, and an answer may take so long: together less than the five seconds of a visible break. */
const BEAT = 2_500;
const PATIENCE = 2_000;
const SNAPSHOT_PATIENCE = 20_000;
/** A tab that nobody looks at gives its connection back: a browser has only six for one server. */
const UNSEEN = 30_000;
/** It then asks so often what waits for a person, since its title says that also to those who look elsewhere. */
const GLANCE = 60_000;
/** From an event to the request for the figures, and between two such requests. */
const PAUSE = 200;
const APART = 1_000;

class Live extends EventTarget {
  constructor() {
    super();
    this.state = new State();
    /** @type {"connecting" | "online" | "offline" | "missing"} */
    this.connection = "connecting";
    this.retrying = new Retry(() => this.open(), FIRST_PAUSE, LONGEST_PAUSE);
    /** @type {EventSource | null} */ this.stream = null;
    this.begun = false;
    this.counting = new Pace(() => this.count(), PAUSE, APART);
  }

  /** Begins to listen. */
  async open() {
    if (!this.begun) {
      this.begun = true;
      addEventListener("offline", () => this.lost());
      addEventListener("online", () => this.retry());
      document.addEventListener("visibilitychange", () => this.seen());
      setInterval(() => this.beat(), BEAT);
    }
    this.retrying.stop();
    if (this.stream || this.opening) return;
    this.opening = true;
    try {
      const fresh = this.state.boot < 0;
      if (fresh || this.stale) await this.snapshot();
      if (!fresh) this.tell("returned");
      this.listen();
    } catch (refusal) {
      this.failed(/** @type {Refusal} */ (refusal));
    }
    this.opening = false;
  }

  async snapshot() {
    // A network that swallows it must not hold up the next try.
    this.state.take(await get("/snapshot", undefined, AbortSignal.timeout(SNAPSHOT_PATIENCE)));
    this.stale = false;
    this.tell("changed");
    this.tell("resync");
  }

  listen() {
    const { boot, seq } = this.state;
    const stream = new EventSource(`/api/v1/events?since=${boot}-${seq}`);
    this.stream = stream;
    stream.onopen = () => {
      this.retrying.hope();
      this.set("online");
    };
    stream.onerror = () => stream === this.stream && this.lost();
    for (const type of TYPES) {
      stream.addEventListener(type, (event) => this.take(type, /** @type {MessageEvent} */ (event)));
    }
  }

  /** @param {string} type @param {MessageEvent} event */
  take(type, event) {
    const data = JSON.parse(event.data);
    if (type === "gap") {
      this.gap();
      return;
    }
    const boot = Number(event.lastEventId.split("-")[0]);
    if (!this.state.apply(type, data, boot)) return;
    this.dispatchEvent(new CustomEvent(type, { detail: data }));
    if (COUNTED.has(type)) this.recount();
    if (type !== "log" && type !== "turn") this.tell("changed");
  }

  async gap() {
    this.close();
    this.stale = true;
    await this.open();
    this.tell("caught-up");
  }

  /** The figures in the navigation and in the title are out of date. */
  recount() {
    this.counting.soon();
  }

  async count() {
    try {
      const overview = await get("/overview");
      this.state.overview = overview;
      this.state.unread = overview.inbox_unread;
      this.tell("changed");
    } catch {
      // The next event asks again; a lost connection is found out elsewhere.
    }
  }

  close() {
    this.stream?.close();
    this.stream = null;
  }

  /** What happened meanwhile is fetched at the return; a refusal then says whether one is still logged in. */
  lost() {
    this.close();
    this.stale = true;
    this.set("offline");
    this.retrying.later();
  }

  /** @param {Refusal} refusal */
  failed(refusal) {
    if (refusal.status === 404 || refusal.status === 403) {
      this.set("missing");
      this.recount();
    } else if (refusal.status !== 401) this.lost();
  }

  retry() {
    this.retrying.hope();
    if (!this.stream) this.open();
  }

  /** A network that swallows everything closes no connection: only a question tells. */
  async beat() {
    if (document.hidden || this.beating || this.connection === "connecting") return;
    this.beating = true;
    const answers = await fetch("/healthz", { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" }).then(
      (answer) => answer.ok,
      () => false,
    );
    this.beating = false;
    if (this.connection === "missing") barred.reason = answers ? "" : OFFLINE;
    else if (!answers && this.connection === "online") this.lost();
  }

  seen() {
    clearTimeout(this.leaving);
    clearInterval(this.glancing);
    if (document.hidden) {
      this.leaving = setTimeout(() => {
        this.close();
        this.retrying.stop();
        this.glancing = setInterval(() => this.recount(), GLANCE);
      }, UNSEEN);
    } else if (!this.stream && this.begun && this.connection !== "missing") this.retry();
  }

  /** @param {"connecting" | "online" | "offline" | "missing"} connection */
  set(connection) {
    if (connection === this.connection) return;
    this.connection = connection;
    barred.reason = connection === "offline" ? OFFLINE : "";
    this.tell("changed");
  }

  /** @param {string} type */
  tell(type) {
    this.dispatchEvent(new Event(type));
  }
}

const OFFLINE = "Offline: the service cannot be reached, so nothing can be changed now. Try again when it is back.";
const COUNTED = new Set([
  "config.reloaded",
  "approval.changed",
  "question.changed",
  "inbox.changed",
  "task.changed",
  "team.changed",
  "usage.changed",
]);

export const live = new Live();
