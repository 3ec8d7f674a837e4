// @ts-check
// The plugins of a team: switched on or off, set by a form, and how each stands.

import { get, may, part, post, put } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { ask } from "../../parts/dialog.js";
import { area, input, select } from "../../parts/fields.js";
import { button, fold } from "../../parts/marks.js";
import { fieldsOf, filled, nameOf, shown } from "../../parts/schema.js";
import { act, toast } from "../../parts/toast.js";
import { offering, offerings, restarting } from "./offering.js";
import { setUp } from "./setup.js";

/** @param {import("../../parts/schema.js").Field} field */
function control(field) {
  const hint = [clean(field.hint), field.usual === undefined ? "" : `Default: ${clean(JSON.stringify(field.usual))}`]
    .filter(Boolean)
    .join(" ");
  const [label, name, value] = [clean(field.label), nameOf(field), shown(field)];
  const more = { hint, required: field.required };
  switch (field.kind) {
    case "secret":
      return input(label, name, { ...more, value, hint: `${hint} It is kept in the vault of the team.`.trim() });
    case "number":
      return input(label, name, { ...more, value, type: "number", step: "any" });
    case "truth":
      return select(
        label,
        name,
        [
          ["", "Default"],
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
          ["", "Default"],
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
  const path = (/** @type {any} */ row) => `/teams/${part(team)}/plugins/${part(row.key)}`;
  const flip = (/** @type {any} */ pressed, /** @type {any} */ row) =>
    act(
      pressed,
      () => put(path(row), { enabled: !row.enabled }),
      `${row.key} is switched ${row.enabled ? "off" : "on"} from the next task on.`,
    ).then(() => source?.reload());
  const restart = (/** @type {any} */ pressed, /** @type {any} */ row) =>
    act(pressed, () => post(`${path(row)}/restart`, {}), `${row.key} is restarting.`).then(() => source?.reload());
  const set = async (/** @type {any} */ row) => {
    const about = await get(`/plugins/${part(row.key)}`);
    const fields = fieldsOf(about.config_schema ?? {}, row.config);
    if (!fields.length) return toast(`${row.key} has no settings.`);
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
  const begin = async (/** @type {any} */ row) => {
    if (await setUp(path(row), row.display_name)) source?.reload();
  };
  return offerings(
    "Plugins",
    rows.map((row) =>
      offering({
        name: row.key,
        state: row.status,
        tags: row.capabilities,
        row,
        more: [
          row.withheld && row.enabled
            ? make("span", { class: "muted" }, "its tools are not among the allowed tools of the team")
            : null,
          row.webhook_url && row.enabled ? fold("webhook", make("code", {}, clean(row.webhook_url))) : null,
        ],
        actions: may("operate")
          ? [
              row.has_setup
                ? button("Set up…", "", () => void act(null, () => begin(row)), {
                    tone: "small",
                    "aria-label": `Set up ${row.key}`,
                  })
                : null,
              button("Settings…", "settings", () => void act(null, () => set(row)), {
                tone: "small",
                "aria-label": `Settings of ${row.key}`,
              }),
              row.enabled ? restarting(row.key, (pressed) => restart(pressed, row)) : null,
              button(row.enabled ? "Switch off" : "Switch on", "", (pressed) => flip(pressed, row), {
                tone: "small",
                "aria-label": `Switch ${row.key} ${row.enabled ? "off" : "on"}`,
              }),
            ]
          : null,
      }),
    ),
    "",
  );
}
