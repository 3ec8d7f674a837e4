// @ts-check
// Logging in and out.

import { call, me, Refusal } from "./api.js";

/** @param {string} method @param {unknown} [body] */
async function ask(method, body) {
  const answer = await call(method, "/session", { body });
  return answer?.data ?? null;
}

/** Asks who is logged in, and remembers it. */
export async function current() {
  return Object.assign(me, await ask("GET"));
}

/** @param {{token: string} | {code: string}} credential */
export async function logIn(credential) {
  return Object.assign(me, await ask("POST", credential));
}

export const logOut = () => ask("DELETE");

/** Whether whoever opened this page is logged in, and nobody else by another tab; null when the server does not answer. */
export async function isLoggedIn() {
  try {
    return (await ask("GET")).principal === me.principal;
  } catch (refusal) {
    return refusal instanceof Refusal && refusal.status === 401 ? false : null;
  }
}
