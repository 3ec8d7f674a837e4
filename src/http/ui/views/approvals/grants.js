// @ts-check
// Calls that run without asking, since a person said so: what exactly, how often still, and the way to end it.

import { may, part, remove, upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { pretty, since } from "../../core/format.js";
import { View } from "../../core/view.js";
import { confirm } from "../../parts/dialog.js";
import { button, fold, teamLink } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { listed } from "../../parts/table.js";

/** How often it may still be used. @param {any} row */
const usesLeft = (row) => (typeof row.uses_left === "number" ? String(row.uses_left) : "any number");

class Grants extends View {
  begin() {
    this.rows = this.source((signal, wanted) => upTo("/grants", {}, wanted, signal), ["approval.changed"]);
  }

  render() {
    return listed(
      this.rows,
      "Grants",
      [
        {
          name: "Tool",
          wide: true,
          cell: (row) => [
            make("code", {}, clean(row.tool)),
            fold(
              "Exactly these arguments",
              make(
                "pre",
                { tabindex: "0", "aria-label": `Arguments of the grant for ${clean(row.tool)}` },
                pretty(row.arguments),
              ),
            ),
          ],
        },
        { name: "Team", cell: (row) => teamLink(row.team) },
        { name: "Uses left", number: true, cell: usesLeft },
        { name: "Ends", cell: (row) => (row.expires_at ? since(row.expires_at) : "when revoked"), quiet: true },
        { name: "Given by", cell: (row) => clean(row.granted_by ?? ""), quiet: true },
        {
          name: "",
          cell: (row) =>
            may("approve")
              ? make(
                  "div",
                  { class: "row-actions" },
                  button("Revoke…", "trash", () => this.end(row), {
                    tone: "small quiet",
                    "aria-label": `Revoke the grant for ${clean(row.tool)}`,
                  }),
                )
              : null,
        },
      ],
      empty(
        "approvals",
        "No grants",
        "When you approve a call more than once, what may then run without asking is listed here.",
      ),
    );
  }

  /** @param {any} row */
  async end(row) {
    await confirm({
      title: `Revoke the grant for ${row.tool}?`,
      lost: "Each such call waits for a person again.",
      action: "Revoke",
      submit: () => remove(`/grants/${part(row.id)}`),
    });
    this.rows?.reload();
  }
}

customElements.define("hw-grants", Grants);
