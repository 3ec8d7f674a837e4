// @ts-check
// What waits for a person: calls to decide, questions to answer, memories to review, notices to read.

import { list, may, part, post, upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several, since, words } from "../../core/format.js";
import { write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { askCard } from "../../parts/asked.js";
import { ask } from "../../parts/dialog.js";
import { choice, input } from "../../parts/fields.js";
import { button, fold, head, teamLink } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { remainder } from "../../parts/table.js";
import { tabs } from "../../parts/tabs.js";
import { act, toast } from "../../parts/toast.js";
import { approval, batches, denial, refusals } from "../../parts/verdict.js";
import "../../parts/approval.js";
import "../../parts/question.js";
import "./grants.js";
import { noticeList } from "./notices.js";

const TABS = [
  ["calls", "Calls"],
  ["questions", "Questions"],
  ["memories", "Memories"],
  ["notices", "Notices"],
  ["grants", "Grants"],
];

/** The newest that nobody waits for any more. @param {string} path @param {string} open @param {AbortSignal} signal */
async function past(path, open, signal) {
  const { rows } = await list(path, { sort: "-created_at", limit: 200 }, signal);
  return rows.filter((row) => row.status !== open).slice(0, 20);
}

class Approvals extends View {
  /** Ids of the calls that are to be decided together. @type {Set<string>} */ picked = new Set();

  begin() {
    this.pending = this.source(
      (signal, wanted) => upTo("/approvals", { status: "pending" }, wanted, signal),
      ["approval.changed"],
    );
    this.decided = this.source((signal) => past("/approvals", "pending", signal), ["approval.changed"]);
    this.questions = this.source(
      (signal, wanted) => upTo("/questions", { status: "open" }, wanted, signal),
      ["question.changed"],
    );
    this.answered = this.source((signal) => past("/questions", "open", signal), ["question.changed"]);
    this.memories = this.source(
      (signal, wanted) => upTo("/memories", { review: "pending" }, wanted, signal),
      ["memory.changed"],
    );
    if (may("operate"))
      this.notices = this.source((signal, wanted) => upTo("/inbox", {}, wanted, signal), ["inbox.changed"]);
    this.addEventListener("decided", () => this.again());
    this.every(10_000);
  }

  again() {
    this.pending?.soon();
    this.decided?.soon();
    this.questions?.soon();
    this.answered?.soon();
  }

  /** How many of each wait. @returns {Record<string, number>} */
  counts() {
    return {
      calls: this.pending?.data?.total ?? 0,
      questions: this.questions?.data?.total ?? 0,
      memories: this.memories?.data?.total ?? 0,
      notices: this.notices?.data?.rows.filter((/** @type {any} */ row) => !row.read).length ?? 0,
    };
  }

  render() {
    const tab = this.place.rest[0] ?? "calls";
    return [
      head("Approvals", "What teams may not decide alone, and what you should know."),
      tabs(
        "approvals",
        TABS.filter(([id]) => id !== "notices" || this.notices),
        tab,
        this.counts(),
      ),
      make("div", { class: "inbox" }, this.shown(tab)),
    ];
  }

  /** @param {string} tab @returns {import("../../core/dom.js").Child} */
  shown(tab) {
    if (tab === "questions") return this.questions?.show(({ rows }) => this.asked(rows));
    if (tab === "memories") return this.memories?.show(({ rows }) => [this.remembered(rows), remainder(this.memories)]);
    if (tab === "notices")
      return this.notices?.show(({ rows }) => [
        noticeList(rows, () => this.notices?.reload()),
        remainder(this.notices),
      ]);
    if (tab === "grants") return make("hw-grants", { key: "grants" });
    return this.pending?.show(({ rows }) => this.calls(rows));
  }

  /** @param {any[]} rows */
  calls(rows) {
    const team = this.place.query.team ?? "";
    const teams = [...new Set(rows.map((row) => row.team))];
    const shown = rows.filter((row) => !team || row.team === team);
    const many = may("approve") && shown.length > 1;
    return [
      teams.length > 1 || many
        ? make(
            "div",
            { class: "bar" },
            teams.length > 1
              ? choice("Team", [["", "Any team"], ...teams], team, (value) => this.filter({ team: value }))
              : null,
            many ? this.together(shown) : null,
          )
        : null,
      shown.length
        ? make(
            "div",
            { class: "cards" },
            shown.map((row) =>
              make(
                "div",
                { key: row.id, class: many ? "pickable" : null },
                many ? this.pick(row) : null,
                make("hw-approval", { key: row.id, data: row }),
              ),
            ),
          )
        : empty(
            "approvals",
            "Nothing waits for you",
            "A call that a policy holds back appears here, and in the chat of its topic.",
            may("admin") ? make("a", { class: "button", href: write("settings", ["policy"]) }, "Policies") : null,
          ),
      remainder(this.pending),
      this.decided?.data?.length
        ? fold(
            "Decided lately",
            make(
              "div",
              { class: "cards" },
              this.decided.data.map((/** @type {any} */ row) => make("hw-approval", { key: row.id, data: row })),
            ),
            { class: "section" },
          )
        : null,
    ];
  }

  // ---- several at once

  /** @param {any} row */
  pick(row) {
    const turn = (/** @type {any} */ event) => {
      if (event.target.checked) this.picked.add(row.id);
      else this.picked.delete(row.id);
      this.update();
    };
    return make(
      "label",
      { class: "picker" },
      make("input", { type: "checkbox", name: `pick-${row.id}`, checked: this.picked.has(row.id), onchange: turn }),
      make("span", { class: "hidden" }, `Decide ${clean(row.short_id)} together with others`),
    );
  }

  /** @param {any[]} shown */
  together(shown) {
    const chosen = shown.filter((row) => this.picked.has(row.id));
    const all = chosen.length === shown.length;
    const turn = () => {
      this.picked = new Set(all ? [] : shown.map((row) => row.id));
      for (const box of /** @type {NodeListOf<HTMLInputElement>} */ (this.querySelectorAll(".picker input")))
        box.checked = !all;
      this.update();
    };
    return make(
      "div",
      { class: "actions push", role: "group", "aria-label": "Several at once" },
      button(all ? "Choose none" : "Choose all", "list", turn, { tone: "quiet", "data-act": "choose" }),
      chosen.length
        ? [
            button(
              `Approve ${chosen.length} once`,
              "check",
              (pressed) => act(pressed, () => this.decide(chosen, (row) => approval(row))),
              { tone: "primary", "data-act": "approve-all" },
            ),
            button(`Deny ${chosen.length}…`, "cross", () => this.denyAll(chosen), { "data-act": "deny-all" }),
          ]
        : null,
    );
  }

  /** @param {any[]} rows @param {(row: any) => any} word */
  async decide(rows, word) {
    const answers = [];
    for (const body of batches(rows, word)) answers.push(...(await post("/approvals/batch", body)).items);
    const refused = refusals(answers);
    this.picked = new Set(refused.map(({ id }) => id));
    this.again();
    const named = (/** @type {any} */ { id, message }) =>
      `${rows.find((row) => row.id === id)?.short_id ?? id}: ${message}`;
    if (refused.length)
      toast(`${several(refused.length, "decision")} refused.`, { bad: true, list: refused.map(named) });
    if (refused.length < rows.length) toast(`${several(rows.length - refused.length, "call")} decided.`);
  }

  /** @param {any[]} rows */
  denyAll(rows) {
    return ask({
      title: `Deny ${several(rows.length, "call")}?`,
      about: [
        "None of these runs: ",
        rows.map((row) => clean(row.tool ?? row.kind)).join(", "),
        ". Each of the teams reads your note.",
      ],
      body: input("Note", "note", { maxlength: 2000, placeholder: "Why not, and what instead" }),
      action: "Deny all",
      dangerous: true,
      submit: ({ note }) => this.decide(rows, (row) => denial(row, note)),
    });
  }

  // ---- the other tabs

  /** @param {any[]} open */
  asked(open) {
    const past = this.answered?.data ?? [];
    return [
      open.length
        ? make(
            "div",
            { class: "cards" },
            open.map((row) => make("hw-question", { key: row.id, data: row })),
          )
        : empty("question", "No open question", "When a team needs to know something from you, it asks here."),
      remainder(this.questions),
      past.length
        ? fold(
            "Answered or expired",
            make(
              "div",
              { class: "cards" },
              past.map((/** @type {any} */ row) => make("hw-question", { key: row.id, data: row })),
            ),
            { class: "section" },
          )
        : null,
    ];
  }

  /** @param {any[]} rows */
  remembered(rows) {
    if (!rows.length)
      return empty(
        "memory",
        "No memory to review",
        "What a team wants to keep from an untrusted source waits here until you have read it.",
      );
    const review = (/** @type {any} */ row, /** @type {string} */ decision) => async () => {
      await post(`/memories/${part(row.id)}/review`, { decision });
      this.memories?.reload();
    };
    return make(
      "div",
      { class: "cards" },
      rows.map((row) =>
        askCard(
          {
            key: row.id,
            status: "pending",
            state: "to review",
            picture: "memory",
            title: clean(row.key),
            tags: make("span", { class: "tag" }, words(row.type)),
            text: row.snippet ?? row.content ?? "",
            line: [
              teamLink(row.team),
              since(row.created_at),
              make("a", { href: write("memory", [row.id]) }, "In full"),
            ],
          },
          may("operate")
            ? make(
                "div",
                { class: "choices" },
                button("Keep", "check", (pressed) => act(pressed, review(row, "approve"), "Kept."), {
                  tone: "primary",
                }),
                button("Reject", "cross", (pressed) => act(pressed, review(row, "reject"), "Rejected.")),
              )
            : null,
        ),
      ),
    );
  }
}

customElements.define("hw-approvals", Approvals);
