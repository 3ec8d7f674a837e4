// @ts-check
// A file of the service, changed in two steps: write, then see what changes before it counts.

import { get, put } from "../core/api.js";
import { make } from "../core/dom.js";
import { ask } from "./dialog.js";
import { between } from "./diff.js";
import { editor } from "./editor.js";
import { toast } from "./toast.js";

/** As the service shows a file; the revision of one that is not there is empty. @typedef {{content: string, revision: string, problems?: any[]}} Shown */

/** One that is not there yet. @type {Shown} */
export const NO_FILE = { content: "", revision: "" };

const GONE = "Somebody else deleted this file while you changed it. Your text is kept; saving writes the file again.";
const STALE =
  "Somebody else changed this file while you did. Your text is kept. This is how it differs from theirs: what is taken out here is lost if you save.";

/**
 * @param {{title: string, path: string, file: Shown, draft?: string, line?: number, review?: boolean, label?: string, placeholder?: string, done: string, before?: () => Promise<any>}} what
 *   `draft` is what the text begins with in place of the file's own, `line` what is looked at first; with `review` the
 *   difference is shown first; `before` is done when it is to be saved, as what the text refers to has to be there
 * @param {(saved: any) => void} onSaved
 */
export async function editFile(
  { title, path, file, draft, line, review, label = "YAML", placeholder, done: words, before },
  onSaved,
) {
  /** @type {any} */ let content = draft ?? file.content;
  /** @type {any[]} */ let problems = file.problems ?? [];
  let [stale, shows] = [false, review];
  for (let first = true; ; first = false) {
    if (!shows) {
      const text = editor(label, "content", { value: content, problems, placeholder });
      const written = ask({
        title,
        body: text.element,
        action: "Review changes",
        wide: true,
        submit: async (values) => values.content,
      });
      if (first && line) text.show({ line });
      content = await written;
    }
    if (typeof content !== "string" || content === file.content) return;
    problems = [];
    const done = await ask({
      title: "Save these changes?",
      body: [
        stale ? make("p", { class: "problem", role: "alert" }, file === NO_FILE ? GONE : STALE) : null,
        between(file.content, content),
      ],
      action: "Save",
      leave: "Back to the text",
      wide: true,
      submit: () => save(),
    });
    if (done?.saved) {
      const wrong = (done.saved.problems ?? []).map((/** @type {any} */ one) => one.message).join(" ");
      toast(wrong ? `Saved, but not in use: ${wrong}` : words, { bad: Boolean(wrong) });
      return onSaved(done.saved);
    }
    stale ||= Boolean(done?.stale);
    shows = Boolean(done?.stale);
  }

  /** The file as it is now; somebody may have deleted it. @returns {Promise<Shown | null>} */
  function read() {
    return get(path).catch(({ status }) => (status === 404 ? NO_FILE : null));
  }

  /**
   * Whoever does not save, or is refused, goes back to the text; there the refused lines are marked. What somebody else saved
   * meanwhile is what the text is compared with from then on.
   */
  async function save() {
    try {
      await before?.();
      return { saved: await put(path, { content, revision: file.revision }) };
    } catch (refusal) {
      const present = /** @type {any} */ (refusal).code === "conflict" ? await read() : null;
      if (present && present.revision !== file.revision) {
        file = present;
        return { stale: true };
      }
      ({ problems } = /** @type {any} */ (refusal));
      if (!problems?.length) throw refusal;
      return { problems };
    }
  }
}
