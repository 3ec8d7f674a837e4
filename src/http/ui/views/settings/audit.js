// @ts-check
// Who did what: logins, decisions, edits and everything else that changes the service.

import { upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { when, words } from "../../core/format.js";
import { View } from "../../core/view.js";
import { choice, search } from "../../parts/fields.js";
import { code, pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { remainder, table } from "../../parts/table.js";

class AuditPart extends View {
  begin() {
    this.q = "";
    this.action = "";
    this.rows = this.source((signal, wanted) => upTo("/audit", { q: this.q, action: this.action }, wanted, signal));
  }

  render() {
    return [
      make(
        "div",
        { class: "bar" },
        search("Search actions", this.q ?? "", (q) => ((this.q = q), this.rows?.reload())),
        choice(
          "Kind",
          [
            ["", "All actions"],
            ["tool", "Tool calls"],
            ["approval", "Decisions"],
            ["tokens", "Tokens"],
            ["session", "Logins"],
          ],
          this.action ?? "",
          (action) => ((this.action = action), this.rows?.reload()),
        ),
      ),
      this.rows?.show(({ rows }) => {
        if (!rows.length)
          return empty(
            "approvals",
            this.q ? "Nothing matches" : "No actions yet",
            "Every login, decision and change is listed here, with who made it and how it ended.",
          );
        return [
          table(
            "Actions",
            [
              { name: "When", cell: (row) => when(row.at) },
              { name: "Who", cell: (row) => clean(row.actor) },
              { name: "What", cell: (row) => words(row.action) },
              {
                name: "On",
                wide: true,
                cell: (row) => [
                  row.target ? code(row.target) : "–",
                  row.call ? make("div", { class: "muted clip" }, clean(row.call.arguments)) : null,
                ],
              },
              { name: "From", cell: (row) => clean(row.from ?? ""), quiet: true },
              {
                name: "Outcome",
                cell: (row) => [
                  pill(row.outcome),
                  row.call
                    ? make(
                        "div",
                        { class: "muted" },
                        words(row.call.decision),
                        row.call.rule ? ` (${clean(row.call.rule)})` : "",
                      )
                    : null,
                ],
              },
            ],
            rows,
            { key: (row) => row.id },
          ),
          remainder(this.rows),
        ];
      }),
    ];
  }
}

customElements.define("hw-audit-part", AuditPart);
