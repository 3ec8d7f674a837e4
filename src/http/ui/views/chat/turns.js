// @ts-check
// The conversation as elements: messages, streamed answers, notices.

import { may } from "../../core/api.js";
import { clean, copyButton, icon, make } from "../../core/dom.js";
import { dayWords, duration, moment, money } from "../../core/format.js";
import { load } from "../../core/load.js";
import { paint } from "../../core/paint.js";
import { write } from "../../core/place.js";
import { markdown, showFinished } from "../../parts/markdown.js";
import { makeBlock } from "./cards.js";
import { showFiles } from "./files.js";
import { hasEnded } from "./said.js";
import { joinOpening } from "./said.js";

/** Tools that give work to others; those of subagents bear their names. */
const GIVING = /^(delegate_task|query_team|spawn_team|escalate|send_message|agent__.*)$/;

/** Cards that few turns have, so they come when the page is of use already; what is shown of them before comes to life then. */
export const loadCards = () =>
  Promise.all([
    load("../../parts/approval.js", import.meta.url),
    load("../../parts/question.js", import.meta.url),
    load("./delegated.js", import.meta.url),
  ]).catch(() => {
    // The service is away; the next such card asks again, and so does the next connection.
  });

/** Keeps the elements in `container` equal to the items of a topic, touching only what changed. */
export class Turns {
  /** @param {HTMLElement} container @param {{onRetry: (turn: any) => void, onContinue: () => void, onEdit: (turn: any) => void, onDiscard: (turn: any) => void, onTakeBack: (turn: any) => void, onQuote: (text: string) => void, onBranch: (topic: string) => void}} acts */
  constructor(container, acts) {
    this.container = container;
    this.acts = acts;
    this.shown = new Map();
    /** Lines between days. @type {Map<string, HTMLElement>} */ this.days = new Map();
  }

  reset() {
    this.container.replaceChildren();
    this.shown.clear();
    this.days.clear();
  }

  /** @param {any[]} items @param {Map<string, {all: string[], at: number}>} forks messages that others stand beside */
  update(items, forks) {
    const wanted = new Set(items.map((item) => item.id));
    for (const [id, view] of this.shown) {
      if (wanted.has(id)) continue;
      view.element.remove();
      this.shown.delete(id);
    }
    let before = null;
    const put = (element) => {
      const place = before ? before.nextSibling : this.container.firstChild;
      if (place !== element) this.container.insertBefore(element, place);
      before = element;
    };
    // What was said today needs no line, unless something older stands before it.
    let last = dayOf(Date.now());
    const days = new Set();
    for (const item of items) {
      const day = dayOf(item.at);
      if (day !== last && !days.has(day)) {
        days.add(day);
        const line = this.days.get(day) ?? make("p", { class: "day" }, make("span", {}));
        this.days.set(day, line);
        // What was today is yesterday in a page that stays open.
        /** @type {Element} */ (line.firstElementChild).textContent = dayWords(item.at);
        put(line);
      }
      last = day;
      let view = this.shown.get(item.id);
      if (!view) {
        view = item.kind === "turn" ? new TurnView(item, this.acts) : new NoticeView(item);
        this.shown.set(item.id, view);
      }
      put(view.element);
      if (view.revision !== item.revision) {
        view.revision = item.revision;
        view.update?.(item);
      }
      view.showFork?.(forks.get(item.id));
    }
    for (const [day, element] of this.days) {
      if (days.has(day)) continue;
      element.remove();
      this.days.delete(day);
    }
  }

  /** Shows which message was looked for. @param {string} id */
  point(id) {
    const { element } = this.shown.get(id);
    element.setAttribute("data-found", "");
    element.scrollIntoView({ block: "start" });
  }

  /** The clocks of running calls. */
  tick(items) {
    for (const item of items) {
      if (item.kind === "turn" && !hasEnded(item)) this.shown.get(item.id)?.tick(item);
    }
  }
}

/** @param {number} at */
const dayOf = (at) => new Date(at).toDateString();

class NoticeView {
  /** @param {any} notice */
  constructor(notice) {
    this.revision = -1;
    const bad = ["failed", "dead", "expired", "denied"].includes(notice.status);
    const label = `Notice from ${clean(notice.team)}`;
    // What a person is asked for is answered where it is asked.
    const asked = { approval: "hw-approval", question: "hw-question" }[/** @type {string} */ (notice.about)];
    if (asked && notice.ref) {
      loadCards();
      this.element = make(
        "article",
        { class: "notice asks", "aria-label": label },
        make(asked, { "data-id": notice.ref }),
      );
      return;
    }
    const body = make("div", { class: "markdown" });
    // Whose it is stands above it.
    const own = `[${notice.team}] `;
    showFinished(body, notice.content.startsWith(own) ? notice.content.slice(own.length) : notice.content);
    const files = make("div", { class: "files" });
    showFiles(files, notice.files);
    this.element = make(
      "article",
      { class: "notice", "data-bad": bad, "aria-label": label },
      icon(bad ? "alert" : "bell"),
      make(
        "div",
        { class: "notice-body" },
        make("p", { class: "notice-head" }, `${clean(notice.team)} · ${clean(notice.status)} · `, moment(notice.at)),
        body,
        files,
        notice.task && may("read") ? chainLink(notice.task) : null,
      ),
    );
  }
}

