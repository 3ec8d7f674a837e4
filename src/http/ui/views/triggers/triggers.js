// @ts-check
// What starts work without a person typing: when it runs next, how it went, and a form for more.

import { get, may, part, post, put, remove, upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { actor, count, duration, money, pretty, several, since, when, words } from "../../core/format.js";
import { go, write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { ask, confirm } from "../../parts/dialog.js";
import { area, choice, search, select } from "../../parts/fields.js";
import { markdown } from "../../parts/markdown.js";
import { button, crumb, facts, fold, head, headOf, panel, pill, problem, teamLink } from "../../parts/marks.js";
import { empty, noMatch } from "../../parts/states.js";
import { listed, remainder, table } from "../../parts/table.js";
import { teamChoice, teamNames } from "../../parts/teams.js";
import { act } from "../../parts/toast.js";
import { agenda } from "./agenda.js";
import { choiceWord, editTrigger } from "./form.js";
import { scheduleWords } from "./schedule.js";

const narrow = matchMedia("(max-width: 760px)");
/** As many times of the next day as are shown. */
const MOST_DUE = 1_000;

/** When it runs, in short. @param {any} trigger */
export function rhythm(trigger) {
  const { watch, open, pattern, timezone } = trigger.config ?? {};
  const word =
    trigger.type === "schedule" ? scheduleWords(trigger.config) : (watch ?? open ?? pattern ?? trigger.path ?? "");
  return clean([word, timezone].filter(Boolean).join(" · "));
}

class Triggers extends View {
  begin() {
    this.rows = this.source(
      (signal, wanted) => {
        const { q, type, team } = this.place.query;
        return upTo("/triggers", { q, type, team }, wanted, signal);
      },
      ["trigger.changed", "trigger.run", "task.changed"],
    );
    this.coming = this.source(
      (signal) => {
        const { q, type, team } = this.place.query;
        return upTo("/triggers/agenda", { q, type, team }, MOST_DUE, signal);
      },
      ["trigger.changed", "trigger.run", "team.changed"],
    );
    this.teams = teamNames(this);
    this.follow();
    this.every(15_000);
    this.wish();
  }

  /** @param {import("../../core/place.js").Place} place */
  moved(place) {
    super.moved(place);
    this.follow();
    this.wish();
  }

  /** The one in the address, and its runs. */
  follow() {
    const [id] = this.place.rest;
    if (id === this.chosen) return;
    this.chosen = id;
    this.one?.close();
    this.runs?.close();
    if (!id) return;
    this.one = this.source((signal) => get(`/triggers/${part(id)}`, {}, signal), ["trigger.changed", "trigger.run"]);
    this.runs = this.source(
      (signal, wanted) => upTo(`/triggers/${part(id)}/runs`, {}, wanted, signal),
      ["trigger.run", "trigger.changed", "task.changed"],
    );
  }

  refresh() {
    this.rows?.reload();
    this.coming?.reload();
  }

  async create() {
    const made = await editTrigger(this.teams?.data ?? ["main"]);
    if (made?.id) go("triggers", [made.id]);
    this.refresh();
  }

  render() {
    if (this.chosen) return [crumb("triggers", "Triggers"), this.one?.show((trigger) => this.page(trigger))];
    const { query } = this.place;
    return [
      head(
        "Triggers",
        "Work that starts by itself: at a time, during a window, on a message or on a webhook.",
        may("operate") ? button("New trigger", "plus", () => this.create(), { tone: "primary" }) : null,
      ),
      make(
        "div",
        { class: "bar" },
        search("Search triggers", query.q ?? "", (q) => this.narrow({ q })),
        choice(
          "Type",
          [["", "Any type"], "schedule", "window", "keyword", "message", "webhook"],
          query.type ?? "",
          (type) => this.narrow({ type }),
        ),
        teamChoice(this.teams, query.team, (team) => this.narrow({ team })),
      ),
      this.rows?.show(({ rows }) => this.list(rows)),
    ];
  }

  /** @param {any[]} rows */
  list(rows) {
    const { q, type, team } = this.place.query;
    if (!rows.length && !q && !type && !team)
      return empty(
        "triggers",
        "No triggers yet",
        "A trigger gives a team work by itself: every Monday at nine, when a message contains a word, when another program calls.",
        may("operate") ? button("New trigger", "plus", () => this.create(), { tone: "primary" }) : null,
      );
    if (!rows.length)
      return noMatch("No trigger matches these filters.", () => this.narrow({ q: "", type: "", team: "" }));
    // What lies a day ahead comes nearer also when nothing happens.
    const hour = new Date().getHours();
    if (hour !== (this.hour ??= hour)) this.coming?.soon();
    this.hour = hour;
    return [
      this.coming?.show((found) => agenda(found, !narrow.matches)),
      table(
        "Triggers",
        [
          {
            name: "Name",
            wide: true,
            cell: (row) => [
              make("a", { href: write("triggers", [row.id]) }, clean(row.name)),
              make("div", { class: "muted clip" }, clean(row.task)),
            ],
          },
          {
            name: "State",
            cell: (row) => [
              pill(row.state),
              row.consecutive_failures
                ? make("div", { class: "muted" }, several(row.consecutive_failures, "failure"))
                : null,
            ],
          },
          {
            name: "Type",
            cell: (row) => [words(row.type), make("div", { class: "muted" }, make("code", {}, rhythm(row)))],
            quiet: true,
          },
          { name: "Team", cell: (row) => teamLink(row.team) },
          { name: "Next", cell: (row) => (row.next_due_at ? since(row.next_due_at) : "–"), quiet: true },
          {
            name: "Last",
            cell: (row) =>
              row.last_run
                ? [since(row.last_run.fired_at), " ", pill(row.last_run.outcome ?? row.last_run.decision)]
                : "never",
            quiet: true,
          },
        ],
        rows,
        { key: (row) => row.id, open: (row) => go("triggers", [row.id]) },
      ),
      remainder(this.rows),
    ];
  }

  /** @param {any} trigger */
  page(trigger) {
    return [
      headOf(
        clean(trigger.name),
        [
          pill(trigger.state),
          teamLink(trigger.team),
          make("span", { class: "muted" }, words(trigger.type), " ", make("code", {}, rhythm(trigger))),
        ],
        may("operate") && this.actions(trigger),
      ),
      trigger.disabled_reason ? problem(clean(trigger.disabled_reason)) : null,
      make(
        "div",
        { class: "columns" },
        make("div", { class: "stack" }, panel("Task", markdown(trigger.task)), panel("Next", this.next(trigger))),
        panel(
          "Settings",
          facts([
            ["Priority", words(trigger.priority)],
            ["Deadline", clean(trigger.deadline)],
            ["If the last run is unfinished", choiceWord(trigger.overlap_policy)],
            ["Missed runs", trigger.missed ? choiceWord(trigger.missed) : null],
            ["Switches off after", `${trigger.failure_threshold} failures in a row`],
            ["Failures now", String(trigger.consecutive_failures)],
            ["Report", choiceWord(trigger.notify)],
            ["Subagent", trigger.subagent ? clean(trigger.subagent) : null],
            ["Created by", actor(trigger.created_by)],
            ["Address", trigger.path ? make("code", {}, clean(trigger.path)) : null],
          ]),
          fold("Configuration", make("pre", { tabindex: "0", "aria-label": "Configuration" }, pretty(trigger.config))),
          fold("Cursors", [
            Object.keys(trigger.cursors ?? {}).length
              ? make("pre", { tabindex: "0", "aria-label": "Cursors" }, pretty(trigger.cursors))
              : make("p", { class: "muted" }, "None. A run can note here where the next one continues."),
            may("operate")
              ? make(
                  "div",
                  { class: "choices" },
                  button("Change cursors…", "edit", () => this.setCursors(trigger), { tone: "small" }),
                )
              : null,
          ]),
        ),
      ),
      make("section", { class: "section" }, make("h2", {}, "Runs"), this.history()),
    ];
  }

  /** @param {any} trigger */
  next(trigger) {
    const times = trigger.state === "active" ? (trigger.next_due ?? []) : [];
    if (!times.length)
      return make(
        "p",
        { class: "muted" },
        trigger.state === "active" ? "It waits for what starts it." : "None: it is not active.",
      );
    return make(
      "ol",
      { class: "times" },
      times.map((/** @type {any} */ time) => make("li", {}, clean(time))),
    );
  }

  history() {
    return listed(
      this.runs,
      "Runs",
      [
        { name: "Started", cell: (run) => when(run.fired_at) },
        { name: "Cause", cell: (run) => words(run.cause), quiet: true },
        { name: "Decision", cell: (run) => pill(run.decision) },
        {
          name: "Outcome",
          wide: true,
          cell: (run) => [
            run.outcome ? pill(run.outcome) : null,
            run.reason ? make("span", { class: "muted" }, ` ${clean(run.reason)}`) : null,
          ],
        },
        {
          name: "Task",
          cell: (run) => (run.task_id ? make("a", { href: write("tasks", [run.task_id]) }, "Open") : "–"),
        },
        {
          name: "Took",
          number: true,
          cell: (run) => (run.duration_ms ? duration(run.duration_ms) : "–"),
          quiet: true,
        },
        {
          name: "Cost",
          number: true,
          cell: (run) =>
            run.cost_usd === null || run.cost_usd === undefined ? "–" : `${money(run.cost_usd)} · ${count(run.tokens)}`,
          quiet: true,
        },
      ],
      make("p", { class: "muted" }, "It has not run yet. “Run now” gives its task to the team at once."),
    );
  }

  /** @param {any} trigger */
  actions(trigger) {
    const path = `/triggers/${part(trigger.id)}`;
    const again = () => {
      this.one?.reload();
      this.runs?.reload();
    };
    const active = trigger.state === "active";
    return [
      button("Run now", "play", () => this.run(trigger).then(again), { tone: "primary" }),
      active
        ? button("Disable", "pause", (pressed) =>
            act(pressed, () => post(`${path}/disable`, {}), "Disabled.").then(again),
          )
        : button("Enable", "play", (pressed) => act(pressed, () => post(`${path}/enable`), "Enabled.").then(again)),
      button("Edit…", "edit", () => editTrigger([trigger.team], trigger).then(again)),
      button(
        "Delete…",
        "trash",
        () =>
          confirm({
            title: `Delete ${trigger.name}?`,
            lost: `It never runs again. Its runs stay: hivewright trigger runs ${clean(trigger.id)} shows them.`,
            action: "Delete",
            submit: () => this.delete(path),
          }).then((done) => done && go("triggers")),
        { tone: "danger" },
      ),
    ];
  }

  /** What is about to be gone is not asked for again, unless it stays. @param {string} path */
  async delete(path) {
    this.one?.close();
    this.runs?.close();
    try {
      await remove(path);
    } catch (refusal) {
      this.chosen = undefined;
      this.follow();
      throw refusal;
    }
  }

  /** One a line: `name = value`. @param {any} trigger */
  setCursors(trigger) {
    const lines = Object.entries(trigger.cursors ?? {}).map(([name, value]) => `${name} = ${value}`);
    return ask({
      title: `Cursors of ${trigger.name}`,
      about: "The next run continues from these. What you leave out is forgotten.",
      body: area("Cursors", "cursors", {
        value: lines.join("\n"),
        rows: 5,
        class: "mono",
        spellcheck: "false",
        placeholder: "last_id = 42",
      }),
      action: "Save",
      submit: async ({ cursors }) => {
        await put(`/triggers/${part(trigger.id)}/cursors`, { cursors: cursorsIn(cursors) });
        this.one?.reload();
      },
    });
  }

  /** @param {any} trigger */
  run(trigger) {
    return ask({
      title: `Run ${trigger.name} now?`,
      about: "The team gets the task at once.",
      body: select("If the last run is unfinished", "overlap", [
        ["confirm", "Do not run, and tell me"],
        ["allow", "Run after it"],
        ["skip", "Skip this run"],
        ["replace", "Cancel the last run"],
      ]),
      action: "Run now",
      submit: ({ overlap }) => post(`/triggers/${part(trigger.id)}/run`, { overlap_policy: overlap }),
    });
  }
}

/** @param {string} text */
function cursorsIn(text) {
  const rows = text
    .split("\n")
    .filter((line) => line.trim())
    .map((line) => {
      const [, name, value] = /^\s*([^=\s][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
      if (!name) throw new Error(`Write each line as \`name = value\`. This one is not: ${line.trim()}`);
      return [name, value];
    });
  return Object.fromEntries(rows);
}

customElements.define("hw-triggers", Triggers);
