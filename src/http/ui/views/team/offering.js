// @ts-check
// What offers a team tools from outside, a plugin or an MCP server: how it stands, what it offers, what went wrong.

import { clean, make } from "../../core/dom.js";
import { several, since } from "../../core/format.js";
import { button, fold, panel, pill } from "../../parts/marks.js";

/** @typedef {import("../../core/dom.js").Child} Child */

/**
 * @param {{name: string, state: string, tags: string[], row: {tools: string[], last_error?: string, last_error_at?: string},
 *   more?: Child, actions: Child}} what
 */
export const offering = ({ name, state, tags, row, more, actions }) =>
  make(
    "li",
    { key: name },
    pill(state),
    make("code", {}, clean(name)),
    tags.map((word) => make("span", { class: "tag" }, clean(word))),
    row.tools.length ? fold(several(row.tools.length, "tool"), make("code", {}, clean(row.tools.join(", ")))) : null,
    more,
    row.last_error
      ? make(
          "span",
          { class: "clip muted", title: clean(row.last_error) },
          since(row.last_error_at),
          " ",
          clean(row.last_error),
        )
      : null,
    actions ? make("div", { class: "actions push" }, actions) : null,
  );

/** @param {string} name @param {(pressed: HTMLButtonElement) => void} restart */
export const restarting = (name, restart) =>
  button("Restart", "again", restart, { tone: "small", "aria-label": `Restart ${name}` });

/** @param {string} title @param {Child[]} entries @param {string} none @param {Child} [add] */
export const offerings = (title, entries, none, add) =>
  entries.length || add
    ? panel(
        title,
        entries.length ? make("ul", { class: "plain listed" }, entries) : make("p", { class: "muted" }, none),
        add ? make("div", { class: "choices" }, add) : null,
      )
    : null;
