// @ts-check
// One call that waits for a person: what, who, why, and the decision. Used in the chat and in the inbox.

import { get, may, part, post } from "../core/api.js";
import { clean, icon, make } from "../core/dom.js";
import { pretty, since, when, words } from "../core/format.js";
import { write } from "../core/place.js";
import { View } from "../core/view.js";
import { diff } from "./diff.js";
import { input } from "./fields.js";
import { ask } from "./dialog.js";
import { markdown } from "./markdown.js";
import { button, facts, pill, teamLink } from "./marks.js";
import { act } from "./toast.js";

/** The time that is left to decide. @param {any} row */
const left = (row) => (row.expires_at && row.status === "pending" ? ["expires ", since(row.expires_at)] : null);

class ApprovalCard extends View {
  /** @type {any} */ row = null;

  begin() {
    const id = this.dataset.id ?? this.row?.id;
    if (!this.row) this.whole = this.source((signal) => get(`/approvals/${part(id)}`, {}, signal));
    this.on(["approval.changed"], (event) => {
      if (event.detail.id !== id) return;
      if (this.whole) this.whole.soon();
    });
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
    const pending = row.status === "pending";
    return make(
      "div",
      { class: "ask-card", "data-status": row.status },
      make(
        "div",
        { class: "ask-head" },
        icon("approvals"),
        make("strong", {}, row.tool ? ["Run ", make("code", {}, clean(row.tool)), "?"] : words(row.kind)),
        pill(row.status),
        row.risk ? make("span", { class: "tag", "data-risk": row.risk }, `${words(row.risk)} risk`) : null,
      ),
      markdown(row.summary),
      make("p", { class: "muted ask-line" }, teamLink(row.team), row.rule ? make("span", {}, "rule ", make("code", {}, clean(row.rule))) : null, row.label ? make("span", {}, words(row.label)) : null, left(row) ? make("span", {}, left(row)) : null),
      row.diff ? diff(row.diff) : null,
      make("details", { key: `arguments-${row.status}`, class: "fold", open: pending && !row.diff }, make("summary", {}, icon("chevron"), "Arguments"), make("pre", { tabindex: "0", "aria-label": "Arguments" }, pretty(row.arguments))),
      make(
        "details",
        { class: "fold" },
        make("summary", {}, icon("chevron"), "Where it comes from"),
        facts([
          ["Asked", when(row.created_at)],
          ["By", row.requester ? clean(typeof row.requester === "string" ? row.requester : JSON.stringify(row.requester)) : null],
          ["Task", row.task_id ? make("a", { href: write("tasks", [row.task_id]) }, clean(row.task_id)) : null],
          ["Session", row.session ? clean(row.session) : null],
          ["Folder", row.cwd ? make("code", {}, clean(row.cwd)) : null],
          ["Secrets", row.secrets?.length ? clean(row.secrets.join(", ")) : null],
          ["Short name", make("code", {}, clean(row.short_id))],
          ["Digest", make("code", { class: "id" }, clean(row.digest))],
        ]),
      ),
      pending ? this.choices(row) : this.outcome(row),
    );
  }

  /** @param {any} row */
  outcome(row) {
    const by = row.resolved_by ? ` by ${clean(row.resolved_by)}` : "";
    const ran = typeof row.execution === "string" ? row.execution : row.execution?.state;
    const execution = ran && ran !== "none" ? ` · ${words(ran)}` : "";
    return make("p", { class: "muted ask-line" }, `${words(row.status)}${by}`, row.resolved_at ? [" ", since(row.resolved_at)] : null, row.note ? ` · “${clean(row.note)}”` : "", execution);
  }

  /** @param {any} row */
  choices(row) {
    if (!may("approve")) return make("p", { class: "muted" }, "Your token has no scope `approve`, so someone else decides.");
    return make(
      "div",
      { class: "choices" },
      button("Approve once", "check", (pressed) => act(pressed, () => this.decide(row, { decision: "approve" }), "Approved; it runs now."), { tone: "primary", "data-act": "approve" }),
      button("Deny…", "cross", () => this.deny(row), { "data-act": "deny" }),
    );
  }

  /** @param {any} row @param {Record<string, any>} word */
  async decide(row, word) {
    const decided = await post(`/approvals/${part(row.id)}`, { ...word, digest: row.digest });
    if (this.whole) {
      this.whole.data = decided;
      this.update();
    } else this.data = decided;
    this.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: decided }));
  }

  /** @param {any} row */
  deny(row) {
    return ask({
      title: `Deny ${row.tool ?? words(row.kind)}?`,
      about: "The call does not run. The note reaches the model, so that it can go another way.",
      body: input("Note", "note", { maxlength: 2000, placeholder: "Why not, and what instead" }),
      action: "Deny",
      dangerous: true,
      submit: ({ note }) => this.decide(row, { decision: "deny", ...(note ? { note } : {}) }),
    });
  }
}

customElements.define("hw-approval", ApprovalCard);
