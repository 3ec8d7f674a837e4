// The plugin of the conformance run in JavaScript: main.py and main.rs do the same.
import { tool, hook, config, state } from "hive:host";

const input = {
    type: "object",
    properties: { words: { type: "string" }, ms: { type: "integer" } },
    additionalProperties: false,
};
const offer = (name, run) => tool({ name, description: `Does ${name}.`, input, run });

const echo = async ({ words, ms = 0 }) => {
    await new Promise((wake) => setTimeout(wake, ms));
    return `echo ${words} with ${config.tools?.word ?? "-"}`;
};

offer("echo", echo);
offer("act", (input) => {
    state.show({ acting: true });
    return echo(input);
});
offer("keep", async ({ words }) => {
    await state.set("kept", words);
    return "kept";
});
offer("kept", async () => `kept: ${await state.get("kept")}`);
offer("fail", () => {
    throw new Error("it failed on purpose");
});
offer("image", () => ({ content: [{ type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" }] }));

hook("tool.before", ({ args }) => {
    const mode = config.hooks?.mode ?? "pass";
    if (mode === "deny") return { decision: "deny", reason: "not on a Tuesday" };
    if (mode === "rewrite") return { decision: "rewrite", payload: { args: { ...args, content: "rewritten" } } };
    return { decision: mode };
});
