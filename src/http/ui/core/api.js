// @ts-check
// Requests to the service. Everything the page does but the chat goes through here.

import { sentence } from "./dom.js";

const UNREACHABLE = "The service cannot be reached. Try again in a moment.";

/** @param {number} status */
const answered = (status) => `The service answered with error ${status}. Try again in a moment.`;

/** A refusal of the service, or no answer at all. */
export class Refusal extends Error {
  /** @param {number} status @param {{code?: string, message?: string, field?: string, request_id?: string, details?: {hint?: string, problems?: any[]}} | null} [body] */
  constructor(status, body) {
    const { message, details } = body ?? {};
    const said = [message, details?.hint].flatMap((text) => (text ? sentence(text) : []));
    super(said.join(". ") || (status ? answered(status) : UNREACHABLE));
    this.status = status;
    this.code = body?.code ?? (status ? String(status) : "unreachable");
    this.field = body?.field ?? null;
    this.request = body?.request_id ?? null;
    /** What is wrong with a file, each with its line. @type {any[]} */
    this.problems = body?.details?.problems ?? [];
  }
}

/** Who is logged in; set at login. */
export const me = {
  principal: "",
  /** @type {string[]} */ scopes: [],
  /** @type {string | null} */ csrf: null,
  demo: false,
  version: "",
};

/** @param {string} scope */
export const may = (scope) => me.scopes.includes(scope);

export const events = new EventTarget();

/** Why nothing can be changed at the moment; set by whoever watches the connection. */
export const barred = { reason: "" };

/**
 * @param {string} method @param {string} path under `/api/v1`
 * @param {{query?: Record<string, any>, body?: unknown, file?: Blob, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {Promise<any>} the whole answer
 */
export async function call(method, path, options = {}) {
  try {
    return await request(method, path, options);
  } catch (refusal) {
    if (!(refusal instanceof Refusal) || refusal.code !== "csrf") throw refusal;
    // Somebody has logged in since with this browser, in another tab: the cookie is another one, for this tab too.
    const { data } = await request("GET", "/session", {});
    const isOther = data.principal !== me.principal;
    // The page goes on until it is loaded anew: what one person meant to do, another does not.
    if (isOther) location.reload();
    if (isOther || data.csrf === me.csrf) throw refusal;
    Object.assign(me, data);
    return request(method, path, options);
  }
}

/** @param {string} method @param {string} path @param {NonNullable<Parameters<typeof call>[2]>} options */
async function request(method, path, { query, body, file, signal, headers }) {
  const changes = method !== "GET";
  if (changes && barred.reason) throw new Refusal(0, { code: "offline", message: barred.reason });
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(file === undefined ? {} : { "Content-Type": "application/octet-stream" }),
        ...(changes && me.csrf ? { "X-CSRF-Token": me.csrf } : {}),
        ...headers,
      },
      body: file ?? (body === undefined ? undefined : JSON.stringify(body)),
      cache: "no-store",
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0);
  }
  const content = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (answer.ok) return content;
  if (answer.status === 401 && path !== "/session") events.dispatchEvent(new Event("logged-out"));
  throw new Refusal(answer.status, content?.error);
}

/** @param {string} path @param {Record<string, any>} [query] */
export function address(path, query = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return `/api/v1${path}${wanted.length ? `?${new URLSearchParams(wanted.map(([name, value]) => [name, String(value)]))}` : ""}`;
}

/** One thing. @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = async (path, query, signal) => (await call("GET", path, { query, signal }))?.data;

/**
 * Many things.
 * @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal]
 * @returns {Promise<{rows: any[], total: number, next: string | null, incomplete: boolean}>}
 */
export async function list(path, query, signal) {
  const answer = await call("GET", path, { query, signal });
  const rows = answer?.data ?? [];
  const next = answer?.next_cursor ?? null;
  return { rows, total: answer?.total ?? rows.length, next, incomplete: answer?.incomplete === true };
}

/** The most rows that one answer holds. */
const PAGE = 200;

/**
 * As many of many things as are wanted, from however many answers.
 * @param {string} path @param {Record<string, any>} query @param {number} wanted @param {AbortSignal} [signal]
 */
export async function upTo(path, query, wanted, signal) {
  const found = await list(path, { ...query, limit: Math.min(PAGE, wanted) }, signal);
  while (found.next && found.rows.length < wanted) {
    const limit = Math.min(PAGE, wanted - found.rows.length);
    const { rows, total, next } = await list(path, { ...query, limit, cursor: found.next }, signal);
    Object.assign(found, { rows: [...found.rows, ...rows], total, next });
  }
  return found;
}

/** All of things that there are never very many of. @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const all = async (path, query = {}, signal) => (await upTo(path, query, Infinity, signal)).rows;

/** @param {string} path @param {unknown} [body] */
export const post = async (path, body) => (await call("POST", path, { body }))?.data;
/** @param {string} path @param {unknown} body */
export const put = async (path, body) => (await call("PUT", path, { body }))?.data;
/** @param {string} path @param {unknown} body */
export const patch = async (path, body) => (await call("PATCH", path, { body }))?.data;
/** @param {string} path @param {Record<string, any>} [query] */
export const remove = (path, query) => call("DELETE", path, { query });

/** Gives the service a file, for a message to name. @param {File} file @param {AbortSignal} signal */
export const upload = async (file, signal) =>
  (await call("POST", "/files", { query: { name: file.name || "file" }, file, signal }))?.data;

/** A part of a path. @param {unknown} text */
export const part = (text) => encodeURIComponent(String(text));
