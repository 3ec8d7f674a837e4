// @ts-check
// The transcript of any session: every message and block, in the order it happened.

import { address, call, list, part } from "../core/api.js";
import { clean, icon, make } from "../core/dom.js";
import { count, duration, money, pretty, several, since, when } from "../core/format.js";
import { write } from "../core/place.js";
import { View } from "../core/view.js";
import { live } from "../live/live.js";
import { search, segments } from "../parts/fields.js";
import { markdown } from "../parts/markdown.js";
import { button, cell, fold, head } from "../parts/marks.js";
import { empty, failure } from "../parts/states.js";
import { teamChoice, teamNames } from "../parts/teams.js";

const PAGE = 60;

class History extends View {
  /** @type {string | undefined} */ chosen;
  full = true;
  /** @type {any[]} */ messages = [];
  /** @type {any} */ session = null;
  /** Where to go on backwards and forwards. @type {number | null} */
  earliest = null;
  /** @type {number | null} */ latest = null;
  /** @type {any} */ refusal = null;

  begin() {
    this.sessions = this.source((signal) => list("/sessions", { team: this.place.query.team, limit: 200 }, signal), ["topic.changed"]);
    this.teams = teamNames(this);
    // Whole blocks are stored at their end; pieces on the way are not in the transcript yet.
    this.on(["turn"], ({ detail }) => detail.team === this.session?.team && (detail.kind !== "stream" || detail.value?.type.startsWith("tool_")) && this.soon());
    this.on(["resync"], () => this.soon());
    this.follow();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.forward(), 300);
  }

  /** @param {import("../core/place.js").Place} place */
  moved(place) {
    const was = JSON.stringify(this.place.query);
    super.moved(place);
    if (was !== JSON.stringify(place.query)) this.sessions?.reload();
    this.follow();
  }

  follow() {
    const [id] = this.place.rest;
    const full = this.place.query.as !== "simple";
    if (id === this.chosen && full === this.full) return;
    this.chosen = id;
    this.full = full;
    this.messages = [];
    this.session = null;
    this.earliest = null;
    this.latest = null;
    this.refusal = null;
    if (id) this.page({});
  }

  /** @param {{after?: number, before?: number}} from */
  async page(from) {
    const id = this.chosen;
    try {
      const answer = await call("GET", `/sessions/${part(id)}/history`, { query: { view: this.full ? "full" : "simple", limit: PAGE, ...from }, signal: this.lifetime.signal });
      if (id !== this.chosen) return;
      const fresh = answer.data ?? [];
      const known = new Set(this.messages.map((message) => message.seq));
      const added = fresh.filter((/** @type {any} */ message) => !known.has(message.seq));
      this.messages = [...this.messages, ...added].sort((a, b) => a.seq - b.seq);
      this.session = answer.session;
      if (from.after === undefined) this.earliest = answer.prev_before;
      if (from.before === undefined) this.latest = answer.next_after;
      this.refusal = null;
    } catch (refusal) {
      if (this.lifetime.signal.aborted) return;
      this.refusal = refusal;
    }
    this.update();
  }

  forward() {
    if (this.chosen && typeof this.latest === "number") this.page({ after: this.latest });
  }

  render() {
    const { query } = this.place;
    return [
      head("History", "Every session, word for word: what was said, thought, called and answered.", this.chosen ? [segments("View", [["full", "Everything"], ["simple", "Only words"]], this.full ? "full" : "simple", (as) => (this.filter({ as: as === "full" ? "" : as }), this.follow())), make("a", { class: "button", href: address(`/sessions/${part(this.chosen)}/export`), download: "" }, icon("download"), "Export")] : null),
      make(
        "div",
        { class: "two" },
        make(
          "aside",
          { class: "session-list", "aria-label": "Sessions" },
          make("div", { class: "bar" }, search("Find a session", query.q ?? "", (q) => this.filter({ q })), teamChoice(this.teams, query.team, (team) => (this.filter({ team }), this.sessions?.reload()))),
          this.sessions?.show(({ rows }) => this.list(rows)),
        ),
        make("section", { class: "transcript", "aria-label": "Transcript" }, this.chosen ? this.transcript() : make("p", { class: "muted pick" }, "Choose a session to read it.")),
      ),
    ];
  }

  /** @param {any[]} all */
  list(all) {
    const q = (this.place.query.q ?? "").toLowerCase();
    const rows = all.filter((row) => `${row.team} ${nameOf(row)} ${row.id}`.toLowerCase().includes(q));
    if (!all.length) return empty("history", "No sessions yet", "Each topic and each team has a session; its transcript appears with the first turn.", make("a", { class: "button primary", href: "#/chat" }, "Write a message"));
    if (!rows.length) return make("p", { class: "muted" }, "Nothing fits.");
    return make("ul", {}, rows.map((row) => make("li", { key: row.id }, make("a", { href: write("history", [row.id], { ...this.place.query }), "aria-current": row.id === this.chosen ? "true" : null }, cell(row.team), make("span", {}, make("strong", {}, clean(nameOf(row))), make("small", { class: "muted" }, `${clean(row.team)} · ${several(row.events, "event")} · `, since(row.updated_at)))))));
  }

  transcript() {
    return [
      this.refusal ? failure(this.refusal, () => this.page({})) : null,
      typeof this.earliest === "number" ? make("p", { class: "earlier" }, button("Earlier", "again", () => this.page({ before: this.earliest ?? 0 }), { tone: "small" })) : null,
      make("ol", { class: "timeline" }, this.messages.map((message) => make("li", { key: `${message.seq}`, class: "moment", "data-role": message.role, id: `m${message.seq}` }, this.message(message)))),
      !this.refusal && this.session && !this.messages.length ? make("p", { class: "muted" }, "Nothing was said in this session yet.") : null,
    ];
  }

  /** @param {any} message */
  message(message) {
    const { role, meta } = message;
    const who = role === "user" ? clean(message.from ?? "user") : role === "toolResult" ? clean(message.toolName) : role;
    const usage = meta?.usage;
    return [
      make("header", {}, make("strong", {}, who), message.isError ? make("span", { class: "pill", "data-tone": "bad" }, icon("alert"), "failed") : null, make("span", { class: "muted" }, when(message.timestamp)), message.durationMs !== undefined ? make("span", { class: "muted" }, duration(message.durationMs)) : null, message.task_id ? make("a", { class: "muted", href: write("tasks", [message.task_id]) }, "task") : null, make("code", { class: "id" }, `#${message.seq}`)),
      (message.content ?? []).map((/** @type {any} */ block) => blockOf(block, role)),
      meta?.model ? make("p", { class: "muted moment-meta" }, [clean(meta.model), usage ? `${count(usage.input)} in, ${count(usage.output)} out` : "", typeof usage?.cost === "number" ? money(usage.cost) : "", meta.stopReason ? clean(meta.stopReason) : ""].filter(Boolean).join(" · ")) : null,
    ];
  }
}

/** A topic is known by its name. @param {any} row */
const nameOf = (row) => live.state.topics.get(row.topic_id)?.name ?? row.team;

/** @param {any} block @param {string} role */
function blockOf(block, role) {
  if (block.type === "thinking") return fold("Thinking", make("p", { class: "thought" }, clean(block.thinking)));
  if (block.type === "toolCall") return fold(make("code", {}, clean(block.name)), make("pre", { tabindex: "0", "aria-label": `Arguments of ${clean(block.name)}` }, pretty(block.arguments)), { class: "call" });
  if (block.type === "file") return make("p", {}, make("code", {}, clean(block.filename)));
  if (role === "toolResult") return make("pre", { class: "block", tabindex: "0", "aria-label": "Result" }, pretty(block.text));
  return markdown(block.text);
}

customElements.define("hw-history", History);
