// @ts-check
// What teams remember: search, read, correct, and see how an entry came to be what it is.

import { all, get, may, part, patch, post, remove, upTo } from "../core/api.js";
import { clean, make } from "../core/dom.js";
import { actor, since, when, words } from "../core/format.js";
import { go, write } from "../core/place.js";
import { View } from "../core/view.js";
import { ask } from "../parts/dialog.js";
import { between } from "../parts/diff.js";
import { area, choice, input, search, select } from "../parts/fields.js";
import { markdown } from "../parts/markdown.js";
import { button, crumb, facts, head, headOf, panel, pill, taskLink, teamLink } from "../parts/marks.js";
import { empty, noMatch } from "../parts/states.js";
import { remainder, table } from "../parts/table.js";
import { teamChoice, teamNames } from "../parts/teams.js";
import { act } from "../parts/toast.js";

const TYPES = ["identity", "lesson", "decision", "context", "reference", "historical"];

/** Whether the next prompt holds it, and if not, why. @param {any} injection */
const inPrompt = (injection) => {
  switch (injection?.state) {
    case "whole":
      return "Yes";
    case "cut":
      return `${injection.shown} of its ${injection.of} characters`;
    case "no_room":
      return "No: other memories take up the room";
    case "type":
      return "No: memories of this type are only found by search";
    case "review":
      return "No: it is not approved";
    default:
      return "No: it is not in use";
  }
};

/** @param {any} entry */
const standing = ({ active, proposal, pinned }) => [
  active ? pill("active", "in use") : proposal ? pill("pending", "to review") : pill("off", "forgotten"),
  pinned ? make("span", { class: "tag" }, "pinned") : null,
];

/** Where it comes from, with links to the task and the transcript. @param {any} source @returns {[string, any][]} */
const provenance = (source) => [
  ["Source", clean([words(source.origin ?? ""), source.ref].filter(Boolean).join(": "))],
  ["Sender", source.sender ? clean(source.sender) : null],
  ["Subagent", source.subagent ? clean(source.subagent) : null],
  ["Task", source.task_id ? taskLink(source.task_id) : null],
  [
    "Transcript",
    // Entries of earlier versions name their session in a form that leads nowhere.
    source.session_id?.includes(":")
      ? make(
          "a",
          { href: write("history", [source.session_id]) },
          clean(source.session_id),
          source.event_seq ? `, event ${source.event_seq}` : "",
        )
      : source.session_id
        ? clean(source.session_id)
        : null,
  ],
  ["Had read", source.tools?.length ? clean(source.tools.join(", ")) : null],
  ["Addresses", source.urls?.length ? clean(source.urls.join(", ")) : null],
  ["Trusted", source.label ? (source.label === "trusted" ? "Yes" : "No: something in it comes from outside") : null],
];

class Memory extends View {
  begin() {
    this.rows = this.source(
      (signal, wanted) => {
        const { q, team, type, active = "true" } = this.place.query;
        const which = active === "review" ? { review: "pending" } : active === "all" ? {} : { active };
        return upTo("/memories", { q, team, type, ...which }, wanted, signal);
      },
      ["memory.changed"],
    );
    this.teams = teamNames(this);
    this.follow();
  }

  /** @param {import("../core/place.js").Place} place */
  moved(place) {
    super.moved(place);
    this.follow();
  }

  follow() {
    const [id] = this.place.rest;
    if (id === this.chosen) return;
    this.chosen = id;
    this.one?.close();
    this.chain?.close();
    if (!id) return;
    this.one = this.source((signal) => get(`/memories/${part(id)}`, {}, signal), ["memory.changed"]);
    this.chain = this.source((signal) => all(`/memories/${part(id)}/chain`, {}, signal), ["memory.changed"]);
  }

  refresh() {
    this.rows?.reload();
  }

  render() {
    if (this.chosen) return [crumb("memory", "Memory"), this.one?.show((entry) => this.page(entry))];
    const { query } = this.place;
    return [
      head(
        "Memory",
        "What teams remember. As much as fits is told to the model with every task: pinned memories first, then the newest of each type.",
        may("operate") ? button("New memory", "plus", () => this.create(), { tone: "primary" }) : null,
      ),
      make(
        "div",
        { class: "bar" },
        search("Search memory", query.q ?? "", (q) => this.narrow({ q })),
        teamChoice(this.teams, query.team, (team) => this.narrow({ team })),
        choice("Type", [["", "Any type"], ...TYPES], query.type ?? "", (type) => this.narrow({ type })),
        choice(
          "Which",
          [
            ["", "In use"],
            ["review", "To review"],
            ["false", "No longer in use"],
            ["all", "All"],
          ],
          query.active ?? "",
          (active) => this.narrow({ active }),
        ),
      ),
      this.rows?.show(({ rows }) => this.list(rows)),
    ];
  }

