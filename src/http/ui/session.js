// Who is logged in, over `/api/v1/session`.

const PATH = "/api/v1/session";

/** A refusal of the server, or no answer at all. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body?.message ?? (status ? `The server answered ${status}.` : "The server cannot be reached."));
    this.status = status;
    this.code = body?.code ?? (status ? String(status) : "unreachable");
    this.request = body?.request_id ?? null;
  }
}

async function call(method, { body, csrf } = {}) {
  let answer;
  try {
    answer = await fetch(PATH, {
      method,
      headers: {
        ...(body ? { "Content-Type": "application/json" } : {}),
        ...(csrf ? { "X-CSRF-Token": csrf } : {}),
      },
      body: body && JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new Refusal(0);
  }
  const content = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refusal(answer.status, content?.error);
  return content?.data ?? null;
}

export const current = () => call("GET");
export const logIn = (credential) => call("POST", { body: credential });
export const logOut = (csrf) => call("DELETE", { csrf });

/** True or false; null when the server does not answer. */
export async function isLoggedIn() {
  try {
    await current();
    return true;
  } catch (refusal) {
    return refusal.status === 401 ? false : null;
  }
}
