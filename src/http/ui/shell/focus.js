// @ts-check
// The focus is never left to nobody: what had it may be deleted, hidden or answered, here or on another device.

/** What somebody has chosen to be at. @type {Element | null} */
let held = null;

/** @param {Element} element */
const isUsable = (element) => element.isConnected && !element.matches(":disabled") && element.checkVisibility();

/** Where one goes on: in the dialog above the page, where one writes, or at the top of the view. */
function next() {
  const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
  if (dialog) return dialog.querySelector("[type=submit]");
  // On a phone that would open the keyboard.
  const composer = matchMedia("(pointer: coarse)").matches ? null : document.getElementById("composer");
  return composer ?? document.getElementById("view");
}

function restore() {
  const { activeElement: at } = document;
  // What is hidden keeps it until the page is drawn anew.
  if (!held || (at !== document.body && (at !== held || isUsable(held)))) return;
  // A button that is not to be pressed while its act is under way has it again afterwards.
  if (held.isConnected && held.getAttribute("aria-busy") === "true") return;
  const place = /** @type {HTMLElement | null} */ (isUsable(held) ? held : next());
  held = null;
  place?.focus({ preventScroll: true });
}

export function keepFocus() {
  addEventListener("focusin", ({ target }) => (held = /** @type {Element} */ (target)));
  // Whoever presses beside everything wants it nowhere; whatever is still there then was left, not lost.
  addEventListener("focusout", ({ relatedTarget }) => {
    if (!relatedTarget) queueMicrotask(() => held && isUsable(held) && document.hasFocus() && (held = null));
  });
  new MutationObserver(restore).observe(document.body, {
    subtree: true,
    childList: true,
    attributeFilter: ["hidden", "disabled", "open"],
  });
}
