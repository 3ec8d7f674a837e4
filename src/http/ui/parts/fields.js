// @ts-check
// Form fields with their labels.

import { make } from "../core/dom.js";

/**
 * @param {string} label @param {string} name
 * @param {Record<string, any> & {hint?: string}} [more] attributes of the input
 */
export function input(label, name, { hint, ...more } = {}) {
  return make(
    "label",
    { class: "field" },
    make("span", {}, label),
    make("input", { name, autocomplete: "off", spellcheck: "false", ...more }),
    hint ? make("small", {}, hint) : null,
  );
}

/** @param {string} label @param {string} name @param {Record<string, any> & {hint?: string}} [more] */
export function area(label, name, { hint, value = "", ...more } = {}) {
  const field = make("textarea", { name, rows: 4, spellcheck: "true", ...more });
  field.value = value;
  return make("label", { class: "field" }, make("span", {}, label), field, hint ? make("small", {}, hint) : null);
}

/**
 * @param {string} label @param {string} name @param {(string | [string, string])[]} options values, with a word where it differs
 * @param {Record<string, any> & {hint?: string}} [more]
 */
export function select(label, name, options, { value, hint, ...more } = {}) {
  const rows = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  return make(
    "label",
    { class: "field" },
    make("span", {}, label),
    make(
      "select",
      { name, ...more },
      rows.map(([id, word]) => make("option", { value: id, selected: id === value }, word)),
    ),
    hint ? make("small", {}, hint) : null,
  );
}

/** @param {string} label @param {string} name @param {Record<string, any>} [more] */
export const tick = (label, name, more = {}) =>
  make(
    "label",
    { class: "tick" },
    make("input", { type: "checkbox", name, value: "true", ...more }),
    make("span", {}, label),
  );

/** Words parted by commas or lines. @param {string | undefined} text */
export const split = (text) =>
  (text ?? "")
    .split(/[,\n]/)
    .map((word) => word.trim())
    .filter(Boolean);

/** A search field above a list. @param {string} label @param {string} value @param {(value: string) => void} onchange */
export function search(label, value, onchange) {
  /** @type {any} */ let timer;
  return make("input", {
    type: "search",
    class: "search",
    name: "q",
    "aria-label": label,
    placeholder: label,
    value,
    oninput: (/** @type {any} */ event) => {
      clearTimeout(timer);
      const text = event.target.value;
      timer = setTimeout(() => onchange(text), 200);
    },
  });
}

/**
 * A choice above a list.
 * @param {string} label @param {(string | [string, string])[]} options @param {string} value @param {(value: string) => void} onchange
 */
export function choice(label, options, value, onchange) {
  const rows = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  return make(
    "select",
    { class: "choice", "aria-label": label, onchange: (/** @type {any} */ event) => onchange(event.target.value) },
    rows.map(([id, word]) => make("option", { value: id, selected: id === value }, word)),
  );
}

/**
 * A few choices side by side, one of them taken.
 * @param {string} label @param {[string, string][]} options @param {string} value @param {(value: string) => void} onchange
 */
export const segments = (label, options, value, onchange) =>
  make(
    "div",
    { class: "segments", role: "group", "aria-label": label },
    options.map(([id, word]) =>
      make("button", { type: "button", "aria-pressed": String(id === value), onclick: () => onchange(id) }, word),
    ),
  );
