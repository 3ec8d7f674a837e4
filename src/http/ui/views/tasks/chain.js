// @ts-check
// What led to a task, and what came of the same cause: drawn or listed in the order of time, to walk through with the arrow keys.

import { get, part, upTo } from "../../core/api.js";
import { clean, draw, icon, make } from "../../core/dom.js";
import { duration, money, several, when, words } from "../../core/format.js";
import { here, write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { segments } from "../../parts/fields.js";
import { button, cell, crumb, head, hue, outside, pill } from "../../parts/marks.js";
import { BOX_HEIGHT, BOX_WIDTH, HEAD, LANE, OUTSIDE, causes, drawing, laneOf, leading } from "./causes.js";
import { cost, title } from "./task.js";

/** One cause leads to no more tasks than this. */
const MOST = 1_000;
const STEPS = /** @type {Record<string, number>} */ ({ ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 });
const LONGEST = 19;
const narrow = matchMedia("(max-width: 760px)");

/** @typedef {import("./causes.js").Cause} Cause */

/** What it is. @param {Cause} cause */
function name({ kind, task }) {
  if (kind === "message") return `Message of ${clean(task.created_by)}`;
  if (kind === "trigger") return clean(task.created_by);
  if (kind === "order") return `Order of ${clean(task.created_by)}`;
  if (kind === "notice") return "Notification";
  if (kind === "result") return `Result of ${clean(task.team)}`;
  return `${task.type === "result" ? "Result read by" : "Task of"} ${clean(task.team)}`;
}

/** What was said. @param {Cause} cause */
const said = ({ kind, task }) =>
  kind === "result" || kind === "notice" ? task.outcome.result || task.outcome.error?.message || "" : task.body;

/** Where it is to be seen. @param {Cause} cause */
function placeOf({ kind, task }) {
  if (kind === "trigger") return write("triggers", [], { team: task.team });
  if ((kind === "message" || kind === "notice") && task.topic_id) return write("chat", [task.topic_id]);
  return write("tasks", [task.id]);
}

/** @param {Cause} cause */
const price = ({ kind, task }) => (kind === "result" && cost(task) !== null ? money(cost(task)) : "");

/** @param {Cause} cause */
const isUntrusted = ({ task }) => task.label === "untrusted";

/** @param {Cause} cause */
const state = ({ kind, task }) => (kind === "result" || (kind === "task" && !task.outcome) ? task.state : "");

class Chain extends View {
  chosen = "";

  begin() {
    this.tasks = this.source(async (signal) => {
      const task = await get(`/tasks/${part(this.chosen)}`, {}, signal);
      return { root: task.lineage.root, ...(await upTo("/tasks", { root: task.lineage.root }, MOST, signal)) };
    });
    this.on(["task.changed"], ({ detail }) => detail.root === this.tasks?.data?.root && this.tasks?.soon());
    narrow.addEventListener("change", () => this.update(), { signal: this.lifetime.signal });
  }

  /** Also of a view that is there already, at another place of the same chain. @param {string} id */
  set data(id) {
    this.chosen = id;
    this.place = here();
    if (this.isConnected) this.update();
  }

  get data() {
    return this.chosen;
  }

  render() {
    return [
      crumb("tasks", "Tasks"),
      head(
        "What led to this",
        "Messages, tasks, results and notifications of one cause, in the order of time. The arrow keys go through them, Enter opens one.",
        make("a", { class: "button", href: write("tasks", [this.chosen]) }, icon("tasks"), "The task"),
      ),
      this.tasks?.show(({ rows, next }) => this.page(causes(rows), next)),
    ];
  }

  /** @param {Cause[]} all @param {string | null} next */
  page(all, next) {
    if (!all.length) return make("p", { class: "muted" }, "Nothing is kept of it.");
    const { at: wanted = this.chosen, as } = this.place.query;
    const place = Math.max(
      0,
      all.findIndex((cause) => cause.id === wanted),
    );
    const shown = narrow.matches ? "list" : (as ?? "graph");
    const led = leading(all, all[place].id);
    const move = (/** @type {KeyboardEvent} */ event) => {
      if (!(/** @type {Element} */ (event.target).closest("[data-now]"))) return;
      const to = { Home: 0, End: all.length - 1 }[event.key] ?? (event.key in STEPS ? place + STEPS[event.key] : -1);
      if (to < 0 || to >= all.length) return;
      event.preventDefault();
      this.go(all[to], true);
    };
    return [
      make(
        "div",
        { class: "bar" },
        narrow.matches
          ? null
          : segments(
              "Form",
              [
                ["graph", "Graph"],
                ["list", "List"],
              ],
              shown,
              (form) => this.filter({ as: form === "graph" ? "" : form }),
            ),
        make(
          "div",
          { class: "cause-place push" },
          button("Earlier", "back", () => this.go(all[place - 1]), { disabled: place === 0 }),
          make("span", { class: "muted", "aria-live": "polite" }, `${place + 1} of ${all.length}`),
          button("Later", "chevron", () => this.go(all[place + 1]), { disabled: place === all.length - 1 }),
        ),
      ),
      next ? make("p", { class: "muted" }, `Only the newest ${several(MOST, "task")} are shown.`) : null,
      make(
        "div",
        { class: "cause-row", onkeydown: move },
        shown === "graph" ? this.graph(all, place, led) : this.list(all, place, led),
        this.detail(all, place),
      ),
    ];
  }

  /** @param {Cause | undefined} cause @param {boolean} [focus] the one that is gone to gets it */
  go(cause, focus = false) {
    if (!cause) return;
    this.filter({ at: cause.id });
    queueMicrotask(() => {
      const now = /** @type {HTMLElement | null} */ (this.querySelector("[data-now]"));
      if (focus) now?.focus({ preventScroll: true });
      now?.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }

  /** What both forms say of one. @param {Cause} cause @param {number} at @param {number} place @param {Set<string>} led */
  marks(cause, at, place, led) {
    return {
      key: cause.id,
      href: placeOf(cause),
      // One stop for the tab key; the arrow keys go on from there.
      tabindex: at === place ? "0" : "-1",
      "aria-current": at === place ? "step" : null,
      "data-now": at === place,
      "data-led": led.has(cause.id),
      "data-later": at > place,
    };
  }

  /** @param {Cause[]} all @param {number} place @param {Set<string>} led */
  graph(all, place, led) {
    const { lanes, placed, edges, width, height } = drawing(all);
    const [w, h] = [BOX_WIDTH / 2, BOX_HEIGHT / 2];
    return make(
      "div",
      { class: "cause-frame" },
      draw(
        "svg",
        { class: "causes", width, height, role: "group", "aria-label": "What led to what. The list has the same." },
        lanes.map((lane, at) => [
          draw("line", { class: "lane", x1: LANE * (at + 0.5), x2: LANE * (at + 0.5), y1: HEAD, y2: height }),
          draw("text", { class: "lane-name", x: LANE * (at + 0.5), y: 20 }, cut(lane === OUTSIDE ? "Outside" : lane)),
        ]),
        edges.map(({ from, to }) => {
          const [start, end] = [from.y + h, to.y - h - 3];
          const middle = (start + end) / 2;
          return draw("path", {
            class: "cause-edge",
            "data-led": led.has(to.cause.id),
            d: `M${from.x} ${start} C${from.x} ${middle}, ${to.x} ${middle}, ${to.x} ${end}`,
          });
        }),
        placed.map(({ cause, x, y }, at) =>
          draw(
            "a",
            {
              ...this.marks(cause, at, place, led),
              class: "cause",
              transform: `translate(${x - w} ${y - h})`,
              "aria-label": spoken(cause),
              "data-hue": laneOf(cause) === OUTSIDE ? null : hue(cause.task.team),
            },
            draw("title", {}, `${clock(cause)} · ${new Date(cause.at).toISOString()}\n${clean(said(cause))}`),
            draw("rect", { width: BOX_WIDTH, height: BOX_HEIGHT, rx: 10 }),
            draw("text", { class: "cause-name", x: 12, y: 19 }, cut(name(cause))),
            draw("text", { class: "cause-facts", x: 12, y: 36 }, facts(cause)),
          ),
        ),
      ),
    );
  }

  /** @param {Cause[]} all @param {number} place @param {Set<string>} led */
  list(all, place, led) {
    return make(
      "ol",
      { class: "cause-list" },
      all.map((cause, at) =>
        make(
          "li",
          { key: cause.id, "data-depth": Math.min(cause.depth, 6) },
          make(
            "a",
            { ...this.marks(cause, at, place, led), class: "chain-node" },
            cell(laneOf(cause) || cause.task.created_by),
            make(
              "span",
              { class: "chain-word" },
              make("strong", {}, name(cause)),
              make("span", {}, clean(title(said(cause)))),
            ),
            state(cause) ? pill(state(cause)) : null,
            isUntrusted(cause) ? outside() : null,
            make("span", { class: "muted number" }, [clock(cause), price(cause)].filter(Boolean).join(" · ")),
          ),
        ),
      ),
    );
  }

  /** Where one stands, in words. @param {Cause[]} all @param {number} place */
  detail(all, place) {
    const cause = all[place];
    const passed = all.slice(0, place + 1).filter(({ kind, task }) => kind === "result" && cost(task) !== null);
    const spent = passed.reduce((sum, { task }) => sum + cost(task), 0);
    return make(
      "section",
      { class: "panel cause-now" },
      make("h2", {}, name(cause)),
      make(
        "p",
        { class: "ask-line" },
        state(cause) ? pill(state(cause)) : null,
        isUntrusted(cause) ? outside() : null,
        when(cause.at),
      ),
      make(
        "div",
        { class: "cause-said", tabindex: "0", role: "group", "aria-label": "What was said" },
        clean(said(cause)) || "Nothing was said.",
      ),
      make(
        "p",
        { class: "muted" },
        [
          place ? `${duration(cause.at - all[0].at)} after the beginning` : "The beginning",
          cause.kind === "result" ? `took ${duration(cause.task.outcome.duration_ms)}` : "",
          price(cause) ? `cost ${price(cause)}` : "",
          passed.length ? `${money(spent)} so far` : "",
          words(cause.task.label),
        ]
          .filter(Boolean)
          .join(" · "),
      ),
      make("a", { class: "button small", href: placeOf(cause) }, "Open"),
    );
  }
}

/** @param {Cause} cause */
const clock = ({ at }) =>
  new Date(at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The second line of a box. @param {Cause} cause */
const facts = (cause) =>
  [clock(cause), state(cause), price(cause), isUntrusted(cause) ? "! untrusted" : ""].filter(Boolean).join(" · ");

/** @param {Cause} cause */
const spoken = (cause) => `${name(cause)}, ${facts(cause).replace("! ", "")}: ${clean(title(said(cause)))}`;

/** As much of a name as a box has room for. @param {string} text */
const cut = (text) => (text.length > LONGEST ? `${clean(text).slice(0, LONGEST - 1)}…` : clean(text));

customElements.define("hw-chain", Chain);