  /** @param {any[]} rows */
  list(rows) {
    const { q, team, type, active } = this.place.query;
    if (!rows.length && (q || team || type || active))
      return noMatch("No memory matches.", () => this.narrow({ q: "", team: "", type: "", active: "" }));
    if (!rows.length)
      return empty(
        "memory",
        "Nothing remembered yet",
        "Ask a team to remember something, or write a memory yourself.",
        may("operate") ? button("New memory", "plus", () => this.create(), { tone: "primary" }) : null,
      );
    return [
      table(
        "Memories",
        [
          {
            name: "Memory",
            wide: true,
            cell: (row) => [
              make("a", { href: write("memory", [row.id]) }, clean(row.key)),
              make("div", { class: "muted clip" }, clean(row.snippet)),
            ],
          },
          { name: "Type", cell: (row) => words(row.type), quiet: true },
          { name: "Team", cell: (row) => teamLink(row.team) },
          {
            name: "State",
            cell: (row) => make("span", { class: "tags" }, standing(row)),
          },
          {
            name: "Told to the model",
            cell: (row) => inPrompt(row.injection),
            quiet: true,
          },
          { name: "Version", number: true, cell: (row) => String(row.version), quiet: true },
          { name: "Changed", cell: (row) => since(row.updated_at), quiet: true },
        ],
        rows,
        { key: (row) => row.id, open: (row) => go("memory", [row.id]) },
      ),
      remainder(this.rows),
    ];
  }

  /** @param {any} entry */
  page(entry) {
    return [
      headOf(
        clean(entry.key),
        [teamLink(entry.team), make("span", { class: "tag" }, words(entry.type)), standing(entry)],
        may("operate") && this.actions(entry),
      ),
      make(
        "div",
        { class: "columns task-columns" },
        make(
          "div",
          { class: "stack" },
          panel("Content", markdown(entry.content)),
          entry.current
            ? panel("Compared with the version in use", between(entry.current.content, entry.content))
            : null,
          panel(
            "Versions",
            this.chain?.show((rows) => this.versions(rows)),
          ),
        ),
        panel(
          "Where it comes from",
          facts([
            ["Told to the model", inPrompt(entry.injection)],
            ["Written by", actor(entry.updated_by)],
            ...provenance(entry.provenance ?? {}),
            [
              "Review",
              entry.reviewed
                ? [
                    words(entry.review),
                    " by ",
                    actor(entry.reviewed.by),
                    entry.reviewed.note ? `: ${clean(entry.reviewed.note)}` : "",
                  ]
                : words(entry.review),
            ],
            ["Created", when(entry.created_at)],
            ["Changed", when(entry.updated_at)],
            ["Expires", entry.expires_at ? when(entry.expires_at) : "Never"],
            [
              "Ended",
              entry.ended
                ? [
                    when(entry.ended.at),
                    " by ",
                    actor(entry.ended.by),
                    entry.ended.note ? `: ${clean(entry.ended.note)}` : "",
                  ]
                : null,
            ],
            ["Sources", entry.sources?.length ? clean(entry.sources.join(", ")) : null],
          ]),
        ),
      ),
    ];
  }

  /** Each version against the one before it, newest first. @param {any[]} rows */
  versions(rows) {
    const order = [...rows].sort((a, b) => b.version - a.version);
    return make(
      "ol",
      { class: "versions" },
      order.map((row, at) => {
        const before = order[at + 1];
        return make(
          "li",
          { key: row.id },
          make(
            "p",
            { class: "ask-line" },
            make("strong", {}, `Version ${row.version}`),
            row.active ? pill("active", "in use") : null,
            make("span", { class: "muted" }, since(row.updated_at), " by ", actor(row.updated_by)),
            !row.active && may("operate") && row.version < order[0].version
              ? button(
                  "Bring back",
                  "again",
                  (pressed) => act(pressed, () => this.rollback(row), "Brought back as the newest version."),
                  { tone: "small quiet" },
                )
              : null,
          ),
          row.supersede_reason ? make("p", { class: "muted" }, `Because: ${clean(row.supersede_reason)}`) : null,
          before ? between(before.content, row.content) : make("p", { class: "version-first" }, clean(row.content)),
        );
      }),
    );
  }

