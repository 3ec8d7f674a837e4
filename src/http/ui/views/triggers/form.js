// @ts-check
// The form of a trigger, with what its times or pattern come to while it is being written.

import { part, patch, post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { words } from "../../core/format.js";
import { live } from "../../live/live.js";
import { ask, reason } from "../../parts/dialog.js";
import { area, input, select, split, tick } from "../../parts/fields.js";
import { fold } from "../../parts/marks.js";
import { toast } from "../../parts/toast.js";
import { ownZone, scheduleFields, zones } from "./schedule.js";

/**
 * What each type asks for: label, name in the config, example, hint, and how its text is read if it is no text.
 * @typedef {[string, string, string, string, ("number" | "list")?]} Field
 * @type {Record<string, Field[]>}
 */
const FIELDS = {
  schedule: [
    [
      "Cron pattern",
      "cron",
      "0 9 * * 1-5",
      "Minute, hour, day, month, weekday. Or fill in one of the next two instead",
    ],
    ["Every", "every", "30m", "An interval such as 30m, 6h or 1d"],
    ["Once at", "at", "2026-12-24T18:00:00", "A date and time"],
    ["Time zone", "timezone", "Europe/Berlin", "Empty: the time zone of the service"],
  ],
  window: [
    ["Open while", "watch", "* 9-17 * * 1-5", "A cron pattern: the window is open in each minute that fits"],
    ["Or opens at", "open", "0 9 * * 1-5", "A cron pattern, with one of the next two"],
    ["Closes at", "close", "0 17 * * 1-5", "A cron pattern"],
    ["Stays open for", "duration", "8h", "At most 7d"],
    ["Runs every", "tick_interval", "15m", "While the window is open"],
    ["Most runs", "max_ticks_per_window", "1000", "In one window", "number"],
    ["Time zone", "timezone", "Europe/Berlin", ""],
  ],
  keyword: [
    ["Words", "pattern", "invoice", "What a message has to contain"],
    ["Only in channels", "channels", "", "Ids, separated by commas; empty: all", "list"],
    ["Only of senders", "sender", "", "Ids, separated by commas; empty: all", "list"],
  ],
  message: [
    ["Pattern", "pattern", "(?i)order \\d+", "A regular expression"],
    ["Flags", "flags", "i", "i: capital and small letters are the same"],
    ["Only in channels", "channels", "", "Ids, separated by commas; empty: all", "list"],
    ["Only of senders", "sender", "", "Ids, separated by commas; empty: all", "list"],
  ],
  webhook: [
    ["Signed as by", "scheme", "standard", "standard (Standard Webhooks) or github"],
    ["Secret", "secret", "${vault:hook-secret}", "Where it is in the vault"],
    ["Oldest call accepted", "tolerance", "5m", "Older ones are refused, so that nobody can repeat them"],
  ],
};

/** Beside its name, task and config: label, name, example, hint. @type {Field[]} */
const MORE = [
  ["Subagent", "subagent", "", "Empty: the team itself"],
  ["Most steps", "max_steps", "", "Empty: the limit of the team", "number"],
  ["Deadline", "deadline", "6h", "How long a run may take"],
  ["Least time between runs", "cooldown", "0s", "Such as 10m"],
  ["Switch off after failures", "failure_threshold", "3", "In a row", "number"],
  ["Report to channel", "notify_channel", "", "The id of a channel. Empty: where the message came from, or Notices"],
  ["Report to topic", "notify_topic", "", "The id of a topic in that channel"],
  ["Quiet from", "quiet.from", "22:00", "Reports wait until the quiet hours are over"],
  ["Quiet until", "quiet.to", "07:00", ""],
  ["Time zone of quiet hours", "quiet.timezone", "Europe/Berlin", "Empty: the time zone of the service"],
];

/** @type {[string, string][]} */
const OVERLAPS = [
  ["skip-then-replace", "Skip once, then replace"],
  ["always-skip", "Skip"],
  ["always-replace", "Replace it"],
  ["allow", "Run after it"],
];
/** @type {[string, string][]} */
const MISSED = [
  ["once", "Run once for all of them"],
  ["skip", "Skip them"],
  ["all", "Run each, at most ten"],
];
/** @type {[string, string][]} */
const REPORTS = [
  ["auto", "When the run asks for it"],
  ["always", "After every run"],
  ["on_failure", "After failures"],
  ["never", "Never"],
];

/** What the form calls a choice. @param {string} value */
export const choiceWord = (value) =>
  [...OVERLAPS, ...MISSED, ...REPORTS].find(([known]) => known === value)?.[1] ?? words(value);

/** A value as a field shows it. @param {any} value */
const shownAs = (value) => (Array.isArray(value) ? value.join(", ") : value == null ? "" : String(value));

/** What stands in a field; null if it is empty. @param {HTMLFormElement} form @param {string} name @param {Field[4]} [kind] */
function valueIn(form, name, kind) {
  const text = /** @type {any} */ (form.elements.namedItem(name))?.value.trim();
  if (!text) return null;
  if (kind === "list") return split(text);
  return kind === "number" ? Number(text) : text;
}

/**
 * The values of fields; of a trigger that is changed only those that are no longer as they were, where null clears.
 * @param {HTMLFormElement} form @param {Field[]} fields @param {string} prefix @param {any} [before]
 */
function valuesOf(form, fields, prefix, before) {
  /** @type {Record<string, any>} */ const values = {};
  for (const [, name, , , kind] of fields) {
    const value = valueIn(form, prefix + name, kind);
    if (before ? shownAs(value) !== shownAs(before[name]) : value !== null) values[name] = value;
  }
  return values;
}

/** The quiet hours are one field of the trigger. @param {Record<string, any>} values @param {HTMLFormElement} form */
function withQuiet(values, form) {
  const { "quiet.from": from, "quiet.to": to, "quiet.timezone": zone, ...rest } = values;
  if (from === undefined && to === undefined && zone === undefined) return rest;
  const hours = Object.fromEntries(
    ["from", "to", "timezone"].map((name) => [name, valueIn(form, `quiet.${name}`)]).filter(([, value]) => value),
  );
  return { ...rest, quiet: Object.keys(hours).length ? hours : null };
}

/** A trigger with its quiet hours as the form has them. @param {any} trigger */
const flat = (trigger) => ({
  ...trigger,
  "quiet.from": trigger?.quiet?.from,
  "quiet.to": trigger?.quiet?.to,
  "quiet.timezone": trigger?.quiet?.timezone,
});

/** @param {string[]} teams @param {any} [trigger] the one that is changed */
export function editTrigger(teams, trigger) {
  const before = trigger ? flat(trigger) : undefined;
  const first = trigger?.type ?? "schedule";
  const shown = make("output", { class: "preview", "aria-live": "polite" });
  const fields = make("div", { class: "pair" });
  const zone = ownZone(live.state.overview?.today_ends_at);
  const field = (/** @type {string} */ name) => /** @type {any} */ (fields.querySelector(`[name="config.${name}"]`));
  const said = scheduleFields(
    trigger?.config,
    (values) => {
      for (const [name, value] of Object.entries(values)) field(name).value = value;
      soon();
    },
    (written) => {
      for (const name of ["cron", "every", "at"]) field(name).closest("label").hidden = !written;
    },
  );
  const type = select("Type", "type", Object.keys(FIELDS), {
    value: first,
    onchange: () => (drawFields(), look()),
    disabled: Boolean(trigger),
  });
  const sample = input("Try a message", "sample", { placeholder: "Where is my invoice?", oninput: soon });
  const missed = select("Missed runs", "missed", MISSED, { value: trigger?.missed ?? "once" });
  const untrusted = tick("Data from outside may reach this team, although it has secrets", "allow_untrusted", {
    checked: Boolean(trigger?.allow_untrusted),
  });
  const enable = trigger ? null : tick("Enable it now", "enable", { checked: true });
  /** @type {any} */ let timer;

  const chosen = () => (trigger ? first : /** @type {any} */ (type.querySelector("select")).value);

  function drawFields() {
    fields.replaceChildren(
      ...FIELDS[chosen()].map(([label, name, placeholder, hint]) =>
        input(label, `config.${name}`, {
          placeholder,
          hint,
          class: "mono",
          value: trigger || name !== "timezone" ? shownAs(trigger?.config?.[name]) : zone,
          list: name === "timezone" ? "zones" : null,
          oninput: soon,
        }),
      ),
    );
    sample.hidden = !["keyword", "message"].includes(chosen());
    said.element.hidden = chosen() !== "schedule";
    if (chosen() === "schedule") said.begin();
    missed.hidden = chosen() !== "schedule";
    untrusted.hidden = chosen() !== "webhook";
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(look, 300);
  }

  async function look() {
    const form = shown.closest("form");
    if (!form) return;
    const config = Object.fromEntries(
      Object.entries({ ...trigger?.config, ...valuesOf(form, FIELDS[chosen()], "config.", trigger?.config) }).filter(
        ([, value]) => value !== null,
      ),
    );
    const message = /** @type {any} */ (form.elements.namedItem("sample"))?.value;
    if (!Object.keys(config).length) return shown.replaceChildren("The next times appear here.");
    try {
      const seen = await post("/triggers/preview", {
        type: chosen(),
        config,
        ...(message && !sample.hidden ? { sample: message } : {}),
      });
      shown.replaceChildren(...preview(seen));
      shown.dataset.bad = "false";
    } catch (refusal) {
      shown.replaceChildren(reason(/** @type {any} */ (refusal), form));
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
      area("Task", "task", {
        required: true,
        value: trigger?.task ?? "",
        rows: 3,
        placeholder: "Sum up last week and list what is open",
      }),
      said.element,
      fields,
      zones(),
      sample,
      shown,
      make(
        "div",
        { class: "pair" },
        select("Priority", "priority", ["high", "normal", "low"], { value: trigger?.priority ?? "normal" }),
        select(
          "If the last run is unfinished",
          "overlap_policy",
          [...(trigger ? [] : [/** @type {[string, string]} */ (["", "Default for its type"])]), ...OVERLAPS],
          { value: trigger?.overlap_policy ?? "" },
        ),
        missed,
        select("Report", "notify", REPORTS, { value: trigger?.notify ?? "auto" }),
      ),
      untrusted,
      fold(
        "More",
        make(
          "div",
          { class: "pair" },
          MORE.map(([label, name, placeholder, hint]) =>
            input(label, name, { placeholder, hint, value: shownAs(before?.[name]) }),
          ),
        ),
      ),
      enable,
    ],
    action: trigger ? "Save" : "Create trigger",
    submit: async (values, form) => {
      // Whatever is wrong is said once, by the dialog.
      if (shown.dataset.bad === "true") shown.replaceChildren();
      /** @type {Record<string, any>} */
      const common = {
        name: values.name,
        task: values.task,
        priority: values.priority,
        notify: values.notify,
        ...(values.overlap_policy ? { overlap_policy: values.overlap_policy } : {}),
        ...(chosen() === "schedule" ? { missed: values.missed } : {}),
        ...(chosen() === "webhook" ? { allow_untrusted: values.allow_untrusted === "true" } : {}),
      };
      const more = withQuiet(valuesOf(form, MORE, "", before), form);
      const config = valuesOf(form, FIELDS[chosen()], "config.", trigger?.config);
      if (trigger) {
        const changed = Object.fromEntries(Object.entries(common).filter(([name, value]) => value !== trigger[name]));
        return patch(`/triggers/${part(trigger.id)}`, {
          ...changed,
          ...more,
          ...(Object.keys(config).length ? { config } : {}),
        });
      }
      const made = await post("/triggers", {
        ...common,
        ...more,
        team: values.team,
        type: values.type,
        config,
        enable: values.enable === "true",
      });
      toast(`Trigger ${values.name} is created.`);
      return made;
    },
  });
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
  if (seen.due) return ["It would never run: no future time matches."];
  if ("matches" in seen) return [seen.matches ? "This message would start it." : "This message would not start it."];
  return ["This works."];
}
