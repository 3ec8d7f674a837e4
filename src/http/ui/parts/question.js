// @ts-check
// A question of a team to the operator, and the place to answer it. A secret goes straight into the vault.

import { get, may, part, post } from "../core/api.js";
import { clean, icon, make } from "../core/dom.js";
import { since, words } from "../core/format.js";
import { View } from "../core/view.js";
import { markdown } from "./markdown.js";
import { pill, teamLink } from "./marks.js";
import { act } from "./toast.js";

class QuestionCard extends View {
  /** @type {any} */ row = null;

  begin() {
    const id = this.dataset.id ?? this.row?.id;
    if (!this.row) {
      this.whole = this.source((signal) => get(`/questions/${part(id)}`, {}, signal));
      this.on(["question.changed"], (event) => event.detail.id === id && this.whole?.soon());
    }
  }

  /** @param {any} row */
  set data(row) {
    this.row = row;
    if (this.isConnected) this.update();
  }

  get data() {
    return this.row;
  }

  render() {
    if (this.whole) return this.whole.show((row) => this.card(row));
    return this.row ? this.card(this.row) : null;
  }

  /** @param {any} row */
  card(row) {
    const open = row.status === "open";
    return make(
      "div",
      { class: "ask-card", "data-status": row.status },
      make("div", { class: "ask-head" }, icon("question"), make("strong", {}, row.kind === "secret" ? "A secret is needed" : "A question"), pill(row.status)),
      markdown(row.question),
      make("p", { class: "muted ask-line" }, teamLink(row.team), make("span", {}, "asked ", since(row.created_at)), open && row.expires_at ? make("span", {}, "expires ", since(row.expires_at)) : null),
      open ? this.form(row) : make("p", { class: "muted ask-line" }, this.outcome(row)),
    );
  }

  /** @param {any} row */
  outcome(row) {
    if (row.status !== "answered") return words(row.status);
    const said = [...(row.answer?.selected ?? []), row.answer?.text].filter(Boolean).join(" · ");
    return [`Answered by ${clean(row.by)}`, said ? `: “${clean(said)}”` : row.kind === "secret" ? ": in the vault" : ""];
  }

  /** @param {any} row */
  form(row) {
    if (!may("approve")) return make("p", { class: "muted" }, "Your token has no scope `approve`, so someone else answers.");
    const secret = row.kind === "secret";
    const name = `choice-${row.id}`;
    const options = (row.options ?? []).map((/** @type {string} */ option) =>
      make("label", { class: "tick" }, make("input", { type: row.multi ? "checkbox" : "radio", name, value: option }), make("span", {}, clean(option))),
    );
    return make(
      "form",
      { class: "answer-form", autocomplete: "off", onsubmit: (/** @type {SubmitEvent} */ event) => this.send(event, row) },
      options.length ? make("fieldset", {}, make("legend", { class: "hidden" }, "Options"), options) : null,
      make("label", { class: "field" }, make("span", { class: options.length ? "" : "hidden" }, options.length ? "Or in your own words" : "Answer"), make("input", { name: "text", type: secret ? "password" : "text", autocomplete: secret ? "new-password" : "off", placeholder: secret ? `Stored in the vault as ${clean(row.key ?? "")}` : "Your answer" })),
      make("div", { class: "choices" }, make("button", { type: "submit", class: "button primary" }, icon("check"), "Answer")),
    );
  }

  /** @param {SubmitEvent} event @param {any} row */
  send(event, row) {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    const data = new FormData(form);
    const selected = data.getAll(`choice-${row.id}`).map(String);
    const text = String(data.get("text") ?? "");
    const button = /** @type {HTMLButtonElement} */ (form.querySelector("button[type=submit]"));
    return act(
      button,
      async () => {
        const answered = await post(`/questions/${part(row.id)}/answer`, { ...(selected.length ? { selected } : {}), ...(text ? { text } : {}) });
        form.reset();
        if (this.whole) {
          this.whole.data = answered;
          this.update();
        } else this.data = answered;
        this.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: answered }));
      },
      "Answered.",
    );
  }
}

customElements.define("hw-question", QuestionCard);
