// @ts-check
// One message of a transcript: what was said, thought, called and answered, with who and when.

import { clean, make } from "../core/dom.js";
import { count, duration, money, pretty, when } from "../core/format.js";
import { write } from "../core/place.js";
import { markdown } from "./markdown.js";
import { fold, outside, pill } from "./marks.js";

/** The way to all that led to a task. @param {string} task @param {string} look */
export const chainLink = (task, look) =>
  make("a", { class: look, href: write("tasks", [task, "chain"]) }, "What led to this");

/** @param {any} message @param {string} session where it is to be found @param {boolean} [found] it is the one that was looked for */
export function moment(message, session, found) {
  const { role, meta, seq } = message;
  const who = role === "user" ? clean(message.from ?? "user") : role === "toolResult" ? clean(message.toolName) : role;
  return make(
    "li",
    { key: String(seq), class: "moment", "data-role": role, id: `m${seq}`, "data-found": found },
    make(
      "header",
      {},
      make("strong", {}, who),
      message.isError ? pill(message.denied ? "denied" : "failed") : null,
      message.untrusted ? outside() : null,
      make("span", { class: "muted" }, when(message.timestamp)),
      message.durationMs !== undefined ? make("span", { class: "muted" }, duration(message.durationMs)) : null,
      message.task_id ? make("a", { class: "muted", href: write("tasks", [message.task_id]) }, "task") : null,
      message.task_id ? chainLink(message.task_id, "muted") : null,
      make(
        "a",
        { class: "item-link", href: write("history", [session], { item: seq }), "aria-label": `Item ${seq}` },
        `#${seq}`,
      ),
    ),
    (message.content ?? []).map((/** @type {any} */ block) => blockOf(block, role, found)),
    meta?.model
      ? make(
          "p",
          { class: "muted moment-meta" },
          [clean(meta.model), usageWords(meta.usage), meta.stopReason ? clean(meta.stopReason) : ""]
            .filter(Boolean)
            .join(" · "),
        )
      : null,
  );
}

/** @param {any} usage */
const usageWords = (usage) =>
  usage
    ? [`${count(usage.input)} in, ${count(usage.output)} out`, typeof usage.cost === "number" ? money(usage.cost) : ""]
        .filter(Boolean)
        .join(" · ")
    : "";

/** @param {any} block @param {string} role @param {boolean} [found] it is folded out */
function blockOf(block, role, found) {
  if (block.type === "thinking") return fold("Thinking", make("p", { class: "thought" }, clean(block.thinking)));
  if (block.type === "toolCall")
    return fold(
      make("code", {}, clean(block.name)),
      make("pre", { tabindex: "0", "aria-label": `Arguments of ${clean(block.name)}` }, pretty(block.arguments)),
      { class: "call", open: found },
    );
  if (block.type === "file") return make("p", {}, make("code", {}, clean(block.filename)));
  if (role === "toolResult")
    return make("pre", { class: "block", tabindex: "0", "aria-label": "Result" }, pretty(block.text));
  return markdown(block.text);
}
