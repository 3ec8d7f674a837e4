// @ts-check
// The list of topics.

import { clean, make } from "../../core/dom.js";
import { ago } from "../../core/format.js";
import { paint } from "../../core/paint.js";

const WORDS = { active: "Active", idle: "Idle", done: "Done" };

export const stateWord = (topic) => WORDS[topic.state] ?? topic.state;

export function showTopics(container, conversation, chosen, onChoose) {
  const rows = conversation.listed().map((topic) => describe(topic, conversation, topic.id === chosen));
  paint(
    container,
    rows.length
      ? make(
          "ul",
          {},
          rows.map((row) => draw(row, onChoose)),
        )
      : make("p", { class: "muted no-topics" }, "Your topics appear here. Send a message to begin the first."),
  );
}

function describe(topic, conversation, current) {
  const turns = conversation.turns(topic.id);
  const running = topic.running || turns.some((turn) => turn.status === "running");
  const queued = Math.max(topic.queued, turns.filter((turn) => turn.status === "queued").length);
  const marks = [
    running ? "Running" : stateWord(topic),
    queued > 0 ? `${queued} queued` : "",
    running ? "" : ago(topic.last_activity),
  ];
  return {
    id: topic.id,
    name: clean(topic.name),
    state: topic.state,
    running,
    current,
    marks: marks.filter(Boolean).join(" · "),
    unread: current ? 0 : (conversation.logs[topic.id]?.unread ?? 0),
  };
}

function draw({ id, name, state, running, current, marks, unread }, onChoose) {
  return make(
    "li",
    { key: id },
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
  );
}
