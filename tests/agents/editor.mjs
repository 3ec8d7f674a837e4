// A small editor: the official client of the Agent Client Protocol around an agent, driven by lines of JSON.
//
//   node editor.mjs <the client library> <the agent> [its arguments]
//
// Takes {"prompt": text}, {"cancel": true} and {"choose": kind of option}, and tells all that it hears. `EDITOR_THREAD` names a
// thread to open again.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [library, agent, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(library));
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");

const child = spawn(agent, args, { stdio: ["pipe", "pipe", "inherit"] });
child.on("exit", (code) => {
  tell({ exit: code });
  process.exit();
});

const choices = [];
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const { agent: peer } = acp
  .client({ name: "editor" })
  .onNotification(acp.methods.client.session.update, ({ params }) => tell({ update: params.update }))
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    tell({ permission: params });
    return new Promise((resolve) => choices.push({ params, resolve }));
  })
  .connect(stream);

const clientCapabilities = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };
const { methods } = acp;
const attempt = async (work) => {
  try {
    return await work();
  } catch (error) {
    tell({ error: error.message, code: error.code, data: error.data });
  }
};

const hello = await peer.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities });
tell({ hello });
const place = { cwd: process.cwd(), mcpServers: [] };
const earlier = process.env.EDITOR_THREAD;
const open = async () => {
  if (!earlier) return await peer.request(methods.agent.session.new, place);
  await peer.request(methods.agent.session.load, { ...place, sessionId: earlier });
  return { sessionId: earlier };
};
const opened = await attempt(open);
const sessionId = opened?.sessionId;
if (sessionId) tell({ sessionId });

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const order = JSON.parse(line);
    if (order.prompt) {
      const prompt = [{ type: "text", text: order.prompt }];
      attempt(async () => tell(await peer.request(methods.agent.session.prompt, { sessionId, prompt })));
    } else if (order.cancel) {
      peer.notify(methods.agent.session.cancel, { sessionId });
    } else if (order.choose) {
      const { params, resolve } = choices.shift();
      const option = params.options.find((option) => option.kind === order.choose);
      resolve({ outcome: { outcome: "selected", optionId: option.optionId } });
    }
  })
  .on("close", () => child.stdin.end());