class TurnView {
  /** @param {any} turn @param {Turns["acts"]} acts */
  constructor(turn, acts) {
    this.acts = acts;
    this.blocks = [];
    this.answer = make("div", { class: "answer" });
    this.foot = make("div", { class: "foot" });
    this.element = make("article", { class: "turn", "data-message": turn.id });
    if (turn.text) {
      // A person's text is shown as it was written; a script of the demo reads better in equal widths.
      const bubble = make("div", { class: turn.text.startsWith("#") ? "bubble script" : "bubble" });
      bubble.textContent = clean(turn.text);
      this.mark = make("span", { class: "sent" });
      this.fork = make("span", { class: "fork", hidden: true });
      this.files = make("div", { class: "files", hidden: true });
      this.element.append(
        make(
          "div",
          { class: "said" },
          make("h2", { class: "hidden" }, "You"),
          bubble,
          this.files,
          this.mark,
          this.fork,
        ),
      );
    }
    this.below = make("div", { class: "below" });
    this.element.append(make("h2", { class: "hidden" }, "Answer"), this.answer, this.below, this.foot);
  }

  update(turn) {
    this.element.dataset.status = turn.status;
    this.element.setAttribute("aria-busy", String(!hasEnded(turn)));
    if (this.mark) paint(this.mark, this.marks(turn));
    if (this.files) showFiles(this.files, turn.files);
    const over = hasEnded(turn);
    this.updateBlocks(shownBlocks(turn).map((block) => ({ ...block, over })));
    this.showDelegated(turn);
    paint(this.foot, this.footOf(turn));
    this.clock = this.foot.querySelector(".clock");
    this.tick(turn);
  }

  /** What stands below a message. @param {any} turn */
  marks(turn) {
    if (turn.status === "sending") return ["Sending… ", this.link(turn, "Discard", this.acts.onDiscard)];
    if (turn.status === "unconfirmed") return "Not confirmed";
    const takesBack = turn.status === "queued" && turn.task && may("operate");
    return [
      takesBack ? this.link(turn, "Take back", this.acts.onTakeBack) : "",
      hasEnded(turn) && !turn.refused ? this.link(turn, "Edit", this.acts.onEdit) : "",
      moment(turn.at),
    ];
  }

  /** Which of the messages that stand here is shown, and the way to the others. @param {{all: string[], at: number} | undefined} fork */
  showFork(fork) {
    const shown = fork ? `${fork.at} ${fork.all}` : "";
    if (!this.fork || this.forked === shown) return;
    this.forked = shown;
    this.fork.hidden = !fork;
    if (!fork) return;
    const way = (/** @type {string} */ to, /** @type {string} */ mark, /** @type {string} */ word) =>
      make(
        "button",
        { type: "button", class: "link", "aria-label": word, disabled: !to, onclick: () => this.acts.onBranch(to) },
        mark,
      );
    this.fork.replaceChildren(
      way(fork.all[fork.at - 1], "‹", "Earlier version"),
      ` ${fork.at + 1} of ${fork.all.length} `,
      way(fork.all[fork.at + 1], "›", "Later version"),
    );
  }

  updateBlocks(blocks) {
    blocks.forEach((block, at) => {
      if (this.blocks[at]?.kind !== block.kind || this.blocks[at].call !== block.call) {
        while (this.blocks.length > at) this.blocks.pop().element.remove();
        const view = makeBlock(block);
        this.blocks.push(view);
        this.answer.append(view.element);
      }
      this.blocks[at].update(block);
    });
    while (this.blocks.length > blocks.length) this.blocks.pop().element.remove();
  }

  /** Work that this turn gave to others, nested below it. @param {any} turn */
  showDelegated(turn) {
    const gives =
      turn.task && turn.blocks.some((/** @type {any} */ block) => block.kind === "tool" && GIVING.test(block.tool));
    if (!gives || this.below.firstChild) return;
    loadCards();
    this.below.append(make("hw-delegated", { "data-root": turn.task }));
  }

  tick(turn) {
    for (const view of this.blocks) view.tick?.();
    if (this.clock) this.clock.textContent = duration(Math.max(0, Date.now() - turn.at)).replace(/\d+ ms/, "0.1 s");
  }

  /** @param {any} turn @param {string} word @param {(turn: any) => void} act */
  link(turn, word, act) {
    return make("button", { key: word, type: "button", class: "link", onclick: () => act(turn) }, word);
  }

