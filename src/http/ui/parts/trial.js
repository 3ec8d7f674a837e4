// @ts-check
// A button that tries out what a form says, and shows what came back.

import { coded, make, sentence } from "../core/dom.js";
import { button } from "./marks.js";
import { act } from "./toast.js";

/** @param {(values: any) => Promise<import("../core/dom.js").Child>} attempt */
export function trial(attempt) {
  const result = make("div", { class: "tried", role: "status" });
  /** @param {import("../core/dom.js").Child} shown */
  const show = (shown) => {
    result.replaceChildren(make("div", {}, shown));
    result.scrollIntoView({ block: "nearest" });
  };
  /** @param {HTMLButtonElement} pressed */
  const run = async (pressed) => {
    const values = Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (pressed.form)));
    show(make("p", { class: "muted" }, "Asking…"));
    try {
      show(await attempt(values));
    } catch (refusal) {
      show(refused(/** @type {any} */ (refusal).message));
    }
  };
  return [
    make(
      "div",
      { class: "choices" },
      button("Try it", "play", (pressed) => act(pressed, () => run(pressed))),
    ),
    result,
  ];
}

/** @param {string} why */
export const refused = (why) => make("p", { class: "problem" }, make("span", {}, coded(sentence(why))));
