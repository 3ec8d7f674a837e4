// @ts-check
// Search in all history: what was asked, done and answered, by its words, each with the way to its place.

import { upTo } from "../core/api.js";
import { clean, make } from "../core/dom.js";
import { hasWord, several, since } from "../core/format.js";
import { View } from "../core/view.js";
import { choice, search } from "../parts/fields.js";
import { pieces, placeOf } from "../parts/hits.js";
import { button, cell, head } from "../parts/marks.js";
import { empty } from "../parts/states.js";
import { remainder } from "../parts/table.js";
import { teamChoice, teamNames } from "../parts/teams.js";

/** What a hit is. @type {Record<string, string>} */
const PARTS = {
  asked: "Asked",
  answered: "Answered",
  said: "Said meanwhile",
  call: "Tool call",
  result: "Tool result",
  notification: "Notification",
};

class Search extends View {
  begin() {
    this.found = this.source(async (signal, wanted) => {
      const { q, team, since: from } = this.place.query;
      if (!hasWord(q)) return null;
      return { of: q, ...(await upTo("/search", { q, team, since: from }, wanted, signal)) };
    });
    this.teams = teamNames(this);
    // On a phone that would open the keyboard.
    if (!matchMedia("(pointer: coarse)").matches)
      requestAnimationFrame(() => /** @type {any} */ (this.querySelector("input.search"))?.focus());
  }

  refresh() {
    this.found?.reload();
  }

  /** Arrows lead from the field to the hits, and from one to the next. @param {KeyboardEvent} event */
  keyed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const stops = [.../** @type {NodeListOf<HTMLElement>} */ (this.querySelectorAll("input.search, .hits a"))];
    const at = stops.indexOf(/** @type {any} */ (document.activeElement));
    if (!step || at < 0 || !stops[at + step]) return;
    event.preventDefault();
    stops[at + step].focus();
  }

  render() {
    const { query } = this.place;
    return [
      head("Search", "What was asked, done and answered, in all topics and teams."),
      make(
        "div",
        { onkeydown: (/** @type {any} */ event) => this.keyed(event) },
        make(
          "div",
          { class: "bar", role: "search" },
          search("Search everything", query.q ?? "", (q) => this.narrow({ q })),
          teamChoice(this.teams, query.team, (team) => this.narrow({ team })),
          choice(
            "Since",
            [
              ["", "Any time"],
              ["24h", "Last day"],
              ["7d", "Last week"],
              ["30d", "Last month"],
              ["365d", "Last year"],
            ],
            query.since ?? "",
            (from) => this.narrow({ since: from }),
          ),
        ),
        this.found?.show((found) => this.list(found)),
      ),
    ];
  }

  /** @param {any} found */
  list(found) {
    if (!found)
      return empty(
        "search",
        "Search everything that was said",
        'All words have to occur. "A phrase" stands in quotes, and inv* finds every word that begins so.',
      );
    const behind = found.incomplete
      ? make(
          "p",
          { class: "remainder", role: "status" },
          "The newest words are not among these yet. ",
          make("button", { type: "button", class: "link", onclick: () => this.found?.reload() }, "Search again"),
        )
      : null;
    if (!found.rows.length)
      return [
        behind,
        empty(
          "search",
          "Nothing found",
          `No finished work contains ${clean(found.of)}. Fewer words, or the beginning of one with *, find more.`,
          this.place.query.team || this.place.query.since
            ? button("Search everywhere", "close", () => this.narrow({ team: "", since: "" }))
            : null,
        ),
      ];
    return [
      behind,
      make("p", { class: "muted", role: "status" }, several(found.total, "result")),
      make(
        "ol",
        { class: "hits", "aria-label": "Results" },
        found.rows.map((/** @type {any} */ hit) => this.hit(hit)),
      ),
      remainder(this.found),
    ];
  }

  /** @param {any} hit */
  hit(hit) {
    return make(
      "li",
      { key: `${hit.session_id}-${hit.seq}-${hit.task_id}-${hit.at}-${hit.part}` },
      make(
        "a",
        { href: placeOf(hit), "data-part": hit.part },
        make(
          "span",
          { class: "hit-head" },
          cell(hit.team),
          make("strong", {}, PARTS[hit.part] ?? clean(hit.part)),
          make("span", { class: "muted" }, `${clean(hit.team)} · `, since(hit.at)),
        ),
        make(
          "span",
          { class: "hit-words" },
          pieces(hit.excerpt, hit.marks).map(({ text, found }) =>
            found ? make("mark", {}, clean(text)) : clean(text),
          ),
        ),
      ),
    );
  }
}

customElements.define("hw-search", Search);
