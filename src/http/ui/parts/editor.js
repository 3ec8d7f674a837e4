// @ts-check
// A text with numbered lines. What is wrong with it is marked at its line, and said below.

import { clean, coded, icon, make } from "../core/dom.js";

/** @typedef {{line?: number | null, column?: number | null, path?: string | null, message: string}} Problem */

/**
 * @param {string} label @param {string} name
 * @param {{value?: string, rows?: number, problems?: Problem[], placeholder?: string}} [more]
 * @returns {{element: HTMLElement, show: (place: {line?: number | null, column?: number | null}) => void}}
 */
export function editor(label, name, { value = "", rows = 18, problems = [], placeholder } = {}) {
  const numbers = make("div", { class: "line-numbers", "aria-hidden": "true" });
  const found = make("ul", { class: "problems", role: "alert", id: `${name}-problems` });
  const text = make("textarea", {
    name,
    rows,
    class: "mono",
    wrap: "off",
    spellcheck: "false",
    required: true,
    "aria-label": label,
    "aria-describedby": found.id,
    placeholder,
    value,
    oninput: () => number(),
    onscroll: () => (numbers.scrollTop = text.scrollTop),
  });
  /** @type {Set<number>} */ let marked = new Set();

  function number() {
    const lines = text.value.split("\n").length;
    numbers.replaceChildren(
      ...Array.from({ length: lines }, (_, at) => make("span", { "data-bad": marked.has(at + 1) }, String(at + 1))),
    );
    numbers.scrollTop = text.scrollTop;
  }

  /** @param {{line?: number | null, column?: number | null}} place */
  function show({ line, column }) {
    const lines = text.value.split("\n");
    const at = Math.min(line ?? 1, lines.length) - 1;
    const begin = lines.slice(0, at).join("\n").length + (at ? 1 : 0);
    text.focus();
    text.setSelectionRange(begin + (column ? column - 1 : 0), begin + lines[at].length);
    text.scrollTop = (text.scrollHeight / lines.length) * at - text.clientHeight / 2;
  }

  /** @param {Problem[]} wrong */
  function mark(wrong) {
    marked = new Set(wrong.flatMap(({ line }) => (line ? [line] : [])));
    text.setAttribute("aria-invalid", String(wrong.length > 0));
    found.replaceChildren(
      ...wrong.map((problem) =>
        make(
          "li",
          { class: "problem" },
          icon("alert"),
          make(
            "span",
            {},
            problem.line
              ? [
                  make(
                    "button",
                    { type: "button", class: "link", onclick: () => show(problem) },
                    `Line ${problem.line}`,
                  ),
                  ": ",
                ]
              : null,
            problem.path ? [make("code", {}, clean(problem.path)), " "] : null,
            coded(problem.message),
          ),
        ),
      ),
    );
    number();
  }

  mark(problems);
  return {
    element: make(
      "div",
      { class: "field" },
      make("span", { "aria-hidden": "true" }, label),
      make("div", { class: "editor" }, numbers, text),
      found,
    ),
    show,
  };
}
