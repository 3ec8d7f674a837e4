// @ts-check
// One call that waits for a person: what, who, why, and the decision. Used in the chat and in the inbox.

import { get, may, part, post } from "../core/api.js";
import { clean, coded, make } from "../core/dom.js";
import { pretty, since, when, words } from "../core/format.js";
import { Asked, askCard } from "./asked.js";
import { diff } from "./diff.js";
import { input } from "./fields.js";
import { ask, confirm } from "./dialog.js";
import { button, code, facts, fold, taskLink, teamLink } from "./marks.js";
import { act, toast } from "./toast.js";
import { approval, denial, MOST_USES, term, usesOf } from "./verdict.js";

class ApprovalCard extends Asked {
  told = "approval.changed";

  /** @param {string} id @param {AbortSignal} signal */
  load(id, signal) {
    return get(`/approvals/${part(id)}`, {}, signal);
  }

  /** @param {any} row */
  card(row) {
    const pending = row.status === "pending";
    return askCard(
      {
        status: row.status,
        picture: row.status === "denied" ? "cross" : "approvals",
        title: row.tool ? ["Run ", make("code", {}, clean(row.tool)), "?"] : words(row.kind),
        tags: row.risk ? make("span", { class: "tag", "data-risk": row.risk }, `${words(row.risk)} risk`) : null,
        text: row.summary,
        line: [
          teamLink(row.team),
          row.rule ? ["policy ", make("code", {}, clean(row.rule))] : null,
          row.label ? words(row.label) : null,
          pending && row.expires_at ? ["expires ", since(row.expires_at)] : null,
        ],
      },
      row.diff ? diff(row.diff) : null,
      fold("Arguments", make("pre", { tabindex: "0", "aria-label": "Arguments" }, pretty(row.arguments)), {
        key: `arguments-${row.status}`,
        open: pending && !row.diff,
      }),
      fold("Where it comes from", origin(row)),
      pending ? this.choices(row) : outcome(row),
    );
  }

  /** @param {any} row */
  choices(row) {
    if (!may("approve"))
      return make("p", { class: "muted" }, "Your token may not approve, so somebody else has to decide.");
    return make(
      "div",
      { class: "choices" },
      button(
        "Approve once",
        "check",
        (pressed) => act(pressed, () => this.decide(row, approval(row)), "Approved; it runs now."),
        { tone: "primary", "data-act": "approve" },
      ),
      row.grant ? button("Approve more…", "again", () => this.more(row), { "data-act": "more" }) : null,
      button("Deny…", "cross", () => this.deny(row), { "data-act": "deny" }),
    );
  }

  /** @param {any} row @param {Record<string, any>} word */
  async decide(row, word) {
    const path = `/approvals/${part(row.id)}`;
    try {
      this.became(await post(path, word));
    } catch (refusal) {
      if (/** @type {any} */ (refusal).code !== "unconfirmed") throw refusal;
      const decided = await confirm({
        title: "Decide alone?",
        lost: "You caused this, its risk is high, and nobody else could decide. The record will say that you decided alone.",
        typed: row.short_id,
        action: word.decision === "deny" ? "Deny" : "Approve",
        submit: async () => this.became(await post(path, { ...word, confirm: row.short_id })),
      });
      if (!decided) throw refusal;
    }
  }

