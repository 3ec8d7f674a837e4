// @ts-check
// What is done to a topic as a whole: renamed, closed, opened again, taken along.

import { part, patch } from "../../core/api.js";
import { clean, download } from "../../core/dom.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input } from "../../parts/fields.js";
import { act, toast } from "../../parts/toast.js";

/** @param {any} topic @param {any} change */
const changed = (topic, change) => patch(`/topics/${part(topic.id)}`, change);

/** @param {any} topic @param {boolean} running @param {HTMLButtonElement} button */
export function close(topic, running, button) {
  const closed = () => changed(topic, { state: "done" });
  if (!running) return act(button, closed, "The topic is closed.");
  return confirm({
    title: "Close this topic?",
    lost: "A turn is running in it. It goes on, but no further message can be written here.",
    action: "Close topic",
    submit: closed,
  });
}

/** @param {any} topic @param {HTMLButtonElement} button */
export const reopen = (topic, button) =>
  act(button, () => changed(topic, { state: "active" }), "The topic is open again.");

/** @param {any} topic */
export const rename = (topic) =>
  ask({
    title: "Rename this topic",
    body: input("Name", "name", { value: topic.name, required: true, maxlength: 60 }),
    action: "Rename",
    submit: ({ name }) => changed(topic, { name }),
  });

/** All that was said, as a file. @param {string} name @param {any[]} items */
export function save(name, items) {
  const lines = items.map((item) =>
    item.kind === "turn"
      ? [
          item.text ? `## You, ${new Date(item.at).toISOString()}\n\n${item.text}` : "",
          ...item.blocks.map((/** @type {any} */ block) =>
            block.kind === "tool" ? `> ${block.tool} ${block.args}` : block.text,
          ),
        ]
          .filter(Boolean)
          .join("\n\n")
      : `> ${item.team}: ${item.content}`,
  );
  if (!lines.length) return toast("There is nothing to download yet.");
  const title = clean(name);
  download(
    `${title.replace(/[^\w-]+/g, "-").slice(0, 60) || "topic"}.md`,
    `# ${title}\n\n${lines.join("\n\n")}\n`,
    "text/markdown",
  );
}
