// @ts-check
// Who may write to whom, and the rules over what teams may do.

import { may, part, post, remove, upTo } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { since, when, words } from "../../core/format.js";
import { View } from "../../core/view.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input, select } from "../../parts/fields.js";
import { button, intro, pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { listed } from "../../parts/table.js";

/** What a policy does, and what that is called. @type {[string, string][]} */
const EFFECTS = [
  ["require_approval", "ask a person"],
  ["deny", "deny"],
  ["allow", "allow"],
];

/** Which rule decided on a message. @type {Record<string, string>} */
const REASONS = {
  cli_bypass: "The operator's command line",
  trust_config_invalid: "The settings of trust cannot be used",
  sender_denylist: "The settings refuse this sender",
  grant_trusted: "The sender was added here as accepted",
  grant_denied: "The sender was added here as refused",
  trust_store_error: "The senders that were added cannot be read",
  sender_allowlist: "The settings accept this sender",
  sender_missing: "The sender is not known",
  channel_override_allow: "The settings accept this channel",
  channel_override_deny: "The settings refuse this channel",
  channel_policy_allow: "The settings accept this type of channel",
  channel_policy_deny: "The settings refuse this type of channel",
  default_policy_allow: "The settings accept everyone who is not named",
  default_policy_deny: "The settings refuse everyone who is not named",
  no_trust_config: "Logged in; no rules about senders are set",
};

class TrustPart extends View {
  begin() {
    this.grants = this.source((signal, wanted) => upTo("/trust", {}, wanted, signal));
    this.audit = this.source((signal, wanted) => upTo("/trust/audit", {}, wanted, signal));
  }

  async create() {
    await ask({
      title: "Add a sender",
      body: [
        select("Channel type", "channel_type", ["discord", "ws", "api", "cli"]),
        input("Sender", "sender_id", { required: true }),
        input("Channel", "channel_id", { placeholder: "All channels" }),
        select("Messages of this sender are", "trust_level", [
          ["trusted", "accepted"],
          ["denied", "refused"],
        ]),
      ],
      action: "Save",
      submit: ({ channel_id, ...values }) => post("/trust", { ...values, ...(channel_id ? { channel_id } : {}) }),
    });
    this.grants?.reload();
  }

  render() {
    return [
      intro(
        "Only messages of accepted senders reach a team, a trigger or a model.",
        may("operate") && button("Add a sender", "plus", () => this.create(), { tone: "primary" }),
      ),
      listed(
        this.grants,
        "Senders",
        [
          {
            name: "Channel",
            cell: (row) => [
              words(row.channel_type),
              make("div", { class: "muted" }, row.channel_id ? clean(row.channel_id) : "all channels"),
            ],
          },
          { name: "Sender", cell: (row) => make("code", {}, clean(row.sender_id)) },
          {
            name: "Messages",
            cell: (row) =>
              pill(
                row.trust_level === "trusted" ? "allowed" : "denied",
                row.trust_level === "trusted" ? "accepted" : "refused",
              ),
          },
          {
            name: "Added",
            cell: (row) => [since(row.granted_at), ` by ${clean(row.granted_by)}`],
            quiet: true,
          },
          {
            name: "",
            cell: (row) =>
              button("Remove…", "trash", () => this.revoke(row), {
                tone: "small quiet",
                "aria-label": `Remove ${row.sender_id}`,
              }),
          },
        ],
        empty(
          "approvals",
          "No senders added",
          "Only the senders named in your settings are accepted. Add more here; they count at once.",
          may("operate") ? button("Add a sender", "plus", () => this.create()) : null,
        ),
      ),
      make(
        "section",
        { class: "section" },
        make("h2", {}, "Recent decisions"),
        listed(
          this.audit,
          "Decisions",
          [
            { name: "When", cell: (row) => when(row.time) },
            { name: "Sender", cell: (row) => make("code", {}, clean(row.sender)) },
            { name: "Channel", cell: (row) => clean(row.channel_type), quiet: true },
            { name: "Decision", cell: (row) => pill(row.decision) },
            { name: "Why", cell: (row) => REASONS[row.reason] ?? words(row.reason), quiet: true },
          ],
          make("p", { class: "muted" }, "Nobody has written yet."),
        ),
      ),
    ];
  }

  /** @param {any} row */
  async revoke(row) {
    await confirm({
      title: `Remove ${row.sender_id}?`,
      lost: "Whether this sender is accepted is then up to the settings alone.",
      action: "Remove",
      submit: () => remove(`/trust/${part(row.id)}`),
    });
    this.grants?.reload();
  }
}

class PolicyPart extends View {
  begin() {
    this.rules = this.source((signal, wanted) => upTo("/policies", {}, wanted, signal), ["config.reloaded"]);
  }

  async create() {
    await ask({
      title: "New policy",
      about: "A policy that denies wins over one that asks a person, and that one over one that allows.",
      body: [
        make(
          "div",
          { class: "pair" },
          input("Name", "id", { placeholder: "ask-write" }),
          select("Effect", "effect", EFFECTS),
        ),
        input("Applies to", "resource", {
          required: true,
          placeholder: "tool:write",
          hint: "Begins with tool:, class:, file:, exec: (a command), host: or mcp: (a server)",
        }),
        input("Team", "team", { placeholder: "Any team" }),
        input("Note", "note", { placeholder: "Why? People read it when they are asked" }),
      ],
      action: "Create policy",
      submit: (values) => post("/policies", Object.fromEntries(Object.entries(values).filter(([, value]) => value))),
    });
    this.rules?.reload();
  }

  async explain() {
    await ask({
      title: "Test a call",
      about: "Shows whether a call would run, be asked about or be denied. Nothing is run.",
      body: [
        make(
          "div",
          { class: "pair" },
          input("Team", "team", { required: true, value: "main" }),
          input("Tool", "tool", { required: true, placeholder: "write" }),
        ),
        input("Arguments", "args", { value: "{}", class: "mono" }),
        make("output", { class: "preview", id: "explained" }),
      ],
      action: "Test",
      stays: true,
      submit: async ({ team, tool, args }, form) => {
        const answer = await post("/policies/explain", { team, tool, args: JSON.parse(args || "{}") });
        form
          .querySelector("#explained")
          ?.replaceChildren(
            make(
              "p",
              {},
              pill(
                answer.decision === "allow" ? "allowed" : answer.decision === "deny" ? "denied" : "pending",
                words(answer.decision),
              ),
              " ",
              answer.rule ? `by policy ${clean(answer.rule)}` : words(answer.reason ?? ""),
            ),
            ...(answer.why ? [make("p", { class: "muted" }, clean(answer.why))] : []),
          );
      },
    });
  }

  render() {
    return [
      intro("What teams may do, may not do, and must ask a person for.", [
        button("Test a call…", "question", () => this.explain()),
        may("admin") && button("New policy", "plus", () => this.create(), { tone: "primary" }),
      ]),
      listed(
        this.rules,
        "Policies",
        [
          {
            name: "Policy",
            cell: (row) => [
              make("strong", {}, clean(row.id)),
              row.note ? make("div", { class: "muted clip" }, clean(row.note)) : null,
            ],
          },
          {
            name: "Effect",
            cell: (row) =>
              pill(
                row.effect === "deny" ? "denied" : row.effect === "allow" ? "allowed" : "pending",
                EFFECTS.find(([effect]) => effect === row.effect)?.[1] ?? row.effect,
              ),
          },
          { name: "Applies to", cell: (row) => make("code", {}, clean(row.resource)) },
          { name: "Team", cell: (row) => clean(row.team && row.team !== "*" ? row.team : "any"), quiet: true },
          { name: "From", cell: (row) => words(row.source), quiet: true },
          {
            name: "",
            cell: (row) =>
              row.source === "stored" && may("admin")
                ? button("Delete…", "trash", () => this.discard(row), {
                    tone: "small quiet",
                    "aria-label": `Delete ${row.id}`,
                  })
                : null,
          },
        ],
        empty(
          "approvals",
          "No policies of your own",
          "By default, teams may read freely, and ask before they do what cannot be undone. Create a policy to change that.",
          may("admin") ? button("New policy", "plus", () => this.create()) : null,
        ),
      ),
    ];
  }

  /** @param {any} row */
  async discard(row) {
    await confirm({
      title: `Delete ${row.id}?`,
      lost: "Calls that it asked about or denied are then up to the other policies.",
      action: "Delete",
      submit: () => remove(`/policies/${part(row.id)}`),
    });
    this.rules?.reload();
  }
}

customElements.define("hw-trust-part", TrustPart);
customElements.define("hw-policy-part", PolicyPart);
