// OP-65: the text of models, tools and users as Markdown that can do no harm.

import assert from "node:assert/strict";
import { test } from "node:test";
import { all } from "./document.js";
import { clean, make } from "../../src/http/ui/core/dom.js";
import { show } from "../../src/http/ui/parts/markdown.js";

function rendered(text) {
  const place = make("div");
  show(place, text);
  return place;
}

const outline = (text) => all(rendered(text)).map((element) => element.localName);

test("raw HTML stays text", () => {
  const place = rendered("<img src=x onerror=alert(1)> <script>alert(1)</script>");

  assert.deepEqual(all(place).map((element) => element.localName), ["p"]);
  assert.equal(place.textContent, "<img src=x onerror=alert(1)> <script>alert(1)</script>");
});

test("an image is a link, never loaded by itself", () => {
  const names = outline("![cat](https://example.org/cat.png)");

  assert.ok(!names.includes("img"));
  assert.ok(names.includes("a"));
});

test("only web and mail addresses become links", () => {
  for (const address of ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//example.org", "JaVaScRiPt:alert(1)"]) {
    assert.ok(!outline(`[x](${address})`).includes("a"), address);
  }
  for (const address of ["https://example.org/", "http://example.org/a", "mailto:a@example.org"]) {
    assert.ok(outline(`[x](${address})`).includes("a"), address);
  }
});

test("a link opens apart and shows where it really leads", () => {
  const place = rendered("[https://good.example](https://evil.example/)");
  const link = all(place).find((element) => element.localName === "a");

  assert.deepEqual(link.attributes, { href: "https://evil.example/", target: "_blank", rel: "noopener noreferrer" });
  assert.match(place.textContent, /https:\/\/evil\.example\//);
});

test("terminal codes and marks that turn text around are removed", () => {
  assert.equal(clean("\u001b[31mred\u001b[0m \u001b]0;title\u0007x \u202egnp.exe"), "red x gnp.exe");
});

test("the usual blocks", () => {
  assert.deepEqual(outline("# One\n\ntext **bold** `code`\n\n- a\n- b\n\n1. c\n\n> q\n\n---"), ["h3", "p", "strong", "code", "ul", "li", "li", "ol", "li", "blockquote", "p", "hr"]);
  assert.deepEqual(outline("|a|b|\n|-|-|\n|1|2|"), ["div", "table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]);
});

test("a fence that is still open is code", () => {
  const place = rendered("```js\nconst a = 1;");

  assert.equal(all(place).find((element) => element.localName === "pre").textContent, "const a = 1;");
});

test("blocks that did not change are kept while an answer grows", () => {
  const place = rendered("first\n\nsecond");
  const [first] = place.childNodes;

  show(place, "first\n\nsecond and more\n\nthird");

  assert.equal(place.childNodes[0], first);
  assert.equal(place.childNodes.length, 3);
});

// What grows with the square of the length would not come to an end in this time.
test("hostile text comes to an end", { timeout: 60_000 }, () => {
  for (const text of ["[".repeat(15_000), "*".repeat(15_000), "`".repeat(15_000), "_a".repeat(7_000), "> ".repeat(5_000), "![](".repeat(4_000)]) {
    assert.ok(rendered(text).childNodes.length > 0);
  }
});
