// @ts-check
// Tokens and money: by day, team and model, and what is left of the budgets.

import { address, all } from "../core/api.js";
import { clean, make } from "../core/dom.js";
import { count, duration, money, several, short, spending } from "../core/format.js";
import { View } from "../core/view.js";
import { live } from "../live/live.js";
import { bars, columns } from "../parts/chart.js";
import { segments } from "../parts/fields.js";
import { figure, head, teamLink } from "../parts/marks.js";
import { empty } from "../parts/states.js";
import { table } from "../parts/table.js";
import { firstDay, forecast, shifted } from "./forecast.js";

/** Which is another day where the service is. */
const today = () => live.state.overview?.today ?? new Date().toISOString().slice(0, 10);

class Usage extends View {
  begin() {
    this.load();
    this.budgets = this.source((signal) => all("/usage/budgets", {}, signal), ["usage.changed"]);
    this.month = this.source(
      (signal) => all("/usage", { group: "day", from: firstDay(today()) }, signal),
      ["usage.changed"],
    );
    // The day goes on also when nothing is spent.
    this.every(60_000);
  }

  /** @param {import("../core/place.js").Place} place */
  moved(place) {
    const was = this.range();
    super.moved(place);
    if (was !== this.range()) this.load();
  }

  range() {
    return Number(this.place.query.days ?? 14);
  }

  /** What is asked for of a group. @param {string} group */
  wanted(group) {
    return { group, from: `${this.range() - 1}d` };
  }

  load() {
    const by = (/** @type {string} */ group) =>
      this.source((signal) => all("/usage", this.wanted(group), signal), ["usage.changed"]);
    for (const one of [this.days, this.teams, this.models]) one?.close();
    this.days = by("day");
    this.teams = by("team");
    this.models = by("model");
  }

  render() {
    return [
      head(
        "Usage",
        "What the models read and wrote, and what it cost.",
        segments(
          "Range",
          [
            ["7", "7 days"],
            ["14", "14 days"],
            ["30", "30 days"],
            ["90", "90 days"],
          ],
          String(this.range()),
          (days) => (this.filter({ days: days === "14" ? "" : days }), this.load()),
        ),
      ),
      this.days?.show((rows) => this.page(rows)),
    ];
  }

  /** @param {any[]} found */
  page(found) {
    const total = (/** @type {string} */ name) => found.reduce((sum, row) => sum + (row[name] ?? 0), 0);
    const input = total("input") + total("cache_read") + total("cache_write");
    const csv = (/** @type {string} */ group) => address("/usage/export", this.wanted(group));
    if (!total("requests")) {
      return [
        empty(
          "usage",
          "No usage in this period",
          "Each request to a model is counted here, with its tokens and its price.",
          make("a", { class: "button primary", href: "#/chat" }, "Write a message"),
        ),
        this.limits(),
      ];
    }
    return [
      make(
        "div",
        { class: "figures" },
        // Requests without a price are not known to be free.
        figure("Cost", total("usd") ? money(total("usd")) : "unknown"),
        figure("Requests", count(total("requests"))),
        figure("Tokens in", short(input)),
        figure("Tokens out", short(total("output"))),
        figure("From the cache", input ? `${Math.round((100 * total("cache_read")) / input)} %` : "–"),
      ),
      total("usd") ? this.month?.show((rows) => this.ahead(rows)) : null,
      make(
        "div",
        { class: "columns charts" },
        total("usd")
          ? columns({
              title: "Cost by day",
              series: [""],
              rows: this.filled(found).map((row) => ({ key: row.key, values: [row.usd ?? 0] })),
              format: money,
              csv: csv("day"),
            })
          : null,
        columns({
          title: "Tokens by day",
          series: ["Input", "Input from the cache", "Output"],
          rows: this.filled(found).map((row) => ({
            key: row.key,
            values: [(row.input ?? 0) + (row.cache_write ?? 0), row.cache_read ?? 0, row.output ?? 0],
          })),
          format: short,
          csv: csv("day"),
        }),
        this.teams?.show((rows) =>
          bars({
            title: "Tokens by team",
            series: ["In", "Out"],
            rows: rows.map(tokens),
            format: short,
            csv: csv("team"),
          }),
        ),
        this.models?.show((rows) =>
          bars({
            title: "Tokens by model",
            series: ["In", "Out"],
            rows: rows.map(tokens),
            format: short,
            csv: csv("model"),
          }),
        ),
      ),
      this.limits(),
    ];
  }

  /** What it will come to, and how that is reckoned. @param {any[]} rows */
  ahead(rows) {
    const ends = Date.parse(live.state.overview?.today_ends_at ?? "");
    if (Number.isNaN(ends)) return null;
    const found = forecast(rows, today(), ends, Date.now());
    const { today: day, month, left } = found;
    return make(
      "section",
      { class: "section forecast" },
      make("h2", {}, "Forecast"),
      make(
        "div",
        { class: "figures" },
        figure("Today", `about ${money(day.likely)}`),
        figure("This month", `about ${money(month.likely)}`),
        figure("Range of this month", `${money(month.least)} – ${money(month.most)}`),
      ),
      make(
        "p",
        { class: "muted" },
        `Today: ${money(day.spent)} in the first ${duration(found.passed)} of the day, and the rest of it at the same rate. ` +
          `This month: ${money(month.before)} before today, today, and ${several(left, "day")} like today. ` +
          "Its range: the days left are like the cheapest or the dearest of the last 7 and today. " +
          "Models without a price are not in it.",
      ),
    );
  }

  /** Days without a row are days without cost. @param {any[]} found */
  filled(found) {
    const known = new Map(found.map((row) => [row.key, row]));
    return Array.from({ length: this.range() }, (_, at) => {
      const key = shifted(today(), at + 1 - this.range());
      return known.get(key) ?? { key };
    });
  }

  limits() {
    return make(
      "section",
      { class: "section" },
      make("h2", {}, "Budgets"),
      this.budgets?.show((rows) => {
        const capped = rows.filter((/** @type {any} */ row) =>
          Object.values(row.caps ?? {}).some((cap) => cap !== null),
        );
        if (!capped.length)
          return make(
            "p",
            { class: "muted" },
            "No team has a budget. Set one in its file: ",
            make("code", {}, "budgets: {usd_per_day: 5}"),
            ".",
          );
        return table(
          "Budgets",
          [
            { name: "Team", cell: (row) => teamLink(row.team) },
            { name: "Spent today", number: true, cell: (row) => spending(row.spent) },
            { name: "Per day", number: true, cell: (row) => money(row.caps?.usd_per_day) },
            {
              name: "Used",
              cell: (row) =>
                row.caps?.usd_per_day
                  ? make("meter", {
                      min: 0,
                      max: row.caps.usd_per_day,
                      value: Math.min(row.caps.usd_per_day, row.spent?.usd ?? 0),
                      "aria-label": `Spent by ${clean(row.team)}`,
                    })
                  : "–",
            },
            { name: "Tokens today", number: true, cell: (row) => count(row.spent?.tokens), quiet: true },
            { name: "Tokens per day", number: true, cell: (row) => count(row.caps?.tokens_per_day), quiet: true },
            { name: "Per task", number: true, cell: (row) => money(row.caps?.usd_per_task), quiet: true },
          ],
          capped,
          { key: (row) => row.team },
        );
      }),
    );
  }
}

/** @param {any} row */
const tokens = (row) => ({
  key: row.key,
  values: [(row.input ?? 0) + (row.cache_read ?? 0) + (row.cache_write ?? 0), row.output ?? 0],
});

customElements.define("hw-usage", Usage);
