// @ts-check
// A difference, line by line, with signs as well as colours.

import { clean, make } from "../core/dom.js";

/** A difference that the server made. @param {string} text */
export const diff = (text) =>
  make(
    "pre",
    { class: "diff", tabindex: "0", "aria-label": "Difference" },
    clean(text)
      .split("\n")
      .map((line) =>
        make("span", { class: line.startsWith("+") ? "added" : line.startsWith("-") ? "taken" : null }, `${line}\n`),
      ),
  );

/** The difference between two texts. @param {string} before @param {string} after */
export const between = (before, after) => diff(lines(linesOf(before), linesOf(after)).join("\n"));

/** A file that is not there yet has none. @param {string} text */
const linesOf = (text) => (text ? text.split("\n") : []);

const MOST = 1_500;

/** The longest common run of lines stays, the rest is marked. @param {string[]} a @param {string[]} b */
export function lines(a, b) {
  if (a.length > MOST || b.length > MOST) return [...a.map((line) => `- ${line}`), ...b.map((line) => `+ ${line}`)];
  const most = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1)
      most[i][j] = a[i] === b[j] ? most[i + 1][j + 1] + 1 : Math.max(most[i + 1][j], most[i][j + 1]);
  }
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push(`  ${a[i]}`);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && most[i + 1][j] >= most[i][j + 1])) {
      out.push(`- ${a[i]}`);
      i += 1;
    } else {
      out.push(`+ ${b[j]}`);
      j += 1;
    }
  }
  return out;
}
