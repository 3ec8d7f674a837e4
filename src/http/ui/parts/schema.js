// @ts-check
// Forms from a JSON Schema: which fields there are, and what was typed into them, as one object again.

/**
 * A field of a form. `json` stands for what has no field of its own, such as a list of objects.
 * @typedef {{pointer: string[], label: string, hint: string, kind: "text" | "secret" | "number" | "truth" | "words" | "lines" | "json",
 *   required: boolean, options: any[], usual: any, value: any}} Field
 */

/** The schema behind a reference within it. @param {any} root @param {any} schema @param {number} [steps] @returns {any} */
function resolved(root, schema, steps = 0) {
  const path = schema?.$ref;
  if (typeof path !== "string" || !path.startsWith("#/") || steps > 8) return schema ?? {};
  const found = path
    .slice(2)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((/** @type {any} */ at, part) => at?.[part], root);
  return resolved(root, found, steps + 1);
}

/** @param {any} schema @param {any} items @returns {Field["kind"]} */
function kindOf(schema, items) {
  if (schema["x-secret"] === true) return "secret";
  if (Array.isArray(schema.enum)) return "words";
  if (schema.type === "string") return "text";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "boolean") return "truth";
  if (schema.type === "array" && items.type === "string" && !items["x-secret"]) return "lines";
  return "json";
}

/**
 * The fields of a schema, filled with a value.
 * @param {any} schema @param {any} value @returns {Field[]}
 */
export function fieldsOf(schema, value) {
  /** @type {Field[]} */ const fields = [];
  /** @param {any} part @param {any} at @param {string[]} pointer @param {boolean} required */
  const visit = (part, at, pointer, required) => {
    const here = resolved(schema, part);
    const inner = here.type === "object" || here.properties ? Object.entries(here.properties ?? {}) : [];
    if (inner.length && pointer.length < 6) {
      for (const [name, field] of inner)
        visit(field, at?.[name], [...pointer, name], (here.required ?? []).includes(name));
      return;
    }
    if (!pointer.length) return;
    fields.push({
      pointer,
      label: here.title ?? pointer.at(-1),
      hint: here.description ?? "",
      kind: kindOf(here, resolved(schema, here.items)),
      required,
      options: here.enum ?? [],
      usual: here.default,
      value: at,
    });
  };
  visit(schema, value, [], false);
  return fields;
}

/** The name of a field in a form. @param {Field} field */
export const nameOf = (field) => field.pointer.join("/");

/** What stands in a field at first. @param {Field} field */
export function shown(field) {
  const { value, kind } = field;
  if (value === undefined || value === null) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "json" || typeof value === "object") return JSON.stringify(value, null, 2);
  return String(value);
}

/**
 * The object that a filled form says. What is left empty is left out.
 * @param {Field[]} fields @param {Record<string, string>} values
 */
export function filled(fields, values) {
  /** @type {Record<string, any>} */ const config = {};
  for (const field of fields) {
    const read = typed(field, values[nameOf(field)]);
    if (read === undefined) continue;
    /** @type {any} */ let at = config;
    for (const name of field.pointer.slice(0, -1)) at = at[name] ??= {};
    at[field.pointer.at(-1) ?? ""] = read;
  }
  return config;
}

/** @param {Field} field @param {string | undefined} text */
function typed({ kind, label, options }, text) {
  if (kind === "truth") return text === undefined || text === "" ? undefined : text === "true";
  const trimmed = (text ?? "").trim();
  if (trimmed === "") return undefined;
  if (kind === "number") return Number(trimmed);
  if (kind === "words") return options.find((option) => String(option) === trimmed) ?? trimmed;
  if (kind === "lines")
    return trimmed
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
  if (kind !== "json") return kind === "secret" ? text : trimmed;
  try {
    return JSON.parse(trimmed);
  } catch {
    throw Object.assign(new Error(`${label}: this is not valid JSON. Check quotes, commas and brackets.`), {
      code: "invalid_json",
    });
  }
}
