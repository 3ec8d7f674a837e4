// @ts-check
// What the store says was said, as the page shows it. No DOM in here.

import { makeNotice, makeTurn } from "./said.js";

/** @type {Record<string, string>} */
const STATUS = {
  accepted: "queued",
  running: "running",
  waiting: "running",
  done: "done",
  cancelled: "cancelled",
  failed: "failed",
  expired: "failed",
  dead: "failed",
};

/** A row of the list of messages. @param {any} row */
export const itemOf = (row) =>
  row.type === "message" ? { ...turnOf(row), of: row.of ?? null } : makeNotice(row, row.at);

/** @param {any} row */
function turnOf(row) {
  const { end } = row;
  return makeTurn({
    id: row.message_id,
    task: row.task_id,
    text: row.text,
    files: row.files ?? [],
    at: row.at,
    ended: end?.at ?? null,
    status: STATUS[row.state] ?? "unknown",
    parked: row.state === "waiting",
    unbegun: row.state === "accepted",
    seq: row.seq,
    thinking: row.thinking ?? "",
    blocks: row.blocks.map((/** @type {any} */ block) => blockOf(block, row.at, Boolean(end))),
    usage: end?.usage ?? null,
    error: end?.error ? { code: end.code, text: end.error } : null,
    truncated: Boolean(end?.truncated),
    joined: row.joined_task_id ?? null,
  });
}

/** @param {any} block @param {number} at @param {boolean} over */
function blockOf(block, at, over) {
  if (block.type === "note") return { kind: "note", text: block.text, waits: Boolean(block.waits) };
  if (block.type !== "tool_call") return { kind: "text", text: block.text ?? "" };
  return {
    kind: "tool",
    call: block.call_id,
    tool: block.tool,
    args: block.arguments,
    result: block.result ?? "",
    ok: block.ok ?? (over ? "ended" : null),
    denied: Boolean(block.denied),
    ms: block.duration_ms ?? null,
    untrusted: Boolean(block.untrusted),
    files: block.files ?? [],
    at,
  };
}
