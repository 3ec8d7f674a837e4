// @ts-check
// Markdown to elements: the subset that models write. No raw HTML, no images, no addresses but web and mail.

import { clean, copyButton, make, note } from "../core/dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 12;
const LONGEST = 20_000;

/**
 * Shows `text` in `container`. Called again with more text it keeps the blocks that did not change, so a growing
 * answer costs little and a selection in it survives.
 */
export function show(container, text) {
  const shown = (container.markdown ??= []);
  const blocks = split(clean(text).split("\n"));
  let same = 0;
  while (same < shown.length && same < blocks.length && shown[same] === key(blocks[same])) same += 1;
  while (container.childElementCount > same) container.lastElementChild.remove();
  for (const block of blocks.slice(same)) container.append(render(block, 0));
  container.markdown = blocks.map(key);
}

/** The same as an element to paint with. @param {unknown} text */
export function markdown(text) {
  const element = make("div", { class: "markdown" });
  show(element, String(text ?? ""));
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
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const fence = line.match(FENCE);
    if (fence) {
      const inside = [];
      const closing = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
      for (at += 1; at < lines.length && !closing.test(lines[at]); at += 1) inside.push(lines[at]);
      at += 1;
      push({ kind: "code", lines: inside, info: fence[2].trim() });
    } else if (line.trim() === "") {
      flush();
      at += 1;
    } else if (HEADING.test(line)) {
      push({ kind: "heading", lines: [line] });
      at += 1;
    } else if (RULE.test(line)) {
      push({ kind: "rule", lines: [line] });
      at += 1;
    } else if (QUOTE.test(line)) {
      const inside = [];
      for (; at < lines.length && QUOTE.test(lines[at]); at += 1) inside.push(lines[at].match(QUOTE)[1]);
      push({ kind: "quote", lines: inside });
    } else if (ITEM.test(line)) {
      const inside = [];
      for (; at < lines.length && belongsToList(lines, at, inside); at += 1) inside.push(lines[at]);
      push({ kind: "list", lines: inside });
    } else if (line.includes("|") && TABLE_RULE.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
      const inside = [];
      for (; at < lines.length && lines[at].includes("|"); at += 1) inside.push(lines[at]);
      push({ kind: "table", lines: inside });
    } else {
      paragraph.push(line);
      at += 1;
    }
  }
  flush();
  return blocks;
}

function belongsToList(lines, at, inside) {
  const line = lines[at];
  if (inside.length === 0) return true;
  if (RULE.test(line)) return false;
  if (ITEM.test(line)) {
    const ordered = (text) => /\d/.test(text.match(ITEM)[2]);
    return /^ {2,}/.test(line) || ordered(line) === ordered(inside[0]);
  }
  if (/^( {2,}|\t)\S/.test(line)) return true;
  if (line.trim() !== "") return lines[at - 1].trim() !== "" && !FENCE.test(line) && !HEADING.test(line) && !QUOTE.test(line);
  const next = lines[at + 1] ?? "";
  return /^( {2,}|\t)\S/.test(next) || (ITEM.test(next) && /\d/.test(next.match(ITEM)[2]) === /\d/.test(inside[0].match(ITEM)[2]));
}

function render(block, depth) {
  if (depth > DEEPEST) return make("p", {}, block.lines.join("\n"));
  const inner = (lines) => split(lines).map((child) => render(child, depth + 1));
  switch (block.kind) {
    case "code":
      return code(block);
    case "heading": {
      const [, marks, text] = block.lines[0].match(HEADING);
      // The page has its own first two levels.
      return make(`h${Math.min(6, marks.length + 2)}`, {}, ...inline(text));
    }
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

function code({ lines, info }) {
  const text = lines.join("\n");
  const language = info.split(/\s/)[0];
  return make(
    "figure",
    { class: "code" },
    make("figcaption", {}, make("span", {}, language || "text"), copyButton("Copy", () => text)),
    make("pre", { tabindex: "0", "aria-label": language ? `Code, ${language}` : "Code" }, make("code", {}, text)),
  );
}

function list(lines, inner) {
  const [, indent, mark] = lines[0].match(ITEM);
  const items = [];
  for (const line of lines) {
    const item = line.match(ITEM);
    if (item && item[1].length < indent.length + 2) items.push([item[3]]);
    else items.at(-1)?.push(line.replace(/^(\t| {1,4})/, ""));
  }
  const ordered = /\d/.test(mark);
  return make(
    ordered ? "ol" : "ul",
    ordered ? { start: parseInt(mark, 10) } : {},
    ...items.map((body) => {
      const children = inner(body);
      // A plain item is a line, not a paragraph.
      return make("li", {}, ...children.flatMap((child) => (child.tagName === "P" ? [...child.childNodes] : [child])));
    }),
  );
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const [head, , ...body] = lines;
  return make(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": "Table" },
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...cells(head).map((cell) => make("th", { scope: "col" }, ...inline(cell))))),
      make("tbody", {}, ...body.map((line) => make("tr", {}, ...cells(line).map((cell) => make("td", {}, ...inline(cell)))))),
    ),
  );
}

