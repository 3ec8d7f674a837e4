// @ts-check
// Secrets by name. No value ever comes back to this page; one can only be written.

import { may, part, post, put, remove, upTo } from "../core/api.js";
import { clean, make } from "../core/dom.js";
import { since, when, words } from "../core/format.js";
import { View } from "../core/view.js";
import { ask, confirm } from "../parts/dialog.js";
import { choice, input, search, select, split, tick } from "../parts/fields.js";
import { button, head, pill, teamLink } from "../parts/marks.js";
import { empty, noMatch } from "../parts/states.js";
import { listed, remainder, table } from "../parts/table.js";
import { tabs } from "../parts/tabs.js";
import { teamNames } from "../parts/teams.js";

/** @param {string} scope */
const owner = (scope) =>
  scope.startsWith("team:") ? teamLink(scope.slice(5)) : make("span", { class: "tag" }, "service");

class Vault extends View {
  begin() {
    this.rows = this.source(
      (signal, wanted) => {
        const { q, scope } = this.place.query;
        return upTo("/vault", { q, scope }, wanted, signal);
      },
      ["vault.changed"],
    );
    this.teams = teamNames(this);
    this.audit = this.source((signal, wanted) => upTo("/vault/audit", {}, wanted, signal), ["vault.changed"]);
  }

  refresh() {
    this.rows?.reload();
  }

  render() {
    const { query, rest } = this.place;
    const tab = rest[0] ?? "keys";
    return [
      head(
        "Vault",
        "Secrets for the service and its teams. Models see only their names; a tool gets a value only where you allow it.",
        may("secrets")
          ? [
              may("admin") ? button("Rotate master key…", "again", () => this.rotate()) : null,
              button("New secret", "plus", () => this.set(), { tone: "primary" }),
            ]
          : null,
      ),
      tabs(
        "vault",
        [
          ["keys", "Secrets"],
          ["audit", "Activity"],
        ],
        tab,
      ),
      tab === "audit"
        ? this.used()
        : [
            make(
              "div",
              { class: "bar" },
              search("Search secrets", query.q ?? "", (q) => this.narrow({ q })),
              choice(
                "Owner",
                [
                  ["", "Any owner"],
                  ["system", "The service"],
                  ...(this.teams?.data ?? []).map(
                    (/** @type {string} */ team) => /** @type {[string, string]} */ ([`team:${team}`, team]),
                  ),
                ],
                query.scope ?? "",
                (scope) => this.narrow({ scope }),
              ),
            ),
            this.rows?.show(({ rows }) => this.list(rows)),
          ],
    ];
  }

  /** @param {any[]} rows */
  list(rows) {
    const { q, scope } = this.place.query;
    if (!rows.length && !q && !scope)
      return empty(
        "vault",
        "The vault is empty",
        "Passwords, tokens and keys that tools need are kept here, encrypted, under a name.",
        may("secrets")
          ? button("New secret", "plus", () => this.set(), { tone: "primary" })
          : make("code", {}, "hivewright vault set"),
      );
    if (!rows.length) return noMatch("No secret matches.", () => this.narrow({ q: "", scope: "" }));
    return [
      table(
        "Secrets in the vault",
        [
          {
            name: "Name",
            cell: (row) => [
              make("strong", {}, clean(row.key)),
              row.note ? make("div", { class: "muted clip" }, clean(row.note)) : null,
            ],
          },
          { name: "Owner", cell: (row) => owner(row.scope) },
          {
            name: "Kind",
            cell: (row) =>
              row.secret ? make("span", { class: "tag" }, "secret") : make("span", { class: "tag" }, "plain"),
          },
          {
            name: "Tools",
            cell: (row) =>
              row.tools.length
                ? clean(row.tools.join(", ").replace(/^\*$/, "any"))
                : make("span", { class: "muted" }, "none"),
            quiet: true,
          },
          {
            name: "Hosts",
            cell: (row) =>
              row.hosts.length
                ? clean(row.hosts.join(", "))
                : make("span", { class: "muted" }, row.secret ? "none without asking" : "any"),
            quiet: true,
          },
          { name: "Last used", cell: (row) => (row.last_used_at ? since(row.last_used_at) : "never"), quiet: true },
          { name: "Version", number: true, cell: (row) => String(row.version), quiet: true },
          {
            name: "",
            cell: (row) =>
              may("secrets")
                ? make(
                    "div",
                    { class: "row-actions" },
                    button("Change…", "edit", () => this.set(row), {
                      tone: "small quiet",
                      "aria-label": `Change ${row.key}`,
                    }),
                    button("Delete…", "trash", () => this.discard(row), {
                      tone: "small quiet",
                      "aria-label": `Delete ${row.key}`,
                    }),
                  )
                : null,
          },
        ],
        rows,
        { key: (row) => `${row.scope}/${row.key}` },
      ),
      remainder(this.rows),
    ];
  }

