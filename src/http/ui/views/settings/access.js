// @ts-check
// Tokens, the browsers that are logged in, and which chat senders are which token's holder.

import { all, may, part, post, remove, upTo } from "../../core/api.js";
import { clean, copyButton, make } from "../../core/dom.js";
import { since, when, words } from "../../core/format.js";
import { View } from "../../core/view.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input, select, tick } from "../../parts/fields.js";
import { button, code, fold, intro } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { listed } from "../../parts/table.js";
import { act } from "../../parts/toast.js";

/** @type {[string, string][]} */
const SCOPES = [
  ["read", "see everything except secrets"],
  ["chat", "talk to teams"],
  ["operate", "manage tasks, teams, triggers and topics"],
  ["approve", "decide approvals and answer questions"],
  ["secrets", "see the names in the vault, and set values"],
  ["admin", "manage settings, tokens and backups"],
  ["metrics", "read figures for monitoring"],
  ["assert_sender", "send messages on behalf of others"],
];

/** What a form asks for. @param {Record<string, string>} values @param {string[]} names those of all teams */
export function tokenOf(values, names) {
  const { name, expires } = values;
  const scopes = SCOPES.map(([scope]) => scope).filter((scope) => values[`scope.${scope}`]);
  const teams = names.filter((team) => values[`team.${team}`]);
  return { name, expires, scopes, ...(teams.length ? { teams } : {}) };
}

class TokensPart extends View {
  begin() {
    this.rows = this.source((signal, wanted) => upTo("/tokens", {}, wanted, signal));
  }

  async create() {
    const names = (await all("/teams")).map(({ name }) => name);
    /** @type {any} */ let made;
    await ask({
      title: "New token",
      about: "You see the token once; only its hash is stored.",
      body: [
        make(
          "div",
          { class: "pair" },
          input("Name", "name", { required: true, placeholder: "ci" }),
          select(
            "Valid for",
            "expires",
            [
              ["30d", "30 days"],
              ["90d", "90 days"],
              ["365d", "a year"],
              ["never", "no end"],
            ],
            { value: "90d" },
          ),
        ),
        make(
          "fieldset",
          { class: "ticks" },
          make("legend", {}, "What it may do"),
          SCOPES.filter(([scope]) => may(scope)).map(([scope, about]) =>
            tick(`${scope}: ${about}`, `scope.${scope}`, { checked: scope === "read" }),
          ),
        ),
        fold("Only for some teams", [
          make("p", { class: "muted" }, "Without a choice it is for all teams, also those to come."),
          make(
            "fieldset",
            { class: "ticks" },
            make("legend", { class: "hidden" }, "Teams"),
            names.map((name) => tick(clean(name), `team.${name}`)),
          ),
        ]),
      ],
      action: "Create token",
      submit: async (values) => {
        made = await post("/tokens", tokenOf(values, names));
      },
    });
    this.rows?.reload();
    if (!made) return;
    await ask({
      title: `Token ${made.name}`,
      about: "Copy it now: you will not see it again.",
      body: make(
        "div",
        { class: "token" },
        make("code", { tabindex: "0" }, made.token),
        copyButton("Copy", () => made.token),
      ),
      action: "Done",
      submit: async () => true,
    });
  }

  render() {
    return [
      intro(
        "People and programs log in with a token. Browsers also log in with a link.",
        may("admin") && button("New token", "plus", () => act(null, () => this.create()), { tone: "primary" }),
      ),
      listed(
        this.rows,
        "Tokens",
        [
          { name: "Name", cell: (row) => [make("strong", {}, clean(row.name)), make("div", {}, code(row.id))] },
          { name: "Kind", cell: (row) => words(row.kind), quiet: true },
          {
            name: "Scopes",
            wide: true,
            cell: (row) =>
              make(
                "span",
                { class: "tags" },
                (row.scopes ?? []).map((/** @type {string} */ scope) => make("span", { class: "tag" }, words(scope))),
              ),
          },
          { name: "Teams", cell: (row) => clean(row.teams?.join(", ") ?? "all"), quiet: true },
          {
            name: "Last used",
            cell: (row) => (row.last_used_at ? since(row.last_used_at) : "never"),
            quiet: true,
          },
          { name: "Expires", cell: (row) => (row.expires_at ? when(row.expires_at) : "never"), quiet: true },
          { name: "Created by", cell: (row) => clean(row.minted_by?.name ?? ""), quiet: true },
          {
            name: "",
            cell: (row) =>
              row.kind === "operator"
                ? null
                : make(
                    "div",
                    { class: "row-actions" },
                    button("Revoke…", "trash", () => this.revoke(row), {
                      tone: "small quiet",
                      "aria-label": `Revoke ${row.name}`,
                    }),
                  ),
          },
        ],
        empty("vault", "No tokens", "Create one to let a person or a program in."),
      ),
    ];
  }

