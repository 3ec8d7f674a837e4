// @ts-check
// What a view shows when there is nothing to show yet, nothing at all, or something went wrong.

import { clean, coded, icon, make, spinner } from "../core/dom.js";
import { button } from "./marks.js";

export const loading = (word = "Loading…") => make("div", { class: "loading", role: "status" }, spinner(), word);

/**
 * What will appear here, and the one next step.
 * @param {string} picture @param {string} title @param {import("../core/dom.js").Child} about @param {import("../core/dom.js").Child} [step]
 */
export const empty = (picture, title, about, step) =>
  make(
    "div",
    { class: "empty" },
    make("span", { class: "cell", "aria-hidden": "true" }, icon(picture)),
    make("h2", {}, title),
    make("p", { class: "muted" }, about),
    step ? make("div", { class: "step" }, step) : null,
  );

/** Where filters let nothing through. @param {string} about @param {() => void} showAll */
export const noMatch = (about, showAll) =>
  empty("search", "Nothing matches", about, button("Show all", "close", showAll));

/** @param {import("../core/api.js").Refusal} refusal @param {() => void} retry */
export function failure(refusal, retry) {
  const missing = refusal.code === "not_found" && refusal.status === 404;
  const code = [refusal.code ?? "error", refusal.status || ""].filter(Boolean).join(" · ");
  return make(
    "div",
    { class: "failure", role: "alert" },
    icon("alert"),
    make(
      "div",
      {},
      make("p", { class: "failure-words" }, missing ? "Not found: " : "", coded(refusal.message)),
      make(
        "p",
        { class: "muted" },
        make("code", {}, clean(code)),
        refusal.request ? [" · request ", make("code", {}, clean(refusal.request))] : null,
      ),
    ),
    make("button", { type: "button", class: "button", onclick: retry }, icon("again"), "Try again"),
  );
}
