// What views show of what the service tells, and what they ask for: lists to their end, and nothing that is not so.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { opened, page, serving, settled, toasts } from "./opened.js";
import { here } from "../../src/http/ui/core/place.js";
import { live } from "../../src/http/ui/live/live.js";
import "../../src/http/ui/parts/approval.js";
import "../../src/http/ui/views/history.js";
import "../../src/http/ui/views/memory.js";
import { tokenOf } from "../../src/http/ui/views/settings/access.js";
import "../../src/http/ui/views/settings/settings.js";
import "../../src/http/ui/views/tasks/task.js";
import "../../src/http/ui/views/tasks/tasks.js";
import "../../src/http/ui/views/team/team.js";
import "../../src/http/ui/views/triggers/triggers.js";
import "../../src/http/ui/views/usage.js";
import "../../src/http/ui/views/vault.js";

mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
beforeEach(() => {
  toasts.replaceChildren();
  for (const view of document.body.children) if (view !== toasts) view.remove();
});

const links = (view) => view.querySelectorAll("a").map((link) => link.getAttribute("href"));
const LIST = { data: [], total: 0 };

test("OP-62: a budget is shown however many teams come before it", async () => {
  const budgets = Array.from({ length: 230 }, (_, at) => ({
    team: `team-${at}`,
    spent: { usd: 0, tokens: 0 },
    caps: { usd_per_day: at === 229 ? 5 : null },
  }));
  serving((_, path, query) => (path === "/usage/budgets" ? page(budgets, query) : LIST));

  const view = await opened("hw-usage", "#/usage");

  assert.match(view.textContent, /team-229/);
  assert.doesNotMatch(view.textContent, /No team has a budget/);
});

test("OP-57: all versions of a memory are shown, and where each comes from", async () => {
  const provenance = { session_id: "main:t-1", origin: "tool" };
  const entry = { id: "m-1", key: "tone", content: "Short.", type: "context", team: "main", active: true, provenance };
  const chain = Array.from({ length: 250 }, (_, at) => ({ ...entry, id: `m-${at}`, content: `Version ${at}.` }));
  const asked = serving((_, path, query) => {
    if (path.endsWith("/chain")) return page(chain, query);
    return path === "/memories/m-1" ? { data: entry } : LIST;
  });

  const view = await opened("hw-memory", "#/memory/m-1");

  assert.equal(asked.filter((one) => one.endsWith("/chain")).length, 2);
  assert.match(view.textContent, /Version 249\./);
  assert.ok(links(view).includes("#/history/main%3At-1"));
  assert.match(view.textContent, /Transcript/);
});

test("OP-58: a secret that no host was named for goes nowhere without asking", async () => {
  const row = { scope: "system", tools: [], hosts: [], version: 1 };
  const rows = [
    { ...row, key: "hidden", secret: true },
    { ...row, key: "plain", secret: false },
    { ...row, key: "named", secret: true, hosts: ["api.example.org"] },
  ];
  serving((_, path, query) => (path === "/vault" ? page(rows, query) : LIST));

  const view = await opened("hw-vault", "#/vault");

  const hosts = view.querySelectorAll("tr").map((line) => line.children[4].textContent);
  assert.deepEqual(hosts, ["Hosts", "none without asking", "any", "api.example.org"]);
});

test("OP-58: a team is chosen however many there are", async () => {
  const teams = Array.from({ length: 230 }, (_, at) => ({ name: `team-${at}` }));
  serving((_, path, query) => (path === "/teams" ? page(teams, query) : LIST));

  const view = await opened("hw-vault", "#/vault");

  const owners = view.querySelectorAll("option").map((option) => option.textContent);
  assert.deepEqual([owners.length, owners.at(-1)], [232, "team-229"]);
});

