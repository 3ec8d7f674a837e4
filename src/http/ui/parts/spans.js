// @ts-check
// What stands within a paragraph of Markdown: code, links, emphasis. Written by hand where a pattern would look through the
// rest of the text once for every mark in it.

/**
 * @typedef {{kind: string, text: string, target?: string}} Span
 * @typedef {{index: number, end: number, span: Span}} Found
 * @typedef {(at: number) => Found | null} Search finds the first of its kind from a place on
 */

const isBlank = (/** @type {string | undefined} */ character) => character === undefined || /\s/.test(character);
const LETTER_BEFORE = /[\p{L}\p{N}]$/u;
const LETTER_BEHIND = /^[\p{L}\p{N}]/u;

/** The first of these rising numbers that is not below `least`. @param {number[]} rising @param {number} least */
function firstFrom(rising, least) {
  let [low, high] = [0, rising.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rising[middle] < least) low = middle + 1;
    else high = middle;
  }
  return rising[low];
}

/** @param {RegExp} pattern one that matches the same characters in one way only @param {(match: RegExpExecArray) => Span} span */
const matching = (pattern, span) => (/** @type {string} */ text) => {
  const sought = new RegExp(pattern, `${pattern.flags}g`);
  return (/** @type {number} */ at) => {
    sought.lastIndex = at;
    const match = sought.exec(text);
    return match && { index: match.index, end: match.index + match[0].length, span: span(match) };
  };
};

/** Code ends where as many backticks stand as it began with. @param {string} text @returns {Search} */
function code(text) {
  /** @type {Map<number, number[]>} */ const places = new Map();
  /** @type {number[]} */ const ends = [];
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    const same = places.get(run.length);
    if (same) same.push(index);
    else places.set(run.length, [index]);
    ends.push(index + run.length);
  }
  return (at) => {
    for (let from = at; ;) {
      const index = text.indexOf("`", from);
      if (index < 0) return null;
      const begins = firstFrom(ends, index + 1);
      const length = begins - index;
      const closes = firstFrom(places.get(length) ?? [], begins);
      if (closes !== undefined)
        return {
          index,
          end: closes + length,
          span: { kind: "code", text: text.slice(begins, closes).replace(/^ (.+) $/, "$1") },
        };
      from = begins;
    }
  };
}

/** `[words](address "title")`. @param {string} text @returns {Search} */
function link(text) {
  const skip = (/** @type {RegExp} */ class_, /** @type {number} */ from) => {
    let end = from;
    while (end < text.length && class_.test(text[end])) end += 1;
    return end;
  };
  const labelEnd = (/** @type {number} */ from) => {
    for (let at = from; at < text.length; at += text[at] === "\\" ? 2 : 1) {
      if (text[at] === "]") return at;
      if (text[at] === "[") return -1;
    }
    return -1;
  };
  const targetEnd = (/** @type {number} */ from) => {
    for (let at = from; ;) {
      at = skip(/[^\s<>()]/, at);
      if (text[at] !== "(") return at;
      const closes = skip(/[^\s()]/, at + 1);
      if (text[closes] !== ")") return at;
      at = closes + 1;
    }
  };
  return (at) => {
    for (let opens = text.indexOf("[", at); opens >= 0; opens = text.indexOf("[", opens + 1)) {
      const closes = labelEnd(opens + 1);
      if (closes < 0 || text[closes + 1] !== "(") continue;
      let begins = skip(/\s/, closes + 2);
      if (text[begins] === "<") begins += 1;
      const ends = targetEnd(begins);
      let end = text[ends] === ">" ? ends + 1 : ends;
      const title = skip(/\s/, end);
      const titleEnd = title > end && text[title] === '"' ? text.indexOf('"', title + 1) : -1;
      end = skip(/\s/, titleEnd < 0 ? title : titleEnd + 1);
      if (text[end] !== ")") continue;
      const index = opens > at && text[opens - 1] === "!" ? opens - 1 : opens;
      end += 1;
      return {
        index,
        end,
        span: {
          kind: "link",
          text: text.slice(opens + 1, closes),
          target: text.slice(begins, ends),
        },
      };
    }
    return null;
  };
}

