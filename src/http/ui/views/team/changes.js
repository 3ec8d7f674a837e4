// @ts-check
// What a team changed about itself after a person agreed, and the way back.

import { may, part, post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { since } from "../../core/format.js";
import { ask } from "../../parts/dialog.js";
import { between } from "../../parts/diff.js";
import { button } from "../../parts/marks.js";

/** @param {any[]} rows @param {() => void} onBack */
export const changes = (rows, onBack) =>
  make(
    "ul",
    { class: "plain" },
    rows.map((row) =>
      make(
        "li",
        { key: row.id },
        make("code", {}, clean(row.file)),
        make("span", { class: "clip" }, clean(row.reason)),
        make("span", { class: "muted" }, since(row.at)),
        row.rolled_back_at
          ? make("span", { class: "tag" }, "Rolled back")
          : may("operate")
            ? button("Roll back…", "back", () => rollBack(row, onBack), { tone: "small" })
            : null,
      ),
    ),
  );

/** @param {any} row @param {() => void} onBack */
async function rollBack(row, onBack) {
  const done = await ask({
    title: `Roll back ${row.file}`,
    about: "The text from before is put back. What changes:",
    body: between(row.after, row.before),
    action: "Roll back",
    wide: true,
    submit: () => post(`/changes/${part(row.id)}/rollback`, {}),
  });
  if (done) onBack();
}
