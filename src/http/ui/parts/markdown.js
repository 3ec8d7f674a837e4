// @ts-check
// Markdown to elements: at once and as it comes in, by the subset that models write; and once it is complete, as the service
// parses it. No raw HTML, no images, no addresses but web and mail.

import { clean, make, note } from "../core/dom.js";
import { known, parsed } from "./finished.js";
import { fence, heading, isRule, isTableRule, item, quoted } from "./lines.js";
import { spans } from "./spans.js";
import { codeElement, drawTree, headingElement, linkElement } from "./tree.js";

const DEEPEST = 12;
/** Longer text is shown as it is. */
const LONGEST = 20_000;
const LONGEST_LINE = 10_000;

/**
 * Shows `text` in `container`. Called again with more text it keeps the blocks that did not change, so a growing
 * answer costs little and a selection in it survives.
 */
export function show(container, text) {
  const shown = container.markdown ?? [];
  container.finished = null;
  const blocks = split(clean(text).split("\n"));
  let same = 0;
  while (same < shown.length && same < blocks.length && shown[same] === key(blocks[same])) same += 1;
  while (container.childElementCount > same) container.lastElementChild.remove();
  for (const block of blocks.slice(same)) container.append(render(block, 0));
  container.markdown = blocks.map(key);
}

/** Shows a text that is complete. */
export function showFinished(container, text) {
  const words = clean(text);
  if (container.finished === words) return;
  const tree = known(words);
  if (tree) draw(container, tree);
  else show(container, text);
  container.finished = words;
  if (tree || !words.trim()) return;
  parsed(words, (blocks) => container.finished === words && draw(container, blocks));
}

function draw(container, blocks) {
  container.markdown = [];
  container.replaceChildren(...drawTree(blocks));
}

/** A text that is complete, as an element to paint with. @param {unknown} text */
export function markdown(text) {
  const element = make("div", { class: "markdown" });
  showFinished(element, String(text ?? ""));
  note(element, { source: String(text ?? "") });
  return element;
}

const key = (block) => `${block.kind}\n${block.info ?? ""}\n${block.lines.join("\n")}`;

/** Lines to blocks `{kind, lines, info?}`. */
function split(lines) {
  const blocks = [];
  let paragraph = [];
  const flush = () => {
    if (paragraph.length) blocks.push({ kind: "paragraph", lines: paragraph });
    paragraph = [];
  };
  const push = (block) => {
    flush();
    blocks.push(block);
  };
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const opens = fence(line);
    if (opens) {
      const inside = [];
      for (at += 1; at < lines.length && !opens.isClosedBy(lines[at]); at += 1) inside.push(lines[at]);
      at += 1;
      push({ kind: "code", lines: inside, info: opens.info });
    } else if (line.trim() === "") {
      flush();
      at += 1;
    } else if (line.length > LONGEST_LINE) {
      push({ kind: "plain", lines: [line] });
      at += 1;
    } else if (heading(line)) {
      push({ kind: "heading", lines: [line] });
      at += 1;
    } else if (isRule(line)) {
      push({ kind: "rule", lines: [line] });
      at += 1;
    } else if (quoted(line) !== null) {
      const inside = [];
      for (; at < lines.length && quoted(lines[at]) !== null; at += 1) inside.push(quoted(lines[at]));
      push({ kind: "quote", lines: inside });
    } else if (item(line)) {
      const first = item(line);
      const inside = [line];
      for (at += 1; at < lines.length && belongsToList(lines, at, first); at += 1) inside.push(lines[at]);
      push({ kind: "list", lines: inside });
    } else if (line.includes("|") && isTableRule(lines[at + 1] ?? "")) {
      const inside = [];
      for (; at < lines.length && lines[at].includes("|") && lines[at].length <= LONGEST_LINE; at += 1)
        inside.push(lines[at]);
      push({ kind: "table", lines: inside });
    } else {
      paragraph.push(line);
      at += 1;
    }
  }
  flush();
  return blocks;
}

const INDENTED = /^( {2,}|\t)\S/;

/** Whether a line goes on with the list whose first item is `first`. */
function belongsToList(lines, at, first) {
  const line = lines[at];
  if (line.length > LONGEST_LINE || isRule(line)) return false;
  const own = item(line);
  if (own) return line.startsWith("  ") || own.ordered === first.ordered;
  if (INDENTED.test(line)) return true;
  if (line.trim() !== "") return lines[at - 1].trim() !== "" && !fence(line) && !heading(line) && quoted(line) === null;
  const next = lines[at + 1] ?? "";
  return INDENTED.test(next) || item(next)?.ordered === first.ordered;
}

function render(block, depth) {
  if (depth > DEEPEST) return make("p", {}, block.lines.join("\n"));
  const inner = (lines) => split(lines).map((child) => render(child, depth + 1));
  switch (block.kind) {
    case "code":
      return codeElement(block.lines.join("\n"), block.info);
    case "heading": {
      const { level, text } = /** @type {any} */ (heading(block.lines[0]));
      return headingElement(level, inline(text));
    }
    case "plain":
      return make("p", {}, block.lines[0]);
    case "rule":
      return make("hr");
    case "quote":
      return make("blockquote", {}, ...inner(block.lines));
    case "list":
      return list(block.lines, inner);
    case "table":
      return table(block.lines);
    default:
      return make("p", {}, ...inline(block.lines.join("\n")));
  }
}

function list(lines, inner) {
  const first = /** @type {any} */ (item(lines[0]));
  const items = [];
  for (const line of lines) {
    const own = item(line);
    if (own && own.indent < first.indent + 2) items.push([own.body]);
    else items.at(-1)?.push(line.replace(/^(\t| {1,4})/, ""));
  }
  return make(
    first.ordered ? "ol" : "ul",
    first.ordered ? { start: parseInt(first.mark, 10) } : {},
    ...items.map((body) => {
      const children = inner(body);
      // A plain item is a line, not a paragraph.
      return make("li", {}, ...children.flatMap((child) => (child.tagName === "P" ? [...child.childNodes] : [child])));
    }),
  );
}

function table(lines) {
  const cells = (line) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll("\\|", "|"));
  const [head, , ...body] = lines;
  return make(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...cells(head).map((cell) => make("th", { scope: "col" }, ...inline(cell))))),
      make(
        "tbody",
        {},
        ...body.map((line) => make("tr", {}, ...cells(line).map((cell) => make("td", {}, ...inline(cell))))),
      ),
    ),
  );
}

/** A span as a node; what is inside it may hold further ones. */
function spanned(span, depth) {
  switch (span.kind) {
    case "text":
      return span.text;
    case "code":
      return make("code", {}, span.text);
    case "link":
      return linkElement(span.target, span.text ? [span.text] : []);
    case "break":
      return "\n";
    default:
      return make(span.kind, {}, ...inline(span.text, depth + 1));
  }
}

function inline(text, depth = 0) {
  if (depth >= DEEPEST || text.length > LONGEST) return [text];
  return spans(text).map((span) => spanned(span, depth));
}
