// @ts-check
// Short words in the corner: what succeeded, what was refused, what came in elsewhere.

import { clean, coded, icon, make } from "../core/dom.js";

const SHOWN = 7_000;
/** Older ones make room, of which a phone has little. */
const most = () => (innerWidth > 640 ? 4 : 2);

/** @param {string} words @param {{code?: string | null, bad?: boolean, news?: boolean, link?: [string, string], action?: [string, () => void]}} [more] `news` is of others, and nothing that was done here */
export function toast(words, { code, bad, news, link, action } = {}) {
  const close = () => note.remove();
  const note = make(
    "div",
    { class: "toast", "data-bad": bad },
    icon(bad ? "alert" : news ? "bell" : "check"),
    make(
      "div",
      {},
      coded(words),
      code ? make("code", { class: "detail" }, clean(code)) : null,
      link ? make("a", { href: link[1] }, link[0]) : null,
      action
        ? make("button", { type: "button", class: "link", onclick: () => (action[1](), close()) }, action[0])
        : null,
    ),
    make("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: close }, icon("close")),
  );
  const place = document.getElementById("toasts");
  // What is said again takes the place of what was said.
  for (const one of place?.children ?? []) if (one.textContent === note.textContent) one.remove();
  while (place && place.childElementCount >= most()) place.firstElementChild?.remove();
  place?.append(note);
  const leave = () => (note.matches(":hover, :focus-within") ? setTimeout(leave, SHOWN) : close());
  setTimeout(leave, SHOWN);
}

/**
 * Does something once, shows that it is being done, and says how it went. Returns whether it succeeded. What opens a dialog
 * has no button: the focus could not come back to one that is not to be pressed meanwhile.
 * @param {HTMLButtonElement | null | undefined} button
 * @param {() => Promise<any>} action
 * @param {string | ((answer: any) => string)} [done] what to say then
 */
export async function act(button, action, done) {
  if (button?.disabled) return false;
  if (button) {
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
  }
  try {
    const answer = await action();
    if (done) toast(typeof done === "function" ? done(answer) : done);
    return true;
  } catch (refusal) {
    const { message, code, request } = /** @type {any} */ (refusal);
    toast(message, { code: [code, request].filter(Boolean).join(" · "), bad: true });
    return false;
  } finally {
    if (button) {
      button.disabled = false;
      button.removeAttribute("aria-busy");
    }
  }
}
