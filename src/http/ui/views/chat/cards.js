// @ts-check
// What a turn says and does, block by block: text, thinking, notes, tool calls.

import { clean, icon, make, spinner } from "../../core/dom.js";
import { duration, pretty } from "../../core/format.js";
import { show, showFinished } from "../../parts/markdown.js";
import { outside } from "../../parts/marks.js";
import { showFiles } from "./files.js";

/** @param {any} block */
export function makeBlock(block) {
  if (block.kind === "tool") return new ToolCard(block);
  if (block.kind === "thinking") return new ThinkingCard();
  if (block.kind === "files") {
    const element = make("div", { class: "files" });
    return {
      kind: "files",
      call: block.call,
      element,
      update: (/** @type {any} */ { files }) => showFiles(element, files),
    };
  }
  const element = make(block.kind === "note" ? "p" : "div", { class: block.kind === "note" ? "note" : "markdown" });
  return {
    kind: block.kind,
    element,
    update: (/** @type {any} */ { text, over }) => {
      if (block.kind === "note") element.textContent = clean(text);
      else if (over) showFinished(element, text);
      else show(element, text);
    },
  };
}

/** What the model thought, folded away until someone wants to know. */
class ThinkingCard {
  constructor() {
    this.kind = "thinking";
    this.body = make("div", { class: "thinking-body" });
    this.brief = make("span", { class: "brief" });
    this.element = make(
      "details",
      { class: "thinking" },
      make("summary", {}, icon("chevron"), make("span", {}, "Thinking"), this.brief),
      this.body,
    );
  }

  /** @param {{text: string, busy: boolean}} block */
  update({ text, busy }) {
    const words = clean(text);
    this.body.textContent = words;
    this.brief.textContent = busy ? (words.trim().split("\n").at(-1) ?? "") : "";
  }
}

class ToolCard {
  /** @param {any} block */
  constructor(block) {
    this.kind = "tool";
    this.call = block.call;
    this.block = block;
    this.brief = make("span", { class: "brief" });
    this.mark = outside();
    this.state = make("span", { class: "tool-state" });
    this.args = make("pre", { tabindex: "0", "aria-label": "Arguments" });
    this.result = make("pre", { tabindex: "0", "aria-label": "Result" });
    this.resultPart = make("div", {}, make("h3", {}, "Result"), this.result);
    this.element = make(
      "details",
      { class: "tool" },
      make("summary", {}, icon("chevron"), make("code", {}, clean(block.tool)), this.brief, this.mark, this.state),
      make("div", { class: "tool-body" }, make("div", {}, make("h3", {}, "Arguments"), this.args), this.resultPart),
    );
  }

  /** @param {any} block */
  update(block) {
    this.block = block;
    this.element.dataset.state = stateOf(block);
    this.brief.textContent = brief(block.args);
    this.args.textContent = pretty(block.args);
    this.result.textContent = pretty(block.result);
    this.resultPart.hidden = !block.result;
    this.mark.hidden = !block.untrusted;
    this.tick();
  }

  tick() {
    const { ok, denied, ms, at, parked } = this.block;
    const time = ms === null ? "" : duration(ms);
    if (ok === null && parked) this.state.replaceChildren(icon("pause"), "Waiting");
    else if (ok === null) this.state.replaceChildren(spinner(), `Running ${duration(Math.max(100, Date.now() - at))}`);
    else if (ok === true)
      this.state.replaceChildren(icon("check"), make("span", { class: "hidden" }, "Done in "), time);
    else if (ok === "ended") this.state.replaceChildren("Ended");
    else if (denied) this.state.replaceChildren(icon("dash"), "Denied");
    else this.state.replaceChildren(icon("alert"), `Failed${time && ` · ${time}`}`);
  }
}

/** @param {{ok: boolean | "ended" | null, denied: boolean}} block */
function stateOf({ ok, denied }) {
  if (ok === null) return "running";
  if (ok === "ended") return ok;
  return ok ? "ok" : denied ? "denied" : "failed";
}

/** Arguments that say what a call is about; they come sorted by name, so the first is not always it. */
const TELLING = ["file_path", "command", "pattern", "task", "name"];

/** What a call is about. @param {string} args */
export function brief(args) {
  let value;
  try {
    value = JSON.parse(args);
  } catch {
    value = begun(args);
  }
  if (!value || typeof value !== "object") return clean(args).split("\n")[0];
  const telling = TELLING.find((name) => value[name] !== undefined);
  const first = telling
    ? value[telling]
    : Object.values(value).find((field) => ["string", "number"].includes(typeof field));
  return clean(first ?? "").split("\n")[0];
}

/** The texts among arguments that were cut, which are not JSON any more. @param {string} args */
function begun(args) {
  const texts = [...args.matchAll(/"(\w+)":\s*"((?:[^"\\]|\\.)*)/g)];
  return texts.length ? Object.fromEntries(texts.map(([, name, text]) => [name, text.replace(/\\n/g, "\n")])) : null;
}