  used() {
    return listed(
      this.audit,
      "Use of the vault",
      [
        { name: "When", cell: (row) => when(row.at) },
        { name: "What", cell: (row) => words(row.action) },
        { name: "Name", cell: (row) => (row.key ? make("code", {}, clean(row.key)) : "–") },
        { name: "Owner", cell: (row) => owner(row.scope) },
        {
          name: "Who",
          cell: (row) =>
            clean(
              typeof row.actor === "string"
                ? row.actor
                : (row.actor?.name ?? row.actor?.team ?? Object.values(row.actor ?? {}).join(" ")),
            ),
          quiet: true,
        },
        { name: "For", cell: (row) => clean([row.tool, row.host].filter(Boolean).join(" → ")) || "–", quiet: true },
        {
          name: "Outcome",
          cell: (row) => pill(row.outcome === "ok" || row.outcome === "done" ? "ok" : row.outcome, row.outcome),
        },
      ],
      empty("vault", "Not used yet", "Who set, read or used which secret is listed here."),
    );
  }

  /** @param {any} [row] the one that is changed */
  async set(row) {
    const scopes = [
      /** @type {[string, string]} */ (["system", "The service"]),
      ...(this.teams?.data ?? []).map(
        (/** @type {string} */ team) => /** @type {[string, string]} */ ([`team:${team}`, `Team ${team}`]),
      ),
    ];
    await ask({
      title: row ? `Change ${row.key}` : "New secret",
      about: row ? "Leave the value empty to keep it." : "The value can be replaced later, but never read here.",
      body: [
        row
          ? null
          : make(
              "div",
              { class: "pair" },
              input("Name", "key", {
                required: true,
                pattern: "[A-Za-z0-9_.:\\-]{1,128}",
                placeholder: "smtp-password",
                hint: "Letters, digits, _ . : and -",
              }),
              select("Owner", "scope", scopes),
            ),
        input("Value", "value", {
          type: "password",
          autocomplete: "new-password",
          required: !row,
          placeholder: row ? "Unchanged" : "",
          hint: row && !row.secret ? undefined : "A secret has at least 8 characters",
        }),
        row ? null : tick("Secret: no model and no person sees the value again", "secret", { checked: true }),
        make(
          "div",
          { class: "pair" },
          input("Tools that may use it", "tools", {
            value: row?.tools.join(", ") ?? "",
            placeholder: "bash",
            hint: "Separated by commas. Empty: no tool",
          }),
          input("Hosts it may go to", "hosts", {
            value: row?.hosts.join(", ") ?? "",
            placeholder: "api.example.org",
            hint: "Separated by commas. For any other, a person is asked before a secret goes there",
          }),
        ),
        input("Note", "note", { value: row?.note ?? "" }),
      ],
      action: "Save",
      submit: async (values) => {
        const place = `/vault/${part(row?.scope ?? values.scope)}/${part(row?.key ?? values.key)}`;
        const value = values.value;
        const tools = split(values.tools);
        const hosts = split(values.hosts);
        if (row) {
          await put(place, { ...(value ? { value } : {}), tools, hosts, note: values.note });
        } else {
          const secret = values.secret === "true";
          try {
            await put(place, { value, secret, tools, hosts, note: values.note, create: true });
          } catch (refusal) {
            if (/** @type {any} */ (refusal).code !== "conflict") throw refusal;
            // What was not filled in stays as it is.
            const given = {
              ...(tools.length ? { tools } : {}),
              ...(hosts.length ? { hosts } : {}),
              ...(values.note ? { note: values.note } : {}),
            };
            const replaced = await confirm({
              title: `Replace ${values.key}?`,
              lost: "There is a secret of this name. Its value is replaced; its tools, hosts and note stay unless you gave others.",
              action: "Replace",
              submit: () => put(place, { value, secret, ...given }),
            });
            if (!replaced) throw refusal;
          }
        }
      },
    });
    this.rows?.reload();
    this.audit?.reload();
  }

  /** @param {any} row */
  async discard(row) {
    await confirm({
      title: `Delete ${row.key}?`,
      lost: "The value is gone for good. Tools and settings that name it will fail.",
      typed: row.key,
      action: "Delete",
      submit: () => remove(`/vault/${part(row.scope)}/${part(row.key)}`),
    });
    this.rows?.reload();
  }

  rotate() {
    return ask({
      title: "Rotate the master key?",
      about: [
        "A new master key protects all values from now on; the values stay as they are. Back up the new key: ",
        make("code", {}, "hivewright doctor"),
        " says where it is.",
      ],
      action: "Rotate",
      submit: () => post("/vault/rotate", {}),
    });
  }
}

customElements.define("hw-vault", Vault);
