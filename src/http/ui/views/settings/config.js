// @ts-check
// The settings that count, each with where it comes from.

import { get, may, part, post } from "../../core/api.js";
import { clean, coded, make } from "../../core/dom.js";
import { several } from "../../core/format.js";
import { View } from "../../core/view.js";
import { search, segments } from "../../parts/fields.js";
import { editFile } from "../../parts/file.js";
import { button, problem } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { table } from "../../parts/table.js";
import { act, toast } from "../../parts/toast.js";
import { withEntry } from "../../parts/yaml.js";

class ConfigPart extends View {
  begin() {
    this.config = this.source((signal) => get("/config", {}, signal), ["config.reloaded", "config.invalid"]);
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
      toast(reloaded?.length ? `Reloaded: ${reloaded.join(", ")}.` : "Nothing had changed.");
    });
  }

  /**
   * Opens a settings file, at one of its settings if there is one to change.
   * @param {string} name @param {any} [row]
   */
  async edit(name, row) {
    const path = `/config/${part(name)}`;
    const file = await get(path);
    await editFile(
      {
        title: row ? `Change ${row.path}` : `Edit ${name}.yaml`,
        path,
        file,
        line: row?.line,
        draft: row && !row.line ? withSetting(file.content, row) : undefined,
        done: "Saved and in use. If something needs a restart, a notice says so.",
      },
      () => this.config?.reload(),
    );
  }

  render() {
    const { q = "", which = "set" } = this.place.query;
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
          which,
          (wanted) => this.filter({ which: wanted === "set" ? "" : wanted }),
        ),
        search("Find a setting", q, (wanted) => this.filter({ q: wanted })),
        may("admin")
          ? make(
              "div",
              { class: "actions push" },
              ["config", "channels"].map((name) =>
                button(`Edit ${name}.yaml…`, "edit", () => act(null, () => this.edit(name))),
              ),
              button("Reload files", "again", (pressed) => this.reload(pressed)),
            )
          : null,
      ),
      this.config?.show((config) => this.list(config)),
    ];
  }

  /** @param {any} config */
  list({ fields, problems, warnings }) {
    const { q: sought = "", which = "set" } = this.place.query;
    const q = sought.toLowerCase();
    const rows = fields.filter(
      (/** @type {any} */ row) =>
        (which === "all" || q || row.source !== "default") && `${row.file} ${row.path}`.toLowerCase().includes(q),
    );
    return [
      problems?.length
        ? make(
            "div",
            { class: "problems" },
            problems.map((/** @type {any} */ one) =>
              problem(
                make("code", {}, clean([one.file, one.line].filter(Boolean).join(":"))),
                ` ${one.path ? `${clean(one.path)}: ` : ""}`,
                coded(one.message),
              ),
            ),
          )
        : null,
      warnings?.length
        ? make(
            "ul",
            { class: "problems muted" },
            warnings.map((/** @type {any} */ one) => make("li", {}, coded(one.message ?? one))),
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
              {
                name: "",
                cell: (row) =>
                  may("admin")
                    ? button("Change…", "edit", () => act(null, () => this.edit(row.file, row)), {
                        tone: "small quiet",
                        "aria-label": `Change ${row.path}`,
                      })
                    : null,
              },
            ],
            rows,
            { key: (row) => `${row.file}/${row.path}` },
          )
        : empty(
            "settings",
            which === "set" && !q ? "You have not changed any setting" : "Nothing matches",
            which === "set" && !q
              ? "Settings that you change appear here."
              : "No setting has this in its name. Try another word.",
            button(`Show all ${several(fields.length, "setting")}`, "list", () => this.filter({ which: "all", q: "" })),
          ),
    ];
  }
}

/**
 * The text of a file that also states a setting as it is by default. One that lies deeper is left to whoever writes.
 * @param {string} text @param {any} row
 */
function withSetting(text, { path, value }) {
  const [section, name, ...deeper] = path.split(".");
  if (!name) return `${text.trimEnd()}\n${section}: ${JSON.stringify(value)}\n`;
  return deeper.length ? undefined : withEntry(text, section, name, JSON.stringify(value));
}

customElements.define("hw-config-part", ConfigPart);
