// @ts-check
// Building elements. Text only ever becomes text nodes, so nothing that was said can become markup.

/** @typedef {Node | string | number | null | undefined | false | readonly any[]} Child lists may be nested */
/**
 * What `paint` needs to know of an element beyond its markup: its key among its siblings, its handlers, the text that
 * it was drawn from if it draws itself, and that an act is under way which it began.
 * @typedef {{key?: string, handlers?: string[], source?: string, busy?: boolean}} Made
 */

/** @type {WeakMap<Node, Made>} */
const notes = new WeakMap();

/** @param {Node} node @returns {Made} */
export const madeAs = (node) => notes.get(node) ?? {};

/** @param {Node} node @param {Made} made */
export const note = (node, made) => notes.set(node, { ...madeAs(node), ...made });

/**
 * @param {Element} element @param {Record<string, any>} attributes @param {Child[]} children
 */
function dress(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") note(element, { key: String(value) });
    else if (name === "style") Object.assign(/** @type {HTMLElement} */ (element).style, value);
    else if (name === "value" && "value" in element) element.value = value;
    else if (name === "data") Object.assign(element, { data: value });
    else if (name.startsWith("on")) {
      // A handler that happens to return false would cancel what the browser does by itself.
      Object.assign(element, { [name]: (/** @type {Event} */ event) => void value(event) });
      note(element, { handlers: [...(madeAs(element).handlers ?? []), name] });
    } else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
}

/** @param {Element} element @param {Child[]} children */
function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * `make("p", {class: "muted", onclick}, "text", child)`
 * @template {string} T
 * @param {T} tag @param {Record<string, any>} [attributes] @param {...Child} children
 * @returns {T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  dress(element, attributes, children);
  return /** @type {any} */ (element);
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * The same for a drawing.
 * @param {string} tag @param {Record<string, any>} [attributes] @param {...Child} children
 * @returns {SVGElement}
 */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  dress(element, attributes, children);
  return /** @type {any} */ (element);
}

const SPRITE = new URL("../sprite.svg", import.meta.url).pathname;

/** Where a picture is. @param {string} name */
export const picture = (name) => `${SPRITE}#${name}`;

/** A picture of the sprite, for the eye only. @param {string} name */
export const icon = (name) =>
  draw("svg", { class: "icon", "aria-hidden": "true", viewBox: "0 0 20 20" }, draw("use", { href: picture(name) }));

export const spinner = () => make("span", { class: "spinner", "aria-hidden": "true" });

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

// Colour and cursor codes of terminals, other control characters, and the marks that make text read in another
// order than it stands, which could disguise an address.
const CODES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]/g;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** @param {unknown} text */
export const clean = (text) =>
  String(text ?? "")
    .replace(/\r\n?/g, "\n")
    .replace(CODES, "")
    .replace(CONTROLS, "");

/** What the service says in lower case, for people. @param {string} text */
export const sentence = (text) => text.replace(/^\p{Ll}/u, (letter) => letter.toUpperCase());

/** A text that names things in backticks, as those of the service do. @param {unknown} text @returns {Child[]} */
export function coded(text) {
  const parts = clean(text).split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? make("code", {}, part) : part)) : [clean(text)];
}

/** Hands a text to the browser as a file. @param {string} name @param {string} text @param {string} type */
export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** @param {string} label @param {() => string} text @param {string} [look] */
export function copyButton(label, text, look = "copy") {
  return make(
    "button",
    { type: "button", class: look, "aria-label": `${label} to the clipboard`, onclick: copy },
    icon("copy"),
    make("span", {}, label),
  );

  // The word is that of the button on the page, which may have taken this handler over from one that was built after it.
  async function copy(/** @type {Event} */ event) {
    const word = /** @type {HTMLElement} */ (/** @type {Element} */ (event.currentTarget).lastElementChild);
    try {
      await navigator.clipboard.writeText(text());
      word.textContent = "Copied";
    } catch {
      word.textContent = "The browser refused";
    }
    setTimeout(() => (word.textContent = label), 1500);
  }
}
