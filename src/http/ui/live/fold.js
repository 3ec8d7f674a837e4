// @ts-check
// The state of the service as the page knows it: a snapshot, and each event applied to it once. No I/O.

import { beginning } from "../core/format.js";

/**
 * @typedef {{id: string, name: string, arguments: any, status: string, startedAt: any, preview?: string}} ToolCall
 * @typedef {{userText: string, thinking: string, text: string, toolCalls: ToolCall[]}} ActiveTurn
 * @typedef {{task_id: string, turn: string, team: string, topic_id?: string, session_id?: string, started_at: string, state: string,
 *   wait_reason?: string, seq: number, note?: string, active_turn: ActiveTurn, model?: string, step_begins: {text: number, thinking: number}}} Running
 */

/** So many characters of a result are kept with its call. */
const PREVIEW = 500;

export class State {
  constructor() {
    this.boot = -1;
    this.seq = -1;
    /** @type {any} */ this.overview = null;
    /** The names of all teams; null as long as nobody has told them. @type {Set<string> | null} */ this.teams = null;
    /** @type {Map<string, Running>} by task */ this.running = new Map();
    /** @type {Map<string, any>} */ this.approvals = new Map();
    /** @type {Map<string, any>} */ this.questions = new Map();
    /** @type {Map<string, any>} */ this.topics = new Map();
    /** @type {Map<string, any>} */ this.jobs = new Map();
    /** @type {any[]} */ this.channels = [];
    this.unread = 0;
  }

  /** Begins anew from a snapshot. @param {any} snapshot */
  take(snapshot) {
    const by = (/** @type {any[]} */ rows, /** @type {string} */ id) =>
      new Map((rows ?? []).map((row) => [row[id], row]));
    this.boot = snapshot.boot;
    this.seq = snapshot.seq;
    this.overview = snapshot.overview;
    this.teams = new Set(names(snapshot.org));
    this.running = by(snapshot.running, "task_id");
    this.approvals = by(snapshot.approvals, "id");
    this.questions = by(snapshot.questions, "id");
    this.topics = by(snapshot.topics, "id");
    this.jobs = by(snapshot.jobs, "id");
    this.channels = snapshot.channels ?? [];
    this.unread = snapshot.inbox_unread ?? 0;
  }

  /**
   * Takes an event in. Returns false if the snapshot, or an earlier delivery, has it already.
   * @param {string} type @param {any} data @param {number} [boot]
   */
  apply(type, data, boot = this.boot) {
    if (boot === this.boot && data.seq <= this.seq) return false;
    this.seq = data.seq;
    const take = TAKE[type];
    take?.(this, data);
    return true;
  }
}

/** @type {Record<string, (state: State, data: any) => void>} */
const TAKE = {
  turn: takeTurn,
  "task.changed": (state, data) => {
    const isOver = {
      running: false,
      waiting: false,
      // One that waited goes on; one that ran has been cut off.
      accepted: state.running.get(data.id)?.state === "running",
    }[/** @type {string} */ (data.state)];
    if (isOver ?? true) state.running.delete(data.id);
  },
  "approval.changed": (state, data) => keep(state.approvals, data, data.status === "pending"),
  "question.changed": (state, data) => keep(state.questions, data, data.status === "open"),
  "topic.changed": (state, data) => keep(state.topics, data, data.state !== "deleted"),
  "job.progress": (state, data) => keep(state.jobs, data, true),
  "team.changed": ({ teams }, { name, state }) => {
    if (state === "removed") teams?.delete(name);
    else teams?.add(name);
  },
  "channel.changed": (state, data) => {
    state.channels = [...state.channels.filter((channel) => channel.type !== data.type), data];
  },
};

/** The teams of a tree. @param {any} node @returns {string[]} */
const names = (node) => (node ? [node.name, ...(node.teams ?? []).flatMap(names)] : []);

/** @param {Map<string, any>} rows @param {any} data @param {boolean} stays */
function keep(rows, data, stays) {
  if (stays) rows.set(data.id, { ...rows.get(data.id), ...data });
  else rows.delete(data.id);
}

/** @param {State} state @param {any} data */
function takeTurn(state, data) {
  const task = data.task_id;
  if (!task) return;
  const turn = state.running.get(task);
  if (data.kind === "turn_start") {
    const fresh = begun(data);
    state.running.set(task, fresh);
    // One that goes on after it waited keeps what it has said.
    if (turn && turn.turn === data.turn) {
      fresh.started_at = turn.started_at;
      fresh.active_turn = turn.active_turn;
      nextStep(fresh);
    }
    return;
  }
  // What the snapshot's turn already shows is not added again.
  if (!turn || turn.turn !== data.turn || (turn.seq ?? -1) >= data.seq) return;
  turn.seq = data.seq;
  if (data.kind === "note") turn.note = data.text;
  else delete turn.note;
  if (data.kind === "turn_end" || data.state === "stopped") state.running.delete(task);
  else if (data.state === "waiting") Object.assign(turn, { state: "waiting", wait_reason: data.reason });
  // A model call is over: what is said from here on is another step.
  else if (data.step !== undefined) nextStep(turn);
  else if (data.kind === "stream") stream(turn, data.value ?? {}, data.at);
}

/** @param {Running} turn */
function nextStep(turn) {
  turn.step_begins = { text: turn.active_turn.text.length, thinking: turn.active_turn.thinking.length };
}

/** @param {any} data @returns {Running} */
const begun = (data) => ({
  task_id: data.task_id,
  turn: data.turn,
  team: data.team,
  topic_id: data.topic_id,
  session_id: data.session_id,
  started_at: data.at,
  state: "running",
  model: data.model,
  seq: data.seq,
  active_turn: { userText: data.body ?? "", thinking: "", text: "", toolCalls: [] },
  step_begins: { text: 0, thinking: 0 },
});

/** @param {Running} turn @param {any} value @param {string} at */
function stream(turn, value, at) {
  const shown = turn.active_turn;
  // Where the step that is being said began: what is taken back goes back to here.
  const begins = turn.step_begins;
  // Models may use the name of a call again: the newest is meant.
  const call = shown.toolCalls.findLast((one) => one.id === value.id);
  switch (value.type) {
    case "text":
    case "thinking": {
      /** @type {"text" | "thinking"} */ const part = value.type;
      // Steps are parted by a blank line.
      const parts = begins[part] > 0 && shown[part].length === begins[part];
      shown[part] += (parts ? "\n\n" : "") + value.data;
      break;
    }
    case "reset":
      shown.text = shown.text.slice(0, begins.text);
      shown.thinking = shown.thinking.slice(0, begins.thinking);
      break;
    case "tool_call":
      nextStep(turn);
      shown.toolCalls.push({
        id: value.id,
        name: value.name,
        arguments: value.arguments,
        status: "pending",
        startedAt: at,
      });
      break;
    case "tool_start":
      if (call) call.status = "running";
      break;
    case "tool_result":
      if (call)
        Object.assign(call, {
          status: value.isError ? "failed" : "done",
          preview: beginning(value.content, PREVIEW),
        });
      break;
  }
}
