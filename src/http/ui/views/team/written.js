// @ts-check
// The tools that a team wrote: how each stands, its source, and the ways to take it out of use.

import { get, may, part, post, remove } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input } from "../../parts/fields.js";
import { button, panel, pill } from "../../parts/marks.js";
import { act } from "../../parts/toast.js";

/** @type {Record<string, string>} */
const STATES = { deprecated: "off", failed_verification: "failed", removed: "off" };

/**
 * @param {{data?: {rows: any[]}, reload: () => any} | undefined} source
 */
export function written(source) {
  const rows = source?.data?.rows ?? [];
  if (!rows.length) return null;
  const again = (/** @type {any} */ done) => done && source?.reload();
  const entry = (/** @type {any} */ row) =>
    make(
      "li",
      { key: row.tool },
      pill(STATES[row.status] ?? row.status, row.status),
      make("code", {}, clean(row.tool)),
      make("span", { class: "muted" }, `version ${row.version}`),
      row.hosts.length ? make("span", { class: "tag" }, clean(row.hosts.join(", "))) : null,
      make("span", { class: "clip muted" }, clean(row.reason || row.description)),
      row.status === "removed" ? null : button("Source", "list", () => show(row), { tone: "small" }),
      may("operate") && row.status === "active"
        ? button("Deprecate…", "pause", () => deprecate(row).then(again), { tone: "small" })
        : null,
      may("operate") && ["deprecated", "failed_verification"].includes(row.status)
        ? button("Remove…", "trash", () => discard(row).then(again), { tone: "small" })
        : null,
    );
  return panel("Tools it wrote", make("ul", { class: "plain listed" }, rows.map(entry)));
}

const path = (/** @type {any} */ row) => `/plugin-tools/${part(row.team)}/${part(row.tool)}`;

/** @param {any} row */
async function show(row) {
  let source = "";
  if (!(await act(null, async () => ({ source } = await get(path(row)))))) return;
  await ask({
    title: `${row.tool}, version ${row.version}`,
    about: source ? "What was checked, and runs:" : "Its source is not here.",
    body: source ? make("pre", {}, make("code", {}, clean(source))) : null,
    action: "Close",
    wide: true,
    submit: async () => true,
  });
}

/** @param {any} row */
const deprecate = (row) =>
  ask({
    title: `Deprecate ${row.tool}`,
    about: "Skills that need it stop working. Running tasks keep it until they end.",
    body: input("Reason", "reason", { required: true, maxlength: 1000 }),
    action: "Deprecate",
    submit: (/** @type {any} */ values) => post(`${path(row)}/deprecate`, { reason: values.reason }),
  });

/** @param {any} row */
const discard = (row) =>
  confirm({
    title: `Remove ${row.tool}`,
    lost: "Its source and all earlier versions are deleted.",
    action: "Remove",
    submit: () => remove(path(row)),
  });
