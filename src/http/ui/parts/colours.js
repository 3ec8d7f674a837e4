// @ts-check
// Colours of code: comments, strings, numbers and words that many languages share. Not a parser of any of them: what it
// does not know stays plain.

import { make } from "../core/dom.js";

/** Longer code is shown plain: a comment without an end is looked for from each place where one begins. */
const LONGEST = 20_000;

const WORDS = new Set(
  (
    "abstract and as async await begin break case catch class const continue def default defer del delete do elif else end " +
    "enum except export extends false final finally fn for from func function go if impl implements import in instanceof " +
    "interface is lambda let local loop match mod module mut namespace new nil none not null of or package pass private " +
    "protected pub public raise ref require return select self static struct super switch then this throw trait true try " +
    "type typeof undefined union unsafe until use using var void when where while with yield " +
    "create from group insert into join order set table update values"
  ).split(" "),
);
/** Languages whose comments begin with `#`. */
const HASH = new Set(
  "bash sh shell zsh console python py ruby rb yaml yml toml ini conf dockerfile make r perl".split(" "),
);
/** Languages whose comments begin with `--`. */
const DASHES = new Set("sql lua haskell hs".split(" "));
/** Without rules of their own; anything would be a guess. */
const PLAIN = new Set(["", "text", "txt", "plain", "plaintext", "markdown", "md", "log", "output", "mermaid"]);

/** @param {string} comment @returns {RegExp} */
const tokens = (comment) =>
  new RegExp(
    [
      `(?<comment>${comment})`,
      "(?<string>\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`)",
      "(?<number>\\b\\d[\\w.]*)",
      "(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)",
    ].join("|"),
    "gsu",
  );
const BLOCK = "\\/\\*.*?\\*\\/|<!--.*?-->|\\/\\/[^\\n]*";

/** @param {string} text @param {string} language @returns {(Node | string)[]} */
export function coloured(text, language) {
  const name = language.toLowerCase();
  if (PLAIN.has(name) || text.length > LONGEST) return [text];
  if (name === "diff" || name === "patch") return diff(text);
  const pattern = tokens(HASH.has(name) ? "#[^\\n]*" : DASHES.has(name) ? "--[^\\n]*" : BLOCK);
  /** @type {(Node | string)[]} */ const parts = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    const { comment, string, number, word } = /** @type {Record<string, string | undefined>} */ (match.groups);
    const known = word !== undefined && WORDS.has(name === "sql" ? word.toLowerCase() : word);
    const kind = comment ? "comment" : string ? "string" : number ? "number" : known ? "word" : null;
    if (!kind) continue;
    if (match.index > at) parts.push(text.slice(at, match.index));
    parts.push(make("span", { class: `code-${kind}` }, match[0]));
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/** @param {string} text */
const diff = (text) =>
  text.split(/(?<=\n)/).map((line) => {
    const kind = { "+": "added", "-": "removed", "@": "comment" }[line[0]];
    return kind ? make("span", { class: `code-${kind}` }, line) : line;
  });
