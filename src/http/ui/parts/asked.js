// @ts-check
// Something that waits for a person's word, as a card: loaded by its id in the chat, handed over whole in the inbox.

import { icon, make } from "../core/dom.js";
import { View } from "../core/view.js";
import { markdown } from "./markdown.js";
import { pill } from "./marks.js";

/**
 * @param {{key?: string, status: string, state?: string, picture: string, title: import("../core/dom.js").Child, tags?: import("../core/dom.js").Child,
 *   text: string, line: import("../core/dom.js").Child[]}} about
 * @param {...import("../core/dom.js").Child} rest
 */
export const askCard = ({ key, status, state, picture, title, tags, text, line }, ...rest) =>
  make(
    "article",
    { class: "ask-card", key, "data-status": status },
    make("div", { class: "ask-head" }, icon(picture), make("strong", {}, title), pill(status, state), tags),
    markdown(text),
    make(
      "p",
      { class: "muted ask-line" },
      line.filter(Boolean).map((part) => make("span", {}, part)),
    ),
    rest,
  );

export class Asked extends View {
  /** @type {any} */ row = null;
  /** The type of event that tells of its changes. */
  told = "";

  /** @param {string} _id @param {AbortSignal} _signal @returns {Promise<any>} */
  async load(_id, _signal) {
    return null;
  }

  /** @param {any} _row @returns {import("../core/dom.js").Child} */
  card(_row) {
    return null;
  }

  begin() {
    // Whoever hands a row over keeps it fresh.
    if (this.row) return;
    const id = this.dataset.id ?? "";
    this.whole = this.source((signal) => this.load(id, signal));
    this.on([this.told], (event) => event.detail.id === id && this.whole?.soon());
  }

  /** @param {any} row */
  set data(row) {
    this.row = row;
    if (this.isConnected) this.update();
  }

  get data() {
    return this.row;
  }

  render() {
    if (this.whole) return this.whole.show((row) => this.card(row));
    return this.row ? this.card(this.row) : null;
  }

  /** What it became by a person's word. @param {any} row */
  became(row) {
    if (this.whole) this.whole.data = row;
    else this.row = row;
    this.update();
    this.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: row }));
  }
}
