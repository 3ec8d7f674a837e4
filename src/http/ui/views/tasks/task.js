// @ts-check
// One task: what was asked, how it went, what it cost, and the chain of work it belongs to.

import { call, get, may, part, post, Refusal, upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { count, duration, money, taskWords, when, words } from "../../core/format.js";
import { go, write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { live } from "../../live/live.js";
import { ask } from "../../parts/dialog.js";
import { input, tick } from "../../parts/fields.js";
import { markdown } from "../../parts/markdown.js";
import { button, cell, code, crumb, facts, headOf, panel, pill, teamLink } from "../../parts/marks.js";
import { chainLink, moment } from "../../parts/moment.js";
import { stop } from "../../parts/stop.js";
import { act } from "../../parts/toast.js";
import "../chat/working.js";

const OPEN = ["accepted", "running", "waiting"];
/** So many messages of a transcript are fetched at once. */
const PAGE = 200;
/** One cause leads to no more tasks. */
const MOST_RELATED = 1_000;
const AGAIN = ["failed", "dead", "expired", "cancelled"];

/** What a task has cost. @param {any} task */
export const cost = (task) => task.outcome?.usage?.cost_usd ?? task.outcome?.usage?.usd ?? null;

class TaskPage extends View {
  chosen = "";

  begin() {
    this.task = this.source((signal) => get(`/tasks/${part(this.chosen)}`, {}, signal));
    this.chain = this.source(async (signal) => {
      const task = await get(`/tasks/${part(this.chosen)}`, {}, signal);
      return (await upTo("/tasks", { root: task.lineage.root }, MOST_RELATED, signal)).rows;
    });
    this.events = this.source(async (signal) => {
      const { session_id: session, first_event: first } = await get(`/tasks/${part(this.chosen)}`, {}, signal);
      const rows = first === null ? [] : await stepsOf(this.chosen, session, first, signal);
      return { session, first, rows };
    });
    this.on(
      ["turn"],
      ({ detail }) =>
        detail.task_id === this.chosen &&
        (detail.kind !== "stream" || detail.value?.type.startsWith("tool_")) &&
        this.events?.soon(),
    );
    this.on(["task.changed"], (event) => {
      const { id, root } = event.detail;
      if (id === this.chosen) this.task?.soon();
      if (id === this.chosen || root === this.task?.data?.lineage?.root) this.chain?.soon();
    });
    this.every(5_000);
  }

  /** @param {string} id */
  set data(id) {
    this.chosen = id;
  }

  get data() {
    return this.chosen;
  }

  render() {
    return [crumb("tasks", "Tasks"), this.task?.show((task) => this.page(task))];
  }

  /** @param {any} task */
  page(task) {
    const note = live.state.running.get(task.id)?.note;
    return [
      headOf(
        title(task.body),
        [
          pill(task.state),
          task.wait_reason ? make("span", {}, `for ${words(task.wait_reason)}`) : null,
          teamLink(task.team),
          code(task.id),
        ],
        this.actions(task),
      ),
      make(
        "div",
        { class: "columns task-columns" },
        make(
          "div",
          { class: "stack" },
          panel("Asked", markdown(taskWords(task.body))),
          outcomeOf(task),
          panel(
            "Steps",
            this.events?.show(({ session, first, rows }) =>
              rows.length
                ? make(
                    "ol",
                    { class: "timeline" },
                    rows.map((/** @type {any} */ message) => moment(message, session)),
                  )
                : make("p", { class: "muted" }, noSteps(task, first)),
            ),
            note ? make("p", { class: "note", "aria-live": "polite" }, clean(note)) : null,
          ),
        ),
        make(
          "div",
          { class: "stack" },
          panel("Facts", factsOf(task)),
          panel(
            "Related tasks",
            this.chain?.show((rows) => this.tree(rows, task.lineage.root)),
            chainLink(task.id, "button small"),
          ),
        ),
      ),
    ];
  }

  /** Who gave what to whom, from the first cause down. @param {any[]} rows @param {string} root */
  tree(rows, root) {
    const known = new Set(rows.map((task) => task.id));
    const below = (/** @type {string | null} */ id) =>
      rows
        .filter((task) => (known.has(task.lineage?.parent) ? task.lineage.parent : null) === id)
        .sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
    // Without a price nothing is known to be free.
    const prices = rows.map(cost).filter((price) => price !== null);
    const total = prices.reduce((sum, price) => sum + price, 0);
    const node = (/** @type {any} */ task) =>
      make(
        "li",
        { key: task.id },
        make(
          "a",
          {
            class: "chain-node",
            href: write("tasks", [task.id]),
            "aria-current": task.id === this.chosen ? "true" : null,
          },
          cell(task.team),
          make(
            "span",
            { class: "chain-word" },
            make("strong", {}, clean(task.team)),
            make("span", {}, title(task.body)),
          ),
          pill(task.state),
          make("span", { class: "muted number" }, cost(task) === null ? "" : money(cost(task))),
        ),
        nodes(below(task.id)),
      );
    const nodes = (/** @type {any[]} */ tasks) =>
      tasks.length ? make("ol", { class: "chain" }, tasks.map(node)) : null;
    return [
      rows.length ? nodes(below(null)) : make("p", { class: "muted" }, "Nothing else is known of ", code(root), "."),
      rows.length > 1
        ? make(
            "p",
            { class: "muted chain-sum" },
            `${rows.length} tasks${prices.length ? `, ${money(total)} in all` : ""}`,
          )
        : null,
    ];
  }

  /** @param {any} task */
  actions(task) {
    if (!may("operate")) return null;
    if (OPEN.includes(task.state)) return button("Cancel…", "stop", () => this.cancel(task));
    if (AGAIN.includes(task.state)) {
      const again = async () => {
        const made = await post(`/tasks/${part(task.id)}/retry`, {});
        go("tasks", [made.id]);
      };
      return button("Try again", "again", (pressed) => act(pressed, again, "Started again as a new task."), {
        tone: "primary",
      });
    }
    return null;
  }

  /** @param {any} task */
  cancel(task) {
    return ask({
      title: "Cancel this task?",
      about: "It is stopped. What it wrote so far is kept, and what it did is not undone.",
      body: [
        input("Reason", "reason", { placeholder: "Optional; whoever asked reads it" }),
        tick("Also cancel the tasks it gave to other teams", "cascade"),
      ],
      action: "Cancel task",
      dangerous: true,
      submit: async ({ reason, cascade }) => {
        await stop(task.id, { ...(reason ? { reason } : {}), cascade: cascade === "true" });
        this.task?.reload();
        this.chain?.reload();
      },
    });
  }
}

/** What came of it so far. @param {any} task */
function outcomeOf({ id, state, outcome }) {
  const { error, result, truncated } = outcome ?? {};
  return [
    state === "cancelled" ? panel("Cancelled", markdown(error?.message ?? "")) : null,
    error && state !== "cancelled"
      ? panel("Error", make("p", { class: "problem" }, clean(error.message), " ", make("code", {}, clean(error.code))))
      : null,
    result
      ? panel(
          "Result",
          markdown(result),
          truncated
            ? make(
                "p",
                { class: "muted" },
                "The model stopped at the most it writes at once. Ask for the rest in the chat.",
              )
            : null,
        )
      : null,
    OPEN.includes(state)
      ? panel(
          "Result",
          live.state.running.has(id)
            ? make("hw-working", { data: id })
            : make("p", { class: "muted" }, "No result yet."),
        )
      : null,
  ];
}

/** @param {any} task */
function factsOf(task) {
  const { outcome, session_id: session, first_event: first } = task;
  return facts([
    ["Type", words(task.type)],
    ["Priority", words(task.priority)],
    ["From", clean(task.created_by)],
    ["Accepted", when(task.created_at)],
    ["Ended", outcome ? when(outcome.finished_at) : null],
    ["Took", outcome ? duration(outcome.duration_ms) : null],
    ["Deadline", outcome ? null : when(task.deadline_at)],
    ["Not before", task.not_before ? when(task.not_before) : null],
    ["Attempts", task.redelivered ? `${task.attempts}, started again after a stop` : String(task.attempts)],
    ["Tokens", outcome?.usage ? `${count(outcome.usage.input)} in, ${count(outcome.usage.output)} out` : null],
    ["Cost", cost(task) === null ? null : money(cost(task))],
    ["Trust", words(task.label)],
    ["Answer goes to", task.reply_to ? clean(task.reply_to) : null],
    [
      "Topic",
      task.topic_id
        ? make(
            "a",
            { href: write("chat", [task.topic_id], task.type === "chat" ? { task: task.id } : {}) },
            clean(live.state.topics.get(task.topic_id)?.name ?? task.topic_id),
          )
        : null,
    ],
    [
      "Transcript",
      session && first !== null ? make("a", { href: write("history", [session], { item: first }) }, "Open") : null,
    ],
  ]);
}

/**
 * The messages of a task's turn. Those of a session follow each other, but for what was said while it waited.
 * @param {string} task @param {string} session @param {number | undefined} first the number of its first event @param {AbortSignal} signal
 */
async function stepsOf(task, session, first, signal) {
  /** @type {any[]} */ const rows = [];
  let after = first && first - 1;
  for (;;) {
    const query = { view: "full", limit: PAGE, after };
    const answer = await call("GET", `/sessions/${part(session)}/history`, { query, signal }).catch((refusal) => {
      // A session begins with its first turn, and goes when it is deleted.
      if (refusal instanceof Refusal && refusal.status === 404) return { data: [] };
      throw refusal;
    });
    const own = answer.data.filter((/** @type {any} */ message) => message.task_id === task);
    rows.push(...own);
    if (answer.data.length < PAGE || !own.length) return rows;
    after = answer.next_after;
  }
}

/** Why no step is shown. @param {any} task @param {number | null | undefined} first */
function noSteps({ outcome, attempts }, first) {
  if (first || attempts > 0) return "The steps are no longer kept.";
  return outcome ? "It ended before it began." : "It has not begun.";
}

/** The first line, cut. @param {string} body */
export function title(body) {
  const line =
    taskWords(body)
      .split("\n")
      .find((text) => text.trim()) ?? "Task";
  return line.length > 120 ? `${line.slice(0, 120)}…` : line;
}

customElements.define("hw-task", TaskPage);
