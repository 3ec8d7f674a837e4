// @ts-check
// What each kind of frame changes in a conversation. No DOM in here.

import { addText, flushOpening, hasEnded, restate, settle, takeTool } from "./said.js";
import { UNDECIDED } from "./shelf.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** Frames of other types change nothing. @param {Conversation} talk @param {any} frame */
export function take(talk, frame) {
  /** @type {Record<string, (talk: Conversation, frame: any) => void>} */
  const known = {
    ack: takeAck,
    progress: takeProgress,
    response: takeResponse,
    notification: takeNotification,
    error: takeError,
    topic_list: takeTopics,
  };
  known[frame.type]?.(talk, frame);
}

/** @param {Conversation} talk @param {any} frame */
function takeAck(talk, frame) {
  const found = talk.turnOf(frame);
  if (!found) return;
  const { key, turn } = found;
  if (!hasEnded(turn)) {
    turn.position = frame.position ?? 0;
    const queued = frame.duplicate ? frame.status === "queued" : turn.position > 0;
    turn.status = queued ? "queued" : "running";
    if (frame.generated) turn.opening = frame.content;
    else turn.waiting = frame.duplicate ? "" : frame.content;
    // Ended already, and its end was confirmed by us: it will not be sent again.
    if (frame.duplicate && frame.response_seq && frame.response_seq <= talk.lastSeq) turn.status = "unknown";
  }
  talk.changed(key, turn);
}

/** @param {Conversation} talk @param {any} frame */
function takeProgress(talk, frame) {
  if (frame.gap) talk.expectLoss = true;
  if (!frame.message_id && !frame.task_id) return;
  if (frame.kind === "user_message") return takeUserMessage(talk, frame);
  const found = talk.turnOf(frame);
  if (!found) return;
  const { key, turn } = found;
  if (hasEnded(turn)) return;
  turn.status = "running";
  turn.position = 0;
  if (frame.kind === "text_delta") {
    turn.waiting = "";
    if (frame.snapshot) restate(turn, frame.content);
    else addText(turn, frame.content);
  } else if (frame.kind === "tool_call" || frame.kind === "tool_result") {
    turn.waiting = "";
    flushOpening(turn);
    takeTool(turn, frame);
  } else if (frame.kind === "note") {
    if (frame.reset) {
      turn.opening = "";
      if (turn.blocks.at(-1)?.kind === "text") turn.blocks.pop();
    }
    const last = turn.blocks.at(-1);
    if (frame.content && !(last?.kind === "note" && last.text === frame.content)) {
      turn.blocks.push({ kind: "note", text: frame.content });
    }
  }
  talk.changed(key, turn);
}

/** What another tab or device said, or this one before a break. Where it belongs, its ack says. @param {Conversation} talk @param {any} frame */
function takeUserMessage(talk, frame) {
  const found = talk.find(frame);
  if (!found) talk.heard[frame.message_id] = frame.content;
  else if (found.turn.status === "sending") {
    found.turn.status = "running";
    talk.changed(found.key, found.turn);
  } else if (!found.turn.text) {
    found.turn.text = frame.content;
    talk.changed(found.key, found.turn);
  }
}

/** @param {Conversation} talk @param {any} frame */
function takeResponse(talk, frame) {
  const found = talk.turnOf(frame);
  if (!found) return;
  const { key, turn } = found;
  turn.status = frame.status === "cancelled" ? "cancelled" : "done";
  turn.usage = frame.usage ?? null;
  turn.truncated = Boolean(frame.truncated);
  turn.joined = frame.joined_task_id ?? null;
  settle(turn, frame.content);
  talk.end(key, turn, frame.ts);
}

/** @param {Conversation} talk @param {any} frame */
function takeError(talk, frame) {
  if (!frame.message_id && !frame.task_id) return;
  const found = talk.turnOf(frame);
  if (!found) return;
  const { key, turn } = found;
  turn.status = "failed";
  turn.refused = !frame.task_id;
  turn.error = { code: frame.code, text: frame.error };
  if (frame.content) settle(turn, frame.content);
  talk.end(key, turn, frame.ts);
}

/** @param {Conversation} talk @param {any} frame */
function takeNotification(talk, frame) {
  const key = frame.topic_id ?? talk.viewed ?? UNDECIDED;
  const log = talk.log(key);
  if (frame.topic_name) log.name = frame.topic_name;
  const id = `${frame.channel_id}-${frame.seq}`;
  if (log.items.some((item) => item.id === id)) return;
  // What was asked before is answered where it stands: its card shows the outcome by itself.
  const asks = frame.ref_id && ["approval", "question"].includes(frame.kind);
  if (asks && log.items.some((item) => item.kind === "notice" && item.ref === frame.ref_id)) return;
  const { content, team, status, kind } = frame;
  log.items.push({
    kind: "notice",
    id,
    at: frame.ts ?? Date.now(),
    revision: 0,
    content,
    team,
    status,
    about: kind,
    ref: frame.ref_id ?? null,
  });
  log.touched = Math.max(log.touched, frame.ts ?? 0);
  log.unread += 1;
  talk.changed(key);
}

/** @param {Conversation} talk @param {any} frame */
function takeTopics(talk, frame) {
  talk.topics = frame.topics ?? [];
  for (const row of talk.topics) {
    const log = talk.logs[row.id];
    if (!log) continue;
    log.name = row.name;
    log.past = false;
  }
  // Only after frames were dropped can an end be missing, or a topic be gone.
  if (talk.expectLoss) {
    const busy = new Set(talk.topics.filter((row) => row.running || row.queued > 0).map((row) => row.id));
    for (const key of Object.keys(talk.logs)) {
      if (key === UNDECIDED || busy.has(key)) continue;
      for (const turn of talk.turns(key)) {
        if (hasEnded(turn) || turn.status === "sending") continue;
        turn.status = "unknown";
        turn.revision += 1;
      }
    }
  }
  talk.expectLoss = false;
  talk.changed(null);
}
