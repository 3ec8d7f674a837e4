// @ts-check
// A turn while it works, wherever a task is shown: its calls, and what it says as it says it.

import { clean, icon, make, spinner } from "../../core/dom.js";
import { paint, withFrame } from "../../core/paint.js";
import { live } from "../../live/live.js";
import { show } from "../../parts/markdown.js";
import { brief } from "./cards.js";

/** The newest of many calls. */
const CALLS = 6;

class Working extends HTMLElement {
  task = "";
  soon = withFrame(() => this.draw());
  lifetime = new AbortController();
  calls = make("ul", { class: "calls" });
  text = make("div", { class: "markdown" });

  /** @param {string} task */
  set data(task) {
    if (task === this.task) return;
    this.task = task;
    this.draw();
  }

  get data() {
    return this.task;
  }

  connectedCallback() {
    if (this.lifetime.signal.aborted) this.lifetime = new AbortController();
    const { signal } = this.lifetime;
    live.addEventListener(
      "turn",
      (event) => /** @type {CustomEvent} */ (event).detail.task_id === this.task && this.soon(),
      { signal },
    );
    live.addEventListener("resync", () => this.soon(), { signal });
    this.replaceChildren(this.calls, this.text);
    this.draw();
  }

  disconnectedCallback() {
    this.lifetime.abort();
  }

  draw() {
    const turn = live.state.running.get(this.task);
    this.hidden = !turn;
    if (!turn) return;
    const { toolCalls, text } = turn.active_turn;
    const before = Math.max(0, toolCalls.length - CALLS);
    paint(
      this.calls,
      before > 0 && make("li", { class: "muted" }, `${before} before`),
      toolCalls.slice(before).map(callLine),
    );
    this.calls.hidden = toolCalls.length === 0;
    show(this.text, text);
    // What is said last is seen, unless somebody reads further up.
    if (this.scrollHeight - this.scrollTop - this.clientHeight < 120) this.scrollTop = this.scrollHeight;
  }
}

/** @param {import("../../live/fold.js").ToolCall} call */
function callLine({ name, arguments: given, status }) {
  const mark = status === "done" ? icon("check") : status === "failed" ? icon("alert") : null;
  const word = { done: "Done", failed: "Failed" }[status] ?? "Running";
  return make(
    "li",
    { "data-state": status },
    mark ?? spinner(),
    make("span", { class: "hidden" }, word),
    make("code", {}, clean(name)),
    make("span", { class: "brief" }, brief(JSON.stringify(given ?? ""))),
  );
}

customElements.define("hw-working", Working);
