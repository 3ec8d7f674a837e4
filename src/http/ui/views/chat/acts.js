// @ts-check
// What is done to a topic as a whole: pinned, renamed, archived, opened again, deleted, taken along.

import { part, patch, remove } from "../../core/api.js";
import { clean, download, icon, make } from "../../core/dom.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input } from "../../parts/fields.js";
import { act, toast } from "../../parts/toast.js";

/** @param {any} topic @param {any} change */
const changed = (topic, change) => patch(`/topics/${part(topic.id)}`, change);

/** @param {any} topic @param {boolean} running @param {HTMLButtonElement} button */
export function archive(topic, running, button) {
  const archived = () => changed(topic, { state: "done" });
  if (!running) return act(button, archived, "The topic is archived.");
  return confirm({
    title: "Archive this topic?",
    lost: "The team is at work in it. That is stopped, with the messages that wait. What was said stays.",
    action: "Archive",
    submit: archived,
  });
}

/** @param {any} topic @param {HTMLButtonElement} button */
export const reopen = (topic, button) =>
  act(button, () => changed(topic, { state: "active" }), "The topic is open again.");

/**
 * Topics that share a beginning are one in the list, so that they go together.
 * @param {any} topic @param {string} root the first of those that share its beginning @param {number} versions how many there are
 */
export const erase = (topic, root, versions) =>
  confirm({
    title: `Delete ${clean(topic.name)}?`,
    lost:
      `All that was said in it is deleted for good${versions > 1 ? `, in all its ${versions} versions` : ""}: it cannot be opened, ` +
      "searched or brought back. What it cost stays counted. Files, memories and what other teams did for it stay.",
    action: "Delete",
    submit: () => remove(`/topics/${part(root)}`),
  });

/** @param {any} topic */
export const rename = (topic) =>
  ask({
    title: "Rename this topic",
    body: input("Name", "name", { value: topic.name, required: true, maxlength: 60 }),
    action: "Rename",
    submit: ({ name }) => changed(topic, { name }),
  });

/** @param {any} topic @param {string} profile whose model answers; an empty one is the team's */
export const answerBy = (topic, profile) =>
  act(
    null,
    () => changed(topic, { profile }),
    `${profile ? clean(profile) : "The team’s model"} answers from the next message on.`,
  );

/**
 * A menu of what can be done to a topic, beside the button that opened it. Escape and a click elsewhere close it.
 * @param {any} topic @param {boolean} running @param {HTMLButtonElement} button @param {{root: string, versions: number}} family
 */
export function menu(topic, running, button, { root, versions }) {
  /** @type {[string, string, () => any]} */
  const deletion = ["Delete", "trash", () => erase(topic, root, versions)];
  /** @type {[string, string, () => any][]} */
  const offers =
    topic.state === "done"
      ? [["Open again", "again", () => reopen(topic, button)], deletion]
      : [
          topic.pinned
            ? ["Unpin", "pin", () => act(null, () => changed(topic, { pinned: false }))]
            : ["Pin", "pin", () => act(null, () => changed(topic, { pinned: true }))],
          ["Rename", "edit", () => rename(topic)],
          ["Archive", "check", () => archive(topic, running, button)],
          deletion,
        ];
  const items = offers.map(([word, picture, deed]) =>
    make(
      "button",
      {
        type: "button",
        role: "menuitem",
        onclick: () => {
          // The focus goes back to the button first: a dialog returns it to where it found it.
          place.hidePopover();
          deed();
        },
      },
      icon(picture),
      word,
    ),
  );
  const place = make(
    "div",
    {
      class: "act-menu",
      popover: "auto",
      role: "menu",
      "aria-label": `What to do with ${clean(topic.name)}`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (event.key === "Tab") place.hidePopover();
        if (!step) return;
        event.preventDefault();
        const at = items.indexOf(/** @type {any} */ (document.activeElement));
        items[(at + step + items.length) % items.length].focus();
      },
      ontoggle: (/** @type {any} */ event) => event.newState === "closed" && place.remove(),
    },
    items,
  );
  document.body.append(place);
  place.showPopover();
  const { left, top, bottom } = button.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = place;
  place.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  place.style.top = `${bottom + height + 8 > innerHeight ? Math.max(8, top - height) : bottom}px`;
  items[0].focus();
}

/** A message, the names of its files, and what came of it. @param {any} turn */
function written({ text, at, files, blocks, error }) {
  const said = blocks.map((/** @type {any} */ { kind, tool, args, text: words }) =>
    kind === "tool" ? `> ${tool} ${args}` : kind === "note" ? `> ${words}` : words,
  );
  return [
    text && `## You, ${new Date(at).toISOString()}\n\n${text}`,
    files.map((/** @type {any} */ file) => `- ${clean(file.name)}`).join("\n"),
    (said.length || error) && "## Answer",
    ...said,
    error && `> ${error.text}`,
  ]
    .filter(Boolean)
    .join("\n\n");
}

/** All that was said, as a file. @param {string} name @param {any[]} items */
export function save(name, items) {
  const lines = items.map((item) => (item.kind === "turn" ? written(item) : `> ${item.team}: ${item.content}`));
  if (!lines.length) return toast("There is nothing to download yet.");
  const title = clean(name);
  download(
    `${title.replace(/[^\p{L}\p{M}\p{N}_-]+/gu, "-").slice(0, 60) || "topic"}.md`,
    `# ${title}\n\n${lines.join("\n\n")}\n`,
    "text/markdown",
  );
}
