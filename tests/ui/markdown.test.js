// OP-65: the text of models, tools and users as Markdown that can do no harm.

import assert from "node:assert/strict";
import { test } from "node:test";
import { all } from "./document.js";
import { clean, make } from "../../src/http/ui/core/dom.js";
import { parsed } from "../../src/http/ui/parts/finished.js";
import { show } from "../../src/http/ui/parts/markdown.js";

function rendered(text) {
  const place = make("div");
  show(place, text);
  return place;
}

const outline = (text) => all(rendered(text)).map((element) => element.localName);

test("raw HTML stays text", () => {
  const place = rendered("<img src=x onerror=alert(1)> <script>alert(1)</script>");

  assert.deepEqual(
    all(place).map((element) => element.localName),
    ["p"],
  );
  assert.equal(place.textContent, "<img src=x onerror=alert(1)> <script>alert(1)</script>");
});

test("an image is a link, never loaded by itself", () => {
  const names = outline("![cat](https://example.org/cat.png)");

  assert.ok(!names.includes("img"));
  assert.ok(names.includes("a"));
});

test("only web and mail addresses become links", () => {
  for (const address of [
    "javascript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "//example.org",
    "JaVaScRiPt:alert(1)",
  ]) {
    assert.ok(!outline(`[x](${address})`).includes("a"), address);
  }
  for (const address of ["https://example.org/", "http://example.org/a", "mailto:a@example.org"]) {
    assert.ok(outline(`[x](${address})`).includes("a"), address);
  }
});

test("a link opens apart and shows where it really leads", () => {
  const place = rendered("[https://good.example](https://evil.example/)");
  const link = all(place).find((element) => element.localName === "a");

  assert.deepEqual(Object.fromEntries(link.attributes.map(({ name, value }) => [name, value])), {
    href: "https://evil.example/",
    target: "_blank",
    rel: "noopener noreferrer",
    title: "https://evil.example/",
  });
  assert.match(place.textContent, /https:\/\/evil\.example\//);
});

test("terminal codes and marks that turn text around are removed", () => {
  assert.equal(clean("\u001b[31mred\u001b[0m \u001b]0;title\u0007x \u202egnp.exe"), "red x gnp.exe");
});

test("the usual blocks", () => {
  assert.deepEqual(outline("# One\n\ntext **bold** `code`\n\n- a\n- b\n\n1. c\n\n> q\n\n---"), [
    "h3",
    "p",
    "strong",
    "code",
    "ul",
    "li",
    "li",
    "ol",
    "li",
    "blockquote",
    "p",
    "hr",
  ]);
  assert.deepEqual(outline("|a|b|\n|-|-|\n|1|2|"), [
    "div",
    "table",
    "thead",
    "tr",
    "th",
    "th",
    "tbody",
    "tr",
    "td",
    "td",
  ]);
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

test("marks that do not belong to a heading's words are cut off", () => {
  const [plain, closed, sharp, empty] = ["# One", "## Two ##  ", "### C#", "# #"].map(
    (line) => rendered(line).childNodes[0],
  );

  assert.deepEqual(
    [plain, closed, sharp, empty].map((made) => [made.localName, made.textContent]),
    [
      ["h3", "One"],
      ["h4", "Two"],
      ["h5", "C#"],
      ["h3", ""],
    ],
  );
});

test("marks within words, without an end or beside a blank stay text", () => {
  for (const text of [
    "snake_case_name",
    "a__b__c",
    "2 ** 3 ** 4",
    "**open",
    "~~ no ~~",
    "` open",
    "``a`",
    "[a](b",
    "[a] (b)",
    "![a](<",
  ]) {
    assert.deepEqual([outline(text), rendered(text).textContent], [["p"], text]);
  }
  assert.deepEqual(outline('**a** __b__ ~~c~~ *d* _e_ ``f ` g`` [h](<https://example.org/(x)> "title")  \nend'), [
    "p",
    "strong",
    "strong",
    "del",
    "em",
    "em",
    "code",
    "span",
    "a",
    "span",
  ]);
});

test("a line that is too long is shown as it is", () => {
  const line = `# ${"x".repeat(20_000)}`;

  assert.deepEqual([outline(`${line}\n\n# One`), rendered(line).textContent], [["p", "h3"], line]);
});

// No time is measured: what grows with the square of the length, or its third power, would not come to an end in these sizes
// for many minutes.
test("hostile text comes to an end", { timeout: 300_000 }, () => {
  const blocks = (text, times) => Array(times).fill(text).join("\n\n");
  const staircase = Array.from({ length: 190 }, (_, length) => "`".repeat(length + 1)).join(" ");
  for (const text of [
    ...[
      "[".repeat(15_000),
      "*".repeat(15_000),
      "`".repeat(15_000),
      "_a".repeat(7_000),
      "> ".repeat(5_000),
      "![](".repeat(4_000),
    ],
    blocks(`# x${" ".repeat(9_900)}y`, 20),
    blocks(`\`\`\`${" ".repeat(9_900)}\``, 1_000),
    blocks(`~~~${"~".repeat(9_900)}\``, 50),
    blocks(`a|b\n|-${" ".repeat(9_900)}x`, 1_000),
    blocks(`- ${" ".repeat(9_900)}x\u2028y`, 1_000),
    `${" ".repeat(9_900)}- a\n${"- b\n".repeat(30_000)}`,
    ...["**a ", "~~a ", "__a ", "*a ", "_a ", "[a](", "\\`` ", "`**` "].map((marks) =>
      blocks(marks.repeat(5_000).slice(0, 19_990), 200),
    ),
    blocks(`[](${" ".repeat(19_900)}x`, 200),
    blocks(`a${" ".repeat(19_900)}b`, 200),
    blocks(staircase, 200),
  ]) {
    assert.ok(rendered(text).childNodes.length > 0);
  }
});

test("a finished text is drawn by the service also when that was away as it ended", async (t) => {
  const away = [new TypeError("refused"), { ok: false, status: 503, json: async () => ({}) }];
  const blocks = [{ kind: "rule" }];
  t.mock.method(globalThis, "fetch", async () => {
    const answer = away.shift();
    if (answer instanceof Error) throw answer;
    return answer ?? { ok: true, status: 200, json: async () => ({ data: [{ blocks }] }) };
  });
  t.mock.timers.enable({ apis: ["setTimeout"] });

  let drawn;
  parsed("---", (tree) => (drawn = tree));
  for (let pause = 0; pause < 8 && !drawn; pause += 1) {
    t.mock.timers.tick(1_000);
    for (let step = 0; step < 20; step += 1) await null;
  }

  assert.deepEqual(drawn, blocks);
});