test("OP-36: what is decided is named as in the terminal and in the documents", async () => {
  const row = { id: "apr-1", short_id: "A1", status: "pending", tool: "write", team: "main", digest: "d1ge5t" };
  const more = { summary: "write a.md", args: {}, lineage: [], created_at: "2026-01-01T00:00:00Z" };

  const card = await opened("hw-approval", "", { data: { ...row, ...more } });

  const facts = card.querySelectorAll("dt").map((name) => [name.textContent, name.nextSibling.textContent]);
  assert.equal(Object.fromEntries(facts).Digest, "d1ge5t");
});

test("OP-31: why a message was let in is said in words", async () => {
  const row = { at: "2026-01-01T00:00:00Z", sender: "someone", channel_type: "ws", decision: "allowed" };
  const rows = [
    { ...row, id: "1", reason: "no_trust_config" },
    { ...row, id: "2", reason: "something_new" },
  ];
  serving((_, path, query) => (path === "/trust/audit" ? page(rows, query) : LIST));

  const view = await opened("hw-trust-part", "#/settings/trust");

  assert.match(view.textContent, /no rules about senders are set.*something new/);
  assert.doesNotMatch(view.textContent, /trust config/);
});

const task = (id, more = {}) => ({
  id,
  team: "main",
  body: `Task ${id}`,
  type: "chat",
  state: "done",
  priority: "normal",
  created_at: "2026-01-01T00:00:00Z",
  attempts: 1,
  session_id: "main:t-1",
  first_event: 1,
  lineage: { root: "task-1" },
  ...more,
});

test("OP-54: more tasks than a board can draw at each event are a table", async () => {
  const rows = Array.from({ length: 240 }, (_, at) => task(`task-${at}`));
  serving((_, path, query) =>
    path === "/tasks" ? page(rows, query) : { ...LIST, data: path.endsWith("stats") ? {} : [] },
  );

  const view = await opened("hw-tasks", "#/tasks");
  const cards = view.querySelectorAll(".task-card").length;
  for (const _ of [1, 2]) await view.tasks.more();
  await settled();

  assert.equal(cards, 60);
  assert.equal(view.querySelectorAll(".task-card").length, 0);
  assert.equal(view.querySelectorAll("hw-rows")[0].data.rows.length, 240);
  assert.match(view.textContent, /shown as a table/);
});

/** The messages of a session from one number on, as the service pages them. */
const history = (messages, { after = "0", limit }) => {
  const rest = messages.filter((one) => one.seq > Number(after));
  const data = rest.slice(0, Number(limit));
  return { data, next_after: data.at(-1)?.seq };
};

test("OP-54: the steps of a task are shown wherever in a long conversation they are", async () => {
  const said = (seq) => ({ seq, id: `e-${seq}`, role: "assistant", at: "2026-01-01T00:00:00Z", content: [] });
  const messages = Array.from({ length: 900 }, (_, at) => ({
    ...said(at + 1),
    task_id: at < 300 ? "before" : at < 550 ? "task-9" : "after",
    content: [{ type: "text", text: `Step ${at + 1}.` }],
  }));
  serving((_, path, query) => {
    if (path.endsWith("/history")) return history(messages, query);
    return path === "/tasks/task-9" ? { data: task("task-9", { first_event: 301 }) } : LIST;
  });

  const view = await opened("hw-task", "#/tasks/task-9", { data: "task-9" });

  const steps = view.querySelectorAll(".timeline")[0].children.length;
  assert.equal(steps, 250);
  assert.ok(links(view).includes("#/history/main%3At-1?item=301"));
});

test("OP-61: a place in one transcript is none in another", async () => {
  const rows = ["main:t-1", "main:t-2"].map((id) => ({
    id,
    team: "main",
    events: 9,
    updated_at: "2026-01-01T00:00:00Z",
  }));
  serving((_, path, query) => (path === "/sessions" ? page(rows, query) : LIST));
  globalThis.requestAnimationFrame = (draw) => setImmediate(draw);

  const view = await opened("hw-history", "#/history/main%3At-1?item=301&team=main");

  assert.ok(links(view).includes("#/history/main%3At-2?team=main"));
});

