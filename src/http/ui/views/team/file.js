// @ts-check
// The file of a team.

import { may, part } from "../../core/api.js";
import { clean, coded, make } from "../../core/dom.js";
import { editFile } from "../../parts/file.js";
import { button } from "../../parts/marks.js";

/** @param {string} team @param {any} config @param {(saved: any) => void} onSaved */
export const file = (team, config, onSaved) => [
  config.problems?.length
    ? make(
        "ul",
        { class: "problems" },
        config.problems.map((/** @type {any} */ problem) =>
          make(
            "li",
            { class: "problem" },
            make("span", {}, problem.line ? `Line ${problem.line}: ` : "", coded(problem.message)),
          ),
        ),
      )
    : null,
  config.scrubbed
    ? make(
        "p",
        { class: "problem" },
        "Secrets in this file are hidden. To save it here, replace each hidden value with a reference to the vault.",
      )
    : null,
  make("pre", { class: "block", tabindex: "0", "aria-label": "Team file" }, clean(config.content)),
  may("admin")
    ? make(
        "div",
        { class: "choices" },
        button("Edit…", "edit", () =>
          editFile(
            {
              title: `File of ${team}`,
              path: `/teams/${part(team)}/config`,
              file: config,
              done: "Saved. The team uses it from its next task on.",
            },
            onSaved,
          ),
        ),
      )
    : null,
];
