// @ts-check
// All work: a board by state, the same as a table, and one task in detail.

import { may, upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { duration, money, several, since, taskLine, words } from "../../core/format.js";
import { go, write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { choice, search, segments } from "../../parts/fields.js";
import { button, cell, head, pill, teamLink } from "../../parts/marks.js";
import { empty, noMatch } from "../../parts/states.js";
import { remainder, table } from "../../parts/table.js";
import { teamChoice, teamNames } from "../../parts/teams.js";
import "./chain.js";
import { createTask } from "./create.js";
import { cost } from "./task.js";

/** @type {[string, string, string[]][]} */
const COLUMNS = [
  ["queued", "Queued", ["accepted"]],
  ["running", "Running", ["running"]],
  ["waiting", "Waiting", ["waiting"]],
  ["done", "Done", ["done"]],
  ["ended", "Not done", ["failed", "dead", "expired", "cancelled"]],
];
const STATES = ["accepted", "running", "waiting", "done", "failed", "cancelled", "expired", "dead"];
const TYPES = [
  "chat",
  "delegate",
  "query",
  "trigger",
  "escalation",
  "bootstrap",
  "message",
  "handoff",
  "result",
  "agent",
  "compact",
];
/** A board of more cards than this takes too long to draw at each event. */
const MOST_CARDS = 200;
const PRIORITIES = ["critical", "high", "normal", "low"];

class Tasks extends View {
  begin() {
    this.tasks = this.source(
      (signal, wanted) => {
        const { state, type, priority, team, q } = this.place.query;
        return upTo("/tasks", { state, type, priority, team, q }, wanted, signal);
      },
      ["task.changed"],
    );
    this.teams = teamNames(this);
    this.every(15_000);
    this.wish();
  }

  /** @param {import("../../core/place.js").Place} place */
  moved(place) {
    super.moved(place);
    this.wish();
  }

  async create() {
    const made = await createTask(this.teams?.data ?? []);
    if (made?.id) go("tasks", [made.id]);
  }

  refresh() {
    this.tasks?.reload();
  }

  render() {
    const [id, form] = this.place.rest;
    if (id && form === "chain") return make("hw-chain", { key: `chain ${id}`, data: id });
    if (id) return make("hw-task", { key: id, data: id });
    const { query } = this.place;
    const shown = query.as ?? "board";
    return [
      head(
        "Tasks",
        "Everything the teams do, have done and are about to do.",
        may("operate") ? button("New task", "plus", () => this.create(), { tone: "primary" }) : null,
      ),
      make(
        "div",
        { class: "bar" },
        segments(
          "Show as",
          [
            ["board", "Board"],
            ["table", "Table"],
          ],
          shown,
          (as) => this.filter({ as: as === "board" ? "" : as }),
        ),
        search("Search tasks", query.q ?? "", (q) => this.narrow({ q })),
        choice("State", [["", "Any state"], ...STATES], query.state ?? "", (state) => this.narrow({ state })),
        choice("Type", [["", "Any type"], ...TYPES], query.type ?? "", (type) => this.narrow({ type })),
        choice("Priority", [["", "Any priority"], ...PRIORITIES], query.priority ?? "", (priority) =>
          this.narrow({ priority }),
        ),
        teamChoice(this.teams, query.team, (team) => this.narrow({ team })),
      ),
      this.tasks?.show(({ rows }) => this.list(rows, shown)),
    ];
  }

  /** @param {any[]} rows @param {string} shown */
  list(rows, shown) {
    const { q, state, type, priority, team } = this.place.query;
    if (!rows.length && (q || state || type || priority || team)) {
      return noMatch("No task matches these filters.", () =>
        this.narrow({ q: "", state: "", type: "", priority: "", team: "" }),
      );
    }
    if (!rows.length)
      return empty(
        "tasks",
        "No tasks yet",
        "Every message, delegation and trigger run becomes a task, and appears here.",
        make("a", { class: "button primary", href: "#/chat" }, "Write a message"),
      );
    const many = rows.length > MOST_CARDS;
    return [
      many && shown === "board"
        ? make(
            "p",
            { class: "muted" },
            `More than ${MOST_CARDS} tasks are shown as a table. Filter them to see the board.`,
          )
        : null,
      many || shown === "table" ? this.table(rows) : this.board(rows),
      remainder(this.tasks),
    ];
  }

  /** @param {any[]} rows */
  board(rows) {
    return make(
      "div",
      { class: "board" },
      COLUMNS.map(([id, title, states]) => {
        const own = rows.filter((task) => states.includes(task.state));
        return make(
          "section",
          { class: "lane", key: id, "aria-label": `${title}, ${several(own.length, "task")}` },
          make("h2", {}, title, make("span", { class: "muted" }, String(own.length))),
          make(
            "ul",
            {},
            own.map((task) => make("li", { key: task.id }, this.card(task))),
          ),
          own.length ? null : make("p", { class: "muted lane-empty" }, "Nothing here"),
        );
      }),
    );
  }

  /** @param {any} task */
  card(task) {
    return make(
      "a",
      { class: "task-card", href: write("tasks", [task.id]) },
      make("span", { class: "task-top" }, cell(task.team), make("strong", {}, clean(task.team))),
      make("span", { class: "task-body" }, taskLine(task) || clean(task.id)),
      make(
        "span",
        { class: "task-foot" },
        pill(task.state),
        task.wait_reason ? make("span", {}, `for ${words(task.wait_reason)}`) : null,
        make("span", {}, words(task.type)),
        task.priority === "normal" ? null : make("span", {}, clean(task.priority)),
        make("span", { class: "push" }, task.outcome ? duration(task.outcome.duration_ms) : since(task.created_at)),
      ),
    );
  }

  /** @param {any[]} rows */
  table(rows) {
    return table(
      "Tasks",
      [
        {
          name: "State",
          cell: (task) => [
            pill(task.state),
            task.wait_reason ? make("small", { class: "muted" }, ` for ${words(task.wait_reason)}`) : null,
          ],
        },
        {
          name: "Task",
          wide: true,
          cell: (task) =>
            make("a", { class: "clip", href: write("tasks", [task.id]) }, taskLine(task) || clean(task.id)),
        },
        { name: "Team", cell: (task) => teamLink(task.team) },
        { name: "Type", cell: (task) => words(task.type), quiet: true },
        { name: "Priority", cell: (task) => words(task.priority), quiet: true },
        { name: "Age", number: true, cell: (task) => since(task.created_at), quiet: true },
        {
          name: "Took",
          number: true,
          cell: (task) => (task.outcome ? duration(task.outcome.duration_ms) : "–"),
          quiet: true,
        },
        { name: "Cost", number: true, cell: (task) => money(cost(task)), quiet: true },
      ],
      rows,
      { key: (task) => task.id, open: (task) => go("tasks", [task.id]) },
    );
  }
}

customElements.define("hw-tasks", Tasks);
