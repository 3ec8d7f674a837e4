// @ts-check
// The MCP servers of a team: how each stands, what it offers, what went wrong.

import { may, part, post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several, since } from "../../core/format.js";
import { button, fold, pill } from "../../parts/marks.js";
import { act } from "../../parts/toast.js";

/**
 * @param {{data?: {rows: any[]}, reload: () => any} | undefined} source
 */
export function servers(source) {
  const rows = source?.data?.rows ?? [];
  if (!rows.length) return null;
  const restart = (/** @type {any} */ pressed, /** @type {any} */ row) =>
    act(
      pressed,
      () => post(`/mcp/${part(row.team)}/${part(row.server)}/restart`, {}),
      `${row.server} has ended; the next turn or call starts it again.`,
    ).then(() => source?.reload());
  const entry = (/** @type {any} */ row) =>
    make(
      "li",
      { key: row.server },
      pill(row.state),
      make("code", {}, clean(row.server)),
      make("span", { class: "tag" }, row.trusted ? "trusted" : "not trusted"),
      row.tools.length
        ? fold(several(row.tools.length, "tool"), make("code", {}, clean(row.tools.join(", "))))
        : make("span", { class: "muted" }, row.state === "unused" ? "Not asked yet" : "No tools"),
      row.left_out.length
        ? fold(`${several(row.left_out.length, "tool")} left out`, make("span", {}, clean(row.left_out.join("; "))))
        : null,
      row.last_error
        ? make(
            "span",
            { class: "clip muted", title: clean(row.last_error) },
            since(row.last_error_at),
            " ",
            clean(row.last_error),
          )
        : null,
      may("operate") ? button("Restart", "again", (pressed) => restart(pressed, row)) : null,
    );
  return make(
    "section",
    { class: "panel" },
    make("h2", {}, "MCP servers"),
    make("ul", { class: "plain listed" }, rows.map(entry)),
  );
}
