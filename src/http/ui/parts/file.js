// @ts-check
// A settings file, changed in two steps: write, then see what changes before it counts.

import { put } from "../core/api.js";
import { ask } from "./dialog.js";
import { between } from "./diff.js";
import { editor } from "./editor.js";
import { toast } from "./toast.js";

/**
 * @param {{title: string, path: string, file: {content: string, problems?: any[]}, draft?: string, done: string}} what `draft` is
 *   what the text begins with in place of the file's own
 * @param {(saved: any) => void} onSaved
 */
export async function editFile({ title, path, file, draft, done: words }, onSaved) {
  /** @type {any} */ let content = draft ?? file.content;
  /** @type {any[]} */ let problems = file.problems ?? [];
  for (;;) {
    content = await ask({
      title,
      body: editor("YAML", "content", { value: content, problems }).element,
      action: "Look at the changes",
      wide: true,
      submit: async (values) => values.content,
    });
    if (typeof content !== "string" || content === file.content) return;
    problems = [];
    const done = await ask({
      title: "Save these changes?",
      body: between(file.content, content),
      action: "Save",
      leave: "Back to the text",
      wide: true,
      submit: () => save(),
    });
    if (done?.saved) {
      toast(words);
      return onSaved(done.saved);
    }
  }

  /** Whoever does not save, or is refused, goes back to the text; there the refused lines are marked. */
  async function save() {
    try {
      return { saved: await put(path, { content }) };
    } catch (refusal) {
      ({ problems } = /** @type {any} */ (refusal));
      if (!problems?.length) throw refusal;
      return { problems };
    }
  }
}