test("OP-54: a task without steps says why", async () => {
  const words = async (more) => {
    serving((_, path) =>
      path === "/tasks/task-9" ? { data: task("task-9", more) } : path === "/tasks" ? LIST : undefined,
    );
    const view = await opened("hw-task", "#/tasks/task-9", { data: "task-9" });
    const text = view.textContent;
    view.remove();
    return text;
  };
  const outcome = { finished_at: "2026-01-01T00:00:00Z" };

  assert.match(await words({ state: "accepted", attempts: 0, first_event: null }), /It has not begun\./);
  assert.match(
    await words({ state: "cancelled", attempts: 0, first_event: null, outcome }),
    /It ended before it began\./,
  );
  // The session was deleted.
  assert.match(await words({ outcome }), /The steps are no longer kept\./);
});

test("OP-54: a task that somebody cancelled is not shown as an error", async () => {
  const error = { code: "cancelled", message: "cancelled by ann" };
  const outcome = { finished_at: "2026-01-01T00:00:00Z", error };
  serving((_, path) =>
    path === "/tasks/task-9"
      ? { data: task("task-9", { state: "cancelled", outcome }) }
      : path === "/tasks"
        ? LIST
        : undefined,
  );

  const view = await opened("hw-task", "#/tasks/task-9", { data: "task-9" });

  const text = view.textContent;
  view.remove();
  assert.match(text, /Cancelledcancelled by ann/);
  assert.doesNotMatch(text, /Error/);
});

test("OP-11: a token is for the teams that were chosen, or for all", () => {
  const form = { name: "ci", expires: "30d", "scope.read": "true", "scope.chat": "true" };
  const token = { name: "ci", expires: "30d", scopes: ["read", "chat"] };

  assert.deepEqual(tokenOf(form, ["main", "ops"]), token);
  assert.deepEqual(tokenOf({ ...form, "team.ops": "true" }, ["main", "ops"]), { ...token, teams: ["ops"] });
});

test("OP-54: all that one cause led to is shown", async () => {
  const rows = Array.from({ length: 300 }, (_, at) => task(`task-${at + 1}`));
  serving((_, path, query) =>
    path === "/tasks" ? page(rows, query) : path === "/tasks/task-1" ? { data: rows[0] } : undefined,
  );

  const view = await opened("hw-task", "#/tasks/task-1", { data: "task-1" });

  assert.ok(links(view).includes("#/tasks/task-300"));
});

test("OP-105: a backup that ended during a break is told, and what was cancelled is not called written", async () => {
  let job = { id: "job-1", kind: "backup", state: "running", done: 1, total: 9 };
  serving((method, path) => {
    if (path === "/jobs/job-1") return { data: job };
    return method === "POST" ? { data: { job_id: "job-1" } } : LIST;
  });
  const view = await opened("hw-backups-part", "#/settings/backups");
  const back = async (ended) => {
    job = { ...job, state: "running" };
    live.state.jobs.clear();
    toasts.replaceChildren();
    const pressed = document.createElement("button");
    const done = view.start(pressed);
    await settled();
    job = { ...job, ...ended };
    live.dispatchEvent(new Event("resync"));
    await done;
    const [told] = toasts.children;
    return [told.textContent, told.hasAttribute("data-bad"), pressed.disabled];
  };

  assert.deepEqual(await back({ state: "done", message: "a.tar" }), ["Backup written: a.tar", false, false]);
  assert.deepEqual(await back({ state: "cancelled", message: "" }), [
    "No backup was written.backup_cancelled",
    true,
    false,
  ]);
});

test("SC-109: a backup that holds what was redacted later says so", async () => {
  const rows = [1, 2].map((at) => ({ file: `${at}.tar.zst`, bytes: at, created_at: null, holds_redacted: at === 1 }));
  serving((_, path) => (path === "/backups" ? { data: rows, total: 2 } : LIST));

  const view = await opened("hw-backups-part", "#/settings/backups");

  const files = view.querySelectorAll("code").map((file) => file.parentNode.textContent);
  assert.deepEqual(files.slice(-2), ["1.tar.zst holds what was redacted later", "2.tar.zst"]);
});

