// @ts-check
// What the service says about itself: the newest lines, and each new one as it comes.

import { list } from "../core/api.js";
import { clean, coded, copyButton, download, icon, make } from "../core/dom.js";
import { View } from "../core/view.js";
import { choice, search } from "../parts/fields.js";
import { button, head } from "../parts/marks.js";
import { empty } from "../parts/states.js";
import { teamChoice, teamNames } from "../parts/teams.js";

const KEPT = 1_000;
const RANK = ["error", "warn", "info", "debug"];

class Logs extends View {
  begin() {
    /** Lines that came while the view is open. @type {any[]} */ this.fresh = [];
    this.paused = false;
    this.lines = this.source(async (signal) => {
      const { level, team, q } = this.place.query;
      const { rows } = await list("/logs", { level, team, q, limit: 200 }, signal);
      this.fresh = [];
      return rows;
    });
    this.teams = teamNames(this);
    this.on(["log"], (event) => this.heard(event.detail));
  }

  /** @param {any} line */
  heard(line) {
    const { level, team, q } = this.place.query;
    const fits =
      (!level || RANK.indexOf(line.level) <= RANK.indexOf(level)) &&
      (!team || line.team === team) &&
      (!q || JSON.stringify(line).toLowerCase().includes(q.toLowerCase()));
    if (!fits || !this.fresh) return;
    this.fresh = [line, ...this.fresh].slice(0, KEPT);
    if (!this.paused) this.update();
  }

  /** @param {Record<string, string>} changes */
  narrow(changes) {
    this.filter(changes);
    this.lines?.reload();
  }

  all() {
    if (this.paused && this.frozen) return this.frozen;
    const known = new Set((this.fresh ?? []).map((line) => line.id ?? line.seq));
    return [
      ...(this.fresh ?? []),
      ...(this.lines?.data ?? []).filter((/** @type {any} */ line) => !known.has(line.id)),
    ].slice(0, KEPT);
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
            ["debug", "Everything"],
          ],
          query.level ?? "",
          (level) => this.narrow({ level }),
        ),
        teamChoice(this.teams, query.team, (team) => this.narrow({ team })),
      ),
      this.lines?.show(() => this.list(this.all())),
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
