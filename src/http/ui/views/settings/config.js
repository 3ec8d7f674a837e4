// @ts-check
// The settings that count, each with where it comes from.

import { get, may, post } from "../../core/api.js";
import { clean, icon, make } from "../../core/dom.js";
import { several } from "../../core/format.js";
import { View } from "../../core/view.js";
import { ask } from "../../parts/dialog.js";
import { editor } from "../../parts/editor.js";
import { search, segments, select } from "../../parts/fields.js";
import { button } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { table } from "../../parts/table.js";
import { act, toast } from "../../parts/toast.js";

class ConfigPart extends View {
  begin() {
    this.config = this.source((signal) => get("/config", {}, signal), ["config.reloaded", "config.invalid"]);
    this.q = "";
    this.which = "set";
  }

  /** @param {HTMLButtonElement} pressed */
  reload(pressed) {
    return act(pressed, async () => {
      const { reloaded, problems } = await post("/config/reload", {});
      this.config?.reload();
      if (problems?.length)
        throw Object.assign(
          new Error(problems.map((/** @type {any} */ problem) => `${problem.file}: ${problem.message}`).join("\n")),
          { code: "config_invalid" },
        );
      toast(reloaded?.length ? `Read again: ${reloaded.join(", ")}.` : "Nothing had changed.");
    });
  }

  check() {
    const text = editor("Content", "content", { rows: 14 });
    return ask({
      title: "Check a settings file",
      about: "Nothing is saved: this only says whether the file would be accepted.",
      wide: true,
      body: [select("File", "file", ["config", "providers", "channels"]), text.element],
      action: "Check",
      submit: async ({ file, content }) => {
        const { valid, problems } = await post("/config/validate", { file, content });
        text.mark(problems ?? []);
        if (!valid) throw Object.assign(new Error("The file would be refused."), { code: "config_invalid" });
        toast("The file is valid.");
      },
    });
  }

  render() {
    return [
      make(
        "div",
        { class: "bar" },
        segments(
          "Which",
          [
            ["set", "Set by you"],
            ["all", "All"],
          ],
          this.which ?? "set",
          (which) => ((this.which = which), this.update()),
        ),
        search("Find a setting", this.q ?? "", (q) => ((this.q = q), this.update())),
        may("admin")
          ? make(
              "div",
              { class: "actions push" },
              button("Check a file…", "check", () => this.check()),
              button("Read files again", "again", (pressed) => this.reload(pressed)),
            )
          : null,
      ),
      this.config?.show((config) => this.list(config)),
    ];
  }

  /** @param {any} config */
  list({ fields, problems, warnings }) {
    const q = (this.q ?? "").toLowerCase();
    const rows = fields.filter(
      (/** @type {any} */ row) =>
        (this.which === "all" || q || row.source !== "default") && `${row.file} ${row.path}`.toLowerCase().includes(q),
    );
    return [
      problems?.length
        ? make(
            "div",
            { class: "problems" },
            problems.map((/** @type {any} */ one) =>
              make(
                "p",
                { class: "problem" },
                icon("alert"),
                make(
                  "span",
                  {},
                  make("code", {}, clean([one.file, one.line].filter(Boolean).join(":"))),
                  ` ${one.path ? `${clean(one.path)}: ` : ""}${clean(one.message)}`,
                ),
              ),
            ),
          )
        : null,
      warnings?.length
        ? make(
            "ul",
            { class: "problems muted" },
            warnings.map((/** @type {any} */ one) => make("li", {}, clean(one.message ?? one))),
          )
        : null,
      rows.length
        ? table(
            "Settings",
            [
              {
                name: "Setting",
                cell: (row) => [make("code", {}, clean(row.path)), make("div", { class: "muted" }, clean(row.file))],
              },
              {
                name: "Value",
                wide: true,
                cell: (row) =>
                  make(
                    "code",
                    { class: "value" },
                    clean(typeof row.value === "string" ? row.value : JSON.stringify(row.value)),
                  ),
              },
              {
                name: "From",
                cell: (row) => `${clean(row.source)}${row.line ? `, line ${row.line}` : ""}`,
                quiet: true,
              },
            ],
            rows,
            { key: (row) => `${row.file}/${row.path}` },
          )
        : empty(
            "settings",
            this.which === "set" && !q ? "All settings are the shipped ones" : "Nothing fits",
            this.which === "set" && !q ? "What you set in a file appears here." : "No setting has this in its name.",
            button(
              `Show all ${several(fields.length, "setting")}`,
              "list",
              () => ((this.which = "all"), (this.q = ""), this.update()),
            ),
          ),
    ];
  }
}

customElements.define("hw-config-part", ConfigPart);
