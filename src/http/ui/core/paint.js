// @ts-check
// Makes what is on the page equal to what was just built, touching only what differs: the focus, a selection, an open
// fold and what is being typed survive an update.

import { madeAs, note } from "./dom.js";

/**
 * Draws with the next frame, once however often that is asked for. A hidden page gets no frames, and need not be drawn.
 * @param {() => void} draw
 */
export function withFrame(draw) {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      draw();
    });
  };
}

/** @param {Element} container @param {...import("./dom.js").Child} children */
export function paint(container, ...children) {
  const fresh = document.createElement("div");
  for (const child of /** @type {any[]} */ (children.flat(9))) {
    if (child === null || child === undefined || child === false || child === "") continue;
    fresh.append(child instanceof Node ? child : String(child));
  }
  const held = document.activeElement;
  paintChildren(container, fresh);
  // What had to change its place on the page has lost the focus by that.
  if (held instanceof HTMLElement && held !== document.activeElement && container.contains(held))
    held.focus({ preventScroll: true });
}

/** @param {Element} target @param {Element} fresh */
function paintChildren(target, fresh) {
  const wantedKeys = new Set([...fresh.childNodes].map((child) => madeAs(child).key));
  /** @type {Map<string, ChildNode>} */
  const keyed = new Map();
  for (const child of [...target.childNodes]) {
    const { key } = madeAs(child);
    if (key === undefined) continue;
    // First of all, so that those behind it stay where they are.
    if (wantedKeys.has(key)) keyed.set(key, child);
    else child.remove();
  }
  let place = target.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const { key } = madeAs(wanted);
    let found = key !== undefined ? keyed.get(key) : nextLike(place, wanted);
    if (found && !isLike(found, wanted)) found = undefined;
    if (!found) {
      target.insertBefore(wanted, place);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else target.insertBefore(found, place);
    become(found, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** What stands next, if it can become what is wanted. @param {ChildNode | null} place @param {ChildNode} wanted */
function nextLike(place, wanted) {
  return place && madeAs(place).key === undefined && isLike(place, wanted) ? place : undefined;
}

/** @param {ChildNode} old @param {ChildNode} fresh */
function isLike(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return false;
  if (old instanceof HTMLInputElement && fresh instanceof HTMLInputElement)
    return old.type === fresh.type && old.name === fresh.name;
  return true;
}

/** @param {ChildNode} old @param {ChildNode} fresh */
function become(old, fresh) {
  if (!(old instanceof Element) || !(fresh instanceof Element)) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  const [was, is] = [madeAs(old), madeAs(fresh)];
  if (is.source !== undefined || was.source !== undefined) {
    if (was.source !== is.source) old.replaceWith(fresh);
    return;
  }
  takeAttributes(old, fresh);
  takeHandlers(old, fresh, was, is);
  if (old instanceof HTMLElement && fresh instanceof HTMLElement && old.style.cssText !== fresh.style.cssText)
    old.style.cssText = fresh.style.cssText;
  if (old.localName.includes("-")) {
    if ("data" in fresh) Object.assign(old, { data: fresh.data });
    return;
  }
  if (old instanceof HTMLTextAreaElement) return;
  // A search is part of the address, so it may change elsewhere.
  if (old instanceof HTMLInputElement && old.type === "search" && document.activeElement !== old)
    old.value = /** @type {HTMLInputElement} */ (fresh).value;
  if (old instanceof HTMLSelectElement && fresh instanceof HTMLSelectElement) {
    const value = fresh.value;
    paintChildren(old, fresh);
    if (document.activeElement !== old) old.value = value;
    return;
  }
  paintChildren(old, fresh);
}

/** A button whose act is under way is not to be pressed again, until that is over. @param {Element} old @param {string} name */
const isUnderWay = (old, name) => (name === "disabled" || name === "aria-busy") && madeAs(old).busy === true;

/** What a person has folded out, typed, ticked or set going is theirs. @param {Element} old @param {string} name */
const isTheirs = (old, name) =>
  isUnderWay(old, name) ||
  (name === "open" && (old.localName === "details" || old.localName === "dialog")) ||
  ((name === "value" || name === "checked") && old.localName === "input") ||
  name === "style";

/** @param {Element} old @param {Element} fresh */
function takeAttributes(old, fresh) {
  for (const { name } of [...old.attributes])
    if (!fresh.hasAttribute(name) && !isTheirs(old, name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (old.getAttribute(name) !== value && !isTheirs(old, name)) old.setAttribute(name, value);
}

/** @param {Element} old @param {Element} fresh @param {import("./dom.js").Made} was @param {import("./dom.js").Made} is */
function takeHandlers(old, fresh, was, is) {
  const [here, there] = [/** @type {any} */ (old), /** @type {any} */ (fresh)];
  for (const name of was.handlers ?? []) if (!is.handlers?.includes(name)) here[name] = null;
  for (const name of is.handlers ?? []) here[name] = there[name];
  if (was.handlers || is.handlers) note(old, { handlers: is.handlers });
}
