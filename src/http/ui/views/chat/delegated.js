// @ts-check
// The work that a turn gave to other teams, as cards nested by who gave it to whom.

import { list, may } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { beginning, duration, money, since, taskLine } from "../../core/format.js";
import { write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { markdown } from "../../parts/markdown.js";
import { cell, fold, pill } from "../../parts/marks.js";
import { stop } from "../../parts/stop.js";
import { act } from "../../parts/toast.js";
import { talk } from "./talk.js";
import "./working.js";

const SHOWN = 600;

class Delegated extends View {
  begin() {
    const root = this.dataset.root;
    this.tasks = this.source(async (signal) => (await list("/tasks", { root, limit: 100 }, signal)).rows);
    this.on(["task.changed"], (event) => event.detail.root === root && this.tasks?.soon());
    // A result is told in the chat too.
    talk.addEventListener(
      "frame",
      (event) => /** @type {CustomEvent} */ (event).detail.type === "notification" && this.tasks?.soon(),
      { signal: this.lifetime.signal },
    );
  }

  render() {
    const root = this.dataset.root;
    const rows = (this.tasks?.data ?? []).filter((/** @type {any} */ task) => task.id !== root);
    if (!rows.length) return null;
    const known = new Set(rows.map((/** @type {any} */ task) => task.id));
    const above = (/** @type {any} */ task) => (known.has(task.lineage?.parent) ? task.lineage.parent : root);
    const nested = (/** @type {any} */ id) =>
      rows
        .filter((/** @type {any} */ task) => above(task) === id)
        .sort((/** @type {any} */ a, /** @type {any} */ b) => (a.created_at < b.created_at ? -1 : 1));
    const card = (/** @type {any} */ task) =>
      make("li", { key: task.id }, this.card(task), nestedList(nested(task.id), card));
    return make("section", { class: "delegated", "aria-label": "Delegated work" }, nestedList(nested(root), card));
  }

  /** @param {any} task */
  card(task) {
    const { outcome } = task;
    const said = outcome?.result || outcome?.error?.message || "";
    const onclick = (/** @type {any} */ event) => act(event.currentTarget, () => stop(task.id, { cascade: true }));
    return make(
      "article",
      { class: "given" },
      make(
        "header",
        {},
        cell(task.team),
        make("strong", {}, clean(task.team)),
        pill(task.state),
        task.wait_reason ? make("span", { class: "muted" }, `for ${clean(task.wait_reason)}`) : null,
        make(
          "a",
          { class: "given-link", href: write("tasks", [task.id]) },
          outcome ? duration(outcome.duration_ms) : since(task.created_at),
          typeof outcome?.usage?.cost_usd === "number" ? ` · ${money(outcome.usage.cost_usd)}` : "",
        ),
        !outcome && may("operate")
          ? make(
              "button",
              {
                type: "button",
                class: "button small",
                "aria-label": `Stop the work of ${clean(task.team)}`,
                onclick,
              },
              "Stop",
            )
          : null,
      ),
      make("p", { class: "given-body" }, taskLine(task)),
      outcome ? null : make("hw-working", { data: task.id }),
      said ? fold("Result", markdown(beginning(said, SHOWN))) : null,
    );
  }
}

/** @param {any[]} rows @param {(row: any) => Element} card */
const nestedList = (rows, card) => (rows.length ? make("ul", {}, rows.map(card)) : null);

customElements.define("hw-delegated", Delegated);
