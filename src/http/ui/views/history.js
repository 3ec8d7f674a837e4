// @ts-check
// The transcript of any session: every message and block, in the order it happened.

import { address, call, may, part, post, upTo } from "../core/api.js";
import { byId, clean, icon, make } from "../core/dom.js";
import { several, since } from "../core/format.js";
import { Pace } from "../core/pace.js";
import { write } from "../core/place.js";
import { View } from "../core/view.js";
import { live } from "../live/live.js";
import { search, segments } from "../parts/fields.js";
import { button, cell, head } from "../parts/marks.js";
import { moment } from "../parts/moment.js";
import { empty, failure, loading } from "../parts/states.js";
import { remainder } from "../parts/table.js";
import { teamChoice, teamNames } from "../parts/teams.js";
import { act } from "../parts/toast.js";

const PAGE = 60;
/** So many events before an item are shown with it. */
const BEFORE = 30;

class History extends View {
  /** @type {string | undefined} */ chosen;
  full = true;
  /** @type {any[]} */ messages = [];
  /** @type {any} */ session = null;
  /** Where to go on backwards and forwards. @type {number | null} */
  earliest = null;
  /** @type {number | null} */ latest = null;
  /** @type {any} */ refusal = null;
  slow = false;
  pace = new Pace(() => this.forward(), 300, 500);

  begin() {
    this.sessions = this.source(
      (signal, wanted) => upTo("/sessions", { team: this.place.query.team }, wanted, signal),
      ["topic.changed"],
    );
    this.teams = teamNames(this);
    // Whole blocks are stored at their end; pieces on the way are not in the transcript yet.
    this.on(
      ["turn"],
      ({ detail }) =>
        detail.team === this.session?.team &&
        (detail.kind !== "stream" || detail.value?.type.startsWith("tool_")) &&
        this.pace.soon(),
    );
    this.on(["resync"], () => this.pace.soon());
    this.follow();
  }

  /** @param {import("../core/place.js").Place} place */
  moved(place) {
    super.moved(place);
    this.follow();
  }

  refresh() {
    this.sessions?.reload();
  }

  follow() {
    const [id] = this.place.rest;
    const full = this.place.query.as !== "simple";
    const item = Number(this.place.query.item);
    if (id === this.chosen && full === this.full) return item ? this.reach(item) : undefined;
    this.chosen = id;
    this.full = full;
    this.messages = [];
    this.session = null;
    this.earliest = null;
    this.latest = null;
    this.refusal = null;
    this.open();
  }

  /** Fetches the transcript, at the item that the address names. */
  async open() {
    const item = Number(this.place.query.item);
    if (this.chosen) await (item ? this.reach(item) : this.page({}));
  }

  /** Shows an item. If it is not there yet, the transcript is opened around it. @param {number} item */
  async reach(item) {
    const isThere = this.messages.length && (this.earliest ?? 0) <= item && item <= (this.latest ?? 0);
    if (!isThere) {
      this.messages = [];
      await this.page({ after: Math.max(0, item - BEFORE) });
    }
    this.update();
    requestAnimationFrame(() => byId(`m${this.found(item)?.seq}`)?.scrollIntoView({ block: "center" }));
  }

  /** The message that has an event: each is known by its last. @param {number} item */
  found(item) {
    return item ? this.messages.find((message) => message.seq >= item) : undefined;
  }

  /** @param {{after?: number, before?: number}} from */
  async page(from) {
    const id = this.chosen;
    const slow = setTimeout(() => {
      this.slow = !this.messages.length;
      this.update();
    }, 200);
    try {
      const answer = await call("GET", `/sessions/${part(id)}/history`, {
        query: { view: this.full ? "full" : "simple", limit: PAGE, ...from },
        signal: this.lifetime.signal,
      });
      if (id !== this.chosen) return;
      const fresh = answer.data ?? [];
      // A message of a turn that had only begun may have another number by now; it comes again if it has none yet.
      const isFirst = !this.messages.length;
      const stored = from.before === undefined ? this.messages.filter((message) => !message.pending) : this.messages;
      const known = new Set(stored.map((message) => message.seq));
      const added = fresh.filter((/** @type {any} */ message) => !known.has(message.seq));
      this.messages = [...stored, ...added].sort((a, b) => a.seq - b.seq);
      this.session = answer.session;
      if (from.after === undefined || isFirst) this.earliest = answer.prev_before;
      if (from.before === undefined || isFirst) this.latest = answer.next_after;
      this.refusal = null;
    } catch (refusal) {
      if (this.lifetime.signal.aborted) return;
      this.refusal = refusal;
    } finally {
      clearTimeout(slow);
      this.slow = false;
    }
    this.update();
  }

