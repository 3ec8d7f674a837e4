// @ts-check
// Small marks: states with a shape and a word, teams as cells of the comb; and the heads and frames that pages are made of.

import { clean, icon, make, spinner } from "../core/dom.js";
import { words } from "../core/format.js";
import { write } from "../core/place.js";

/** @typedef {import("../core/dom.js").Child} Child */

/** State → picture and tone. The word is always there too. @type {Record<string, [string, string]>} */
const STATES = {
  accepted: ["ring", "calm"],
  queued: ["ring", "calm"],
  running: ["turning", "busy"],
  waiting: ["pause", "wait"],
  done: ["check", "good"],
  ok: ["check", "good"],
  active: ["check", "good"],
  ready: ["check", "good"],
  approved: ["check", "good"],
  on: ["check", "good"],
  answered: ["check", "good"],
  enabled: ["check", "good"],
  success: ["check", "good"],
  allowed: ["check", "good"],
  failed: ["alert", "bad"],
  dead: ["alert", "bad"],
  error: ["alert", "bad"],
  degraded: ["alert", "bad"],
  denied: ["cross", "bad"],
  warn: ["alert", "wait"],
  pending: ["clock", "wait"],
  open: ["clock", "wait"],
  initializing: ["turning", "busy"],
  draining: ["turning", "busy"],
  paused: ["pause", "wait"],
  cancelled: ["dash", "calm"],
  expired: ["clock", "calm"],
  disabled: ["dash", "calm"],
  off: ["dash", "calm"],
  skipped: ["dash", "calm"],
  idle: ["ring", "calm"],
};

/** @param {string} state @param {string} [word] */
export function pill(state, word) {
  const [picture, tone] = STATES[state] ?? ["ring", "calm"];
  return make(
    "span",
    { class: "pill", "data-tone": tone },
    picture === "turning" ? spinner() : icon(picture),
    words(word ?? state),
  );
}

/** The mark of what comes from outside. */
export const outside = () =>
  make(
    "span",
    { class: "pill", "data-tone": "wait", title: "Something in it comes from outside, so it is not trusted" },
    icon("alert"),
    "Untrusted",
  );

/** @param {string} team */
export const cell = (team) =>
  make("span", { class: "hex", "aria-hidden": "true", "data-hue": hue(team) }, clean(team).slice(0, 2));

/** One of six hues, the same for the same name. @param {string} name */
export const hue = (name) => [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7) % 6;

/** @param {string | null | undefined} team */
export const teamLink = (team) =>
  team
    ? make("a", { class: "team-link", href: write("team", [team]) }, cell(team), make("span", {}, clean(team)))
    : make("span", { class: "muted" }, "–");

/** @param {string} id */
export const taskLink = (id) => make("a", { href: write("tasks", [id]) }, clean(id));

/** An id, which a press copies. @param {string} id */
export const code = (id) =>
  make(
    "button",
    { type: "button", class: "id", title: "Copy", "aria-label": `Copy ${clean(id)}`, onclick: copyId },
    make("code", {}, clean(id)),
  );

/** @param {Event} event */
async function copyId({ currentTarget }) {
  const button = /** @type {HTMLElement} */ (currentTarget);
  const copied = navigator.clipboard.writeText(button.textContent ?? "");
  const word = await copied.then(
    () => "Copied",
    () => "Not allowed",
  );
  button.dataset.told = word;
  setTimeout(() => delete button.dataset.told, 1500);
}

/** @param {number} number @param {string} word what is counted */
export const badge = (number, word) =>
  number > 0 ? make("span", { class: "badge" }, String(number), make("span", { class: "hidden" }, ` ${word}`)) : null;

/** Facts in pairs. @param {[string, Child][]} rows */
export const facts = (rows) =>
  make(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
      .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
  );

/** @param {Child} about @param {Child} [actions] */
export const pageHead = (about, actions) =>
  make("header", { class: "page-head" }, about, actions ? make("div", { class: "actions" }, actions) : null);

/** Above a list. @param {string} title @param {Child} lead @param {Child} [actions] */
export const head = (title, lead, actions) =>
  pageHead(
    make("div", {}, make("h1", { tabindex: "-1" }, title), lead ? make("p", { class: "muted" }, lead) : null),
    actions,
  );

/** Above one of a list: its name, and how it stands. @param {string} name @param {Child[]} line @param {Child} [actions] */
export const headOf = (name, line, actions) =>
  pageHead(make("div", {}, make("h1", {}, name), make("p", { class: "ask-line" }, line)), actions);

/** A part of a page in a frame. @param {Child} title @param {...Child} body */
export const panel = (title, ...body) => make("section", { class: "panel" }, make("h2", {}, title), body);

/** What a part of a page is about, and what can be done there. @param {Child} words @param {Child} [actions] */
export const intro = (words, actions) =>
  make(
    "div",
    { class: "bar" },
    make("p", { class: "muted" }, words),
    actions ? make("div", { class: "actions push" }, actions) : null,
  );

/** What is wrong. @param {...Child} words */
export const problem = (...words) => make("p", { class: "problem" }, icon("alert"), make("span", {}, words));

/** @param {string} word @param {string} picture @param {(button: HTMLButtonElement) => void} onclick @param {Record<string, any>} [more] */
export const button = (word, picture, onclick, { tone = "", ...more } = {}) =>
  make(
    "button",
    {
      type: "button",
      class: `button ${tone}`,
      onclick: (/** @type {any} */ event) => onclick(event.currentTarget),
      ...more,
    },
    picture ? icon(picture) : null,
    word,
  );

/** Something that is there for those who want it. @param {Child} title @param {Child} body @param {Record<string, any>} [more] */
export const fold = (title, body, { class: name = "", ...more } = {}) =>
  make("details", { class: `fold ${name}`.trim(), ...more }, make("summary", {}, icon("chevron"), title), body);

/** The way back to a list. @param {string} view @param {string} word */
export const crumb = (view, word) =>
  make("p", { class: "crumb" }, make("a", { href: write(view) }, icon("back"), word));

/** @param {string} name @param {Child} value */
export const figure = (name, value) =>
  make(
    "div",
    { class: "figure" },
    make("span", {}, name),
    typeof value === "string" ? make("strong", {}, value) : value,
  );
