// Formulas as models write them.

import assert from "node:assert/strict";
import test from "node:test";
import "./document.js";
import { formula } from "../../src/http/ui/parts/maths.js";

/** Made the same way as others, whatever their vocabulary. */
globalThis.document.createElementNS ??= (_, tag) => globalThis.document.createElement(tag);

const outline = (node) =>
  node.localName ? `${node.localName}(${[...node.childNodes].map(outline).join(" ")})` : node.textContent;
const drawn = (text) => outline(formula(text, false)).replace(/^math\(mrow\((.*)\)\)$/, "$1");

test("usual formulas are drawn", () => {
  for (const [text, wanted] of [
    ["E = mc^2", "mi(E) mo(=) mi(m) msup(mi(c) mn(2))"],
    ["x_i^{n+1}", "msubsup(mi(x) mi(i) mrow(mi(n) mo(+) mn(1)))"],
    ["\\frac{1}{2}", "mfrac(mn(1) mn(2))"],
    ["\\sqrt[3]{\\alpha}", "mroot(mi(α) mn(3))"],
    ["\\sum_{i=1}^n i", "munderover(mo(∑) mrow(mi(i) mo(=) mn(1)) mi(n)) mi(i)"],
    ["\\left(a\\right]", "mrow(mo(() mi(a) mo(]))"],
    ["\\text{if } f'", "mtext(if) msup(mi(f) mo(′))"],
    [
      "\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}",
      "mrow(mo(() mtable(mtr(mtd(mi(a)) mtd(mi(b))) mtr(mtd(mi(c)) mtd(mi(d)))) mo()))",
    ],
  ])
    assert.equal(drawn(text), wanted, text);
});

test("what is not known or not closed stays as it was written", () => {
  for (const text of [
    "\\unknown{x}",
    "{a",
    "a}",
    "\\frac{1}",
    "\\left(a",
    "\\begin{matrix}a",
    "{".repeat(5000),
    "{".repeat(60) + "}".repeat(60),
  ])
    assert.equal(formula(text, true), null, text.slice(0, 20));
});
