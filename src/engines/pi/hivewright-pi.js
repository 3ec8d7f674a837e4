// Gives Pi our tools: an MCP client of `hivewright mcp`, whose tools it registers and to which it forwards each call.
import { spawn } from "node:child_process";

// With a prefix no tool of ours has the name of one of Pi's own, so `--tools` can never let one of those in.
const PREFIX = "mcp__hivewright__";
const START_TIMEOUT_MS = 20_000;

export default async function hivewright(pi) {
	// Versions without these options would refuse to start with them.
	for (const option of ["no-approve", "no-mcp"]) pi.registerFlag(option, { type: "boolean" });
	const bridge = new Bridge();
	pi.on("session_shutdown", () => bridge.close());
	// Compaction is the service's. A workspace's settings can turn Pi's own on in old versions.
	pi.on("session_before_compact", () => ({ cancel: true }));
	const timer = setTimeout(() => bridge.fail(new Error("the tools were not listed in time")), START_TIMEOUT_MS);
	const tools = await bridge.listTools();
	clearTimeout(timer);

	// Old versions make the calls of a message that was cut short, new ones refuse them. We do as the new ones.
	let cut = false;
	pi.on("message_end", ({ message }) => {
		if (message.role === "assistant") cut = message.stopReason === "length";
	});
	for (const tool of tools) {
		pi.registerTool({
			name: PREFIX + tool.name,
			label: tool.name,
			description: tool.description ?? "",
			// Pi would answer a call with wrong arguments itself, or put them right. The service is to see what the
			// model wrote, so anything passes here, and the request to the model gets the real schema below.
			parameters: { type: "object", properties: {}, additionalProperties: true },
			async execute(id, input) {
				if (cut) throw new Error("The message was cut short, the call was not made.");
				return bridge.callTool(tool.name, input, id);
			},
		});
	}
	const schemas = new Map(tools.map((tool) => [PREFIX + tool.name, tool.inputSchema]));
	pi.on("before_provider_request", ({ payload }) => {
		for (const tool of payload?.tools ?? []) {
			const schema = schemas.get(tool.function?.name ?? tool.name);
			if (!schema) continue;
			if (tool.function) tool.function.parameters = schema;
			else if (tool.input_schema) tool.input_schema = schema;
			else tool.parameters = schema;
		}
		return payload;
	});
}

class Bridge {
	#child;
	#failure;
	#lastId = 0;
	#pending = new Map();

	constructor() {
		const { HIVEWRIGHT_BRIDGE: program, HIVEWRIGHT_SOCKET: socket } = process.env;
		this.#child = spawn(program, ["mcp", "--socket", socket], { stdio: ["pipe", "pipe", "inherit"] });
		this.#child.on("error", (error) => this.fail(error));
		this.#child.on("exit", (code) => this.fail(new Error(`the tools have gone away (exit code ${code})`)));
		this.#child.stdin.on("error", (error) => this.fail(error));
		// Only LF ends a line: U+2028 and U+2029 are data.
		let rest = "";
		this.#child.stdout.setEncoding("utf8").on("data", (text) => {
			const lines = (rest + text).split("\n");
			rest = lines.pop();
			for (const line of lines) if (line.trim()) this.#hear(JSON.parse(line));
		});
	}

	async listTools() {
		await this.#request("initialize", {
			protocolVersion: "2025-06-18",
			capabilities: {},
			clientInfo: { name: "hivewright-pi", version: "1" },
		});
		this.#write({ method: "notifications/initialized" });
		const tools = [];
		let cursor;
		do {
			const page = await this.#request("tools/list", cursor ? { cursor } : {});
			tools.push(...page.tools);
			cursor = page.nextCursor;
		} while (cursor);
		return tools;
	}

	async callTool(name, input, toolUseId) {
		const params = { name, arguments: input, _meta: { "hivewright/toolUseId": toolUseId } };
		const { content = [], isError } = await this.#request("tools/call", params);
		if (isError) {
			throw new Error(content.map((part) => part.text ?? "").join("\n") || "The tool failed.");
		}
		return { content: content.map(shown), details: {} };
	}

	fail(error) {
		this.#failure ??= error;
		for (const { reject } of this.#pending.values()) reject(error);
		this.#pending.clear();
	}

	close() {
		this.#child.stdin.end();
		this.#child.kill();
	}

	#request(method, params) {
		if (this.#failure) return Promise.reject(this.#failure);
		const id = ++this.#lastId;
		return new Promise((resolve, reject) => {
			this.#pending.set(id, { resolve, reject });
			this.#write({ id, method, params });
		});
	}

	#hear({ id, method, result, error }) {
		if (method) {
			if (id === undefined) return;
			const answer = method === "ping" ? { result: {} } : { error: { code: -32601, message: "unknown method" } };
			return this.#write({ id, ...answer });
		}
		const request = this.#pending.get(id);
		this.#pending.delete(id);
		if (error) request?.reject(new Error(error.message));
		else request?.resolve(result);
	}

	#write(message) {
		if (!this.#failure) this.#child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
	}
}

// Pi knows text and images; of anything else the model sees the JSON.
function shown(part) {
	if (part.type === "text" || part.type === "image") return part;
	return { type: "text", text: JSON.stringify(part) };
}
