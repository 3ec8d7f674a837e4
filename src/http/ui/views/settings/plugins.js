// @ts-check
// The plugins that there are: what each brings and asks for, what is wrong with it, installing one.

import { call, may, part, post, remove, upTo } from "../../core/api.js";
import { clean, coded, make } from "../../core/dom.js";
import { several, words } from "../../core/format.js";
import { write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { ask, confirm } from "../../parts/dialog.js";
import { button, facts, fold, intro, pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { act, toast } from "../../parts/toast.js";
import "../../parts/approval.js";

/** @param {string[]} lines */
const asks = (lines) =>
  make(
    "ul",
    { class: "plain" },
    lines.map((line) => make("li", {}, coded(line))),
  );

/** Another version that asks for more than was agreed to, and what is to be decided. @param {any} update */
const waits = ({ version, approval }) => [
  make(
    "p",
    {},
    `Version ${clean(version)} asks for more than was agreed to. Until somebody approves it, this one stays. `,
    make("a", { href: write("approvals") }, "All approvals"),
  ),
  approval ? make("hw-approval", { key: approval, "data-id": approval }) : null,
];

class PluginsPart extends View {
  begin() {
    this.plugins = this.source(
      (signal, wanted) => upTo("/plugins", {}, wanted, signal),
      ["config.reloaded", "approval.changed"],
    );
    this.chooser = make("input", {
      type: "file",
      accept: ".gz,.tgz,.zip",
      hidden: true,
      "aria-label": "Archive of a plugin",
      onchange: () => this.look(),
    });
  }

  /** Shows what a chosen archive asks for, and installs it once somebody agrees. */
  async look() {
    const file = this.chooser?.files?.[0];
    if (!file || !this.chooser) return;
    this.chooser.value = "";
    const query = { source: file.name };
    await act(null, async () => {
      const found = (await call("POST", "/plugins/check", { query, file })).data;
      const more = found.beyond.length
        ? [make("p", {}, `More than ${clean(found.installed)} was allowed to ask for:`), asks(found.beyond)]
        : null;
      const done = await ask({
        title: `Install ${clean(found.display_name)} ${clean(found.version)}?`,
        about: clean(found.description),
        body: [
          make(
            "p",
            {},
            found.signed_by ? `Signed by ${clean(found.signed_by)}.` : "No key that is trusted here has signed it.",
          ),
          more,
          make("p", {}, "It asks for:"),
          asks(found.asks),
          make("code", { class: "clip" }, found.digest),
        ],
        action: "Agree and install",
        submit: () => call("POST", "/plugins", { query: { ...query, digest: found.digest }, file }),
      });
      if (done) toast(`${found.key} is installed. Switch it on for a team, on that team’s page.`);
    });
    this.plugins?.reload();
  }

  /** @param {any} row */
  async approve(row) {
    await ask({
      title: `Agree to ${clean(row.key)} as it is?`,
      about: "Its files have changed since somebody agreed to it.",
      body: [asks(row.asks), make("code", { class: "clip" }, row.digest)],
      action: "Agree",
      submit: () => post(`/plugins/${part(row.key)}/approve`, { digest: row.digest }),
    });
    this.plugins?.reload();
  }

  /** @param {any} row */
  async uninstall(row) {
    await confirm({
      title: `Uninstall ${clean(row.key)}?`,
      lost: "No team can use it then. The settings of teams are kept, in case you install it again.",
      action: "Uninstall",
      submit: () => remove(`/plugins/${part(row.key)}`),
    });
    this.plugins?.reload();
  }

  /** @param {any} row */
  entry(row) {
    const { tools, channel, hooks } = row.capabilities ?? {};
    const brings = [tools && "tools", channel && "channel", hooks?.length && "hooks"].filter(Boolean).join(", ");
    const installed = row.origin === "installed";
    return make(
      "section",
      { class: "panel", key: `${row.key} ${row.source}` },
      make(
        "div",
        { class: "bar" },
        make("h2", {}, clean(row.display_name)),
        pill(row.state === "loaded" ? "ok" : row.state === "failed" ? "failed" : "warn", row.state),
        row.update ? pill("pending", "update waits") : null,
        make("span", { class: "tag" }, words(row.origin)),
        row.kind ? make("span", { class: "tag" }, row.kind) : null,
        may("admin") && installed
          ? make(
              "div",
              { class: "push" },
              row.fault?.code === "digest_mismatch"
                ? button("Agree…", "check", () => this.approve(row), { tone: "small" })
                : null,
              button("Uninstall…", "trash", () => this.uninstall(row), {
                tone: "small quiet",
                "aria-label": `Uninstall ${row.key}`,
              }),
            )
          : null,
      ),
      make("p", { class: "muted" }, clean(row.description)),
      row.fault
        ? make(
            "p",
            { class: "problem" },
            `${clean(row.fault.reason)} `,
            make("code", {}, clean([row.fault.code, row.fault.file, row.fault.field].filter(Boolean).join(" · "))),
          )
        : null,
      row.update ? waits(row.update) : null,
      facts([
        ["Key", make("code", {}, clean(row.key))],
        ["Version", clean(row.version)],
        ["Brings", brings],
        ["From", clean(row.source)],
        ["Signed by", clean(row.signed_by ?? "")],
        ["Teams", clean(row.teams.join(", "))],
      ]),
      row.asks.length ? fold(`Asks for ${several(row.asks.length, "thing")}`, asks(row.asks)) : null,
    );
  }

  render() {
    const add = () => this.chooser?.click();
    return [
      intro(
        "Install a plugin once, then switch it on for each team, on the page of the team.",
        may("admin") && [this.chooser, button("Install…", "plus", add, { tone: "primary" })],
      ),
      this.plugins?.show(({ rows }) =>
        rows.length
          ? rows.map((/** @type {any} */ row) => this.entry(row))
          : empty("settings", "No plugins", [
              "To write one, run ",
              make("code", {}, "hivewright plugin new"),
              "; to get one, install an archive.",
            ]),
      ),
    ];
  }
}

customElements.define("hw-plugins-part", PluginsPart);
