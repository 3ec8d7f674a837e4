// A view of the page on its own, in front of a service that answers as a test says.

import { defined } from "./document.js";
import { me } from "../../src/http/ui/core/api.js";

globalThis.innerWidth = 1280;
globalThis.addEventListener ??= () => {};
globalThis.dispatchEvent ??= () => true;
globalThis.matchMedia ??= () => ({ matches: false });
const goTo = (_, __, address) => (location.hash = address.startsWith("#") ? address : "");
globalThis.history = { replaceState: goTo, pushState: goTo };
Object.assign(location, { pathname: "/" });

/** A place that several tabs share. */
export function storage() {
  const kept = new Map();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
}

globalThis.localStorage = storage();

/** Where the page says what happened. */
export const toasts = document.createElement("div");
toasts.setAttribute("id", "toasts");
document.body.append(toasts);

/** Lets all that is under way come to where it waits for something else. */
export async function settled() {
  for (let step = 0; step < 20; step += 1) await new Promise((resolve) => setImmediate(resolve));
}

/**
 * The service: `answer` gets method, path, query and body, and returns what is answered; without a value there is no such thing.
 * Returns the requests, as they come.
 */
export function serving(answer) {
  const asked = [];
  globalThis.fetch = async (address, { method, body }) => {
    const { pathname, searchParams } = new URL(address, "http://service");
    const path = pathname.replace("/api/v1", "");
    const query = Object.fromEntries(searchParams);
    asked.push(`${method} ${path}`);
    const content = await answer(method, path, query, body && JSON.parse(body));
    const found = content !== undefined;
    const refusal = { error: { code: "not_found", message: "there is no such thing" } };
    return { ok: found, status: found ? 200 : 404, json: async () => (found ? content : refusal) };
  };
  return asked;
}

/** A page of a list, as it is asked for. */
export function page(rows, { limit = "50", cursor = "0" }) {
  const [from, to] = [Number(cursor), Number(cursor) + Number(limit)];
  return { data: rows.slice(from, to), total: rows.length, ...(to < rows.length ? { next_cursor: String(to) } : {}) };
}

/** Opens a view at a place, as somebody who may do everything. */
export async function opened(name, hash = "", more = {}) {
  me.scopes = ["read", "chat", "operate", "approve", "secrets", "admin"];
  location.hash = hash;
  const view = Object.assign(new (defined.get(name))(), more);
  document.body.append(view);
  await settled();
  return view;
}
