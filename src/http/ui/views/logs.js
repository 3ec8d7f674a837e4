// @ts-check
// What the service says about itself: the newest lines, and each new one as it comes.

import { upTo } from "../core/api.js";
import { clean, coded, copyButton, download, icon, make } from "../core/dom.js";
import { View } from "../core/view.js";
import { choice, search } from "../parts/fields.js";
import { button, head } from "../parts/marks.js";
import { empty } from "../parts/states.js";
import { remainder } from "../parts/table.js";
import { teamChoice, teamNames } from "../parts/teams.js";

/** Of lines that came while the view is open, so many are kept. */
const KEPT = 1_000;
/** Of those from before, so many times as many are shown as rows of other lists. */
const TIMES = 4;
const RANK = ["error", "warn", "info", "debug", "trace"];

/** The event about a line is told so much later than it was written, at most. */
const LAG = 250;

/** @param {any} line */
const saying = ({ level, target, message, fields }) => JSON.stringify([level, target, message, fields]);

/** Whether an event is about one of these lines: it has no id, and a moment of its own. @param {any} event @param {any[]} rows */
export function isAmong(event, rows) {
  const [at, said] = [Date.parse(event.at), saying(event)];
  return rows.some((row) => Math.abs(Date.parse(row.at) - at) < LAG && saying(row) === said);
}

class Logs extends View {
  begin() {
    /** Lines that came while the view is open. @type {any[]} */ this.fresh = [];
    this.paused = false;
    this.lines = this.source(async (signal, wanted) => {
      const { level, team, q } = this.place.query;
      const found = await upTo("/logs", { level, team, q }, wanted * TIMES, signal);
      // What is not stored yet stays.
      this.fresh = this.fresh?.filter((line) => !isAmong(line, found.rows));
      return found;
    });
    this.teams = teamNames(this);
    this.on(["log"], (event) => this.heard(event.detail));
  }

  /** @param {any} line */
  heard(line) {
    if (isAmong(line, this.stored())) return;
    this.fresh = [line, ...(this.fresh ?? [])].slice(0, KEPT);
    if (!this.paused) this.update();
  }

  /** What the filters let through. @param {any} line */
  fits(line) {
    const { level, team, q } = this.place.query;
    return (
      (!level || RANK.indexOf(line.level) <= RANK.indexOf(level)) &&
      (!team || line.team === team) &&
      (!q || JSON.stringify(line).toLowerCase().includes(q.toLowerCase()))
    );
  }

  refresh() {
    this.lines?.reload();
  }

  /** @returns {any[]} */
  stored() {
    return this.lines?.data?.rows ?? [];
  }

  all() {
    if (this.paused && this.frozen) return this.frozen;
    return [...(this.fresh ?? []).filter((line) => this.fits(line)), ...this.stored()];
  }

  text() {
    return this.all()
      .map((line) =>
        [
          line.at,
          line.level.toUpperCase(),
          line.target,
          line.message,
          ...Object.entries(line.fields ?? {}).map(([name, value]) => `${name}=${value}`),
        ].join(" "),
      )
      .reverse()
      .join("\n");
  }

  render() {
    const { query } = this.place;
    return [
      head("Logs", "Newest first, without secrets. New lines come in by themselves.", [
        button(this.paused ? "Resume" : "Pause", this.paused ? "play" : "pause", () => this.pause(), {
          "aria-pressed": String(this.paused),
        }),
        copyButton("Copy", () => this.text(), "button"),
        button("Download", "download", () => download("hivewright.log", `${this.text()}\n`, "text/plain")),
      ]),
      make(
        "div",
        { class: "bar" },
        search("Search text or request id", query.q ?? "", (q) => this.narrow({ q })),
        choice(
          "Level",
          [
            ["", "All levels"],
            ["error", "Errors"],
            ["warn", "Warnings and worse"],
            ["info", "Information and worse"],
            ["debug", "Debugging and worse"],
          ],
          query.level ?? "",
          (level) => this.narrow({ level }),
        ),
        teamChoice(this.teams, query.team, (team) => this.narrow({ team })),
      ),
      this.lines?.show(() => [this.list(this.all()), remainder(this.lines)]),
    ];
  }

  pause() {
    this.frozen = this.paused ? null : this.all();
    this.paused = !this.paused;
    this.update();
  }

  /** @param {any[]} rows */
  list(rows) {
    if (!rows.length)
      return empty(
        "logs",
        "Nothing to show",
        "Nothing matches these filters yet. New lines appear here as they come.",
        this.place.query.q || this.place.query.level || this.place.query.team
          ? button("Show all", "close", () => this.narrow({ q: "", level: "", team: "" }))
          : null,
      );
    return make(
      "ol",
      { class: "log", tabindex: "0", "aria-label": "Log lines" },
      rows.map((line) =>
        make("li", { key: String(line.id ?? `s${line.seq}`), "data-level": line.level }, this.line(line)),
      ),
    );
  }

  /** @param {any} line */
  line(line) {
    const fields = Object.entries(line.fields ?? {});
    const more = [
      line.team ? ["team", line.team] : null,
      line.task_id ? ["task", line.task_id] : null,
      line.request_id ? ["request", line.request_id] : null,
      ...fields,
    ].filter(Boolean);
    return [
      make(
        "time",
        { datetime: line.at, title: line.at },
        new Date(line.at).toLocaleTimeString(undefined, { hour12: false }),
      ),
      make(
        "span",
        { class: "log-level" },
        line.level === "error" || line.level === "warn" ? icon("alert") : null,
        line.level,
      ),
      make(
        "span",
        { class: "log-words" },
        coded(line.message),
        more.map((/** @type {any} */ [name, value]) =>
          make(
            "span",
            { class: "log-field" },
            make("b", {}, clean(name)),
            clean(typeof value === "string" ? value : JSON.stringify(value)),
          ),
        ),
      ),
    ];
  }
}

customElements.define("hw-logs", Logs);
