// @ts-check
// Who did what: logins, decisions, edits and everything else that changes the service.

import { list } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { when, words } from "../../core/format.js";
import { View } from "../../core/view.js";
import { search } from "../../parts/fields.js";
import { pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { table } from "../../parts/table.js";

class AuditPart extends View {
  begin() {
    this.q = "";
    this.rows = this.source((signal) => list("/audit", { limit: 200 }, signal));
  }

  render() {
    return [
      make(
        "div",
        { class: "bar" },
        search("Find an act", this.q ?? "", (q) => ((this.q = q.toLowerCase()), this.update())),
      ),
      this.rows?.show(({ rows }) => {
        const found = rows.filter((/** @type {any} */ row) =>
          JSON.stringify(row)
            .toLowerCase()
            .includes(this.q ?? ""),
        );
        if (!found.length)
          return empty(
            "approvals",
            "Nothing to show",
            "Each login, decision and edit is listed here, with who did it and how it ended.",
          );
        return table(
          "Acts",
          [
            { name: "When", cell: (row) => when(row.at) },
            { name: "Who", cell: (row) => clean(row.actor) },
            { name: "What", cell: (row) => words(row.action) },
            {
              name: "On",
              wide: true,
              cell: (row) => (row.target ? make("code", { class: "id" }, clean(row.target)) : "–"),
            },
            { name: "From", cell: (row) => clean(row.from ?? ""), quiet: true },
            { name: "Outcome", cell: (row) => pill(row.outcome) },
          ],
          found,
          { key: (row) => row.id },
        );
      }),
    ];
  }
}

customElements.define("hw-audit-part", AuditPart);
