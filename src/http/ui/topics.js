// The list of topics.

import { ago, clean, make } from "./dom.js";

const WORDS = { active: "Active", idle: "Idle", done: "Done", past: "Earlier" };

export const stateWord = (topic) => WORDS[topic.state] ?? topic.state;

/** Redraws the list, keeping the focus where it was. */
export function showTopics(container, conversation, chosen, onChoose) {
  const focused = container.contains(document.activeElement) ? document.activeElement.dataset.topic : null;
  const rows = conversation.listed().map((topic) => row(topic, conversation, topic.id === chosen, onChoose));
  if (rows.length === 0) {
    container.replaceChildren(make("p", { class: "muted no-topics" }, "Your topics appear here. Send a message to begin the first."));
    return;
  }
  container.replaceChildren(make("ul", {}, ...rows));
  if (focused) container.querySelector(`[data-topic="${CSS.escape(focused)}"]`)?.focus();
}

function row(topic, conversation, current, onChoose) {
  const turns = conversation.turns(topic.id);
  const running = topic.running || turns.some((turn) => turn.status === "running");
  const queued = Math.max(topic.queued, turns.filter((turn) => turn.status === "queued").length);
  const unread = current ? 0 : (conversation.logs[topic.id]?.unread ?? 0);
  const marks = [running ? "Running" : stateWord(topic), queued > 0 ? `${queued} queued` : "", running ? "" : ago(topic.last_activity)];
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: "topic", "data-topic": topic.id, "data-state": topic.state, "aria-current": current ? "true" : null, onclick: () => onChoose(topic.id) },
      make("span", { class: "topic-name" }, clean(topic.name)),
      make("span", { class: "topic-marks" }, running ? make("span", { class: "pulse", "aria-hidden": "true" }) : null, marks.filter(Boolean).join(" · ")),
      unread > 0 ? make("span", { class: "unread" }, String(unread), make("span", { class: "hidden" }, " unread")) : null,
    ),
  );
}
