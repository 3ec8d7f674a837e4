// @ts-check
// First steps in a new service: a model, a message, a team. Each is ticked off once it has happened, by whatever way.

import { byId, icon, make } from "../../core/dom.js";
import { write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { live } from "../../live/live.js";
import { talk } from "./talk.js";

/** That they were taken, or not wanted. */
const KEPT = "hivewright.start";

class Start extends View {
  begin() {
    this.on(["changed", "turn"], () => this.update());
  }

  render() {
    const { overview } = live.state;
    if (!overview || localStorage.getItem(KEPT)) return null;
    /** @type {[string, string | (() => void), boolean][]} */
    const steps = [
      ["Connect a model", write("settings", ["models"]), !overview.demo],
      ["Say something", () => byId("composer").focus(), talk.topics().length > 0],
      ["Make a team", write("org", [], { new: 1 }), overview.teams.total > 1],
    ];
    if (steps.every(([, , done]) => done)) {
      localStorage.setItem(KEPT, "done");
      return null;
    }
    return make(
      "div",
      { class: "start", role: "region", "aria-label": "First steps" },
      make(
        "ol",
        {},
        steps.map(([words, way, done]) =>
          make(
            "li",
            { "data-done": done },
            done
              ? [icon("check"), make("span", { class: "hidden" }, "Done: "), words]
              : typeof way === "string"
                ? make("a", { href: way }, words)
                : make("button", { type: "button", class: "link", onclick: way }, words),
          ),
        ),
      ),
      make("button", { type: "button", class: "link", onclick: () => this.skip() }, "Skip these steps"),
    );
  }

  skip() {
    localStorage.setItem(KEPT, "skipped");
    this.update();
    byId("composer").focus();
  }
}

customElements.define("hw-start", Start);
