// @ts-check
// The MCP servers of a team.

import { may, part, post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several } from "../../core/format.js";
import { button, fold } from "../../parts/marks.js";
import { act } from "../../parts/toast.js";
import { connectServer } from "./connect.js";
import { offering, offerings, restarting } from "./offering.js";

/**
 * @param {string} team
 * @param {{data?: {rows: any[]}, reload: () => any} | undefined} source
 */
export function servers(team, source) {
  const rows = source?.data?.rows ?? [];
  const restart = (/** @type {any} */ pressed, /** @type {any} */ row) =>
    act(
      pressed,
      () => post(`/mcp/${part(team)}/${part(row.server)}/restart`, {}),
      `${row.server} was stopped. It starts again when it is next needed.`,
    ).then(() => source?.reload());
  const connect = () =>
    connectServer(
      team,
      rows.map((row) => row.server),
      () => source?.reload(),
    );
  return offerings(
    "MCP servers",
    rows.map((row) =>
      offering({
        name: row.server,
        state: row.state,
        tags: [row.trusted ? "trusted" : "not trusted"],
        row,
        more: [
          row.tools.length
            ? null
            : make("span", { class: "muted" }, row.state === "unused" ? "Not started yet" : "No tools"),
          row.left_out.length
            ? fold(`${several(row.left_out.length, "tool")} left out`, make("span", {}, clean(row.left_out.join("; "))))
            : null,
        ],
        actions: may("operate") ? restarting(row.server, (pressed) => restart(pressed, row)) : null,
      }),
    ),
    "None. An MCP server offers the team tools from outside.",
    may("admin") && may("secrets")
      ? button("Connect an MCP server…", "plus", () => act(null, connect), { tone: "small" })
      : null,
  );
}
