// @ts-check
// The file of a team: shown, and changed in two steps: write, then see what changes before it counts.

import { may, part, put } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { ask } from "../../parts/dialog.js";
import { between } from "../../parts/diff.js";
import { editor } from "../../parts/editor.js";
import { button } from "../../parts/marks.js";
import { toast } from "../../parts/toast.js";

/** @param {string} team @param {any} config @param {(saved: any) => void} onSaved */
export const file = (team, config, onSaved) => [
  config.problems?.length
    ? make(
        "ul",
        { class: "problems" },
        config.problems.map((/** @type {any} */ problem) =>
          make("li", { class: "problem" }, problem.line ? `Line ${problem.line}: ` : "", clean(problem.message)),
        ),
      )
    : null,
  config.scrubbed
    ? make(
        "p",
        { class: "problem" },
        "Values in this file are secrets and not shown: it can be saved only without the marks that stand in their place.",
      )
    : null,
  make("pre", { class: "block", tabindex: "0", "aria-label": "Team file" }, clean(config.content)),
  may("admin")
    ? make(
        "div",
        { class: "choices" },
        button("Edit…", "edit", () => edit(team, config, onSaved)),
      )
    : null,
];

/** @param {string} team @param {any} config @param {(saved: any) => void} onSaved */
async function edit(team, config, onSaved) {
  /** @type {any} */ let content = config.content;
  /** @type {any[]} */ let problems = config.problems ?? [];
  for (;;) {
    content = await ask({
      title: `File of ${team}`,
      body: editor("YAML", "content", { value: content, problems }).element,
      action: "Look at the changes",
      wide: true,
      submit: async (values) => values.content,
    });
    if (typeof content !== "string" || content === config.content) return;
    problems = [];
    const done = await ask({
      title: "Save these changes?",
      body: between(config.content, content),
      action: "Save",
      leave: "Back to the text",
      wide: true,
      submit: () => save(),
    });
    if (done?.saved) {
      toast("Saved; it counts from the next turn on.");
      return onSaved(done.saved);
    }
  }

  /** Whoever does not save, or is refused, goes back to the text; there the refused lines are marked. */
  async function save() {
    try {
      return { saved: await put(`/teams/${part(team)}/config`, { content }) };
    } catch (refusal) {
      ({ problems } = /** @type {any} */ (refusal));
      if (!problems?.length) throw refusal;
      return { problems };
    }
  }
}
