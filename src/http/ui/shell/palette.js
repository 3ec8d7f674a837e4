// @ts-check
// The command palette: every view, team, topic and a few acts, by their first letters, and a search for what is typed.

import { list, may } from "../core/api.js";
import { clean, icon, make } from "../core/dom.js";
import { hasWord } from "../core/format.js";
import { paint } from "../core/paint.js";
import { go } from "../core/place.js";
import { live } from "../live/live.js";
import { talk } from "../views/chat/talk.js";
import { offered, PLACES } from "./places.js";

/** @typedef {{word: string, about: string, picture: string, run: () => void}} Item */

/** What can be made, where, and which scope that takes. */
const NEW = [
  { word: "New topic", view: "chat", needs: "chat" },
  { word: "New task", view: "tasks", needs: "operate" },
  { word: "New team", view: "org", needs: "operate" },
  { word: "New trigger", view: "triggers", needs: "operate" },
];

/** @param {string[]} teams @returns {Item[]} */
function items(teams) {
  const view = (/** @type {any} */ entry) => ({
    word: entry.title,
    about: "View",
    picture: entry.picture,
    run: () => go(entry.view),
  });
  return [
    ...offered().map(view),
    ...NEW.filter(({ needs }) => may(needs)).map(({ word, view: place }) => ({
      word,
      about: PLACES.find((entry) => entry.view === place)?.title ?? "",
      picture: "plus",
      run: () => go(place, [], { new: "1" }),
    })),
    {
      word: "Switch colours",
      about: "System, light, dark",
      picture: "system",
      run: () => document.getElementById("theme")?.click(),
    },
    { word: "Log out", about: "Account", picture: "leave", run: () => document.getElementById("logout")?.click() },
    ...talk.topics().map((topic) => ({
      word: clean(topic.name),
      about: "Topic",
      picture: "chat",
      run: () => go("chat", [topic.id]),
    })),
    ...teams.map((team) => ({ word: clean(team), about: "Team", picture: "org", run: () => go("team", [team]) })),
  ];
}

/** What is called so comes first, then what begins so, then what holds it. @param {Item[]} all @param {string} typed */
export function ranked(all, typed) {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return all;
  const rank = (/** @type {Item} */ item) => {
    const word = item.word.toLowerCase();
    if (word === wanted) return -1;
    if (word.startsWith(wanted)) return 0;
    if (word.split(/[\s_-]+/).some((one) => one.startsWith(wanted))) return 1;
    return `${word} ${item.about.toLowerCase()}`.includes(wanted) ? 2 : 3;
  };
  return all
    .map((item) => ({ item, rank: rank(item) }))
    .filter((one) => one.rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .map((one) => one.item);
}

/** The way to what was said. @param {string} typed @returns {Item[]} */
export function searches(typed) {
  const q = typed.trim();
  if (!hasWord(q)) return [];
  return [
    {
      word: `Search everything for “${clean(q)}”`,
      about: "Search",
      picture: "search",
      run: () => go("search", [], { q }),
    },
  ];
}

export function openPalette() {
  if (document.querySelector("dialog.palette")) return;
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  let all = items([...(live.state.teams ?? [])]);
  let found = all;
  let at = 0;
  const field = make("input", {
    type: "text",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    "aria-label": "Go to a view, team or topic, or search everything",
    placeholder: "Go to a view, team or topic, or search everything",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      at = 0;
      draw();
    },
    onkeydown: keyed,
  });
  const rows = make("ul", { id: "palette-list", role: "listbox", "aria-label": "Found" });
  const dialog = make(
    "dialog",
    { class: "palette", "aria-label": "Go to" },
    make(
      "div",
      { class: "palette-field" },
      icon("search"),
      field,
      make("kbd", {}, "Esc"),
      // There is no such key where one points with a finger.
      make(
        "button",
        { type: "button", class: "icon-button touch-only", "aria-label": "Close", onclick: () => dialog.close() },
        icon("close"),
      ),
    ),
    rows,
  );
  dialog.onclick = (event) => {
    if (event.target === dialog) dialog.close();
  };
  dialog.onclose = () => {
    dialog.remove();
    before?.focus?.();
  };
  document.body.append(dialog);
  dialog.showModal();
  draw();
  if (!live.state.teams) {
    list("/teams", { limit: 200 }).then(
      ({ rows: teams }) => {
        all = items(teams.map((team) => team.name));
        draw();
      },
      () => {},
    );
  }

  /** @param {KeyboardEvent} event */
  function keyed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && found.length) {
      event.preventDefault();
      at = (at + step + found.length) % found.length;
      draw();
    } else if (event.key === "Enter") {
      event.preventDefault();
      take(found[at]);
    }
  }

  /** @param {Item | undefined} item */
  function take(item) {
    if (!item) return;
    dialog.close();
    item.run();
  }

  function draw() {
    found = [...ranked(all, field.value).slice(0, 60), ...searches(field.value)];
    paint(
      rows,
      found.map((item, index) =>
        make(
          "li",
          { id: `palette-${index}`, role: "option", "aria-selected": String(index === at), onclick: () => take(item) },
          icon(item.picture),
          make("span", {}, item.word),
          make("small", {}, item.about),
        ),
      ),
      found.length
        ? null
        : make("li", { class: "muted nothing", role: "option", "aria-selected": "false" }, "Nothing matches."),
    );
    if (found.length) field.setAttribute("aria-activedescendant", `palette-${at}`);
    rows.children[at]?.scrollIntoView({ block: "nearest" });
  }
}
