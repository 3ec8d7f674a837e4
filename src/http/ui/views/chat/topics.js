// @ts-check
// The list of topics.

import { clean, icon, make } from "../../core/dom.js";
import { ago } from "../../core/format.js";
import { paint } from "../../core/paint.js";
import { leading } from "./branches.js";
import { teamOfKey } from "./shelf.js";

const WORDS = { active: "Active", idle: "Idle", done: "Archived" };

export const stateWord = (topic) => WORDS[topic.state] ?? topic.state;

/**
 * Pinned topics stand first, archived ones in a fold below all.
 * @param {HTMLElement} container @param {import("./conversation.js").Conversation} conversation @param {string} chosen
 * @param {{onChoose: (id: string) => void, onMenu: ((id: string, button: HTMLElement) => void) | null}} acts
 */
export function showTopics(container, conversation, chosen, acts) {
  const rows = leading(conversation, chosen).map((topic) => describe(topic, conversation, topic.id === chosen));
  const drawn = (/** @type {any[]} */ some) => some.map((row) => draw(row, acts));
  const head = (/** @type {string} */ word) => make("li", { key: word, class: "topic-head" }, word);
  const archived = rows.filter((row) => row.state === "done");
  const [pinned, others] = [true, false].map((is) => rows.filter((row) => row.state !== "done" && row.pinned === is));
  const first = "Your topics appear here. Send a message to begin the first.";
  paint(
    container,
    // One list, so that a topic which changes its place keeps the focus.
    rows.length
      ? make(
          "ul",
          { key: "open" },
          pinned.length ? [head("Pinned"), ...drawn(pinned), others.length ? head("Others") : null] : null,
          drawn(others),
        )
      : make("p", { class: "muted no-topics" }, first),
    archived.length
      ? make(
          "details",
          { key: "archived" },
          make("summary", {}, `Archived (${archived.length})`),
          make("ul", {}, drawn(archived)),
        )
      : null,
  );
}

function describe(topic, conversation, current) {
  const turns = conversation.turns(topic.id);
  const parked = turns.filter((turn) => turn.status === "running" && turn.parked).length;
  const running = topic.running || turns.some((turn) => turn.status === "running" && !turn.parked);
  // The service counts what is set aside among what waits for its turn.
  const queued = Math.max(topic.queued - parked, turns.filter((turn) => turn.status === "queued").length);
  const marks = [
    running ? "Running" : parked ? "Waiting" : stateWord(topic),
    queued > 0 ? `${queued} queued` : "",
    running ? "" : ago(topic.last_activity),
  ];
  return {
    id: topic.id,
    name: clean(topic.name),
    state: topic.state,
    pinned: Boolean(topic.pinned),
    running,
    current,
    marks: marks.filter(Boolean).join(" · "),
    unread: current ? 0 : (conversation.logs[topic.id]?.unread ?? 0),
  };
}

function draw({ id, name, state, running, current, marks, unread }, { onChoose, onMenu }) {
  return make(
    "li",
    { key: id, class: "topic-row" },
    make(
      "button",
      {
        type: "button",
        class: "topic",
        "data-topic": id,
        "data-state": state,
        "aria-current": current ? "true" : null,
        onclick: () => onChoose(id),
      },
      make("span", { class: "topic-name" }, name),
      make(
        "span",
        { class: "topic-marks" },
        running ? make("span", { class: "pulse", "aria-hidden": "true" }) : null,
        marks,
      ),
      unread > 0
        ? make("span", { class: "unread" }, String(unread), make("span", { class: "hidden" }, " unread"))
        : null,
    ),
    onMenu && !teamOfKey(id)
      ? make(
          "button",
          {
            type: "button",
            class: "icon-button topic-more",
            "aria-label": `What to do with ${name}`,
            "aria-haspopup": "menu",
            title: "Pin, rename, archive, delete",
            onclick: (/** @type {any} */ event) => onMenu(id, event.currentTarget),
          },
          icon("more"),
        )
      : null,
  );
}