  /** @param {any} row */
  async rollback(row) {
    const made = await post(`/memories/${part(row.id)}/rollback`);
    go("memory", [made.id]);
  }

  /** @param {any} entry */
  actions(entry) {
    const path = `/memories/${part(entry.id)}`;
    const again = () => this.one?.reload();
    return [
      entry.review === "pending"
        ? [
            button("Keep…", "check", () => this.keep(entry), { tone: "primary" }),
            button("Reject…", "cross", () => this.reject(entry)),
          ]
        : null,
      entry.active
        ? [
            button(entry.pinned ? "Unpin" : "Pin", "pin", (pressed) =>
              act(pressed, () => post(`${path}/pin`, { pinned: !entry.pinned })).then(again),
            ),
            button("Edit…", "edit", () => this.edit(entry)),
            button("Forget…", "trash", () => this.end(entry), { tone: "danger" }),
          ]
        : null,
    ];
  }

  /** @param {any} entry */
  async keep(entry) {
    const kept = await ask({
      title: `Keep ${entry.key}?`,
      about: "The team reads it from its next task on, in these words.",
      body: [
        area("Content", "content", { value: entry.content, rows: 8, required: true }),
        input("Note", "note", { placeholder: "Why it can be trusted" }),
      ],
      action: "Keep",
      wide: true,
      submit: ({ content, note }) =>
        post(`/memories/${part(entry.id)}/review`, {
          decision: "approve",
          ...(content === entry.content ? {} : { content }),
          ...(note ? { note } : {}),
        }),
    });
    if (kept?.id && kept.id !== entry.id) go("memory", [kept.id]);
    else this.one?.reload();
  }

  /** @param {any} entry */
  async reject(entry) {
    await ask({
      title: `Reject ${entry.key}?`,
      about: "The team does not remember it. It stays readable here.",
      body: input("Note", "note", { placeholder: "Why it cannot be trusted" }),
      action: "Reject",
      dangerous: true,
      submit: ({ note }) =>
        post(`/memories/${part(entry.id)}/review`, { decision: "reject", ...(note ? { note } : {}) }),
    });
    this.one?.reload();
  }

  /** @param {any} entry */
  async edit(entry) {
    const made = await ask({
      title: `Edit ${entry.key}`,
      about: "This creates a new version; the old one is kept.",
      body: [
        area("Content", "content", { value: entry.content, rows: 8, required: true }),
        select("Type", "type", TYPES, { value: entry.type }),
        input("Why", "reason", { placeholder: "What has changed", required: true }),
      ],
      action: "Save",
      wide: true,
      submit: ({ content, type, reason }) =>
        patch(`/memories/${part(entry.id)}`, { content, type, supersede_reason: reason }),
    });
    if (made?.id) go("memory", [made.id]);
  }

  /** @param {any} entry */
  async end(entry) {
    const done = await ask({
      title: `Forget ${entry.key}?`,
      about: "The team no longer remembers it. It stays readable here and can be brought back.",
      body: input("Note", "note", { placeholder: "Why it is no longer true" }),
      action: "Forget",
      dangerous: true,
      submit: ({ note }) => remove(`/memories/${part(entry.id)}`, note ? { note } : {}),
    });
    if (done) go("memory");
  }

  async create() {
    const made = await ask({
      title: "New memory",
      about: "The team reads it from its next task on.",
      body: [
        make(
          "div",
          { class: "pair" },
          select("Team", "team", this.teams?.data?.length ? this.teams.data : ["main"]),
          select("Type", "type", TYPES, { value: "context" }),
        ),
        input("Key", "key", {
          required: true,
          placeholder: "customer-tone",
          hint: "Using a key again creates a new version of its memory",
        }),
        area("Content", "content", { required: true, rows: 5, placeholder: "Customers like short, friendly letters." }),
      ],
      action: "Keep",
      submit: (values) => post("/memories", { ...values, supersede_reason: "written by the operator" }),
    });
    this.rows?.reload();
    if (made?.id) go("memory", [made.id]);
  }
}

customElements.define("hw-memory", Memory);
