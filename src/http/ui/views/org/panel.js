// @ts-check
// One team beside the drawing: what it is for, what it is at right now, what went wrong, and what can be done about it.

import { may } from "../../core/api.js";
import { clean, coded, icon, make } from "../../core/dom.js";
import { money, since } from "../../core/format.js";
import { write } from "../../core/place.js";
import { live } from "../../live/live.js";
import { cell, pill, problem } from "../../parts/marks.js";
import { keyOfTeam } from "../chat/shelf.js";
import "../chat/working.js";
import { activity } from "./graph.js";

/** @param {any} node @param {() => void} onClose */
export function panel(node, onClose) {
  const name = clean(node.name);
  const running = [...live.state.running.values()].filter((turn) => turn.team === node.name);
  const trouble = node.fault || node.last_error?.message;
  return make(
    "aside",
    { class: "team-panel", "aria-label": `Team ${name}` },
    make(
      "header",
      {},
      cell(node.name),
      make("h2", {}, name),
      make("button", { type: "button", class: "icon-button", "aria-label": "Close", onclick: onClose }, icon("close")),
    ),
    node.description ? make("p", {}, clean(node.description)) : null,
    make("p", {}, pill(node.running ? "running" : node.state, activity(node))),
    node.usage_today?.usd ? make("p", { class: "muted" }, `${money(node.usage_today.usd)} today`) : null,
    trouble ? problem(coded(trouble)) : null,
    running.map((turn) =>
      make(
        "section",
        { key: turn.task_id },
        make(
          "p",
          { class: "muted" },
          make("a", { href: write("tasks", [turn.task_id]) }, "Task"),
          " begun ",
          since(turn.started_at),
        ),
        make("hw-working", { data: turn.task_id }),
      ),
    ),
    make(
      "div",
      { class: "choices" },
      make("a", { class: "button primary", href: write("team", [node.name]) }, "Open"),
      node.parent && may("operate")
        ? make("a", { class: "button", href: write("chat", [keyOfTeam(node.name)]) }, icon("chat"), "Talk to it")
        : null,
    ),
  );
}
