// Shows each example of a specification as the page shows a finished message, and says which look other than they should.
// Run in the page, with `examples` as `[number, text, html]` and `done` to be called.

const MARKS = new Set("BLOCKQUOTE EM STRONG DEL LI HR P TABLE THEAD TBODY TR".split(" "));

const decoded = (address) => {
  try {
    return decodeURIComponent(address);
  } catch {
    return address;
  }
};

/** An address as it is compared: what may be followed as the browser reads it, the rest as it was written. */
function place(address) {
  const url = URL.canParse(address) ? new URL(address) : null;
  const leads = url && ["http:", "https:", "mailto:"].includes(url.protocol);
  return leads ? `to ${decoded(url.href)}` : `refused ${decoded(address)}`;
}

const inside = (node) => [...node.childNodes].map(meaning).join("");

/** What a node of either side means, written so that equal things are equal. */
function meaning(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data.replace(/\s+/g, " ");
  const name = node.nodeName;
  if (name === "FIGURE" || name === "PRE") {
    const language = node.querySelector("figcaption span")?.textContent.replace(/^text$/, "");
    const code = node.querySelector("code") ?? node;
    const given = code.className.replace("language-", "");
    const text = code.textContent.replace(/\n$/, "");
    return `⟦code ${name === "FIGURE" ? language : given}|${text}⟧`;
  }
  if (name === "IMG") return `⟦${place(node.getAttribute("src"))}|${node.alt || "image"}⟧`;
  if (name === "A") return `⟦${place(node.getAttribute("href"))}|${inside(node)}⟧`;
  if (node.className === "refused") return `⟦${place(node.title)}|${inside(node)}⟧`;
  if (node.className === "address" || name === "FIGCAPTION") return "";
  if (name === "SPAN" || name === "DIV") return inside(node);
  if (name === "BR") return "⟦br⟧";
  if (name === "CODE") return `⟦code|${node.textContent}⟧`;
  if (name === "INPUT") return `⟦${node.checked ? "x" : "o"}⟧`;
  if (name === "UL" || name === "OL") return `⟦${name} ${node.getAttribute("start") ?? 1}|${inside(node)}⟧`;
  if (name === "TH" || name === "TD")
    return `⟦${name} ${node.dataset.align ?? node.getAttribute("align") ?? ""}|${inside(node)}⟧`;
  const level = /^H([1-6])$/.exec(name);
  if (level)
    return `⟦H${node.ownerDocument === document ? level[1] : Math.min(6, Number(level[1]) + 2)}|${inside(node)}⟧`;
  if (MARKS.has(name)) return `⟦${name}|${inside(node)}⟧`;
  return `⟦unknown ${name}|${inside(node)}⟧`;
}

/** Blanks at the edges of blocks mean nothing. */
const compared = (node) =>
  inside(node)
    .replace(/\s*(⟦|⟧|\|)\s*/g, "$1")
    .trim();

/** So many at a time, fewer than the page keeps. */
const MOST = 100;

async function differing(examples) {
  const base = document.querySelector("link[rel=modulepreload][href*='core/api.js']").href.replace("core/api.js", "");
  const { showFinished } = await import(`${base}parts/markdown.js`);
  const { known } = await import(`${base}parts/finished.js`);
  const shown = examples.map(([number, text, html]) => {
    const element = document.createElement("div");
    showFinished(element, text);
    return { number, text, html, element };
  });
  const { clean } = await import(`${base}core/dom.js`);
  const waits = () => shown.some(({ text }) => clean(text).trim() && !known(clean(text)));
  while (waits()) await new Promise((resolve) => setTimeout(resolve, 20));
  return shown.flatMap(({ number, text, html, element }) => {
    // The page allows no styles of its texts.
    const plain = html.replace(/ style="[^"]*"/g, "").replace(/<style[^]*?(<\/style>|$)/g, "");
    const wanted = compared(new DOMParser().parseFromString(plain, "text/html").body);
    const found = compared(element);
    return wanted === found ? [] : [[number, text, wanted, found]];
  });
}

async function all() {
  const found = [];
  for (let at = 0; at < examples.length; at += MOST) found.push(...(await differing(examples.slice(at, at + MOST))));
  return found;
}

all().then(done, (error) => done(String(error)));
