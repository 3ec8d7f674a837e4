// @ts-check
// The parts of a view, each with an address.

import { make } from "../core/dom.js";
import { write } from "../core/place.js";
import { badge } from "./marks.js";

/** The first is the one at the address of the view itself. @param {string} view @param {string[][]} parts @param {string} current @param {Record<string, number>} [waiting] */
export const tabs = (view, parts, current, waiting = {}) =>
  make(
    "nav",
    { class: "segments tabbar", "aria-label": "Parts" },
    parts.map(([id, word], at) =>
      make(
        "a",
        { href: write(view, [at ? id : ""]), "aria-current": id === current ? "page" : null },
        word,
        badge(waiting[id] ?? 0, "waiting"),
      ),
    ),
  );
