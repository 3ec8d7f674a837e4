// @ts-check
// Short words in the corner: what succeeded, what was refused, what came in elsewhere.

import { clean, coded, icon, make, note } from "../core/dom.js";

const SHOWN = 7_000;
/** Older ones make room, of which a phone has little. */
const most = () => (innerWidth > 640 ? 4 : 2);

/**
 * What went wrong stays until somebody has read it; `news` is of others, and nothing that was done here. `about` names what
 * may be [withdrawn](withdraw).
 * @param {string} words
 * @param {{code?: string | null, bad?: boolean, news?: boolean, stays?: boolean, about?: string, list?: string[], link?: [string, string], action?: [string, () => void], onClose?: () => void}} [more]
 */
export function toast(words, { code, bad, news, stays = bad, about, list, link, action, onClose } = {}) {
  /** Somebody has seen it. */
  const close = () => {
    box.remove();
    onClose?.();
  };
  const box = make(
    "div",
    { class: "toast", "data-bad": bad, "data-stays": stays, "data-about": about },
    icon(bad ? "alert" : news ? "bell" : "check"),
    make(
      "div",
      {},
      coded(words),
      list
        ? make(
            "ul",
            { tabindex: "0" },
            list.map((line) => make("li", {}, coded(line))),
          )
        : null,
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
  for (const one of place?.children ?? []) if (one.textContent === box.textContent) one.remove();
  while (place && place.childElementCount >= most())
    (place.querySelector(".toast:not([data-stays])") ?? place.firstElementChild)?.remove();
  place?.append(box);
  const leave = () => (box.matches(":hover, :focus-within") ? setTimeout(leave, SHOWN) : box.remove());
  if (!stays) setTimeout(leave, SHOWN);
}

/** Takes back what was said of something that is over. @param {string} about */
export function withdraw(about) {
  for (const box of [...(document.getElementById("toasts")?.children ?? [])])
    if (box.getAttribute("data-about") === about) box.remove();
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
    note(button, { busy: true });
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
      note(button, { busy: false });
      button.disabled = false;
      button.removeAttribute("aria-busy");
    }
  }
}