const INLINE = [
  { pattern: /\\([\\`*_{}[\]()#+\-.!|~<>])/, make: (m) => m[1] },
  { pattern: /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)/, make: (m) => make("code", {}, m[2].replace(/^ (.+) $/, "$1")) },
  { pattern: /!?\[((?:[^[\]\\]|\\.)*)\]\(\s*<?([^\s<>()]*(?:\([^\s()]*\)[^\s<>()]*)*)>?(?:\s+"[^"]*")?\s*\)/, make: (m) => link(m[2], m[1], m[0]) },
  { pattern: /<((?:https?:\/\/|mailto:)[^\s<>]+)>/, make: (m) => link(m[1], m[1], m[1]) },
  { pattern: /\bhttps?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_]/, make: (m) => link(m[0], m[0], m[0]) },
  { pattern: /\*\*(?=\S)([\s\S]*?\S)\*\*/, make: (m, depth) => make("strong", {}, ...inline(m[1], depth)) },
  { pattern: /(?<![\p{L}\p{N}])__(?=\S)([\s\S]*?\S)__(?![\p{L}\p{N}])/u, make: (m, depth) => make("strong", {}, ...inline(m[1], depth)) },
  { pattern: /~~(?=\S)([\s\S]*?\S)~~/, make: (m, depth) => make("del", {}, ...inline(m[1], depth)) },
  { pattern: /\*(?![\s*])([^*]*[^\s*])\*/, make: (m, depth) => make("em", {}, ...inline(m[1], depth)) },
  { pattern: /(?<![\p{L}\p{N}_])_(?![\s_])([^_]*[^\s_])_(?![\p{L}\p{N}_])/u, make: (m, depth) => make("em", {}, ...inline(m[1], depth)) },
  { pattern: / {2,}\n|\n/, make: () => make("br") },
];

/**
 * A line to nodes: each time the pattern that matches first, what stands before it being plain. A pattern is
 * searched again only once its match lies behind, so hostile text costs no more than honest text.
 */
function inline(text, depth = 0) {
  if (depth >= DEEPEST || text.length > LONGEST) return [text];
  const searches = INLINE.map((rule) => ({ rule, pattern: new RegExp(rule.pattern, `${rule.pattern.flags}g`), match: undefined }));
  const nodes = [];
  let at = 0;
  for (;;) {
    let first = null;
    for (const search of searches) {
      if (search.match === undefined || search.match?.index < at) {
        search.pattern.lastIndex = at;
        search.match = search.pattern.exec(text);
      }
      if (search.match && (first === null || search.match.index < first.match.index)) first = search;
    }
    if (!first) break;
    const { rule, match } = first;
    if (match.index > at) nodes.push(text.slice(at, match.index));
    nodes.push(rule.make(match, depth + 1));
    at = match.index + match[0].length;
  }
  if (at < text.length) nodes.push(text.slice(at));
  return nodes;
}

function link(target, label, source) {
  let address;
  try {
    address = new URL(target);
  } catch {
    return source;
  }
  if (!["http:", "https:", "mailto:"].includes(address.protocol)) return source;
  const anchor = make("a", { href: address.href, target: "_blank", rel: "noopener noreferrer" }, label || address.href);
  // The words of a link may lie about where it leads.
  if (label === target || label === address.href) return anchor;
  return make("span", {}, anchor, make("span", { class: "address" }, ` (${address.href})`));
}
