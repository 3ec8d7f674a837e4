// @ts-check
// What an operator should know: newest first, the unread marked.

import { may, part, post } from "../../core/api.js";
import { coded, make } from "../../core/dom.js";
import { several, since, words } from "../../core/format.js";
import { button, code, taskLink, teamLink } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { act } from "../../parts/toast.js";

/** @param {any[]} rows @param {() => void} again @returns {import("../../core/dom.js").Child} */
export function noticeList(rows, again) {
  if (!rows.length)
    return empty("bell", "No notices", "What you should know appears here: failed tasks, missed runs, spent budgets.");
  const unread = rows.filter((row) => !row.read);
  const mark = (/** @type {string} */ path) => (/** @type {HTMLButtonElement} */ pressed) =>
    act(pressed, () => post(path)).then(again);
  return [
    unread.length && may("operate")
      ? make(
          "div",
          { class: "bar" },
          make("span", { class: "muted" }, several(unread.length, "unread notice")),
          button("Mark all as read", "check", mark("/inbox/read-all"), { tone: "small push" }),
        )
      : null,
    make(
      "ul",
      { class: "notices" },
      rows.map((row) =>
        make(
          "li",
          { key: row.id, class: "notice-row", "data-read": row.read },
          make("span", { class: "notice-lamp", "aria-hidden": "true" }),
          make(
            "div",
            {},
            make("p", {}, row.read ? null : make("span", { class: "hidden" }, "Unread: "), coded(row.text)),
            make(
              "p",
              { class: "muted ask-line" },
              make("span", {}, words(row.kind)),
              row.team ? teamLink(row.team) : null,
              make("span", {}, since(row.last_at ?? row.at)),
              row.count > 1 ? make("span", { class: "tag" }, `${row.count} times`) : null,
              (row.links ?? []).map(linkTo),
            ),
          ),
          row.read || !may("operate")
            ? null
            : button("Mark as read", "check", mark(`/inbox/${part(row.id)}/read`), { tone: "small quiet" }),
        ),
      ),
    ),
  ];
}

/** @param {string} id */
const linkTo = (id) => (id.startsWith("task-") ? taskLink(id) : code(id));
