// @ts-check
// The menu of the composer: `/` offers commands, `@` offers teams, each while the first word is typed.

import { all, may } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";

/** Commands about a topic: word, what stands behind it, what it does. */
const OF_TOPICS = [
  ["/new", "message", "Begin a new topic with a message"],
  ["/rename", "name", "Give this topic another name"],
  ["/pin", "", "Put this topic before the others, or back among them"],
  ["/close", "", "Archive this topic and end what runs in it"],
  ["/reopen", "topic", "Open an archived topic again"],
  ["/think", "level", "Say how much the model thinks here: off, low, medium, high"],
  ["/compact", "", "Summarise what was said, to make room"],
  ["/topics", "", "List your topics"],
];
/** The same of commands that can be given anywhere. */
const COMMANDS = [
  ["/steer", "message", "Add a message to the work that runs"],
  ["/stop", "", "Stop the answer"],
  ["/approvals", "", "List what waits for a decision"],
  ["/approve", "id", "Approve a call, once"],
  ["/deny", "id why", "Deny a call"],
  ["/answer", "id text", "Answer a question"],
  ["/help", "", "Say what all commands do"],
];
/** Of many teams so many are offered: who types on finds the others. */
const SHOWN = 50;

/** @typedef {{word: string, about: string, take: () => void}} Offer */

export class Menu {
  /** @type {Offer[]} */ offers = [];
  at = 0;
  /** A person closed it for this word. @type {string | null} */ refused = null;
  /** @type {{name: string, description?: string}[] | null} */ teams = null;

  /** @param {HTMLTextAreaElement} composer @param {HTMLElement} place @param {{hasTopics: () => boolean, onCommand: (text: string) => void, onTeam: (team: string) => void}} acts */
  constructor(composer, place, acts) {
    this.composer = composer;
    this.place = place;
    this.acts = acts;
    composer.addEventListener("blur", () => this.close());
  }

  get open() {
    return this.offers.length > 0;
  }

  /** Something was typed. */
  typed() {
    const word = /^[/@][^\s]*$/.exec(this.composer.value)?.[0].toLowerCase() ?? null;
    if (word !== this.refused) this.refused = null;
    if (word === null || this.refused !== null) return this.close();
    if (word.startsWith("/")) this.offer(this.commands(word));
    else if (may("operate")) this.offerTeams(word.slice(1));
  }

  /** @param {string} word @returns {Offer[]} */
  commands(word) {
    const known = this.acts.hasTopics() ? [...OF_TOPICS, ...COMMANDS] : COMMANDS;
    const fitting = known.filter(([command]) => command.startsWith(word));
    // It is there already.
    if (fitting.length === 1 && fitting[0][0] === word && !fitting[0][1]) return [];
    return fitting.map(([command, more, about]) => ({
      word: more ? `${command} <${more}>` : command,
      about,
      take: () => this.acts.onCommand(more ? `${command} ` : command),
    }));
  }

  /** @param {string} beginning */
  async offerTeams(beginning) {
    if (!this.teams) {
      try {
        this.teams = await all("/teams");
      } catch {
        return;
      }
      // Typing went on meanwhile.
      return this.typed();
    }
    const fitting = this.teams.filter(({ name }) => name !== "main" && name.toLowerCase().includes(beginning));
    fitting.sort((a, b) => Number(b.name.startsWith(beginning)) - Number(a.name.startsWith(beginning)));
    this.offer(
      fitting.map(({ name, description }) => ({
        word: `@${clean(name)}`,
        about: clean(description ?? ""),
        take: () => this.acts.onTeam(name),
      })),
    );
  }

  /** @param {Offer[]} offers */
  offer(offers) {
    this.offers = offers.slice(0, SHOWN);
    this.at = 0;
    this.draw();
  }

  close() {
    if (!this.open) return;
    this.offers = [];
    // Teams come and go.
    this.teams = null;
    this.draw();
  }

  draw() {
    this.place.hidden = !this.open;
    this.place.replaceChildren(
      ...this.offers.map(({ word, about }, at) =>
        make(
          "li",
          {
            id: `offer-${at}`,
            role: "option",
            "aria-selected": String(at === this.at),
            // The composer keeps the focus.
            onmousedown: (/** @type {Event} */ event) => event.preventDefault(),
            onclick: () => this.choose(at),
          },
          make("strong", {}, word),
          make("span", {}, about),
        ),
      ),
    );
    this.place.children[this.at]?.scrollIntoView({ block: "nearest" });
    if (this.open) this.composer.setAttribute("aria-activedescendant", `offer-${this.at}`);
    else this.composer.removeAttribute("aria-activedescendant");
  }

  /** @param {number} at */
  choose(at) {
    const { take } = this.offers[at];
    this.close();
    take();
  }

  /** Returns whether the key was for the menu. @param {KeyboardEvent} event */
  keyed(event) {
    if (!this.open || event.isComposing) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      this.at = (this.at + step + this.offers.length) % this.offers.length;
      this.draw();
    } else if (event.key === "Escape") {
      this.refused = this.composer.value.toLowerCase();
      this.close();
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey)) this.choose(this.at);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
}
