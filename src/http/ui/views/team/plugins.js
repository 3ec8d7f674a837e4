// @ts-check
// The plugins of a team: switched on or off, set by a form, and how each stands.

import { get, may, part, post, put } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several, since } from "../../core/format.js";
import { ask } from "../../parts/dialog.js";
import { area, input, select } from "../../parts/fields.js";
import { button, fold, pill } from "../../parts/marks.js";
import { fieldsOf, filled, nameOf, shown } from "../../parts/schema.js";
import { act, toast } from "../../parts/toast.js";

/** @param {import("../../parts/schema.js").Field} field */
function control(field) {
  const hint = [clean(field.hint), field.usual === undefined ? "" : `Left empty: ${clean(JSON.stringify(field.usual))}`]
    .filter(Boolean)
    .join(" ");
  const [label, name, value] = [clean(field.label), nameOf(field), shown(field)];
  const more = { hint, required: field.required };
  switch (field.kind) {
    case "secret":
      return input(label, name, { ...more, value, hint: `${hint} A secret: it goes to the vault of the team.`.trim() });
    case "number":
      return input(label, name, { ...more, value, type: "number", step: "any" });
    case "truth":
      return select(
        label,
        name,
        [
          ["", "As usual"],
          ["true", "Yes"],
          ["false", "No"],
        ],
        { ...more, value },
      );
    case "words":
      return select(
        label,
        name,
        [
          ["", "As usual"],
          ...field.options.map((word) => /** @type {[string, string]} */ ([String(word), String(word)])),
        ],
        { ...more, value },
      );
    case "lines":
      return area(label, name, { ...more, value, hint: `${hint} One on each line.`.trim() });
    case "json":
      return area(label, name, { ...more, value, hint: `${hint} As JSON.`.trim() });
    default:
      return input(label, name, { ...more, value });
  }
}

/**
 * @param {string} team
 * @param {{data?: {rows: any[]}, reload: () => any} | undefined} source
 */
export function plugins(team, source) {
  const rows = source?.data?.rows ?? [];
  if (!rows.length) return null;
  const path = (/** @type {any} */ row) => `/teams/${part(team)}/plugins/${part(row.key)}`;
  const flip = (/** @type {any} */ pressed, /** @type {any} */ row) =>
    act(
      pressed,
      () => put(path(row), { enabled: !row.enabled }),
      `${row.key} is switched ${row.enabled ? "off" : "on"}, from the next turn on.`,
    ).then(() => source?.reload());
  const restart = (/** @type {any} */ pressed, /** @type {any} */ row) =>
    act(pressed, () => post(`${path(row)}/restart`, {}), `${row.key} starts anew.`).then(() => source?.reload());
  const set = async (/** @type {any} */ row) => {
    const about = await get(`/plugins/${part(row.key)}`);
    const fields = fieldsOf(about.config_schema ?? {}, row.config);
    if (!fields.length) return toast(`${row.key} has nothing to set.`);
    const done = await ask({
      title: `Settings of ${clean(row.display_name)} in ${clean(team)}`,
      about: clean(about.description),
      body: fields.map(control),
      action: "Save",
      wide: true,
      submit: (values) => put(path(row), { config: filled(fields, values) }),
    });
    if (done) source?.reload();
  };
  const entry = (/** @type {any} */ row) =>
    make(
      "li",
      { key: row.key },
      pill(row.status),
      make("code", {}, clean(row.key)),
      row.capabilities.map((/** @type {string} */ word) => make("span", { class: "tag" }, clean(word))),
      row.tools.length ? fold(several(row.tools.length, "tool"), make("code", {}, clean(row.tools.join(", ")))) : null,
      row.last_error
        ? make(
            "span",
            { class: "clip muted", title: clean(row.last_error) },
            since(row.last_error_at),
            " ",
            clean(row.last_error),
          )
        : null,
      may("operate")
        ? [
            button("Set…", "settings", () => void act(null, () => set(row)), {
              tone: "small",
              "aria-label": `Settings of ${row.key}`,
            }),
            row.enabled
              ? button("Restart", "again", (pressed) => restart(pressed, row), {
                  tone: "small",
                  "aria-label": `Restart ${row.key}`,
                })
              : null,
            button(row.enabled ? "Switch off" : "Switch on", "", (pressed) => flip(pressed, row), {
              tone: "small",
              "aria-label": `Switch ${row.key} ${row.enabled ? "off" : "on"}`,
            }),
          ]
        : null,
    );
  return make(
    "section",
    { class: "panel" },
    make("h2", {}, "Plugins"),
    make("ul", { class: "plain listed" }, rows.map(entry)),
  );
}