  async forward() {
    if (!this.chosen) return;
    if (typeof this.latest === "number") return this.page({ after: this.latest });
    // Nothing of it has come yet.
    if (this.refusal) await this.open();
  }

  /** Nothing is lost: the transcript stays, and shows the summary when it is there. @param {any} pressed */
  compact(pressed) {
    const ask = () => post(`/sessions/${part(this.chosen)}/compact`, {});
    const done = (/** @type {any} */ answer) => `It is being summarised by task ${answer.task_id}.`;
    return act(pressed, ask, done);
  }

  render() {
    const { query } = this.place;
    return [
      head(
        "History",
        "Every transcript, word for word: what was said, thought, called and answered.",
        this.chosen
          ? [
              segments(
                "View",
                [
                  ["full", "Everything"],
                  ["simple", "Only words"],
                ],
                this.full ? "full" : "simple",
                (as) => (this.filter({ as: as === "full" ? "" : as }), this.follow()),
              ),
              may("operate")
                ? button("Summarise", "spark", (pressed) => this.compact(pressed), {
                    title: "Summarise what was said, so that the model has less to read",
                  })
                : null,
              make(
                "a",
                { class: "button", href: address(`/sessions/${part(this.chosen)}/export`), download: "" },
                icon("download"),
                "Export",
              ),
            ]
          : null,
      ),
      make(
        "div",
        { class: "two" },
        make(
          "aside",
          { class: "session-list", "aria-label": "Transcripts" },
          make(
            "div",
            { class: "bar" },
            search("Find a transcript", query.q ?? "", (q) => this.filter({ q })),
            teamChoice(this.teams, query.team, (team) => (this.filter({ team }), this.sessions?.reload())),
          ),
          this.sessions?.show(({ rows }) => this.list(rows)),
        ),
        make(
          "section",
          { class: "transcript", "aria-label": "Transcript" },
          this.chosen ? this.transcript() : make("p", { class: "muted pick" }, "Choose a transcript to read it."),
        ),
      ),
    ];
  }

  /** @param {any[]} all */
  list(all) {
    const q = (this.place.query.q ?? "").toLowerCase();
    const rows = all.filter((row) => `${row.team} ${nameOf(row)} ${row.id}`.toLowerCase().includes(q));
    if (!all.length)
      return empty(
        "history",
        "No transcripts yet",
        "Each topic and each team has one. It begins with the first message.",
        make("a", { class: "button primary", href: "#/chat" }, "Write a message"),
      );
    if (!rows.length)
      return [make("p", { class: "muted" }, "Nothing matches among those shown."), remainder(this.sessions)];
    return [
      make(
        "ul",
        {},
        rows.map((row) =>
          make(
            "li",
            { key: row.id },
            make(
              "a",
              {
                // The place in this one is none in another.
                href: write("history", [row.id], { ...this.place.query, item: "" }),
                "aria-current": row.id === this.chosen ? "true" : null,
              },
              cell(row.team),
              make(
                "span",
                {},
                make("strong", {}, clean(nameOf(row))),
                make(
                  "small",
                  { class: "muted" },
                  `${clean(row.team)} · ${several(row.events, "event")} · `,
                  since(row.updated_at),
                ),
              ),
            ),
          ),
        ),
      ),
      remainder(this.sessions),
    ];
  }

  transcript() {
    const found = this.found(Number(this.place.query.item));
    return [
      this.slow ? loading() : null,
      this.refusal ? failure(this.refusal, () => this.open()) : null,
      typeof this.earliest === "number"
        ? make(
            "p",
            { class: "earlier" },
            button("Earlier", "again", () => this.page({ before: this.earliest ?? 0 }), { tone: "small" }),
          )
        : null,
      make(
        "ol",
        { class: "timeline" },
        this.messages.map((message) => moment(message, String(this.chosen), message === found)),
      ),
      this.session && typeof this.latest === "number" && this.latest < this.session.events
        ? make(
            "p",
            { class: "earlier" },
            button("Later", "again", () => this.forward(), { tone: "small" }),
          )
        : null,
      !this.refusal && this.session && !this.messages.length
        ? make("p", { class: "muted" }, "Nothing has been said here yet.")
        : null,
    ];
  }
}

/** A topic is known by its name. @param {any} row */
const nameOf = (row) => live.state.topics.get(row.topic_id)?.name ?? row.team;

customElements.define("hw-history", History);
