// @ts-check
// The tree of teams as a drawing: cells of a comb, joined by who is above whom. It can be moved, zoomed and folded.

import { clean, draw, make } from "../../core/dom.js";
import { money, several, spending } from "../../core/format.js";
import { hue } from "../../parts/marks.js";
import { layout } from "./layout.js";

const R = 34;
/** In a drawing that lies. */
const SMALL = 17;
const LONGEST_NAME = 22;
/** The width of a letter of a name, more or less. */
const LETTER = 9;
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
 * @param {{folded: Set<string>, found: string, chosen: string, room: number, view: {x: number, y: number, zoom: number}, marks: import("./traffic.js").Mark[], onOpen: (name: string) => void, onFold: (name: string) => void, onMove: () => void}} options
 */
export function graph(root, { folded, found, chosen, room, view, marks, onOpen, onFold, onMove }) {
  const { placed, edges, width, height, lying } = layout(root, folded);
  // Few teams are not drawn larger than many; a drawing that lies is as large as text.
  const [w, h] = lying ? [Math.max(width, room), height] : [Math.max(width, 860), Math.max(height, 400)];
  const shift = lying ? 0 : (w - width) / 2;
  const svg = draw(
    "svg",
    {
      class: lying ? "comb lying" : "comb",
      viewBox: `${view.x} ${view.y} ${w / view.zoom} ${h / view.zoom}`,
      role: "group",
      "aria-label": "Teams, drawn. The list has the same.",
      preserveAspectRatio: "xMidYMid meet",
      onpointerdown: drag,
    },
    edges.map((edge) =>
      draw("path", {
        class: "edge",
        "data-busy": edge.to.node.running > 0,
        "data-crossed": marks.some(({ team }) => team === edge.to.node.name),
        d: curve(edge),
      }),
    ),
    marks.map((mark) => {
      const edge = edges.find(({ to }) => to.node.name === mark.team);
      return edge ? moving(mark, curve(edge)) : null;
    }),
    placed.map((at) => cell(at, { shift, found, chosen, lying }, onOpen, onFold)),
  );
  return svg;

  /** @param {{from: import("./layout.js").Placed, to: import("./layout.js").Placed}} edge */
  function curve({ from, to }) {
    if (lying) return beside(from, to);
    const middle = (from.y + to.y) / 2;
    const [start, end] = [from.x + shift, to.x + shift];
    return `M${start} ${from.y + R + FOOT} C${start} ${middle + 38}, ${end} ${middle + 2}, ${end} ${to.y - R - 6}`;
  }

  /** A line from behind a name to a cell. @param {import("./layout.js").Placed} from @param {import("./layout.js").Placed} to */
  function beside(from, to) {
    const start = from.x + SMALL + 34 + Math.min(LONGEST_NAME, from.node.name.length) * LETTER;
    const end = to.x - SMALL - 5;
    return `M${start} ${from.y} C${end - 22} ${from.y}, ${end - 42} ${to.y}, ${end} ${to.y}`;
  }

  /** @param {PointerEvent} event */
  function drag(event) {
    if (/** @type {Element} */ (event.target).closest("[tabindex]")) return;
    // Not the one that was drawn for it: the one on the page takes over what a later drawing has.
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
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

/** Work or its result, crossing an edge. @param {import("./traffic.js").Mark} mark @param {string} curve from above to below */
const moving = ({ id, up, fault, count }, curve) =>
  draw(
    "g",
    {
      // No team has a space in its name.
      key: `mark ${id}`,
      class: "traffic",
      "aria-hidden": "true",
      "data-up": up,
      "data-fault": fault,
      style: { offsetPath: `path("${curve}")` },
    },
    draw("circle", { r: count > 1 ? 10 : 6 }),
    count > 1 ? draw("text", { y: 4 }, count > 99 ? "99+" : String(count)) : null,
  );

/**
 * @param {import("./layout.js").Placed} at @param {{shift: number, found: string, chosen: string, lying: boolean}} how
 * @param {(name: string) => void} onOpen @param {(name: string) => void} onFold
 */
function cell({ node, x, y, folded }, { shift, found, chosen, lying }, onOpen, onFold) {
  const name = clean(node.name);
  const words = activity(node);
  const cap = node.budget?.usd_per_day;
  const spent = cap
    ? `${spending(node.usage_today)} of ${money(cap)}`
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
  const r = lying ? SMALL : R;
  const short = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
  const nameEnd = SMALL + 9 + short.length * LETTER;
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
        role: "button",
        "aria-pressed": String(chosen === node.name),
        tabindex: "0",
        "aria-label": `${name}: ${words}${spent ? `, ${spent} today` : ""}${trouble ? `, ${clean(trouble)}` : ""}`,
        "data-hue": hue(node.name),
        ...press(() => onOpen(node.name)),
      },
      node.running ? draw("polygon", { class: "glow", points: corners(r + (lying ? 4 : 7)) }) : null,
      draw("polygon", { class: "wall", points: corners(r) }),
      draw("text", { class: "letters", y: lying ? 4 : 6 }, name.slice(0, 2)),
      trouble || node.state === "degraded"
        ? draw("text", { class: "warning", x: r - (lying ? 2 : 8), y: lying ? -6 : -R + 16 }, "!")
        : null,
      lying
        ? [
            draw("text", { class: "name", x: SMALL + 9, y: -1 }, short),
            draw("text", { class: "doing", x: SMALL + 9, y: 14 }, [words, spent].filter(Boolean).join(" · ")),
          ]
        : [
            draw("text", { class: "name", y: R + 20 }, short),
            draw("text", { class: "doing", y: R + 37 }, words),
            spent ? draw("text", { class: "doing", y: R + 53 }, `${spent} today`) : null,
          ],
    ),
    node.teams?.length
      ? draw(
          "g",
          {
            class: "fold-node",
            role: "button",
            tabindex: "0",
            transform: lying ? `translate(${nameEnd + 14} -6)` : `translate(${R} ${R - 12})`,
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
    "Each cell is a team. A glowing one works, a dashed one is paused, one with a mark has a fault. Dots are work on its way down and results on their way back. Press a cell to see more.",
  );
