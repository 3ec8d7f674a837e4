// @ts-check
// Notifications of the browser: what waits for a person, and what has ended, for those who look elsewhere.

import { clean } from "../core/dom.js";
import { write } from "../core/place.js";
import { toast } from "../parts/toast.js";

/** Whether somebody was asked before. */
const ASKED = "hivewright.notifications";
const LONGEST = 200;
/** When somebody last looked at a tab while something came in. */
const SEEN = "hivewright.seen";
/** For so long a tab that nobody looks at waits for another to say that. */
const PAUSE = 500;

/** What asks somebody to decide, by what it is about. @type {Map<string, Notification>} */
const asking = new Map();

/** Tells of a frame, if somebody who looks elsewhere should know. @param {any} frame */
export function notice(frame) {
  const title = titleOf(frame);
  // It was decided, here or elsewhere.
  if (!title && frame.ref_id) asking.get(frame.ref_id)?.close();
  if (!title || !("Notification" in window)) return;
  const elsewhere = document.hidden || !document.hasFocus();
  const at = Date.now();
  if (!elsewhere) keep(SEEN, String(at));
  const asks = ["approval", "question"].includes(frame.kind);
  if (Notification.permission === "default" && (elsewhere || asks)) offerInSight();
  else if (Notification.permission === "granted" && elsewhere)
    setTimeout(() => Number(kept(SEEN)) < at - PAUSE && tell(title, frame), PAUSE);
}

/** What the tabs of this browser share; nothing where that is not allowed. @param {string} name */
function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
function keep(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Then each tab is on its own.
  }
}

/** What a frame is to somebody who looks elsewhere; null if it can wait. @param {any} frame */
export function titleOf({ type, kind, status, team, topic_name: topic, joined_task_id: joined }) {
  const about = topic ? ` · ${clean(topic)}` : "";
  if (type === "response" && !joined) return `Answered${about}`;
  if (type === "error") return `Failed${about}`;
  if (type !== "notification") return null;
  const asks = { approval: "Your approval is needed", question: "A question for you" }[/** @type {string} */ (kind)];
  if (!asks) return `${clean(team)}${about}`;
  // What was decided is told too.
  return ["pending", "open"].includes(status) ? `${asks}${about}` : null;
}

/** @param {string} title @param {any} frame */
function tell(title, { content, error, topic_id: topic, ref_id: ref, message_id: message }) {
  const words = clean(content || error).replace(/\s+/g, " ");
  try {
    // One that says the same of the same thing takes the place of the former.
    const tag = ref ?? message ?? (topic ? `${topic} ${title}` : title);
    const note = new Notification(title, { body: words.slice(0, LONGEST), tag });
    if (ref) asking.set(ref, note);
    note.onclose = () => asking.get(ref) === note && asking.delete(ref);
    note.onclick = () => {
      window.focus();
      if (topic) location.hash = write("chat", [topic]);
      note.close();
    };
  } catch {
    // Some browsers allow it to installed pages alone.
  }
}

/** Where nobody looks, nobody can answer. */
function offerInSight() {
  if (document.hidden) document.addEventListener("visibilitychange", offer, { once: true });
  else offer();
}

/** When there is something to be told of, until somebody has answered; a browser takes an answer only for a press. */
function offer() {
  if (kept(ASKED)) return;
  toast("Be told of approvals, questions and answers while you look elsewhere?", {
    news: true,
    stays: true,
    action: ["Allow", () => Notification.requestPermission()],
    onClose: () => keep(ASKED, "yes"),
  });
}