test("OP-63: which settings and which acts are shown stands in the address", async () => {
  const fields = [
    { file: "config.yaml", path: "server.port", value: 1, source: "file" },
    { file: "config.yaml", path: "store.path", value: "x", source: "default" },
  ];
  const asked = [];
  serving((_, path, query) => {
    if (path === "/audit") asked.push(query.action ?? "");
    return path === "/config" ? { data: { fields, problems: [], warnings: [] } } : LIST;
  });

  const settings = await opened("hw-config-part", "#/settings/config?which=all");
  const both = settings.querySelectorAll("tr").length - 1;
  settings.querySelector("[aria-pressed]").onclick();
  await settled();
  const [one, address] = [settings.querySelectorAll("tr").length - 1, location.hash];
  const audit = await opened("hw-audit-part", "#/settings/audit?action=vault");
  audit.moved({ view: "settings", rest: ["audit"], query: { action: "tokens" } });
  await settled();

  assert.deepEqual([both, one, address], [2, 1, "#/settings/config"]);
  assert.deepEqual(asked, ["vault", "tokens"]);
});

test("OP-55: a list is asked for anew when its filters become others, by the view or by the address", async () => {
  const filters = [];
  serving((_, path, query) => {
    if (path === "/vault") filters.push(query.q ?? "");
    return LIST;
  });
  const view = await opened("hw-vault", "#/vault");

  view.narrow({ q: "key" });
  await settled();
  view.moved(here());
  await settled();
  location.hash = "#/vault?q=word";
  view.moved(here());
  await settled();

  assert.deepEqual(filters, ["", "key", "word"]);
  assert.match(view.textContent, /No secret matches/);
});

test("OP-53: a team shows its work, and another one in the address its own", async () => {
  const team = (name) => ({ name, state: "ready", phase: "ready", sdk: "native", running: 0, pending: 0, tools: [] });
  const tasks = [{ task_id: "task-1", state: "waiting", type: "delegate", wait_reason: "approval", age_ms: 5 }];
  const ended = { id: "task-0", state: "done", type: "delegate", body: "Dig.", created_at: "2026-01-01T00:00:00Z" };
  serving((_, path) => {
    if (path === "/teams/ops") return { data: { ...team("ops"), tasks } };
    if (path === "/teams/news") return { data: team("news") };
    return path === "/tasks" ? { data: [ended], total: 1 } : LIST;
  });

  const view = await opened("hw-team", "#/team/ops");
  const first = view.textContent;
  location.hash = "#/team/news";
  view.moved(here());
  await settled();

  assert.match(first, /delegate for approval/);
  assert.match(first, /Dig\./);
  assert.match(first, /None\. A trigger gives the team work/);
  assert.equal(view.querySelector("h1").textContent, "news");
  assert.doesNotMatch(view.textContent, /delegate for approval/);
});

test("OP-56: a trigger shows its runs, or that it has none", async () => {
  const trigger = {
    id: "trg-1",
    name: "nightly",
    type: "schedule",
    state: "active",
    team: "ops",
    task: "Dig.",
    config: {},
  };
  const run = { id: "run-1", fired_at: "2026-01-01T00:00:00Z", cause: "due", decision: "enqueued", reason: "so" };
  let runs = [];
  serving((_, path) => {
    if (path === "/triggers/trg-1") return { data: trigger };
    return path.endsWith("/runs") ? { data: runs, total: runs.length } : LIST;
  });

  const none = (await opened("hw-triggers", "#/triggers/trg-1")).textContent;
  runs = [run];
  const some = (await opened("hw-triggers", "#/triggers/trg-1")).textContent;

  assert.match(none, /nightly/);
  assert.match(none, /It has not run yet/);
  assert.match(some, /enqueued/);
});
