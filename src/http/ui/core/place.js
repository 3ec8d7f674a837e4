// @ts-check
// Where in the page a person is: the part of the address after `#`.

/**
 * `#/tasks/task-1?state=done` is `{view: "tasks", rest: ["task-1"], query: {state: "done"}}`.
 * @typedef {{view: string, rest: string[], query: Record<string, string>}} Place
 */

/** @param {string} hash @returns {Place} */
export function read(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { view: parts[0] ?? "chat", rest: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} view @param {(string | null | undefined)[]} [rest] @param {Record<string, any>} [query] */
export function write(view, rest = [], query = {}) {
  const path = [view, ...rest.filter((part) => part !== null && part !== undefined && part !== "")].map((part) =>
    encodeURIComponent(String(part)),
  );
  const wanted = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `#/${path.join("/")}${wanted.length ? `?${new URLSearchParams(wanted)}` : ""}`;
}

export const here = () => read(location.hash);

/** @param {string} view @param {(string | null | undefined)[]} [rest] @param {Record<string, any>} [query] */
export function go(view, rest, query) {
  location.hash = write(view, rest, query);
}

/** Changes what the address says, without a step in the history unless that is wanted. @param {string} hash @param {boolean} [step] */
export function amend(hash, step = false) {
  if (location.hash === hash) return;
  const address = hash || location.pathname;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  dispatchEvent(new Event("amended"));
}