/**
 * Text between two marks that both stand close to it. With `words`, the marks stand at the edges of words.
 * @param {string} mark @param {string} kind @param {boolean} [words]
 */
const between =
  (mark, kind, words = false) =>
  (/** @type {string} */ text) => {
    /** @type {number[]} */ const closing = [];
    for (let at = text.indexOf(mark); at >= 0; at = text.indexOf(mark, at + 1)) {
      const within = words && LETTER_BEHIND.test(text.slice(at + mark.length, at + mark.length + 2));
      if (!within && at > 0 && !isBlank(text[at - 1])) closing.push(at);
    }
    return (/** @type {number} */ at) => {
      for (let index = text.indexOf(mark, at); index >= 0; index = text.indexOf(mark, index + 1)) {
        const begins = index + mark.length;
        const within = words && LETTER_BEFORE.test(text.slice(Math.max(0, index - 2), index));
        if (within || isBlank(text[begins])) continue;
        const closes = firstFrom(closing, begins + 1);
        if (closes === undefined) return null;
        return { index, end: closes + mark.length, span: { kind, text: text.slice(begins, closes) } };
      }
      return null;
    };
  };

/** The end of a line, with the blanks before it. @param {string} text @returns {Search} */
function lineBreak(text) {
  return (at) => {
    const end = text.indexOf("\n", at);
    if (end < 0) return null;
    let index = end;
    while (index > at && text[index - 1] === " ") index -= 1;
    // A single blank is part of the line.
    if (end - index < 2) index = end;
    return { index, end: end + 1, span: { kind: "break", text: "" } };
  };
}

/** Where two begin at the same place, the first of these is meant. */
const RULES = [
  matching(/\\([\\`*_{}[\]()#+\-.!|~<>])/, (match) => ({ kind: "text", text: match[1] })),
  code,
  link,
  matching(/<((?:https?:\/\/|mailto:)[^\s<>]+)>/, (match) => ({
    kind: "link",
    text: match[1],
    target: match[1],
  })),
  matching(/\bhttps?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}*_]/, (match) => ({
    kind: "link",
    text: match[0],
    target: match[0],
  })),
  between("**", "strong"),
  between("__", "strong", true),
  between("~~", "del"),
  matching(/\*(?![\s*])([^*]*[^\s*])\*/, (match) => ({ kind: "em", text: match[1] })),
  matching(/(?<![\p{L}\p{N}_])_(?![\s_])([^_]*[^\s_])_(?![\p{L}\p{N}_])/u, (match) => ({ kind: "em", text: match[1] })),
  lineBreak,
];

/**
 * Text to its spans: each time the one that begins first, what stands before it being plain. A kind is searched again only
 * once what it found lies behind.
 * @param {string} text @returns {Span[]}
 */
export function spans(text) {
  const searches = RULES.map((rule) => ({
    search: /** @type {Search} */ (rule(text)),
    found: /** @type {Found | null | undefined} */ (undefined),
  }));
  /** @type {Span[]} */ const spans = [];
  const plain = (/** @type {number} */ from, /** @type {number} */ to) =>
    to > from && spans.push({ kind: "text", text: text.slice(from, to) });
  for (let at = 0; ;) {
    /** @type {Found | null} */ let first = null;
    for (const one of searches) {
      if (one.found === undefined || (one.found && one.found.index < at)) one.found = one.search(at);
      if (one.found && (first === null || one.found.index < first.index)) first = one.found;
    }
    if (!first) {
      plain(at, text.length);
      return spans;
    }
    plain(at, first.index);
    spans.push(first.span);
    at = first.end;
  }
}
