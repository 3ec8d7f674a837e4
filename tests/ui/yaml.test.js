// Settings files with an entry more.

import assert from "node:assert/strict";
import { test } from "node:test";
import "./document.js";
import { entryOf, withEntry } from "../../src/http/ui/parts/yaml.js";
import { withServer } from "../../src/http/ui/views/team/connect.js";

test("an entry comes into its section, which is made if need be", () => {
  assert.equal(withEntry("", "a", "b", "1"), "a:\n  b: 1\n");
  assert.equal(withEntry("x: 1\n", "a", "b", "1"), "x: 1\n\na:\n  b: 1\n");
  assert.equal(withEntry("a: {} # none\nx: 1\n", "a", "b", "1"), "a:\n  b: 1\nx: 1\n");
  assert.equal(withEntry("a:\n  # b: 0\n  c: 2\n", "a", "b", "\n    d: 1"), "a:\n  b:\n    d: 1\n  # b: 0\n  c: 2\n");
});

test("an entry takes the place of the one of its name, and of no other", () => {
  const text = "a:\n  b:\n    deep: 1\n  c: 2\nz:\n  b: 3\n";

  assert.equal(withEntry(text, "a", "b", "1"), "a:\n  b: 1\n  c: 2\nz:\n  b: 3\n");
  assert.equal(withEntry("a:\n  c: 2\nz:\n  b: 3\n", "a", "b", "1"), "a:\n  b: 1\n  c: 2\nz:\n  b: 3\n");
});

test("a server's tools are allowed where it is named", () => {
  const far = { name: "far", form: "address", url: "https://a.example/mcp" };
  const near = { name: "near", form: "program", command: "/bin/x", args: "-a\n-b", read_dirs: "/opt", variable: "" };

  assert.equal(
    withServer('allowed_tools: ["@files"]\n', far, "${vault:k}"),
    'allowed_tools: ["@files", "mcp.far.*"]\n\nmcp_servers:\n  far:\n    url: "https://a.example/mcp"\n' +
      '    headers: {"Authorization":"Bearer ${vault:k}"}\n',
  );
  assert.equal(
    withServer('allowed_tools: ["@mcp"]\nmcp_servers: {}\n', near, "${vault:k}"),
    'allowed_tools: ["@mcp"]\nmcp_servers:\n  near:\n    command: "/bin/x"\n    args: ["-a","-b"]\n' +
      '    read_dirs: ["/opt"]\n    env: {"API_KEY":"${vault:k}"}\n',
  );
});

test("each further server's tools are allowed too, however the list is written", () => {
  const far = { name: "far", form: "address", url: "https://a.example/mcp" };
  const allowed = (text) => withServer(text, far, "").split("\n\n")[0].split("mcp_servers")[0];

  assert.equal(allowed('allowed_tools: ["mcp.near.*"]\n'), 'allowed_tools: ["mcp.near.*", "mcp.far.*"]');
  assert.equal(allowed("allowed_tools: ['mcp.*']\n"), "allowed_tools: ['mcp.*']");
  assert.equal(
    allowed("allowed_tools:\n  - read\n  - mcp.near.* # its own\nmaxSteps: 3\n"),
    'allowed_tools:\n  - read\n  - mcp.near.* # its own\n  - "mcp.far.*"\nmaxSteps: 3',
  );
  assert.equal(allowed("allowed_tools:\n- mcp.far.* # its own\n"), "allowed_tools:\n- mcp.far.* # its own");
});

test("an entry is indented as those beside it", () => {
  const text = "a:\n    # one\n    c:\n        d: 2\n";

  assert.equal(withEntry(text, "a", "b", "\n    e: 1"), "a:\n    b:\n        e: 1\n    # one\n    c:\n        d: 2\n");
});

// OP-63
test("an entry is no field of another that has its name, and ends where the next begins", () => {
  const text = "a:\n  one:\n    model: x\n\n# of it\n    deep: 1\n\n  # next\n  'two': 2 # b\nz: 1\n";

  assert.equal(withEntry(text, "a", "model", "1"), `a:\n  model: 1\n${text.slice(3)}`);
  assert.equal(withEntry(text, "a", "one", "1"), "a:\n  one: 1\n\n  # next\n  'two': 2 # b\nz: 1\n");
  assert.equal(withEntry(text, "a", "two", "3"), `a:\n  two: 3\n${text.slice(3).replace("  'two': 2 # b\n", "")}`);
  const found = ["one", "two", "model", "z"].map((name) => entryOf(text, "a", name));
  assert.deepEqual(found, ["", "2", undefined, undefined]);
});
