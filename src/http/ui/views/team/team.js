// @ts-check
// One team: what it is for, what it is at, what it may do and spend.

import { get, list, may, part, patch, post } from "../../core/api.js";
import { clean, coded, icon, make } from "../../core/dom.js";
import { count, duration, money, several, since, spending, taskLine, words } from "../../core/format.js";
import { go, write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { ask } from "../../parts/dialog.js";
import { area, input, split } from "../../parts/fields.js";
import {
  button,
  cell,
  crumb,
  facts,
  figure,
  fold,
  pageHead,
  panel,
  pill,
  problem,
  teamLink,
} from "../../parts/marks.js";
import { act } from "../../parts/toast.js";
import { createTeam, shutDown } from "../org/org.js";
import { keyOfTeam } from "../chat/shelf.js";
import { createTask, MAIN } from "../tasks/create.js";
import { changes } from "./changes.js";
import { file } from "./file.js";
import { instructions } from "./instructions.js";
import { plugins } from "./plugins.js";
import { servers } from "./servers.js";
import { untrusted } from "./untrusted.js";
import { written } from "./written.js";

/** A longer list is folded away. */
const SHOWN = 8;

class TeamPage extends View {
  begin() {
    this.load();
    this.every(10_000);
  }

  load() {
    const name = this.place.rest[0] ?? "main";
    this.name = name;
    const path = `/teams/${part(name)}`;
    for (const one of this.sources) one.close();
    this.team = this.source(
      (signal) => get(path, {}, signal),
      ["team.changed", "task.changed", "usage.changed", "config.reloaded"],
    );
    this.config = this.source((signal) => get(`${path}/config`, {}, signal), ["config.reloaded"]);
    this.ended = this.source(
      async (signal) => (await list("/tasks", { team: name, limit: 12 }, signal)).rows,
      ["task.changed"],
    );
    this.memories = this.source(
      (signal) => list("/memories", { team: name, active: true, limit: 1 }, signal),
      ["memory.changed"],
    );
    this.untrusted = this.source((signal) => list(`${path}/untrusted-files`, { limit: 200 }, signal), ["task.changed"]);
    this.servers = this.source(
      (signal) => list("/mcp", { team: name, limit: 50 }, signal),
      ["mcp.changed", "config.reloaded"],
    );
    this.plugins = this.source(
      (signal) => list(`${path}/plugins`, { limit: 100 }, signal),
      ["plugin.changed", "config.reloaded"],
    );
    this.instructions = this.source(
      (signal) => list(`${path}/instructions`, { limit: 200 }, signal),
      ["task.changed", "approval.changed", "config.reloaded"],
    );
    this.written = this.source(
      (signal) => list("/plugin-tools", { team: name, limit: 200 }, signal),
      ["task.changed", "approval.changed"],
    );
    this.triggers = may("operate")
      ? this.source((signal) => list("/triggers", { team: name, limit: 50 }, signal), ["trigger.changed"])
      : undefined;
    this.changes = this.source(
      (signal) => list("/changes", { team: name, limit: 20 }, signal),
      ["approval.changed", "config.reloaded"],
    );
  }

  /** @param {import("../../core/place.js").Place} place */
  moved(place) {
    super.moved(place);
    if (place.rest[0] !== this.name) this.load();
  }

  render() {
    return [crumb("org", "Teams"), this.team?.show((team) => this.page(team))];
  }

  /** @param {any} team */
  page(team) {
    return [
      pageHead(
        make(
          "div",
          { class: "team-head" },
          make("span", { class: "big-cell" }, cell(team.name)),
          make(
            "div",
            {},
            make("h1", {}, clean(team.name)),
            make("p", { class: "muted" }, clean(team.description) || "No description yet."),
          ),
        ),
        may("operate") && this.actions(team),
      ),
      team.fault ? problem(coded(team.fault)) : null,
      this.figures(team),
      make(
        "div",
        { class: "columns" },
        make(
          "div",
          { class: "stack" },
          panel("About", about(team)),
          panel("Budget", this.budget(team)),
          untrusted(team.name, this.untrusted),
          servers(team.name, this.servers),
          plugins(team.name, this.plugins),
          written(this.written),
          instructions(team, this.instructions, () => this.team?.reload()),
          tools(team.tools),
          panel(
            "Team file",
            this.config?.show((config) =>
              file(String(this.name), config, (saved) => {
                if (this.config) this.config.data = saved;
                this.update();
              }),
            ),
          ),
        ),
        make(
          "div",
          { class: "stack" },
          panel("Open tasks", plain(team.tasks ?? [], openTask, "None.")),
          panel(
            "Recent tasks",
            this.ended?.show((rows) => plain(rows, recentTask, "This team has had no work yet.")),
          ),
          this.triggers
            ? panel(
                "Triggers",
                this.triggers.show(({ rows }) =>
                  plain(rows, ownTrigger, "None. A trigger gives the team work at a time or on an event."),
                ),
              )
            : null,
          panel(
            "Changes it made to itself",
            this.changes?.show(({ rows }) =>
              rows.length
                ? changes(rows, () => this.changes?.reload())
                : make(
                    "p",
                    { class: "muted" },
                    "None. A team that learns may propose changes to its rules and skills.",
                  ),
            ),
          ),
        ),
      ),
    ];
  }

  /** @param {any} team */
  figures(team) {
    const remembered = this.memories?.data;
    return make(
      "div",
      { class: "figures" },
      figure("State", pill(team.state)),
      figure("Running", count(team.running)),
      figure("Queued", count(team.pending)),
      figure("Spent today", spending(team.usage_today)),
      figure(
        "Memories",
        make(
          "strong",
          {},
          remembered ? make("a", { href: write("memory", [], { team: team.name }) }, count(remembered.total)) : "–",
        ),
      ),
    );
  }

  /** @param {any} team */
  budget(team) {
    const caps = team.budget ?? {};
    const rows = [
      ["Per day", caps.usd_per_day, team.usage_today?.usd, money, spending(team.usage_today)],
      ["Tokens per day", caps.tokens_per_day, team.usage_today?.tokens, count, count(team.usage_today?.tokens ?? 0)],
    ].filter(([, cap]) => cap !== null && cap !== undefined);
    if (!rows.length && !caps.usd_per_task)
      return make("p", { class: "muted" }, "No budget of its own; those of the teams above it apply.");
    return [
      rows.map(([name, cap, spent, show, said]) =>
        make(
          "div",
          { class: "meter-row" },
          make("span", {}, name),
          make("meter", {
            min: 0,
            max: cap,
            value: Math.min(cap, spent ?? 0),
            high: cap * 0.8,
            "aria-label": `${name}: ${said} of ${show(cap)}`,
          }),
          make("span", { class: "muted" }, `${said} of ${show(cap)}`),
        ),
      ),
      caps.usd_per_task ? make("p", { class: "muted" }, `At most ${money(caps.usd_per_task)} per task.`) : null,
    ];
  }

  /** @param {any} team */
  actions(team) {
    const path = `/teams/${part(team.name)}`;
    const paused = team.state === "paused";
    const again = () => this.team?.reload();
    return [
      team.name === MAIN
        ? make("a", { class: "button primary", href: write("chat") }, icon("chat"), "Write a message")
        : [
            make(
              "a",
              { class: "button primary", href: write("chat", [keyOfTeam(team.name)]) },
              icon("chat"),
              "Talk to it",
            ),
            button("Give a task", "plus", () => createTask([team.name], team.name)),
          ],
      button(paused ? "Resume" : "Pause", paused ? "play" : "pause", (pressed) =>
        act(
          pressed,
          () => post(`${path}/${paused ? "resume" : "pause"}`, {}),
          paused ? "Resumed." : "Paused. Running tasks finish, no new work starts.",
        ).then(again),
      ),
      team.running && !paused ? button("Stop now…", "stop", () => this.halt(team)) : null,
      team.phase !== "ready"
        ? button("Set up again", "again", (pressed) =>
            act(pressed, () => post(`${path}/bootstrap`, {}), "It is setting itself up again.").then(again),
          )
        : null,
      button("Edit description…", "edit", () => this.describe(team)),
      button("New team below…", "org", () => act(null, () => createTeam([team.name], team.name))),
      team.parent
        ? button("Shut down…", "trash", () => shutDown(team.name, team.children).then((done) => done && go("org")), {
            tone: "danger",
          })
        : null,
    ];
  }

  /** @param {any} team */
  halt(team) {
    return ask({
      title: `Stop ${team.name} now?`,
      about: `${several(team.running, "running task")} will be stopped at once, to go on when you resume the team.`,
      action: "Stop now",
      dangerous: true,
      submit: () => post(`/teams/${part(team.name)}/pause`, { now: true }),
    });
  }

  /** @param {any} team */
  describe(team) {
    const scope = team.own_scope ?? [];
    return ask({
      title: `Description of ${team.name}`,
      body: [
        input("What it is for", "description", { value: team.description, maxlength: 500 }),
        area("Which work it takes", "scope", { value: scope.join(", "), rows: 2 }),
      ],
      action: "Save",
      submit: async ({ description, scope: text }) => {
        const wanted = split(text);
        await patch(`/teams/${part(team.name)}`, {
          description,
          scope_add: wanted.filter((word) => !scope.includes(word)),
          scope_remove: scope.filter((/** @type {string} */ word) => !wanted.includes(word)),
        });
        this.team?.reload();
      },
    });
  }
}

/** @param {any} team */
const about = (team) =>
  facts([
    ["Phase", words(team.phase)],
    ["Paused by", team.paused_by ? teamLink(team.paused_by) : null],
    ["Engine", clean(team.sdk)],
    ["Model", team.model ? clean(team.model) : "–"],
    ["Team above it", team.parent ? teamLink(team.parent) : "None: it is the main team"],
    ["Teams below it", team.teams?.length ? make("span", { class: "tags" }, team.teams.map(teamLink)) : "None"],
    ["Created by", clean(team.created_by)],
    ["Created", since(team.created_at)],
    ["Teams of this name so far", team.generation > 1 ? String(team.generation) : null],
    ["Extra rights", team.capabilities?.length ? words(team.capabilities.join(", ")) : "None"],
    [
      "Which work it takes",
      team.own_scope?.length
        ? make(
            "span",
            { class: "tags" },
            team.own_scope.map((/** @type {string} */ word) => make("span", { class: "tag" }, clean(word))),
          )
        : null,
    ],
  ]);

/** @param {any[]} rows @param {(row: any) => HTMLElement} entry @param {string} none */
const plain = (rows, entry, none) =>
  rows.length ? make("ul", { class: "plain" }, rows.map(entry)) : make("p", { class: "muted" }, none);

/** @param {any} task */
const openTask = (task) =>
  make(
    "li",
    { key: task.task_id },
    pill(task.state),
    make(
      "a",
      { href: write("tasks", [task.task_id]) },
      words(task.type),
      task.wait_reason ? ` for ${words(task.wait_reason)}` : "",
    ),
    make("span", { class: "muted" }, duration(task.age_ms)),
  );

/** @param {any} task */
const recentTask = (task) =>
  make(
    "li",
    { key: task.id },
    pill(task.state),
    make("a", { class: "clip", href: write("tasks", [task.id]) }, taskLine(task) || clean(task.id)),
    make("span", { class: "muted" }, since(task.created_at)),
  );

/** @param {any} trigger */
const ownTrigger = (trigger) =>
  make(
    "li",
    { key: trigger.id },
    pill(trigger.state),
    make("a", { href: write("triggers", [trigger.id]) }, clean(trigger.name)),
    make("span", { class: "muted" }, trigger.next_due_at ? since(trigger.next_due_at) : words(trigger.type)),
  );

/** What it may reach for. @param {{name: string, description?: string}[] | undefined} rows absent where the service does not tell */
function tools(rows) {
  if (!rows) return null;
  const title = "Tools it may use";
  const drawn = make(
    "ul",
    { class: "plain listed" },
    rows.map((row) =>
      make(
        "li",
        { key: row.name },
        make("code", {}, clean(row.name)),
        make("span", { class: "clip", title: clean(row.description) }, clean(row.description)),
      ),
    ),
  );
  return make(
    "section",
    { class: "panel" },
    rows.length > SHOWN
      ? fold(`${title}, ${count(rows.length)}`, drawn, { class: "panel-fold" })
      : [make("h2", {}, title), rows.length ? drawn : make("p", { class: "muted" }, "None: it can only talk.")],
  );
}

customElements.define("hw-team", TeamPage);
