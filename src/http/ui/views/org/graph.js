// @ts-check
// The tree of teams as a drawing: cells of a comb, joined by who is above whom. It can be moved, zoomed and folded.

import { clean, draw, make } from "../../core/dom.js";
import { money, several } from "../../core/format.js";
import { hue } from "../../parts/marks.js";
import { layout } from "./layout.js";

const R = 34;
/** What stands below a cell ends here. */
const FOOT = 46;
/** The corners of a cell. @param {number} r */
const corners = (r) =>
  [0, 1, 2, 3, 4, 5]
    .map((i) => `${(r * Math.sin((i * Math.PI) / 3)).toFixed(1)},${(-r * Math.cos((i * Math.PI) / 3)).toFixed(1)}`)
    .join(" ");

/** What a team is at, in words. @param {any} node */
export function activity(node) {
  const waiting = node.waiting ?? 0;
  const queued = node.pending - waiting;
  const parts = [
    node.running ? `${node.running} running` : "",
    queued ? `${queued} queued` : "",
    waiting ? `${waiting} waiting` : "",
  ].filter(Boolean);
  if (["paused", "degraded", "draining"].includes(node.state)) return [node.state, ...parts].join(" · ");
  if (node.phase === "initializing") return ["setting up", ...parts].join(" · ");
  return parts.join(" · ") || "idle";
}

/**
 * @param {any} root
 * @param {{folded: Set<string>, found: string, view: {x: number, y: number, zoom: number}, onOpen: (name: string) => void, onFold: (name: string) => void, onMove: () => void}} options
 */
export function graph(root, { folded, found, view, onOpen, onFold, onMove }) {
  const { placed, edges, width, height } = layout(root, folded);
  // Few teams are not drawn larger than many.
  const [w, h] = [Math.max(width, 860), Math.max(height, 400)];
  const shift = (w - width) / 2;
  const svg = draw(
    "svg",
    {
      class: "comb",
      viewBox: `${view.x} ${view.y} ${w / view.zoom} ${h / view.zoom}`,
      role: "group",
      "aria-label": "Organisation, drawn. The list has the same.",
      preserveAspectRatio: "xMidYMid meet",
      onpointerdown: drag,
    },
    edges.map(({ from, to }) => {
      const middle = (from.y + to.y) / 2;
      return draw("path", {
        class: "edge",
        "data-busy": to.node.running > 0,
        d: `M${from.x + shift} ${from.y + R + FOOT} C${from.x + shift} ${middle + 38}, ${to.x + shift} ${middle + 2}, ${to.x + shift} ${to.y - R - 6}`,
      });
    }),
    placed.map((at) => cell(at, shift, found, onOpen, onFold)),
  );
  return svg;

  /** @param {PointerEvent} event */
  function drag(event) {
    if (/** @type {Element} */ (event.target).closest("[tabindex]")) return;
    const box = svg.getBoundingClientRect();
    const scale = Math.max(w / view.zoom / box.width, h / view.zoom / box.height);
    const from = { x: event.clientX, y: event.clientY, vx: view.x, vy: view.y };
    const move = (/** @type {PointerEvent} */ now) => {
      view.x = from.vx - (now.clientX - from.x) * scale;
      view.y = from.vy - (now.clientY - from.y) * scale;
      onMove();
    };
    const end = () => removeEventListener("pointermove", move);
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
    addEventListener("pointercancel", end, { once: true });
  }
}

/**
 * @param {import("./layout.js").Placed} at @param {number} shift @param {string} found
 * @param {(name: string) => void} onOpen @param {(name: string) => void} onFold
 */
function cell({ node, x, y, folded }, shift, found, onOpen, onFold) {
  const name = clean(node.name);
  const words = activity(node);
  const cap = node.budget?.usd_per_day;
  const spent = cap
    ? `${money(node.usage_today?.usd ?? 0)} of ${money(cap)}`
    : node.usage_today?.usd
      ? money(node.usage_today.usd)
      : "";
  const match = found && name.toLowerCase().includes(found);
  const press = (/** @type {() => void} */ run) => ({
    onclick: run,
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      run();
    },
  });
  const trouble = node.fault || node.last_error?.message;
  return draw(
    "g",
    {
      key: name,
      class: "node",
      transform: `translate(${x + shift} ${y})`,
      "data-state": node.state,
      "data-busy": node.running > 0,
      "data-dim": Boolean(found) && !match,
    },
    draw(
      "g",
      {
        class: "node-cell",
        role: "link",
        tabindex: "0",
        "aria-label": `${name}: ${words}${spent ? `, ${spent} today` : ""}${trouble ? `, ${clean(trouble)}` : ""}`,
        "data-hue": hue(node.name),
        ...press(() => onOpen(node.name)),
      },
      node.running ? draw("polygon", { class: "glow", points: corners(R + 7) }) : null,
      draw("polygon", { class: "wall", points: corners(R) }),
      draw("text", { class: "letters", y: 6 }, name.slice(0, 2)),
      node.fault || node.state === "degraded" ? draw("text", { class: "warning", x: R - 8, y: -R + 16 }, "!") : null,
      draw("text", { class: "name", y: R + 20 }, name.length > 20 ? `${name.slice(0, 19)}…` : name),
      draw("text", { class: "doing", y: R + 37 }, words),
      spent ? draw("text", { class: "doing", y: R + 53 }, `${spent} today`) : null,
    ),
    node.teams?.length
      ? draw(
          "g",
          {
            class: "fold-node",
            role: "button",
            tabindex: "0",
            transform: `translate(${R} ${R - 12})`,
            "aria-label": folded ? `Show the ${several(folded, "team")} below ${name}` : `Hide the teams below ${name}`,
            "aria-expanded": String(!folded),
            ...press(() => onFold(node.name)),
          },
          draw("circle", { r: 11 }),
          draw("text", { y: 4 }, folded ? `+${folded}` : "–"),
        )
      : null,
  );
}

export const legend = () =>
  make(
    "p",
    { class: "muted legend" },
    "Each cell is a team. A glowing one works, a dashed one is paused, one with a mark has a fault. Drag to move.",
  );
