// @ts-check
// What a turn has said so far: pieces that stream in, tool calls in their place, and the whole text at the end.

const ENDED = new Set(["done", "cancelled", "failed", "unknown", "unconfirmed"]);

/** @param {any} turn */
export const hasEnded = (turn) => ENDED.has(turn.status);

/** The service does not have it, as far as is known: it is on its way, unconfirmed or refused. @param {any} item */
export const isUntaken = (item) =>
  item.kind === "turn" && (item.status === "sending" || item.status === "unconfirmed" || Boolean(item.refused));

/** A message that nothing came of yet, as far as is known. @param {Record<string, any>} known */
export const makeTurn = (known) => ({
  kind: "turn",
  id: "",
  task: null,
  text: "",
  /** @type {any[]} */ files: [],
  at: 0,
  ended: null,
  status: "sending",
  seq: 0,
  attempted: false,
  addressed: null,
  fresh: null,
  /** Another topic was begun before its own was known: nobody follows it there. */ left: false,
  /** The profile whose model answers in the topic that it begins. @type {string | null} */ profile: null,
  /** What it stands for on a branch: a message, its topic and its moment. @type {{message: string, topic: string, at: number} | null} */ instead:
    null,
  /** The topic that it was said in, if that is shown as the beginning of another. @type {string | null} */ of: null,
  position: 0,
  waiting: "",
  /** It is set aside, and a note, shown as long as that is so, says for what. */ parked: false,
  /** The store says that nobody has begun with it. */ unbegun: false,
  opening: "",
  thinking: "",
  /** @type {any[]} */ blocks: [],
  usage: null,
  error: null,
  truncated: false,
  joined: null,
  /** Frames have told of it, since the page was opened. */ live: false,
  revision: 0,
  ...known,
});

/**
 * What a team told on its own, from a frame or from the store: both name it alike, so that it stands there once.
 * @param {any} told @param {number} at
 */
export const makeNotice = ({ content, team, status, kind, task_id, ref_id, files }, at) => ({
  kind: "notice",
  id: [at, kind, team, task_id ?? "", status, ref_id ?? "", content].join(":"),
  at,
  revision: 0,
  content,
  team,
  status,
  about: kind,
  files: files ?? [],
  ref: ref_id ?? null,
  task: task_id ?? null,
});

/** What is not confirmed stands last; the rest as the service took it in, the same for everyone. @param {any} a @param {any} b */
export function inOrder(a, b) {
  const [unsent, other] = [a.status === "sending", b.status === "sending"];
  if (unsent !== other) return unsent ? 1 : -1;
  return a.at - b.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/**
 * The words to show before the first text block is complete: the ack repeats the beginning of the text, and
 * the deltas of that beginning follow it, or are lost when the connection was.
 */
export function joinOpening(opening, text) {
  if (!opening || text.startsWith(opening)) return text;
  if (opening.startsWith(text)) return opening;
  return `${opening} … ${text}`;
}

/** What it waited for has come, or is of no use any more. @param {any} turn */
export function goOn(turn) {
  turn.parked = false;
  turn.blocks = turn.blocks.filter((/** @type {any} */ block) => !block.waits);
}

export function addText(turn, piece) {
  const last = turn.blocks.at(-1);
  if (last?.kind === "text") last.text += piece;
  else turn.blocks.push({ kind: "text", text: piece });
}

/** After a break: all that was said since the last tool call or note, in place of the pieces that arrived. */
export function restate(turn, text) {
  const last = turn.blocks.at(-1);
  if (last?.kind === "text") last.text = text;
  else turn.blocks.push({ kind: "text", text });
}

export function flushOpening(turn) {
  if (!turn.opening) return;
  const first = turn.blocks.find((block) => block.kind === "text");
  if (first) first.text = joinOpening(turn.opening, first.text);
  else turn.blocks.unshift({ kind: "text", text: turn.opening });
  turn.opening = "";
}

export function takeTool(turn, frame) {
  let card = turn.blocks.find((block) => block.kind === "tool" && block.call === frame.call_id);
  if (!card) {
    card = {
      kind: "tool",
      call: frame.call_id,
      tool: frame.tool ?? "tool",
      args: "",
      result: "",
      ok: null,
      denied: false,
      ms: null,
      untrusted: false,
      files: [],
      at: frame.ts ?? Date.now(),
    };
    turn.blocks.push(card);
  }
  if (frame.kind === "tool_call") {
    card.args = frame.preview ?? "";
  } else {
    card.ok = frame.ok !== false;
    card.denied = Boolean(frame.denied);
    card.ms = frame.duration_ms ?? null;
    card.result = frame.preview ?? "";
    card.untrusted = Boolean(frame.untrusted);
    card.files = frame.files ?? [];
  }
}

/** Puts the final text in place of the streamed one, keeping what was said between tool calls where it was. */
export function settle(turn, content) {
  turn.opening = "";
  const squeeze = (text) => text.replace(/\s+/g, "");
  const texts = turn.blocks.filter((block) => block.kind === "text");
  const whole = squeeze(content);
  if (squeeze(texts.map((block) => block.text).join("")).endsWith(whole)) return;
  const last = texts.at(-1);
  const tail = turn.blocks.at(-1) === last ? last : null;
  if (tail && whole.startsWith(squeeze(tail.text))) {
    tail.text = content;
    return;
  }
  turn.blocks = turn.blocks.filter((block) => block.kind !== "text" || !whole.includes(squeeze(block.text)));
  if (content) turn.blocks.push({ kind: "text", text: content });
}
