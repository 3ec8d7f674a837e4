// @ts-check
// What waits for a person: calls to decide, questions to answer, memories to review, notices to read.

import { list, may, part, post } from "../core/api.js";
import { clean, icon, make } from "../core/dom.js";
import { several, since, words } from "../core/format.js";
import { write } from "../core/place.js";
import { View } from "../core/view.js";
import { choice } from "../parts/fields.js";
import { markdown } from "../parts/markdown.js";
import { badge, button, head, pill, teamLink } from "../parts/marks.js";
import { empty } from "../parts/states.js";
import { act } from "../parts/toast.js";
import "../parts/approval.js";
import "../parts/question.js";

const TABS = [["calls", "Calls"], ["questions", "Questions"], ["memories", "Memories"], ["notices", "Notices"]];

class Approvals extends View {
  begin() {
    this.pending = this.source((signal) => list("/approvals", { status: "pending", limit: 200 }, signal), ["approval.changed"]);
    this.decided = this.source(async (signal) => {
      const all = await list("/approvals", { sort: "-created_at", limit: 200 }, signal);
      return all.rows.filter((row) => row.status !== "pending").slice(0, 20);
    }, ["approval.changed"]);
    this.questions = this.source(async (signal) => {
      const lists = await Promise.all([{ status: "open" }, { sort: "-created_at" }].map((query) => list("/questions", { ...query, limit: 200 }, signal)));
      return { rows: [...lists[0].rows, ...lists[1].rows.filter((row) => row.status !== "open")] };
    }, ["question.changed"]);
    this.memories = this.source((signal) => list("/memories", { review: "pending", limit: 200 }, signal), ["memory.changed"]);
    this.notices = this.source((signal) => list("/inbox", { limit: 200 }, signal), ["inbox.changed"]);
    this.addEventListener("decided", () => {
      this.pending?.soon();
      this.decided?.soon();
      this.questions?.soon();
    });
    this.every(10_000);
  }

  tab() {
    return this.place.rest[0] ?? "calls";
  }

  /** How many of each wait. */
  counts() {
    return {
      calls: this.pending?.data?.rows.length ?? 0,
      questions: this.questions?.data?.rows.filter((/** @type {any} */ row) => row.status === "open").length ?? 0,
      memories: this.memories?.data?.rows.length ?? 0,
      notices: this.notices?.data?.rows.filter((/** @type {any} */ row) => !row.read).length ?? 0,
    };
  }

  render() {
    const counts = /** @type {Record<string, number>} */ (this.counts());
    const tab = this.tab();
    return [
      head("Approvals", "What the teams may not decide alone, and what you should know."),
      make(
        "nav",
        { class: "segments tabbar", "aria-label": "Kinds" },
        TABS.map(([id, word]) => make("a", { href: write("approvals", [id === "calls" ? "" : id]), "aria-current": id === tab ? "page" : null }, word, badge(counts[id], "waiting"))),
      ),
      make("div", { class: "inbox" }, this.shown(tab)),
    ];
  }

  /** @param {string} tab @returns {import("../core/dom.js").Child} */
  shown(tab) {
    if (tab === "questions") return this.questions?.show(({ rows }) => this.asked(rows));
    if (tab === "memories") return this.memories?.show(({ rows }) => this.remembered(rows));
    if (tab === "notices") return this.notices?.show(({ rows }) => this.told(rows));
    return this.pending?.show(({ rows }) => this.calls(rows));
  }

  /** @param {any[]} rows */
  calls(rows) {
    const team = this.place.query.team ?? "";
    const teams = [...new Set(rows.map((row) => row.team))];
    const shown = rows.filter((row) => !team || row.team === team);
    return [
      teams.length > 1 ? make("div", { class: "bar" }, choice("Team", [["", "Any team"], ...teams], team, (value) => this.filter({ team: value }))) : null,
      shown.length ? make("div", { class: "cards" }, shown.map((row) => make("hw-approval", { key: row.id, data: row }))) : empty("approvals", "Nothing waits for you", "A call that a rule holds back appears here, in the chat of its topic and on the command line.", make("code", {}, "hivewright policy add")),
      this.decided?.data?.length ? make("details", { class: "fold section" }, make("summary", {}, icon("chevron"), "Decided lately"), make("div", { class: "cards" }, this.decided.data.map((/** @type {any} */ row) => make("hw-approval", { key: row.id, data: row })))) : null,
    ];
  }

