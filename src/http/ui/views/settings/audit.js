// @ts-check
// Who did what: logins, decisions, edits and everything else that changes the service.

import { upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { when, words } from "../../core/format.js";
import { View } from "../../core/view.js";
import { choice, search } from "../../parts/fields.js";
import { code, pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { listed } from "../../parts/table.js";

class AuditPart extends View {
  begin() {
    this.rows = this.source((signal, wanted) => {
      const { q, action } = this.place.query;
      return upTo("/audit", { q, action }, wanted, signal);
    });
  }

  refresh() {
    this.rows?.reload();
  }

  render() {
    const { q = "", action = "" } = this.place.query;
    return [
      make(
        "div",
        { class: "bar" },
        search("Search actions", q, (wanted) => this.narrow({ q: wanted })),
        choice(
          "Kind",
          [
            ["", "All actions"],
            ["tool", "Tool calls"],
            ["approval", "Decisions"],
            ["tokens", "Tokens"],
            ["session", "Logins"],
          ],
          action,
          (wanted) => this.narrow({ action: wanted }),
        ),
      ),
      listed(
        this.rows,
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
        empty(
          "approvals",
          q || action ? "Nothing matches" : "No actions yet",
          "Every login, decision and change is listed here, with who made it and how it ended.",
        ),
      ),
    ];
  }
}

customElements.define("hw-audit-part", AuditPart);
