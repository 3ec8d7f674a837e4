// The plugin protocol, as the host of a plugin speaks it for the code of that plugin. `bridge` is what globals.js returns.
(native, bridge, about) => {
  "use strict";

  const { parse, stringify } = JSON;
  const UNKNOWN = -32601;
  const FAILED = -32000;

  const tools = new Map();
  const hooks = new Map();
  let offered = null;
  let configured = () => {};
  let isStarted = false;

  const notify = (method, params) => native.send(stringify({ jsonrpc: "2.0", method, params }));
  const refusal = (code, message) => Object.assign(new Error(message), { code });
  const check = (is, message) => {
    if (!is) throw new TypeError(message);
  };

  // What `hive:host` exports.
  const host = {
    tool({ name, description, input = { type: "object" }, run } = {}) {
      check(/^[A-Za-z0-9_-]{1,64}$/.test(name), "tool: `name` has 1 to 64 letters, digits, `_` or `-`");
      check(typeof description === "string", "tool: `description` is missing");
      check(typeof run === "function", "tool: `run` is no function");
      tools.set(name, { name, description, inputSchema: input, run });
      if (isStarted) notify("notifications/tools/list_changed", {});
    },
    hook(event, run) {
      check(typeof event === "string" && typeof run === "function", "hook: takes an event and a function");
      const name = event.replace(/@v1$/, "");
      hooks.set(name, [...(hooks.get(name) ?? []), run]);
    },
    channel(channel = {}) {
      check(typeof channel.send === "function", "channel: `send` is no function");
      check(offered === null, "channel: a plugin has one channel");
      offered = channel;
      return { inbound: (message) => bridge.ask("channel/inbound", message) };
    },
    state: {
      get: async (key) => (await bridge.ask("state/get", { key })).value,
      set: async (key, value) => void (await bridge.ask("state/set", { key, value })),
      // Shown to operators beside the plugin's status.
      show: (value) => notify("plugin/state", value),
    },
    log: (level, text) => native.log(bridge.text(level), bridge.text(text)),
    error: (message) => notify("plugin/error", { message: message === null ? null : bridge.text(message) }),
    digest(algorithm, data) {
      const bytes = typeof data === "string" ? native.encode(bridge.text(data)) : data;
      return native.digest(bridge.text(algorithm), Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    },
    uuid: () => native.uuid(),
    configured: (take) => {
      configured = take;
    },
  };

  const content = (value) => {
    if (value !== null && typeof value === "object" && Array.isArray(value.content)) return value;
    const isText = typeof value === "string";
    const text = isText ? value : (stringify(value) ?? "");
    const structured = !isText && value !== null && typeof value === "object" && !Array.isArray(value);
    return { content: [{ type: "text", text }], ...(structured && { structuredContent: value }) };
  };

  const part = (name) => {
    if (typeof offered?.[name] === "function") return offered[name].bind(offered);
    throw refusal(UNKNOWN, `the plugin has no channel with \`${name}\``);
  };

  const methods = {
    initialize: ({ protocolVersion }) => ({
      protocolVersion: protocolVersion ?? "2025-11-25",
      serverInfo: { name: about.key, version: about.version },
      capabilities: {
        tools: { listChanged: true },
        experimental: {
          hivewright: {
            version: 1,
            provides: [
              ...(tools.size > 0 ? ["tools"] : []),
              ...(hooks.size > 0 ? ["hooks"] : []),
              ...(offered === null ? [] : ["channel"]),
            ],
          },
        },
      },
    }),
    "plugin/start": ({ config = {} }) => {
      configured(config);
      isStarted = true;
      return {};
    },
    "plugin/stop": () => ({}),
    ping: () => ({}),
    "tools/list": () => ({
      tools: [...tools.values()].map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
    }),
    "tools/call": async ({ name, arguments: input = {}, _meta = {} }) => {
      const tool = tools.get(name);
      if (tool === undefined) throw refusal(-32602, `there is no tool \`${name}\``);
      try {
        return content(await tool.run(input, _meta));
      } catch (error) {
        return { content: [{ type: "text", text: parse(bridge.told(error)).message }], isError: true };
      }
    },
    "hook/fire": async ({ event, payload, call_id }) => {
      let now = payload;
      let isRewritten = false;
      const runs = hooks.get(String(event).replace(/@v1$/, ""));
      // The manifest promised one: that nobody looked is not that nobody objects.
      if (runs === undefined) throw refusal(UNKNOWN, `the plugin has no hook for \`${event}\``);
      for (const run of runs) {
        const decided = (await run(now, { call_id })) ?? { decision: "pass" };
        if (decided.decision === "deny") return decided;
        if (decided.decision === "rewrite") {
          now = { ...now, ...decided.payload };
          isRewritten = true;
        } else if (decided.decision !== "pass") {
          throw new TypeError("a hook returns nothing, or a `decision`: pass, deny or rewrite");
        }
      }
      return isRewritten ? { decision: "rewrite", payload: now } : { decision: "pass" };
    },
    "hook/notify": async ({ event, payload }) => {
      for (const run of hooks.get(String(event).replace(/@v1$/, "")) ?? []) await run(payload, {});
    },
    "channel/send": (params) => part("send")(params),
    "channel/webhook": (params) => part("webhook")(params),
  };
  for (const step of ["begin", "poll", "submit", "cancel"]) {
    methods[`setup/${step}`] = async (params) => {
      const setup = offered?.setup;
      if (typeof setup?.[step] !== "function") throw refusal(UNKNOWN, "the plugin has no setup");
      return { state: await setup[step](params) };
    };
  }

  return {
    host,
    // Takes a request or a notification. Its answer goes out when it is there.
    take(json) {
      const { id, method, params = {} } = parse(json);
      const known = Object.hasOwn(methods, method) ? methods[method] : null;
      const running = (async () => {
        if (known === null) throw refusal(UNKNOWN, `unknown method \`${method}\``);
        return (await known(params)) ?? {};
      })();
      running.then(
        (result) => {
          if (id !== undefined) native.send(stringify({ jsonrpc: "2.0", id, result }));
        },
        (error) => {
          const message = parse(bridge.told(error)).message;
          const code = Number.isInteger(error?.code) ? error.code : FAILED;
          const answer = stringify({ jsonrpc: "2.0", id, error: { code, message } });
          if (id !== undefined) native.send(answer);
          else if (known !== null) native.log("error", message);
        },
      );
    },
  };
};