  /** @param {any[]} rows */
  asked(rows) {
    const open = rows.filter((row) => row.status === "open");
    const past = rows.filter((row) => row.status !== "open").slice(0, 20);
    return [
      open.length ? make("div", { class: "cards" }, open.map((row) => make("hw-question", { key: row.id, data: row }))) : empty("question", "No open question", "When a team needs to know something from you, it asks here."),
      past.length ? make("details", { class: "fold section" }, make("summary", {}, icon("chevron"), "Answered and expired"), make("div", { class: "cards" }, past.map((row) => make("hw-question", { key: row.id, data: row })))) : null,
    ];
  }

  /** @param {any[]} rows */
  remembered(rows) {
    if (!rows.length) return empty("memory", "No memory to review", "What a team wants to keep from an untrusted source waits here until you have read it.");
    const review = (/** @type {any} */ row, /** @type {string} */ decision) => async () => {
      await post(`/memories/${part(row.id)}/review`, { decision });
      this.memories?.reload();
    };
    return make(
      "div",
      { class: "cards" },
      rows.map((row) =>
        make(
          "article",
          { class: "ask-card", key: row.id, "data-status": "pending" },
          make("div", { class: "ask-head" }, icon("memory"), make("strong", {}, clean(row.key)), pill("pending", "to review"), make("span", { class: "tag" }, words(row.type))),
          markdown(row.snippet ?? row.content ?? ""),
          make("p", { class: "muted ask-line" }, teamLink(row.team), make("span", {}, since(row.created_at)), make("a", { href: write("memory", [row.id]) }, "In full")),
          may("operate") ? make("div", { class: "choices" }, button("Keep", "check", (pressed) => act(pressed, review(row, "approve"), "Kept."), { tone: "primary" }), button("Reject", "cross", (pressed) => act(pressed, review(row, "reject"), "Rejected."))) : null,
        ),
      ),
    );
  }

  /** @param {any[]} rows */
  told(rows) {
    if (!rows.length) return empty("bell", "No notices", "Tasks that died, runs that were missed, budgets that ran out: what you should know appears here.");
    const unread = rows.filter((row) => !row.read);
    const read = (/** @type {any} */ row) => async () => {
      await post(`/inbox/${part(row.id)}/read`);
      this.notices?.reload();
    };
    const all = async () => {
      await post("/inbox/read-all");
      this.notices?.reload();
    };
    return [
      unread.length && may("operate") ? make("div", { class: "bar" }, make("span", { class: "muted" }, several(unread.length, "unread notice")), button("Mark all as read", "check", (pressed) => act(pressed, all), { tone: "small push" })) : null,
      make(
        "ul",
        { class: "notices" },
        rows.map((row) =>
          make(
            "li",
            { key: row.id, class: "notice-row", "data-read": row.read },
            make("span", { class: "notice-lamp", "aria-hidden": "true" }),
            make("div", {}, make("p", {}, row.read ? null : make("span", { class: "hidden" }, "Unread: "), clean(row.text)), make("p", { class: "muted ask-line" }, make("span", {}, words(row.kind)), row.team ? teamLink(row.team) : null, make("span", {}, since(row.last_at ?? row.at)), row.count > 1 ? make("span", { class: "tag" }, `${row.count} times`) : null, (row.links ?? []).map((/** @type {string} */ link) => noticeLink(link)))),
            row.read || !may("operate") ? null : button("Read", "check", (pressed) => act(pressed, read(row)), { tone: "small quiet" }),
          ),
        ),
      ),
    ];
  }
}

/** @param {string} id */
function noticeLink(id) {
  if (id.startsWith("task-")) return make("a", { href: write("tasks", [id]) }, clean(id));
  return make("code", { class: "id" }, clean(id));
}

customElements.define("hw-approvals", Approvals);
