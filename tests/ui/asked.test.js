// OP-38, OP-51, OP-55: what a person is asked for can be answered, however much was asked before it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { all } from "./document.js";

/** @type {Map<string, any>} */
const defined = new Map();
globalThis.customElements = { define: (name, card) => defined.set(name, card) };
const { me } = await import("../../src/http/ui/core/api.js");
await import("../../src/http/ui/views/approvals/approvals.js");

const LIMIT = 200;
const question = (number) => ({
  id: `qst-${number}`,
  team: "main",
  question: `Question ${number}?`,
  options: [],
  kind: "text",
  status: number > LIMIT ? "open" : "answered",
  by: "ann",
  created_at: number,
});
const questions = Array.from({ length: LIMIT + 1 }, (_, at) => question(at + 1));

/** Answers as the service does: pages of 200, the oldest first unless asked otherwise. */
globalThis.fetch = async (address) => {
  const { pathname, searchParams: query } = new URL(address, "http://localhost");
  const one = questions.find(({ id }) => pathname === `/api/v1/questions/${id}`);
  const rows =
    pathname === "/api/v1/questions"
      ? questions.filter(({ status }) => !query.get("status") || query.get("status") === status)
      : [];
  const sorted = query.get("sort") === "-created_at" ? rows.toReversed() : rows;
  return {
    ok: true,
    status: 200,
    json: async () => (one ? { data: one } : { data: sorted.slice(0, Number(query.get("limit"))) }),
  };
};
me.scopes = ["approve"];

const settled = () => new Promise((resolve) => setTimeout(resolve));

test("the card in the chat finds the 201st question", async () => {
  const card = new (defined.get("hw-question"))();
  card.dataset = { id: "qst-201" };
  document.body.append(card);
  await settled();

  assert.match(card.textContent, /Question 201\?/);
  assert.ok(all(card).some((element) => element.localName === "form"));
  card.remove();
});

test("the list shows what is open, and the newest of what is not", async () => {
  location.hash = "#/approvals/questions";
  const view = new (defined.get("hw-approvals"))();
  document.body.append(view);
  await settled();

  const shown = all(view)
    .filter((element) => element.localName === "hw-question")
    .map((element) => element.data.id);
  assert.deepEqual([shown[0], shown[1], shown.length], ["qst-201", "qst-200", 21]);
  view.remove();
});
