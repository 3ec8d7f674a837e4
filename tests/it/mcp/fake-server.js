// An MCP server for tests, which misbehaves as it is told: by its tools, and by the word in FAKE.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const readline = require("node:readline");

const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const text = (id, words, more = {}) => say({ id, result: { content: [{ type: "text", text: words }], ...more } });
const object = { type: "object", properties: {} };
const tool = (name, description = name, inputSchema = object, more = {}) => ({ name, description, inputSchema, ...more });
const cancelled = [];
const mode = process.env.FAKE ?? "";
let late = false;
const born = Math.random();

function nested(depth) {
  let schema = { type: "string" };
  for (let level = 0; level < depth; level += 1) schema = { type: "object", properties: { a: schema } };
  return schema;
}

function tools() {
  const all = ["echo", "die", "hang", "slow", "shout", "cling", "chatter", "ask", "stray", "learn", "spawn", "cancelled", "env", "reach", "picture"].map(
    (name) => tool(name),
  );
  if (late) all.push(tool("late"));
  if (mode === "bomb") {
    const wide = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`f${n}`, { type: "string" }]));
    all.push(
      tool("deep", "d", nested(60)),
      tool("wide", "w", { type: "object", properties: wide }),
      tool("list", "l", { type: "array" }),
      tool("away", "a", { type: "object", properties: { a: { $ref: "https://evil.example/schema" } } }),
      tool("odd name\nwith lines"),
      tool("x".repeat(120), "long"),
      tool("same_name"),
      tool("same_name"),
      tool("quiet", "Reads.", object, { annotations: { readOnlyHint: true, idempotentHint: true } }),
    );
    for (let n = 0; n < 300; n += 1) all.push(tool(`many${n}`));
  }
  if (fs.existsSync(`${__dirname}/words.json`)) {
    const words = JSON.parse(fs.readFileSync(`${__dirname}/words.json`, "utf8"));
    words.descriptions.forEach((line, n) => all.push(tool(`told${n}`, line)));
    all.push(tool("words", "Words.", { type: "object", properties: { from: { type: "integer" } } }));
  }
  return all;
}

const calls = {
  echo: (id, args) => text(id, `echo ${args.words ?? ""} of ${born}`),
  die: () => process.exit(3),
  hang: () => {
    for (;;);
  },
  slow: (id, args) => setTimeout(() => text(id, "slowly"), args.ms ?? 50),
  shout: () => {
    const piece = Buffer.alloc(1 << 20, "x");
    const more = (left) => left && process.stdout.write(piece, () => more(left - 1));
    more(1024);
  },
  cling: () => {
    process.stdin.removeAllListeners("end");
    for (const event of ["uncaughtException", "SIGTERM"]) process.on(event, () => {});
    setInterval(() => {}, 1000);
    calls.shout();
  },
  chatter: () => {
    const params = { level: "info", data: "y".repeat(1000) };
    const line = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params }) + "\n";
    const more = () => process.stdout.write(line.repeat(100), more);
    more();
  },
  ask: (id) => {
    say({ id: 900, method: "sampling/createMessage", params: { messages: [], maxTokens: 9 } });
    say({ id: 901, method: "roots/list" });
    say({ id: 902, method: "elicitation/create", params: { message: "m", requestedSchema: object } });
    answers.waiting = id;
  },
  stray: (id) => {
    for (const other of [777, "no", -1]) text(other, "not asked for");
    say({ id: 778, error: { code: -1, message: "not asked for" } });
    process.stdout.write('not json\n{"jsonrpc":"2.0"}\n[]\n{"id":3}\n');
    text(id, "asked for");
    text(id, "said again");
  },
  learn: (id) => {
    late = true;
    say({ method: "notifications/tools/list_changed" });
    text(id, "learnt");
  },
  late: (id) => text(id, "I am new"),
  spawn: (id, args) => {
    spawn("sleep", [String(args.seconds)], { detached: true, stdio: "ignore" }).unref();
    text(id, "spawned");
  },
  cancelled: (id) => text(id, JSON.stringify(cancelled)),
  env: (id) => text(id, Object.keys(process.env).sort().join(" ")),
  reach: (id, args) => {
    const socket = net.connect(args.port, "127.0.0.1", () => {
      text(id, "reached");
      socket.destroy();
    });
    socket.on("error", (error) => text(id, `refused ${error.code}`));
  },
  picture: (id) => {
    const pixel =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAACklEQVR4nGMAAQAABQABDQottAAAAABJRU5ErkJggg==";
    const lie = Buffer.from("<svg onload='alert(1)'/>").toString("base64");
    const image = (data) => ({ type: "image", mimeType: "image/png", data });
    say({ id, result: { content: [{ type: "text", text: "a dot" }, image(pixel), image(lie)] } });
  },
  words: (id, args) => {
    const words = JSON.parse(fs.readFileSync(`${__dirname}/words.json`, "utf8"));
    text(id, words.results.slice(args.from, args.from + 8).join("\n\n"));
  },
};
const answers = { waiting: undefined, heard: {} };

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, result, error } = JSON.parse(line);
  if (!method && id >= 900) {
    answers.heard[id] = error ? error.code : (result.action ?? "result");
    if (Object.keys(answers.heard).length === 3) text(answers.waiting, JSON.stringify(answers.heard));
  } else if (method === "initialize") {
    if (mode === "mute") return;
    const capabilities = { tools: { listChanged: true }, logging: {} };
    const serverInfo = { name: "fake", version: "1" };
    say({ id, result: { protocolVersion: params.protocolVersion, capabilities, serverInfo } });
  } else if (method === "tools/list") {
    say({ id, result: { tools: tools() } });
  } else if (method === "ping") {
    say({ id, result: {} });
  } else if (method === "notifications/cancelled") {
    cancelled.push(params.requestId);
  } else if (method === "tools/call") {
    if (!calls[params.name]) say({ id, error: { code: -32602, message: `no tool ${params.name}` } });
    else calls[params.name](id, params.arguments ?? {});
  }
});
process.stdin.on("end", () => process.exit(0));
if (mode === "broken") {
  console.error("it is broken on purpose");
  process.exit(7);
}
