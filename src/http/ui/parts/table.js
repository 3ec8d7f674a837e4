// @ts-check
// Tables that become cards where there is little room.

import { make } from "../core/dom.js";

/**
 * @typedef {{name: string, cell: (row: any) => import("../core/dom.js").Child, wide?: boolean, number?: boolean, quiet?: boolean}} Column
 */

/**
 * @param {string} caption what is listed, for screen readers
 * @param {Column[]} columns
 * @param {any[]} rows
 * @param {{key?: (row: any) => string, open?: (row: any) => void, chosen?: (row: any) => boolean}} [more]
 */
export function table(caption, columns, rows, { key, open, chosen } = {}) {
  return make(
    "div",
    { class: "sheet" },
    make(
      "table",
      { class: "rows" },
      make("caption", { class: "hidden" }, caption),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          columns.map((column) =>
            make(
              "th",
              { scope: "col", class: place(column) },
              column.name || make("span", { class: "hidden" }, "Actions"),
            ),
          ),
        ),
      ),
      make(
        "tbody",
        {},
        rows.map((row) =>
          make(
            "tr",
            {
              key: key?.(row),
              class: open ? "opens" : null,
              "aria-current": chosen?.(row) ? "true" : null,
              onclick: open
                ? (/** @type {any} */ event) => !event.target.closest("a, button, input, summary, label") && open(row)
                : null,
            },
            columns.map((column) =>
              make("td", { class: place(column), "data-name": column.name }, make("div", {}, column.cell(row))),
            ),
          ),
        ),
      ),
    ),
  );
}

/** @param {Column} column */
const place = (column) =>
  [column.number ? "number" : "", column.wide ? "wide" : "", column.quiet ? "quiet" : ""].filter(Boolean).join(" ") ||
  null;

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
