// @ts-check
// Files that untrusted turns of a team wrote: whoever reads one is untrusted too, until somebody accepts it.

import { may, part, post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several, since } from "../../core/format.js";
import { write } from "../../core/place.js";
import { button, fold, panel } from "../../parts/marks.js";
import { act } from "../../parts/toast.js";

/** A longer list is folded away. */
const SHOWN = 8;

/**
 * @param {string} team
 * @param {{data?: {rows: any[], total?: number}, reload: () => any} | undefined} source
 */
export function untrusted(team, source) {
  const rows = source?.data?.rows ?? [];
  if (!rows.length) return null;
  const accept = (/** @type {any} */ pressed, /** @type {any[]} */ chosen) =>
    act(
      pressed,
      () => post(`/teams/${part(team)}/untrusted-files/accept`, { ids: chosen.map((row) => row.id) }),
      `Accepted: ${several(chosen.length, "file")}.`,
    ).then(() => source?.reload());
  const entry = (/** @type {any} */ row) =>
    make(
      "li",
      { key: row.id },
      make("code", { class: "clip", title: clean(row.path) }, clean(row.path), row.extent === "file" ? "" : "/…"),
      make("a", { class: "muted", href: write("tasks", [row.task_id]) }, clean(row.tool), " ", since(row.at)),
      may("operate") ? button("Accept", "check", (pressed) => accept(pressed, [row])) : null,
    );
  const drawn = make("ul", { class: "plain listed" }, rows.map(entry));
  return panel(
    "Untrusted files",
    make(
      "p",
      { class: "muted" },
      "Written in tasks that had read something from outside. A task that reads such a file is untrusted too. Look at a file, then accept it.",
    ),
    rows.length > SHOWN ? fold(several(rows.length, "file"), drawn, { class: "panel-fold" }) : drawn,
    rows.length > 1 && may("operate") ? button("Accept all", "check", (pressed) => accept(pressed, rows)) : null,
  );
}
