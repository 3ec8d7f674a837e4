// @ts-check
// What a line of Markdown is. Each question costs no more than the line is long, whatever stands in it: no pattern here can
// match the same characters in two ways.

/** @param {string} line */
const indented = (line) => (/^ {0,3}(?! )/.test(line) ? line.trimStart() : null);

/**
 * A line that opens code: what its language is, and which line ends it.
 * @param {string} line
 */
export function fence(line) {
  const run = /^ {0,3}(`{3,}|~{3,})/.exec(line);
  if (!run) return null;
  const info = line.slice(run[0].length);
  if (info.includes("`")) return null;
  const [mark, length] = [run[1][0], run[1].length];
  const isClosedBy = (/** @type {string} */ other) => {
    const text = indented(other)?.trimEnd();
    return text !== undefined && text.length >= length && text[0] === mark && runOf(text, 0) === text.length;
  };
  return { info: info.trim(), isClosedBy };
}

/** How often the character at a place stands there in a row. @param {string} text @param {number} at */
function runOf(text, at) {
  let end = at;
  while (end < text.length && text[end] === text[at]) end += 1;
  return end - at;
}

/** @param {string} line */
export function heading(line) {
  const marks = /^ {0,3}(#{1,6})[ \t]+/.exec(line);
  if (!marks) return null;
  const text = line.slice(marks[0].length).trimEnd();
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") end -= 1;
  // Marks at the end are none of its words if a blank stands before them.
  const closed = end === 0 || /\s/.test(text[end - 1]);
  return { level: marks[1].length, text: closed ? text.slice(0, end).trimEnd() : text };
}

/** Three or more of the same mark and nothing else. @param {string} line */
export function isRule(line) {
  const text = indented(line);
  if (!text || !"-*_".includes(text[0])) return false;
  let marks = 0;
  for (const character of text) {
    if (character === text[0]) marks += 1;
    else if (character !== " ") return false;
  }
  return marks >= 3;
}

/** What is quoted; null if nothing is. @param {string} line */
export function quoted(line) {
  const mark = /^ {0,3}> ?/.exec(line);
  return mark ? line.slice(mark[0].length) : null;
}

/** @param {string} line */
export function item(line) {
  const found = /^( *)([-*+]|\d{1,9}[.)])(?=\s)/.exec(line);
  if (!found) return null;
  const [all, indent, mark] = found;
  return { indent: indent.length, mark, ordered: mark.length > 1, body: line.slice(all.length).trimStart() };
}

/** The line between the head and the body of a table. @param {string} line */
export function isTableRule(line) {
  const text = line.trim();
  if (!text.includes("-")) return false;
  const inner = text.slice(text.startsWith("|") ? 1 : 0, text.length > 1 && text.endsWith("|") ? -1 : undefined);
  return inner.split("|").every((cell) => /^:?-+:?$/.test(cell.trim()));
}