  /** @param {any} row */
  async revoke(row) {
    const made = minted(row.id, this.rows?.data.rows);
    await ask({
      title: `Revoke ${row.name}?`,
      about: "Whoever uses it is logged out at once and cannot use it again.",
      body: made.length
        ? tick(`Also revoke the tokens it created: ${made.map(({ name }) => clean(name)).join(", ")}`, "minted", {
            checked: true,
          })
        : null,
      action: "Revoke",
      dangerous: true,
      submit: (values) => remove(`/tokens/${part(row.id)}`, { minted: values.minted === "true" ? "true" : "false" }),
    });
    this.rows?.reload();
  }
}

/**
 * The tokens that a token made, and those that they made.
 * @param {string} id
 * @param {any[]} rows
 * @returns {any[]}
 */
function minted(id, rows) {
  return rows.filter((row) => row.minted_by?.id === id).flatMap((row) => [row, ...minted(row.id, rows)]);
}

class LoginsPart extends View {
  begin() {
    this.rows = this.source((signal, wanted) => upTo("/logins", { sort: "-last_used_at" }, wanted, signal));
  }

  render() {
    return [
      make(
        "p",
        { class: "muted" },
        "Browsers that are logged in. A login ends after 12 hours without use, and after 7 days at the latest.",
      ),
      listed(
        this.rows,
        "Logins",
        [
          {
            name: "Who",
            cell: (row) => [
              make("strong", {}, clean(row.principal)),
              row.current ? make("span", { class: "muted" }, " (this browser)") : "",
              make("div", {}, code(row.id)),
            ],
          },
          { name: "Since", cell: (row) => since(row.created_at), quiet: true },
          { name: "Last used", cell: (row) => since(row.last_used_at), quiet: true },
          { name: "Expires", cell: (row) => when(row.ends_at), quiet: true },
          {
            name: "",
            cell: (row) =>
              make(
                "div",
                { class: "row-actions" },
                button("Log out…", "trash", () => this.end(row), {
                  tone: "small quiet",
                  "aria-label": `Log out ${row.id}`,
                }),
              ),
          },
        ],
        empty("vault", "No browser is logged in", "A browser appears here once it logs in with a link or a token."),
      ),
    ];
  }

  /** @param {any} row */
  async end(row) {
    await confirm({
      title: "Log this browser out?",
      lost: row.current
        ? "It is the browser you are using: you will have to log in again."
        : "Whoever uses it is logged out at once and has to log in again.",
      action: "Log out",
      submit: () => remove(`/logins/${part(row.id)}`),
    });
    this.rows?.reload();
  }
}

class IdentitiesPart extends View {
  begin() {
    this.rows = this.source((signal, wanted) => upTo("/identities", {}, wanted, signal));
  }

  async create() {
    await ask({
      title: "Link a sender",
      about: "This sender can then approve and answer in a chat, with the rights of the token.",
      body: [
        select("Channel type", "channel_type", ["discord", "ws", "api", "cli"]),
        input("Sender", "sender_id", { required: true, placeholder: "80351110224678912" }),
        input("Token", "token", { required: true, placeholder: "alice", hint: "Its name or id" }),
      ],
      action: "Link",
      submit: (values) => post("/identities", values),
    });
    this.rows?.reload();
  }

  render() {
    return [
      intro(
        "Senders of a chat network who have a token, so that they can approve and answer there.",
        may("admin") && button("Link a sender", "plus", () => this.create(), { tone: "primary" }),
      ),
      listed(
        this.rows,
        "Identities",
        [
          { name: "Channel", cell: (row) => words(row.channel_type) },
          { name: "Sender", cell: (row) => make("code", {}, clean(row.sender_id)) },
          {
            name: "Token",
            cell: (row) => [clean(row.token), row.live ? "" : make("span", { class: "muted" }, " (expired)")],
          },
          { name: "Linked", cell: (row) => [since(row.linked_at), ` by ${clean(row.linked_by)}`], quiet: true },
          {
            name: "",
            cell: (row) =>
              button("Unlink…", "trash", () => this.unlink(row), {
                tone: "small quiet",
                "aria-label": `Unlink ${row.sender_id}`,
              }),
          },
        ],
        empty(
          "approvals",
          "Nobody is linked",
          "Link a sender to a token, and that person can approve and answer in a chat.",
          may("admin") ? button("Link a sender", "plus", () => this.create()) : null,
        ),
      ),
    ];
  }

  /** @param {any} row */
  async unlink(row) {
    await confirm({
      title: `Unlink ${row.sender_id}?`,
      lost: "This sender can no longer approve or answer in a chat.",
      action: "Unlink",
      submit: () => remove(`/identities/${part(row.id)}`),
    });
    this.rows?.reload();
  }
}

customElements.define("hw-tokens-part", TokensPart);
customElements.define("hw-logins-part", LoginsPart);
customElements.define("hw-identities-part", IdentitiesPart);
