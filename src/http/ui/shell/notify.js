// @ts-check
// Notifications of the browser: what waits for a person, and what has ended, for those who look elsewhere.

import { clean } from "../core/dom.js";
import { write } from "../core/place.js";
import { toast } from "../parts/toast.js";

/** Whether somebody was asked before. */
const ASKED = "hivewright.notifications";
const LONGEST = 200;

/** Tells of a frame, if somebody who looks elsewhere should know. @param {any} frame */
export function notice(frame) {
  const title = titleOf(frame);
  if (!title || !("Notification" in window)) return;
  const elsewhere = document.hidden || !document.hasFocus();
  const asks = ["approval", "question"].includes(frame.kind);
  if (Notification.permission === "default" && (elsewhere || asks)) offer();
  else if (Notification.permission === "granted" && elsewhere) tell(title, frame);
}

/** What a frame is to somebody who looks elsewhere; null if it can wait. @param {any} frame */
function titleOf({ type, kind, team, topic_name: topic, joined_task_id: joined }) {
  const about = topic ? ` · ${clean(topic)}` : "";
  if (type === "response" && !joined) return `Answered${about}`;
  if (type === "error") return `Failed${about}`;
  if (type !== "notification") return null;
  return (
    { approval: `Your approval is needed${about}`, question: `A question for you${about}` }[kind] ??
    `${clean(team)}${about}`
  );
}

/** @param {string} title @param {any} frame */
function tell(title, { content, error, topic_id: topic, ref_id: ref, message_id: message }) {
  const words = clean(content || error).replace(/\s+/g, " ");
  try {
    // One that says the same of the same thing takes the place of the former.
    const tag = ref ?? message ?? topic ?? title;
    const note = new Notification(title, { body: words.slice(0, LONGEST), tag });
    note.onclick = () => {
      window.focus();
      if (topic) location.hash = write("chat", [topic]);
      note.close();
    };
  } catch {
    // Some browsers allow it to installed pages alone.
  }
}

/** Once, when there is something to be told of; a browser takes an answer only for a press. */
function offer() {
  try {
    if (localStorage.getItem(ASKED)) return;
    localStorage.setItem(ASKED, "yes");
  } catch {
    return;
  }
  toast("Be told of approvals, questions and answers while you look elsewhere?", {
    news: true,
    action: ["Allow", () => Notification.requestPermission()],
  });
}
