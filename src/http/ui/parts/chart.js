// @ts-check
// Charts as drawings, each with the same figures as a table for those who cannot or do not want to see it.

import { clean, draw, icon, make } from "../core/dom.js";
import { several } from "../core/format.js";
import { fold } from "./marks.js";
import { table } from "./table.js";

/** The rest is one bar. */
const MOST_BARS = 12;
const [W, H, LEFT, FOOT, TOP] = [520, 200, 54, 26, 12];

/** A round figure at or above the largest. @param {number} most */
export function ceiling(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= most) ?? 10;
  return step * power;
}

/**
 * Columns, stacked where there is more than one series.
 * @param {{title: string, rows: {key: string, values: number[]}[], series: string[], format: (value: number) => string, csv?: string}} chart
 */
export function columns({ title, rows, series, format, csv }) {
  const sums = rows.map((row) => row.values.reduce((a, b) => a + b, 0));
  const top = ceiling(Math.max(...sums, 0));
  const room = (W - LEFT) / Math.max(1, rows.length);
  const width = Math.min(44, room * 0.64);
  const y = (/** @type {number} */ value) => TOP + (H - FOOT - TOP) * (1 - value / top);
  const every = Math.ceil(rows.length / 10);
  const svg = draw(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${W} ${H}`,
      role: "img",
      "aria-label": `${title}. The table below has the figures.`,
    },
    [0, 0.5, 1].map((share) => [
      draw("line", { class: "grid", x1: LEFT, x2: W, y1: y(top * share), y2: y(top * share) }),
      draw("text", { class: "axis", x: LEFT - 8, y: y(top * share) + 4, "text-anchor": "end" }, format(top * share)),
    ]),
    rows.map((row, at) => {
      let base = 0;
      const x = LEFT + room * (at + 0.5);
      return draw(
        "g",
        {},
        draw(
          "title",
          {},
          `${row.key}: ${row.values.map((value, index) => `${series[index] ? `${series[index]} ` : ""}${format(value)}`).join(", ")}`,
        ),
        draw("rect", { class: "reach", x: x - room / 2, y: TOP, width: room, height: H - FOOT - TOP }),
        row.values.map((value, index) => {
          const [from, to] = [y(base), y(base + value)];
          base += value;
          return value > 0
            ? draw("rect", {
                class: "bar",
                "data-series": index,
                x: x - width / 2,
                y: to,
                width,
                height: Math.max(1, from - to),
                rx: 3,
              })
            : null;
        }),
        at % every === 0
          ? draw("text", { class: "axis", x, y: H - 8, "text-anchor": "middle" }, shortKey(row.key))
          : null,
      );
    }),
  );
  return figure(title, svg, series, rows, format, csv);
}

/** Bars to the right, the longest first. @param {{title: string, rows: {key: string, values: number[]}[], series: string[], format: (value: number) => string, csv?: string}} chart */
export function bars({ title, rows, series, format, csv }) {
  const all = [...rows].sort((a, b) => sum(b) - sum(a));
  const rest = all.slice(MOST_BARS);
  const others = {
    key: several(rest.length, "other"),
    values: series.map((_, at) => rest.reduce((total, row) => total + row.values[at], 0)),
  };
  const sorted = rest.length ? [...all.slice(0, MOST_BARS), others] : all;
  const top = Math.max(...sorted.map(sum), 0) || 1;
  const [line, name, room] = [30, 128, W - 128 - 64];
  const svg = draw(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${W} ${Math.max(1, sorted.length) * line + 6}`,
      role: "img",
      "aria-label": `${title}. The table below has the figures.`,
    },
    sorted.map((row, at) => {
      let x = name;
      const y = at * line + 4;
      return draw(
        "g",
        {},
        draw(
          "text",
          { class: "axis name", x: name - 10, y: y + 15, "text-anchor": "end" },
          row.key.length > 17 ? `${clean(row.key).slice(0, 16)}…` : clean(row.key),
        ),
        row.values.map((value, index) => {
          const width = (value / top) * room;
          const bar =
            width > 0
              ? draw("rect", { class: "bar", "data-series": index, x, y, width: Math.max(2, width), height: 20, rx: 3 })
              : null;
          x += width;
          return bar;
        }),
        draw("text", { class: "axis", x: x + 8, y: y + 15 }, format(sum(row))),
      );
    }),
  );
  return figure(title, svg, series, all, format, csv);
}

/** @param {{values: number[]}} row */
const sum = (row) => row.values.reduce((a, b) => a + b, 0);

/** A day as day and month. @param {string} key */
function shortKey(key) {
  if (!/^\d{4}-\d\d-\d\d$/.test(key)) return clean(key).slice(0, 12);
  return new Date(`${key}T12:00:00`).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

/** @param {string} title @param {SVGElement} svg @param {string[]} series @param {{key: string, values: number[]}[]} rows @param {(value: number) => string} format @param {string} [csv] where the rows are to be had as a file */
function figure(title, svg, series, rows, format, csv) {
  return make(
    "figure",
    { class: "panel chart-panel" },
    make(
      "figcaption",
      {},
      make("h2", {}, title),
      series.length > 1
        ? make(
            "ul",
            { class: "keys" },
            series.map((name, index) =>
              make("li", {}, make("span", { class: "swatch", "data-series": index, "aria-hidden": "true" }), name),
            ),
          )
        : null,
    ),
    svg,
    fold("As a table", [
      csv ? make("a", { class: "button small", href: csv, download: "" }, icon("download"), "Download CSV") : null,
      table(
        title,
        [
          { name: "", cell: (row) => clean(row.key) },
          ...series.map((name, index) => ({
            name: name || title,
            number: true,
            cell: (/** @type {any} */ row) => format(row.values[index] ?? 0),
          })),
        ],
        rows,
      ),
    ]),
  );
}
