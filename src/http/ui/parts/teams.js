// @ts-check
// The names of all teams, for views that choose one.

import { all } from "../core/api.js";
import { choice } from "./fields.js";

/** @param {import("../core/view.js").View} view */
export const teamNames = (view) =>
  view.source(async (signal) => (await all("/teams", {}, signal)).map((team) => team.name), ["team.changed"]);

/** A filter above a list. @param {import("../core/view.js").Source | undefined} teams @param {string | undefined} team @param {(team: string) => void} onchange */
export const teamChoice = (teams, team, onchange) =>
  choice("Team", [["", "Any team"], ...(teams?.data ?? [])], team ?? "", onchange);
