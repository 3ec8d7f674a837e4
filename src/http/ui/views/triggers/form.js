// @ts-check
// The form of a trigger, with what its times or pattern come to while it is being written.

import { part, patch, post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { ask } from "../../parts/dialog.js";
import { area, input, select, tick } from "../../parts/fields.js";
import { toast } from "../../parts/toast.js";

/** What each type asks for: label, name in the config, hint. @type {Record<string, [string, string, string, string][]>} */
const FIELDS = {
  schedule: [
    [
      "Cron pattern",
      "cron",
      "0 9 * * 1-5",
      "Minute, hour, day, month, weekday. Or leave it empty and give one of the next two",
    ],
    ["Every", "every", "30m", "A step such as 30m, 6h, 1d"],
    ["Once at", "at", "2026-12-24T18:00:00", "A date and time"],
    ["Time zone", "timezone", "Europe/Berlin", "Empty means that of the service"],
  ],
  window: [
    ["Open while", "watch", "* 9-17 * * 1-5", "A cron pattern: the window is open in each minute that fits"],
    ["Look every", "tick_interval", "15m", ""],
    ["Time zone", "timezone", "Europe/Berlin", ""],
  ],
  keyword: [["Words", "pattern", "invoice", "What a message has to hold"]],
  message: [["Pattern", "pattern", "(?i)order \\d+", "A regular expression"]],
  webhook: [
    ["Scheme", "scheme", "standard", "standard or github"],
    ["Secret", "secret", "${vault:hook-secret}", "A reference into the vault"],
  ],
};

/** @param {HTMLFormElement} form */
function configOf(form) {
  const type = form.elements.namedItem("type");
  const names = FIELDS[/** @type {any} */ (type).value].map(([, name]) => name);
  /** @type {Record<string, string>} */ const config = {};
  for (const name of names) {
    const value = /** @type {any} */ (form.elements.namedItem(`config.${name}`))?.value.trim();
    if (value) config[name] = value;
  }
  return config;
}

/** @param {string[]} teams @param {any} [trigger] the one that is changed */
export function editTrigger(teams, trigger) {
  const first = trigger?.type ?? "schedule";
  const shown = make("output", { class: "preview", "aria-live": "polite" });
  const fields = make("div", { class: "pair" });
  const type = select("Type", "type", Object.keys(FIELDS), {
    value: first,
    onchange: () => (drawFields(), look()),
    disabled: Boolean(trigger),
  });
  const sample = input("Try a message", "sample", { placeholder: "Where is my invoice?", oninput: soon });
  /** @type {any} */ let timer;

  function drawFields() {
    const chosen = trigger ? first : /** @type {any} */ (type.querySelector("select")).value;
    fields.replaceChildren(
      ...FIELDS[chosen].map(([label, name, placeholder, hint]) =>
        input(label, `config.${name}`, {
          placeholder,
          hint,
          class: "mono",
          value: trigger?.config?.[name] ?? "",
          oninput: soon,
        }),
      ),
    );
    sample.hidden = !["keyword", "message"].includes(chosen);
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(look, 300);
  }

  async function look() {
    const form = shown.closest("form");
    if (!form) return;
    const kind = trigger ? first : /** @type {any} */ (form.elements.namedItem("type")).value;
    const config = trigger ? { ...trigger.config, ...configIn(form, first) } : configOf(form);
    const words = /** @type {any} */ (form.elements.namedItem("sample"))?.value;
    if (!Object.keys(config).length) return shown.replaceChildren("What it comes to is shown here.");
    try {
      const seen = await post("/triggers/preview", {
        type: kind,
        config,
        ...(words && !sample.hidden ? { sample: words } : {}),
      });
      shown.replaceChildren(...preview(seen));
      shown.dataset.bad = "false";
    } catch (refusal) {
      const { field, message } = /** @type {any} */ (refusal);
      shown.replaceChildren(`${field ? `${clean(field)}: ` : ""}${clean(message)}`);
      shown.dataset.bad = "true";
    }
  }

  drawFields();
  queueMicrotask(look);
  return ask({
    title: trigger ? `Edit ${trigger.name}` : "New trigger",
    wide: true,
    body: [
      make(
        "div",
        { class: "pair" },
        input("Name", "name", {
          required: true,
          value: trigger?.name ?? "",
          placeholder: "weekly-report",
          pattern: "[a-z0-9][a-z0-9_\\-]*",
        }),
        select("Team", "team", teams.length ? teams : ["main"], { value: trigger?.team, disabled: Boolean(trigger) }),
        type,
      ),
      area("What is to be done", "task", {
        required: true,
        value: trigger?.task ?? "",
        rows: 3,
        placeholder: "Sum up last week and list what is open",
      }),
      fields,
      sample,
      shown,
      make(
        "div",
        { class: "pair" },
        select("Priority", "priority", ["critical", "high", "normal", "low"], { value: trigger?.priority ?? "normal" }),
        select(
          "If its last work is unfinished",
          "overlap_policy",
          [
            ["skip-then-replace", "Skip once, then replace"],
            ["always-skip", "Skip"],
            ["always-replace", "Replace it"],
            ["allow", "Run beside it"],
          ],
          { value: trigger?.overlap_policy },
        ),
      ),
      trigger ? null : tick("Enable it at once", "enable", { checked: true }),
    ],
    action: trigger ? "Save" : "Create the trigger",
    submit: async (values, form) => {
      const common = {
        name: values.name,
        task: values.task,
        priority: values.priority,
        overlap_policy: values.overlap_policy,
      };
      if (trigger) {
        const changed = Object.fromEntries(Object.entries(common).filter(([name, value]) => value !== trigger[name]));
        return patch(`/triggers/${part(trigger.id)}`, {
          ...changed,
          config: { ...trigger.config, ...configIn(form, first) },
        });
      }
      const made = await post("/triggers", {
        ...common,
        team: values.team,
        type: values.type,
        config: configOf(form),
        enable: values.enable === "true",
      });
      toast(`Trigger ${values.name} is made.`);
      return made;
    },
  });
}

/** @param {HTMLFormElement} form @param {string} type */
function configIn(form, type) {
  const rows = FIELDS[type].map(([, name]) => [
    name,
    /** @type {any} */ (form.elements.namedItem(`config.${name}`))?.value.trim(),
  ]);
  return Object.fromEntries(rows.filter(([, value]) => value));
}

/** @param {any} seen @returns {(Node | string)[]} */
function preview(seen) {
  if (seen.due?.length)
    return [
      make("strong", {}, "Next times"),
      make(
        "ol",
        { class: "times" },
        seen.due.map((/** @type {any} */ time) => make("li", {}, clean(time.local))),
      ),
    ];
  if (seen.due) return ["It would never run: no time to come fits."];
  if ("matches" in seen) return [seen.matches ? "This message would start it." : "This message would not start it."];
  return ["That can be used."];
}