  footOf(turn) {
    // How long that takes is up to whoever it waits for.
    if (turn.status === "running" && turn.parked)
      return [make("span", { class: "working", "data-queued": true }, icon("pause"), "Waiting")];
    if (turn.status === "running" || turn.status === "queued") {
      const queued = turn.position ? `Queued, ${turn.position} before it` : "Waiting for the team";
      const word = turn.waiting || (turn.status === "queued" ? queued : "Working");
      return [
        make(
          "span",
          { class: "working", "data-queued": turn.status === "queued" },
          make("span", { class: "pulse", "aria-hidden": "true" }),
          clean(word).replace(/\.$/, ""),
        ),
        make("span", { class: "clock" }),
      ];
    }
    if (turn.status === "sending") return [];
    const discard = this.link(turn, "Discard", this.acts.onDiscard);
    const again = (/** @type {string} */ word) => this.link(turn, word, this.acts.onRetry);
    if (turn.status === "unconfirmed")
      return [
        make(
          "div",
          { class: "problem" },
          icon("alert"),
          make(
            "div",
            {},
            "The connection ended before this was confirmed, so it may or may not have been worked on. ",
            again("Send again"),
            " ",
            discard,
          ),
        ),
      ];
    if (turn.status === "unknown") return [make("span", {}, "It was answered, but the answer is no longer kept.")];
    const parts = [];
    if (turn.status === "failed") {
      const below = make(
        "div",
        {},
        make("code", {}, clean(turn.error.code)),
        " ",
        ...(turn.text
          ? turn.refused
            ? [again("Try again"), " ", this.link(turn, "Edit", this.acts.onEdit), " ", discard]
            : [again("Try again")]
          : []),
      );
      parts.push(
        make(
          "div",
          { class: "problem", role: "alert" },
          icon("alert"),
          make("div", {}, markdown(turn.error.text), below),
        ),
      );
    }
    const unbegun = turn.status === "cancelled" && !turn.blocks.length && !turn.usage?.input;
    if (turn.status === "cancelled") parts.push(make("span", { class: "tag" }, unbegun ? "Not begun" : "Stopped"));
    if (turn.joined) parts.push(make("span", {}, "Added to the work that was running"));
    if (turn.truncated)
      parts.push(
        make(
          "span",
          { class: "cut" },
          "The answer was cut here. ",
          make("button", { type: "button", class: "link", onclick: () => this.acts.onContinue() }, "Go on"),
        ),
      );
    const words = unbegun ? "" : usageWords(turn);
    if (words) parts.push(make("span", { class: "usage" }, words));
    const texts = turn.blocks.filter((block) => block.kind === "text");
    const whole = () => texts.map((block) => block.text).join("\n\n");
    if (texts.length)
      parts.push(
        copyButton("Copy", whole),
        footButton("Quote", "chat", () => this.acts.onQuote(whole())),
      );
    if (turn.text && turn.status !== "failed")
      parts.push(footButton("Ask again", "again", () => this.acts.onRetry(turn)));
    if (turn.task && may("read")) parts.push(chainLink(turn.task));
    return parts;
  }
}

/** The way to all that led to a task. @param {string} task */
const chainLink = (task) =>
  make(
    "a",
    { key: "chain", class: "copy", href: write("tasks", [task, "chain"]) },
    icon("history"),
    "What led to this",
  );

/** @param {string} word @param {string} picture @param {() => void} onclick */
const footButton = (word, picture, onclick) =>
  make("button", { key: word, type: "button", class: "copy", onclick }, icon(picture), word);

function usageWords(turn) {
  const words = [];
  if (turn.usage) {
    words.push(`${turn.usage.input.toLocaleString()} tokens in`, `${turn.usage.output.toLocaleString()} out`);
    if (typeof turn.usage.cost_usd === "number") words.push(money(turn.usage.cost_usd));
  }
  if (turn.ended && turn.status !== "failed") words.push(duration(Math.max(0, turn.ended - turn.at)));
  return words.join(" · ");
}

/** What the turn shows so far, the words of the ack included, and behind a call what it gave to the person. */
function shownBlocks(turn) {
  const thought = turn.thinking ? [{ kind: "thinking", text: turn.thinking, busy: !hasEnded(turn) }] : [];
  // Work that goes on may have to wait for the same again, and then nobody says what for a second time.
  const told = turn.blocks.filter((/** @type {any} */ block) => turn.parked || !block.waits);
  const blocks = told.flatMap((/** @type {any} */ block) => [
    block.kind === "tool" ? { ...block, parked: turn.parked } : block,
    ...(block.files?.length ? [{ kind: "files", call: block.call, files: block.files }] : []),
  ]);
  if (!turn.opening) return [...thought, ...blocks];
  const at = blocks.findIndex((block) => block.kind === "text");
  if (at < 0) return [...thought, { kind: "text", text: turn.opening }, ...blocks];
  return [
    ...thought,
    ...blocks.map((block, index) => (index === at ? { ...block, text: joinOpening(turn.opening, block.text) } : block)),
  ];
}
