// Requests to the service, as the page makes them.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { call, me } from "../../src/http/ui/core/api.js";
import { isLoggedIn } from "../../src/http/ui/core/session.js";

/** A service that takes one value of `X-CSRF-Token`, and says who is logged in. */
function service(t, session) {
  const heard = [];
  t.mock.method(globalThis, "fetch", async (path, { method, headers }) => {
    heard.push(`${method} ${path}`);
    const answer = (status, content) => ({ ok: status < 400, status, json: async () => content });
    if (path === "/api/v1/session") return answer(200, { data: session });
    if (headers["X-CSRF-Token"] !== "new") return answer(403, { error: { code: "csrf", message: "no" } });
    return answer(200, { data: "done" });
  });
  return heard;
}

test("a login in another tab does not keep this one from writing", async (t) => {
  Object.assign(me, { principal: "ada", csrf: "old" });
  const heard = service(t, { principal: "ada", csrf: "new", scopes: ["read"] });

  const answer = await call("POST", "/tasks", { body: {} });

  assert.equal(answer.data, "done");
  assert.deepEqual(heard, ["POST /api/v1/tasks", "GET /api/v1/session", "POST /api/v1/tasks"]);
  assert.deepEqual(me.scopes, ["read"]);
});

test("what is refused for good is asked for once", async (t) => {
  Object.assign(me, { principal: "ada", csrf: "odd" });
  const heard = service(t, { principal: "ada", csrf: "odd", scopes: [] });

  await assert.rejects(call("POST", "/tasks", { body: {} }), { code: "csrf" });

  assert.deepEqual(heard, ["POST /api/v1/tasks", "GET /api/v1/session"]);
});

// SC-14
test("what one person began is not done as another who has logged in since", async (t) => {
  Object.assign(me, { principal: "ada", csrf: "old" });
  const heard = service(t, { principal: "bob", csrf: "new", scopes: ["read"] });
  let reloads = 0;
  globalThis.location.reload = () => (reloads += 1);

  await assert.rejects(call("POST", "/tasks", { body: {} }), { code: "csrf" });
  const isMine = await isLoggedIn();

  assert.deepEqual(heard, ["POST /api/v1/tasks", "GET /api/v1/session", "GET /api/v1/session"]);
  assert.deepEqual([me.principal, me.csrf, reloads, isMine], ["ada", "old", 1, false]);
});
