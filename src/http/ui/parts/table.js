// @ts-check
// Tables that become cards where there is little room.

import { make } from "../core/dom.js";
import { paint, withFrame } from "../core/paint.js";

/**
 * @typedef {{name: string, cell: (row: any) => import("../core/dom.js").Child, wide?: boolean, number?: boolean, quiet?: boolean}} Column
 */

/** From so many rows on only those near the window are drawn. */
const LONG = 200;
/** Rows that are drawn above and below what is seen, so that none comes too late. */
const AROUND = 20;

/**
 * @typedef {{key?: (row: any) => string, open?: (row: any) => void, chosen?: (row: any) => boolean}} Ways
 */

/**
 * @param {string} caption what is listed, for screen readers
 * @param {Column[]} columns
 * @param {any[]} rows
 * @param {Ways} [ways]
 */
export function table(caption, columns, rows, ways = {}) {
  if (rows.length > LONG) return make("hw-rows", { data: { caption, columns, rows, ways } });
  return sheet(
    { caption, columns },
    rows.map((row) => line(row, columns, ways)),
  );
}

/** @param {{caption: string, columns: Column[], count?: number}} about @param {HTMLElement[]} lines */
function sheet({ caption, columns, count }, lines) {
  return make(
    "div",
    { class: "sheet" },
    make(
      "table",
      { class: "rows", "aria-rowcount": count ? count + 1 : null },
      make("caption", { class: "hidden" }, caption),
      make(
        "thead",
        {},
        make(
          "tr",
          { "aria-rowindex": count ? 1 : null },
          columns.map((column) =>
            make(
              "th",
              { scope: "col", class: place(column) },
              column.name || make("span", { class: "hidden" }, "Actions"),
            ),
          ),
        ),
      ),
      make("tbody", {}, lines),
    ),
  );
}

/** @param {any} row @param {Column[]} columns @param {Ways} ways @param {number} [at] where it stands in a long list */
function line(row, columns, { key, open, chosen }, at) {
  return make(
    "tr",
    {
      key: key?.(row) ?? at,
      class: open ? "opens" : null,
      "aria-current": chosen?.(row) ? "true" : null,
      "aria-rowindex": at === undefined ? null : at + 2,
      onclick: open
        ? (/** @type {any} */ event) => !event.target.closest("a, button, input, summary, label") && open(row)
        : null,
    },
    columns.map((column) =>
      make("td", { class: place(column), "data-name": column.name }, make("div", {}, column.cell(row))),
    ),
  );
}

/** A long list: room is kept for the rows that are far from the window. */
class LongRows extends HTMLElement {
  /** @type {{caption: string, columns: Column[], rows: any[], ways: Ways} | null} */ list = null;
  /** How high a row is, once some have been drawn. */ height = 0;
  soon = withFrame(() => this.draw());

  get data() {
    return this.list;
  }

  set data(list) {
    this.list = list;
    this.draw();
  }

  connectedCallback() {
    const { signal } = (this.life = new AbortController());
    // Whatever scrolls, the page or a part of it.
    addEventListener("scroll", () => this.soon(), { capture: true, passive: true, signal });
    addEventListener("resize", () => ((this.height = 0), this.soon()), { signal });
    this.draw();
  }

  disconnectedCallback() {
    this.life?.abort();
  }

  draw() {
    if (!this.isConnected || !this.list) return;
    const { caption, columns, rows, ways } = this.list;
    const { from, to } = this.near(rows.length);
    const held = Number(this.querySelector("tbody tr:focus-within")?.getAttribute("aria-rowindex") ?? 0) - 2;
    const shown = Array.from({ length: to - from }, (_, at) => from + at);
    // What has the focus stays.
    if (held >= 0 && held < from) shown.unshift(held);
    if (held >= to && held < rows.length) shown.push(held);
    /** @type {HTMLElement[]} */ const lines = [];
    let next = 0;
    for (const at of shown) {
      if (at > next) lines.push(this.room(at - next, columns));
      lines.push(line(rows[at], columns, ways, at));
      next = at + 1;
    }
    if (next < rows.length) lines.push(this.room(rows.length - next, columns));
    paint(this, sheet({ caption, columns, count: rows.length }, lines));
    if (!this.height) this.measure();
  }

  /** The rows that are drawn. @param {number} count */
  near(count) {
    const most = 2 * AROUND + (this.height ? Math.ceil(innerHeight / this.height) : 0);
    const body = this.height ? this.querySelector("tbody") : null;
    const above = body ? Math.floor(-body.getBoundingClientRect().top / this.height) - AROUND : 0;
    const from = Math.max(0, Math.min(above, count - most));
    return { from, to: Math.min(count, from + most) };
  }

  measure() {
    const drawn = [...this.querySelectorAll("tbody tr:not(.room)")].map((row) => row.getBoundingClientRect());
    const [first, last] = [drawn[0], drawn.at(-1)];
    if (!first || !last) return;
    this.height = (last.bottom - first.top) / drawn.length;
    if (this.height) this.draw();
  }

  /** @param {number} count @param {Column[]} columns */
  room(count, columns) {
    const height = `${count * (this.height || 44)}px`;
    return make(
      "tr",
      { class: "room", "aria-hidden": "true", style: { height } },
      make("td", { colspan: columns.length }),
    );
  }
}

customElements.define("hw-rows", LongRows);

/** @param {Column} column */
const place = (column) =>
  [column.number ? "number" : "", column.wide ? "wide" : "", column.quiet ? "quiet" : ""].filter(Boolean).join(" ") ||
  null;

/**
 * What was fetched of a list, with a way to more; or what stands there as long as it has no rows.
 * @param {import("../core/view.js").Source | undefined} source @param {string} caption @param {Column[]} columns
 * @param {import("../core/dom.js").Child} none
 */
export const listed = (source, caption, columns, none) =>
  source?.show(({ rows }) =>
    rows.length ? [table(caption, columns, rows, { key: (row) => row.id }), remainder(source)] : none,
  );

/** How much of a list is shown, with a way to more. @param {import("../core/view.js").Source | undefined} source */
export const remainder = (source) =>
  source?.data?.next
    ? make(
        "p",
        { class: "remainder" },
        `${source.data.rows.length.toLocaleString()} of ${total(source.data)} shown. `,
        make(
          "button",
          {
            type: "button",
            class: "link",
            disabled: source.growing,
            "aria-busy": source.growing ? "true" : null,
            onclick: () => source.more(),
          },
          "Show more",
        ),
      )
    : null;

/** Rows are counted to a limit. @param {{rows: any[], total: number}} found */
const total = ({ rows, total: counted }) =>
  rows.length >= counted ? `more than ${counted.toLocaleString()}` : counted.toLocaleString();
