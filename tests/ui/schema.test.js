import assert from "node:assert/strict";
import { test } from "node:test";

import { fieldsOf, filled, nameOf, shown } from "../../src/http/ui/parts/schema.js";

const SCHEMA = {
  type: "object",
  properties: {
    tools: {
      type: "object",
      required: ["allow"],
      properties: {
        allow: { type: "array", items: { $ref: "#/$defs/host" } },
        most: { type: "integer", title: "Most bytes", default: 5 },
        strict: { type: "boolean" },
        mode: { enum: ["a", "b"] },
        token: { type: "string", "x-secret": true },
        headers: { type: "array", items: { type: "object" } },
      },
    },
  },
  $defs: { host: { type: "string" } },
};

test("a schema becomes fields, and what is typed becomes settings again", () => {
  const before = { tools: { allow: ["a.example", "b.example"], token: "${vault:T}" } };
  const fields = fieldsOf(SCHEMA, before);

  assert.deepEqual(
    fields.map((field) => [nameOf(field), field.kind, field.required, shown(field)]),
    [
      ["tools/allow", "lines", true, "a.example\nb.example"],
      ["tools/most", "number", false, ""],
      ["tools/strict", "truth", false, ""],
      ["tools/mode", "words", false, ""],
      ["tools/token", "secret", false, "${vault:T}"],
      ["tools/headers", "json", false, ""],
    ],
  );
  const typed = {
    "tools/allow": "a.example\n\n c.example ",
    "tools/most": "7",
    "tools/strict": "false",
    "tools/mode": "",
    "tools/token": "${vault:T}",
    "tools/headers": '[{"host": "a.example"}]',
  };
  assert.deepEqual(filled(fields, typed), {
    tools: {
      allow: ["a.example", "c.example"],
      most: 7,
      strict: false,
      token: "${vault:T}",
      headers: [{ host: "a.example" }],
    },
  });
  assert.throws(() => filled(fields, { "tools/headers": "{" }), /not valid JSON/);
});

test("a schema without fields, or one that leads to itself, is no harm", () => {
  assert.deepEqual(fieldsOf({ type: "object", properties: {} }, {}), []);
  const loop = { type: "object", properties: { tools: { $ref: "#/$defs/a" } }, $defs: { a: { $ref: "#/$defs/a" } } };
  assert.equal(fieldsOf(loop, {}).length, 1);
});
