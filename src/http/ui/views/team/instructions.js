// @ts-check
// What a team is told: its rules, skills and subagents. Its own are files that are edited here.

import { get, may, part, remove } from "../../core/api.js";
import { clean, coded, make } from "../../core/dom.js";
import { count, words } from "../../core/format.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input, select } from "../../parts/fields.js";
import { editFile, NO_FILE } from "../../parts/file.js";
import { button, fold } from "../../parts/marks.js";
import { act } from "../../parts/toast.js";

/** A longer list is folded away. */
const SHOWN = 8;

/** What is said of each kind, in which folders it is, and what a new one begins with. */
const KINDS = [
  {
    list: "rules",
    title: "Rules",
    one: "rule",
    folders: /** @type {[string, string][]} */ ([
      ["team-rules", "this team"],
      ["org-rules", "this team and all below it"],
    ]),
    none: "None. A rule is told with every task.",
    begin: () => "",
    placeholder: "Say how the team should always work.",
  },
  {
    list: "skills",
    title: "Skills",
    one: "skill",
    folders: /** @type {[string, string][]} */ ([["skills", "this team"]]),
    none: "None. A skill says step by step how something is done, and is read when it is needed.",
    begin: (/** @type {string} */ name) =>
      `---\nname: ${name}\ndescription: What it does, and when to use it.\n---\n\n1. The first step.\n`,
  },
  {
    list: "subagents",
    title: "Subagents",
    one: "subagent",
    folders: /** @type {[string, string][]} */ ([["subagents", "this team"]]),
    none: "None. A subagent is a specialist that the team asks.",
    begin: (/** @type {string} */ name) =>
      `# Agent: ${name}\n\n## Role\nWhat it does for the team.\n\n## Boundaries\n- What it leaves to others.\n`,
  },
];

/** @param {string} team @param {any} row */
const path = (team, row) => `/teams/${part(team)}/instructions/${part(row.kind)}/${part(row.name)}`;

/**
 * @param {any} team with what it has from others too
 * @param {{data?: {rows: any[]}, reload: () => any} | undefined} source its own files
 * @param {() => void} onChange
 */
export function instructions(team, source, onChange) {
  const changed = () => {
    source?.reload();
    onChange();
  };
  return KINDS.map((kind) => {
    const own = (source?.data?.rows ?? []).filter((row) => kind.folders.some(([folder]) => folder === row.kind));
    const others = (team[kind.list] ?? []).filter((/** @type {any} */ row) => row.source !== team.name);
    const drawn = make(
      "ul",
      { class: "plain listed" },
      own.map((row) => entry(team.name, row, changed)),
      others.map((/** @type {any} */ row) =>
        make(
          "li",
          { key: `${row.source}/${row.name}` },
          make("code", {}, clean(row.name)),
          make("span", { class: "clip", title: clean(row.description) }, clean(row.description)),
          make("span", { class: "tag" }, words(row.source)),
        ),
      ),
    );
    const all = own.length + others.length;
    return make(
      "section",
      { class: "panel", key: kind.list },
      all > SHOWN
        ? fold(`${kind.title}, ${count(all)}`, drawn, { class: "panel-fold" })
        : [make("h2", {}, kind.title), all ? drawn : make("p", { class: "muted" }, kind.none)],
      may("admin")
        ? make(
            "div",
            { class: "choices" },
            button(`New ${kind.one}…`, "plus", () => act(null, () => create(team.name, kind, own, changed)), {
              tone: "small",
            }),
          )
        : null,
    );
  });
}

/** @param {string} team @param {any} row @param {() => void} onChange */
function entry(team, row, onChange) {
  const [wrong] = row.problems;
  return make(
    "li",
    { key: row.file },
    make("code", { title: clean(row.file) }, clean(row.name)),
    wrong
      ? make("span", { class: "problem" }, make("span", {}, "Not in use: ", coded(wrong.message)))
      : make("span", { class: "clip", title: clean(row.description) }, clean(row.description)),
    row.kind === "org-rules" ? make("span", { class: "tag" }, "also below it") : null,
    may("admin")
      ? [
          button("Edit…", "edit", () => act(null, () => edit(team, row, onChange)), {
            tone: "small quiet",
            "aria-label": `Edit ${row.file}`,
          }),
          button("Delete…", "trash", () => discard(team, row, onChange), {
            tone: "small quiet",
            "aria-label": `Delete ${row.file}`,
          }),
        ]
      : null,
  );
}

/** @param {string} team @param {any} row @param {() => void} onChange */
async function edit(team, row, onChange) {
  const where = path(team, row);
  const file = await get(where);
  await editFile({ title: row.file, path: where, file, label: "Markdown", done: DONE }, onChange);
}

const DONE = "Saved. The team uses it from its next task on.";

/** @param {string} team @param {(typeof KINDS)[number]} kind @param {any[]} own @param {() => void} onChange */
async function create(team, kind, own, onChange) {
  const row = await ask({
    title: `New ${kind.one}`,
    body: [
      input("Name", "name", {
        required: true,
        maxlength: 64,
        pattern: "[a-z0-9][a-z0-9\\-]*",
        placeholder: "short-answers",
        hint: "Small letters, digits and hyphens",
      }),
      kind.folders.length > 1 ? select("For", "kind", kind.folders) : null,
    ],
    action: "Continue",
    submit: async ({ name, kind: folder = kind.folders[0][0] }) => {
      if (own.some((row) => row.name === name && row.kind === folder))
        throw new Error(`There is a ${kind.one} called ${name} already: edit that one.`);
      return { name, kind: folder };
    },
  });
  if (!row) return;
  const title = `New ${kind.one}: ${row.name}`;
  const draft = kind.begin(row.name);
  const { placeholder } = kind;
  await editFile(
    { title, path: path(team, row), file: NO_FILE, draft, placeholder, label: "Markdown", done: DONE },
    onChange,
  );
}

/** @param {string} team @param {any} row @param {() => void} onChange */
async function discard(team, row, onChange) {
  const done = await confirm({
    title: `Delete ${row.name}?`,
    lost: `${row.file} goes to the trash${row.file.endsWith("/SKILL.md") ? ", with all files in its folder" : ""}. The team works without it from its next task on.`,
    action: "Delete",
    submit: () => remove(path(team, row)),
  });
  if (done) onChange();
}
