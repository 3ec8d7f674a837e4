// @ts-check
// What each kind of frame changes in a conversation. No DOM in here.

import { addText, flushOpening, goOn, hasEnded, makeNotice, restate, settle, takeTool } from "./said.js";

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
  // What became of a message that this page does not show is of no use to it.
  if (frame.duplicate && !talk.find(frame)) return;
  const found = talk.turnOf(frame);
  if (!found) return;
  const { key, turn } = found;
  if (!hasEnded(turn)) {
    turn.position = frame.position ?? 0;
    const queued = frame.duplicate ? frame.status === "queued" : turn.position > 0;
    turn.status = queued ? "queued" : "running";
    if (frame.generated) turn.opening = frame.content;
    else turn.waiting = frame.duplicate ? "" : frame.content;
    // Ended already, and its end was told before: the store has it.
    if (frame.duplicate && frame.response_seq && frame.response_seq <= talk.lastSeq) talk.onStale(key);
    // What is confirmed stands where the service took it in.
    talk.number(key);
  }
  talk.changed(key, turn);
}

/** @param {Conversation} talk @param {any} frame */
function takeProgress(talk, frame) {
  if (frame.gap) return talk.onLost(frame);
  if (!frame.message_id && !frame.task_id) return;
  if (frame.kind === "user_message") return takeUserMessage(talk, frame);
  const found = talk.turnOf(frame);
  if (!found) return;
  const { key, turn } = found;
  if (hasEnded(turn)) return;
  turn.status = "running";
  turn.position = 0;
  goOn(turn);
  turn.parked = Boolean(frame.waits);
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
      turn.blocks.push({ kind: "note", text: frame.content, waits: turn.parked });
    }
  }
  talk.changed(key, turn);
}

/** What another tab or device said, or this one before a break. Where it belongs, its ack says. @param {Conversation} talk @param {any} frame */
function takeUserMessage(talk, frame) {
  const found = talk.find(frame);
  if (!found) {
    const { content: text, files = [], ts: at, team = null } = frame;
    talk.heard[frame.message_id] = { text, files, at, team };
    return;
  }
  found.turn.at = frame.ts ?? found.turn.at;
  if (found.turn.status === "sending") found.turn.status = "running";
  found.turn.text ||= frame.content;
  if (!found.turn.files.length) found.turn.files = frame.files ?? [];
  talk.number(found.key);
  talk.changed(found.key, found.turn);
}

/** A command, or a message that came to nothing, is of no topic: it is shown where it was typed. @param {Conversation} talk @param {any} frame */
function isElsewhere(talk, frame) {
  const elsewhere = !frame.task_id && !frame.topic_id && !talk.find(frame);
  if (elsewhere) delete talk.heard[frame.message_id];
  return elsewhere;
}

/** @param {Conversation} talk @param {any} frame */
function takeResponse(talk, frame) {
  if (isElsewhere(talk, frame)) return;
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
  if ((!frame.message_id && !frame.task_id) || isElsewhere(talk, frame)) return;
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
  const key = talk.placeOfNotice(frame);
  const log = talk.log(key);
  if (frame.topic_name) log.name = frame.topic_name;
  const at = frame.ts ?? Date.now();
  log.latest = Math.max(log.latest, at);
  if (!talk.putNotice(key, makeNotice(frame, at))) return;
  talk.number(key);
  log.unread += 1;
  talk.changed(key);
}

/** @param {Conversation} talk @param {any} frame */
function takeTopics(talk, frame) {
  talk.topics = frame.topics ?? [];
  for (const id of frame.deleted ?? []) talk.forget(id);
  for (const row of talk.topics) {
    const log = talk.logs[row.id];
    if (!log) continue;
    log.name = row.name;
    // It was read on another device.
    if (row.read_until >= log.latest) log.unread = 0;
  }
  talk.changed(null);
}
