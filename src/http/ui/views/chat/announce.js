// @ts-check
// Tells a screen reader whole sentences, not tokens.

import { clean, make } from "../../core/dom.js";
import { hasEnded } from "./said.js";

const KEPT = 12;

export class Announcer {
  /** What was said of the turn so far. @type {{turn: string | null, length: number}} */
  said = { turn: null, length: 0 };

  /** @param {import("./conversation.js").Conversation} conversation @param {HTMLElement} place */
  constructor(conversation, place) {
    this.conversation = conversation;
    this.place = place;
  }

  reset() {
    this.said = { turn: null, length: 0 };
  }

  /** @param {any} frame @param {string} topic the one that is looked at, or the team, of which frames name none */
  take(frame, topic) {
    const found = this.conversation.find(frame);
    if (found?.key !== topic) return;
    const { turn } = found;
    if (frame.type === "error") return this.say(`Failed: ${turn.error?.text ?? ""}`);
    if (frame.kind === "tool_call") return this.say(frame.content);
    if (frame.type !== "response" && frame.kind !== "text_delta") return;
    if (this.said.turn !== turn.id) this.said = { turn: turn.id, length: 0 };
    const text = turn.blocks
      .filter((/** @type {any} */ block) => block.kind === "text")
      .map((/** @type {any} */ block) => block.text)
      .join("\n");
    const rest = text.slice(this.said.length);
    const ready = hasEnded(turn) ? rest.length : (/^[\s\S]*[.!?:](?=\s)|^[\s\S]*\n(?=\n)/.exec(rest)?.[0].length ?? 0);
    if (ready > 0) this.say(rest.slice(0, ready));
    this.said.length += ready;
    if (hasEnded(turn)) this.say(turn.status === "cancelled" ? "Stopped." : "End of the answer.");
  }

  /** @param {string} words */
  say(words) {
    this.place.append(make("p", {}, clean(words)));
    while (this.place.childElementCount > KEPT) this.place.firstElementChild?.remove();
  }
}