  /** What it comes to is there before it is sent. @param {any} row */
  more(row) {
    const grant = make("div", { class: "grant", "aria-live": "polite" });
    const chosen = () => {
      const form = grant.closest("form");
      const values = form ? new FormData(form) : null;
      return usesOf(String(values?.get("often") ?? "times"), String(values?.get("times") ?? "5"));
    };
    const look = () => {
      try {
        grant.replaceChildren(...showGrant(row.grant, term(chosen())));
      } catch (problem) {
        grant.replaceChildren(make("p", { class: "muted" }, /** @type {Error} */ (problem).message));
      }
    };
    const often = (/** @type {string} */ value, /** @type {string} */ word, /** @type {boolean} */ checked) =>
      make(
        "label",
        { class: "tick" },
        make("input", { type: "radio", name: "often", value, checked, onchange: look }),
        make("span", {}, word),
      );
    queueMicrotask(look);
    return ask({
      title: `Approve ${row.tool} more than once?`,
      about:
        "This call runs now. From then on the same call with exactly these arguments runs without asking, as long as no policy denies it and the tool stays as it is.",
      body: [
        make(
          "fieldset",
          {},
          make("legend", { class: "hidden" }, "How often"),
          often("times", "A number of times", true),
          may("admin") ? often("always", "Always", false) : null,
        ),
        input("Times", "times", { type: "number", min: 2, max: MOST_USES, value: 5, oninput: look }),
        make("h3", {}, "The grant"),
        grant,
      ],
      action: "Approve and grant",
      submit: async () => {
        await this.decide(row, approval(row, chosen()));
        toast("Approved. The same call now runs without asking; Grants lists it.");
      },
    });
  }

  /** @param {any} row */
  deny(row) {
    return ask({
      title: `Deny ${row.tool ?? words(row.kind)}?`,
      about: "The call does not run. The team reads your note and can go another way.",
      body: input("Note", "note", { maxlength: 2000, placeholder: "Why not, and what instead" }),
      action: "Deny",
      dangerous: true,
      submit: ({ note }) => this.decide(row, denial(row, note)),
    });
  }
}

/** What may then run, in everything that counts. @param {any} grant @param {{uses: string, until: string}} term */
const showGrant = (grant, { uses, until }) => [
  facts([
    ["Team", clean(grant.team)],
    ["Tool", make("code", {}, clean(grant.tool))],
    ["Uses", uses],
    ["Until", until],
    ["Folder", grant.cwd ? make("code", {}, clean(grant.cwd)) : null],
    ["Secrets", grant.secrets?.length ? clean(grant.secrets.join(", ")) : null],
    [
      "Strangers",
      grant.untrusted ? "also after reading what a stranger wrote" : "not after reading what a stranger wrote",
    ],
  ]),
  make("pre", { class: "block", tabindex: "0", "aria-label": "Arguments of the grant" }, pretty(grant.arguments)),
];

/** Who is behind the task. @param {{kind: string, name?: string, id?: string, channel_type?: string, guest?: boolean, principal?: string}} cause */
function who({ kind, name, id, channel_type, guest, principal }) {
  if (kind === "system") return "Hivewright itself";
  return name ?? `${principal ?? id} (${channel_type}${guest ? ", a guest" : ""})`;
}

/** @param {any} row */
const origin = (row) =>
  facts([
    ["Asked", when(row.created_at)],
    ["By", row.requester ? clean(who(row.requester)) : null],
    ["Task", row.task_id ? taskLink(row.task_id) : null],
    ["Began with", row.lineage?.root && row.lineage.root !== row.task_id ? taskLink(row.lineage.root) : null],
    ["Transcript", row.session ? clean(row.session) : null],
    ["Folder", row.cwd ? make("code", {}, clean(row.cwd)) : null],
    ["Secrets", row.secrets?.length ? clean(row.secrets.join(", ")) : null],
    ["Short id", make("code", {}, clean(row.short_id))],
    ["Digest", code(row.digest)],
  ]);

/** @param {any} row */
function outcome(row) {
  const by = row.resolved_by ? ` by ${clean(row.resolved_by)}${row.alone ? " alone" : ""}` : "";
  const ran = typeof row.execution === "string" ? row.execution : row.execution?.state;
  const execution = ran && ran !== "none" ? ` · ${words(ran)}` : "";
  return make(
    "p",
    { class: "muted ask-line" },
    `${words(row.status)}${by}`,
    row.resolved_at ? [" ", since(row.resolved_at)] : null,
    row.note ? [" · “", coded(row.note), "”"] : null,
    execution,
  );
}

customElements.define("hw-approval", ApprovalCard);
