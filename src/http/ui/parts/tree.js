// @ts-check
// Markdown that was parsed, as elements: a tree of the service, and the parts that a text still coming in has too.

import { copyButton, make } from "../core/dom.js";
import { load } from "../core/load.js";

/**
 * @typedef {{kind: string, text?: string, level?: number, start?: number, checked?: boolean, align?: string, info?: string,
 *   address?: string, title?: string, children?: MarkdownNode[]}} MarkdownNode
 */

/** @param {MarkdownNode[]} nodes @returns {(Node | string)[]} */
export const drawTree = (nodes) => nodes.map(element);

/** @param {MarkdownNode} node @returns {(Node | string)[]} */
const inner = (node) => drawTree(node.children ?? []);

/** @param {MarkdownNode} node @returns {Node | string} */
function element(node) {
  const text = node.text ?? "";
  switch (node.kind) {
    case "text":
      return text;
    case "heading":
      return headingElement(node.level ?? 1, inner(node));
    case "rule":
      return make("hr");
    case "quote":
      return make("blockquote", {}, inner(node));
    case "list": {
      const isNumbered = node.start !== undefined;
      return make(isNumbered ? "ol" : "ul", isNumbered && node.start !== 1 ? { start: node.start } : {}, inner(node));
    }
    case "item":
      return itemElement(node);
    case "code_block":
      return codeElement(text.replace(/\n$/, ""), node.info ?? "", true);
    case "table":
      return tableElement(node);
    case "emphasis":
      return make("em", {}, inner(node));
    case "strong":
      return make("strong", {}, inner(node));
    case "deleted":
      return make("del", {}, inner(node));
    case "code":
      return make("code", {}, text);
    case "link":
      return linkElement(node.address ?? "", inner(node));
    case "image":
      // Nothing is fetched from elsewhere because a text says so.
      return linkElement(node.address ?? "", [wordsOf(node) || "image"]);
    case "break":
      return make("br");
    case "math":
    case "math_block":
      return mathsElement(text, node.kind === "math_block");
    default:
      return make("p", {}, inner(node));
  }
}

/** The page has its own first two levels. @param {number} level @param {(Node | string)[]} words */
export const headingElement = (level, words) => make(`h${Math.min(6, level + 2)}`, {}, words);

/** @param {MarkdownNode} node */
function itemElement(node) {
  if (node.checked === undefined) return make("li", {}, inner(node));
  const tick = make("input", {
    type: "checkbox",
    disabled: true,
    checked: node.checked,
    "aria-label": node.checked ? "Done" : "To do",
  });
  return make("li", { class: "task" }, tick, " ", inner(node));
}

/** @param {string} text @param {string} info @param {boolean} [complete] it is all there, and worth colours */
export function codeElement(text, info, complete) {
  const language = info.trim().split(/\s/)[0];
  const code = make("code", {}, text);
  if (complete && language)
    load("./colours.js", import.meta.url).then(
      ({ coloured }) => code.replaceChildren(...coloured(text, language)),
      () => {
        // The service is away: it stays without.
      },
    );
  return make(
    "figure",
    { class: "code" },
    make(
      "figcaption",
      {},
      make("span", {}, language || "text"),
      copyButton("Copy", () => text),
    ),
    make("pre", { tabindex: "0", "aria-label": language ? `Code, ${language}` : "Code" }, code),
  );
}

/** A formula as it was written, until it is drawn. @param {string} text @param {boolean} whole */
function mathsElement(text, whole) {
  const written = make("code", { class: whole ? "maths whole" : "maths" }, text);
  load("./maths.js", import.meta.url).then(
    ({ formula }) => {
      const drawn = formula(text, whole);
      if (drawn) written.replaceWith(drawn);
    },
    () => {
      // The service is away: it stays as it was written.
    },
  );
  return written;
}

/** @param {MarkdownNode} node */
function tableElement({ children = [] }) {
  const row = (/** @type {MarkdownNode} */ line, /** @type {string} */ tag) =>
    make(
      "tr",
      {},
      (line.children ?? []).map((cell) =>
        make(tag, { scope: tag === "th" ? "col" : null, "data-align": cell.align || null }, inner(cell)),
      ),
    );
  const [head, ...body] = children;
  return make(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    make(
      "table",
      {},
      make("thead", {}, head ? row(head, "th") : null),
      body.length
        ? make(
            "tbody",
            {},
            body.map((line) => row(line, "td")),
          )
        : null,
    ),
  );
}

/** @param {MarkdownNode} node @returns {string} */
const wordsOf = (node) => (node.text ?? "") + (node.children ?? []).map(wordsOf).join("");

/**
 * A link; its words and its address as text if it leads to no place that a text may lead to.
 * @param {string} target @param {(Node | string)[]} label
 */
export function linkElement(target, label) {
  // A browser would read these as slashes, which is another address.
  const written = target.replaceAll("\\", "%5C");
  const address = URL.canParse(written) ? new URL(written) : null;
  const leads = address !== null && ["http:", "https:", "mailto:"].includes(address.protocol);
  const shown = leads ? address.href : target;
  const words = label.length ? label : [shown];
  const link = leads
    ? make("a", { href: shown, target: "_blank", rel: "noopener noreferrer", title: shown }, words)
    : make("span", { class: "refused", title: target }, words);
  const text = link.textContent;
  // The words of a link may lie about where it leads.
  if (text === target || text === shown || target.endsWith(`//${text}`) || target === `mailto:${text}`) return link;
  return make("span", {}, link, make("span", { class: "address" }, ` (${shown})`));
}
