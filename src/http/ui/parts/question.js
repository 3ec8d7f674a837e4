// @ts-check
// A question of a team to the operator, and the place to answer it. A secret goes straight into the vault.

import { get, may, part, post } from "../core/api.js";
import { clean, icon, make } from "../core/dom.js";
import { since, words } from "../core/format.js";
import { Asked, askCard } from "./asked.js";
import { teamLink } from "./marks.js";
import { act } from "./toast.js";

class QuestionCard extends Asked {
  told = "question.changed";

  /** @param {string} id @param {AbortSignal} signal */
  load(id, signal) {
    return get(`/questions/${part(id)}`, {}, signal);
  }

  /** @param {any} row */
  card(row) {
    const open = row.status === "open";
    return askCard(
      {
        status: row.status,
        picture: "question",
        title: row.kind === "secret" ? "A secret is needed" : "A question",
        text: row.question,
        line: [
          teamLink(row.team),
          ["asked ", since(row.created_at)],
          open && row.expires_at ? ["expires ", since(row.expires_at)] : null,
        ],
      },
      open ? this.form(row) : make("p", { class: "muted ask-line" }, this.outcome(row)),
    );
  }

  /** @param {any} row */
  outcome(row) {
    if (row.status !== "answered") return words(row.status);
    const said = [...(row.answer?.selected ?? []), row.answer?.text].filter(Boolean).join(" · ");
    return [
      `Answered by ${clean(row.by)}`,
      said ? `: “${clean(said)}”` : row.kind === "secret" ? ": in the vault" : "",
    ];
  }

  /** @param {any} row */
  form(row) {
    if (!may("approve"))
      return make("p", { class: "muted" }, "Your token may not answer questions, so somebody else has to.");
    const secret = row.kind === "secret";
    const name = `choice-${row.id}`;
    const options = (row.options ?? []).map((/** @type {string} */ option) =>
      make(
        "label",
        { class: "tick" },
        make("input", { type: row.multi ? "checkbox" : "radio", name, value: option }),
        make("span", {}, clean(option)),
      ),
    );
    return make(
      "form",
      {
        class: "answer-form",
        autocomplete: "off",
        onsubmit: (/** @type {SubmitEvent} */ event) => this.send(event, row),
      },
      options.length ? make("fieldset", {}, make("legend", { class: "hidden" }, "Options"), options) : null,
      make(
        "label",
        { class: "field" },
        make("span", { class: options.length ? "" : "hidden" }, options.length ? "Or in your own words" : "Answer"),
        make("input", {
          name: "text",
          type: secret ? "password" : "text",
          autocomplete: secret ? "new-password" : "off",
          placeholder: secret ? `Stored in the vault as ${clean(row.key ?? "")}` : "Your answer",
        }),
      ),
      make(
        "div",
        { class: "choices" },
        make("button", { type: "submit", class: "button primary" }, icon("check"), "Answer"),
      ),
    );
  }

  /** @param {SubmitEvent} event @param {any} row */
  send(event, row) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const data = new FormData(form);
    const selected = data.getAll(`choice-${row.id}`).map(String);
    const text = String(data.get("text") ?? "");
    const answer = async () => {
      const answered = await post(`/questions/${part(row.id)}/answer`, {
        ...(selected.length ? { selected } : {}),
        ...(text ? { text } : {}),
      });
      form.reset();
      this.became(answered);
    };
    return act(/** @type {HTMLButtonElement} */ (form.querySelector("button[type=submit]")), answer, "Answered.");
  }
}

customElements.define("hw-question", QuestionCard);
