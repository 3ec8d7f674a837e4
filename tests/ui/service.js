// A service that only tells: a snapshot and a stream of events over HTTP, with the bounds of the real one.

import { createServer } from "node:http";

const KEPT = 10_000;
const QUEUE = 256;

export class Telling {
  boot = 1;
  seq = 0;
  /** What is true now: names by topic, summaries by approval, texts by turn. */
  topics = new Map();
  approvals = new Map();
  running = new Map();
  kept = [];
  clients = new Set();
  /** How often a client was told that it missed something, by reason. */
  gaps = {};

  async open(port = 0) {
    this.server = createServer((request, response) => this.answer(request, response));
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
  }

  /** As `kill -9` does: every connection ends at once. */
  async close() {
    this.cut();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  cut() {
    for (const client of this.clients) client.response.destroy();
    this.clients.clear();
  }

  /** What runs does not outlive a restart; what was stored does. */
  async restart() {
    await this.close();
    Object.assign(this, { boot: this.boot + 1, seq: 0, kept: [], running: new Map() });
    await this.open(this.port);
  }

  snapshot() {
    const turn = ([task_id, { text, seq, topic }]) => ({
      task_id,
      turn: `turn-${task_id}`,
      team: "main",
      topic_id: topic,
      started_at: "2026-01-01T00:00:00Z",
      state: "running",
      seq,
      active_turn: { userText: "", thinking: "", text, toolCalls: [] },
      step_begins: { text: 0, thinking: 0 },
    });
    return {
      boot: this.boot,
      seq: this.seq,
      overview: {},
      org: null,
      inbox_unread: 0,
      questions: [],
      channels: [],
      jobs: [],
      topics: [...this.topics].map(([id, name]) => ({ id, name })),
      approvals: [...this.approvals].map(([id, summary]) => ({ id, summary, status: "pending" })),
      running: [...this.running].map(turn),
    };
  }

  answer(request, response) {
    const { pathname, searchParams } = new URL(request.url, "http://service");
    if (pathname === "/api/v1/events") return this.listen(response, searchParams.get("since"));
    const data = pathname === "/api/v1/snapshot" ? this.snapshot() : {};
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify({ data }));
  }

  listen(response, since) {
    const [boot, seq] = since.split("-").map(Number);
    const client = { response, queue: [], full: false };
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(": ok\n\n");
    response.on("drain", () => this.drain(client));
    response.on("close", () => this.clients.delete(client));
    this.clients.add(client);
    const oldest = this.kept[0]?.seq ?? this.seq + 1;
    if (boot !== this.boot) this.gap(client, "restart");
    else if (seq + 1 < oldest && seq < this.seq) this.gap(client, "overflow");
    // One more than was asked for: what is known already must not count again.
    else for (const event of this.kept) if (event.seq >= seq) this.give(client, event);
  }

  gap(client, reason) {
    this.gaps[reason] = (this.gaps[reason] ?? 0) + 1;
    client.queue = [{ seq: this.seq, type: "gap", data: { reason } }];
    this.drain(client);
  }

  give(client, event) {
    client.queue.push(event);
    if (client.queue.length > QUEUE && client.full) this.gap(client, "slow");
    else this.drain(client);
  }

  drain(client) {
    client.full = client.response.writableNeedDrain;
    while (client.queue.length && !client.full) {
      const { seq, type, data } = client.queue.shift();
      client.full = !client.response.write(
        `id: ${this.boot}-${seq}\nevent: ${type}\ndata: ${JSON.stringify({ seq, ...data })}\n\n`,
      );
    }
  }

  tell(type, data) {
    this.seq += 1;
    const event = { seq: this.seq, type, data };
    this.kept.push(event);
    if (this.kept.length > KEPT) this.kept.shift();
    for (const client of this.clients) this.give(client, event);
  }

  // ---- what happens

  say(task, text) {
    const turn = this.running.get(task);
    if (turn) {
      this.tell("turn", { kind: "stream", task_id: task, turn: `turn-${task}`, value: { type: "text", data: text } });
      Object.assign(turn, { text: turn.text + text, seq: this.seq });
    } else {
      this.tell("turn", {
        kind: "turn_start",
        task_id: task,
        turn: `turn-${task}`,
        team: "main",
        at: "2026-01-01T00:00:00Z",
      });
      this.running.set(task, { text: "", seq: this.seq });
    }
  }

  end(task) {
    if (this.running.delete(task)) this.tell("turn", { kind: "turn_end", task_id: task, turn: `turn-${task}` });
  }

  name(id, name) {
    this.topics.set(id, name);
    this.tell("topic.changed", { id, name });
  }

  ask(id, summary) {
    this.approvals.set(id, summary);
    this.tell("approval.changed", { id, summary, status: "pending" });
  }

  decide(id) {
    if (this.approvals.delete(id)) this.tell("approval.changed", { id, status: "approved" });
  }
}

/** The `EventSource` of a browser, over `fetch`. A stalled one reads nothing. */
export class Ears extends EventTarget {
  static stalled = Promise.resolve();
  /** @type {any} */ onopen;
  /** @type {any} */ onerror;

  constructor(address) {
    super();
    this.life = new AbortController();
    this.read(address)
      .catch(() => {})
      .finally(() => this.life.signal.aborted || this.onerror?.());
  }

  close() {
    this.life.abort();
  }

  async read(address) {
    const answer = await fetch(address, { signal: this.life.signal });
    this.onopen?.();
    let rest = "";
    for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
      await Ears.stalled;
      const blocks = (rest + piece).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) this.hear(block);
    }
  }

  hear(block) {
    if (this.life.signal.aborted || block.startsWith(":")) return;
    const field = (name) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
    this.dispatchEvent(new MessageEvent(field("event"), { data: field("data"), lastEventId: field("id") }));
  }
}
