// The plugin of the conformance run in JavaScript: main.py and main.rs do the same.
import { channel, config, hook, state, tool } from "hive:host";

const input = {
    type: "object",
    properties: { words: { type: "string" }, ms: { type: "integer" } },
    additionalProperties: false,
};
const offer = (name, run) => tool({ name, description: `Does ${name}.`, input, run });
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

// Words that begin so are held up the first time, until whoever waits for them is killed.
const hold = async (words) => {
    if (!words.startsWith("hold ") || (await state.get(words)) !== null) return;
    await state.set(words, true);
    state.show({ holding: words });
    await pause(50_000);
};

const echo = async ({ words, ms = 0 }) => {
    await hold(words);
    await pause(ms);
    return `echo ${words} with ${config.tools?.word ?? "-"}`;
};

offer("echo", echo);
offer("act", echo);
offer("keep", async ({ words }) => {
    await state.set("kept", words);
    return "kept";
});
offer("kept", async () => `kept: ${await state.get("kept")}`);
offer("fail", () => {
    throw new Error("it failed on purpose");
});
offer("image", () => ({ content: [{ type: "image", mimeType: "image/png", data: "iVBORw0KGgo=" }] }));

hook("tool.before", async ({ args }) => {
    await hold(args.content ?? "");
    const mode = config.hooks?.mode ?? "pass";
    if (mode === "deny") return { decision: "deny", reason: "not on a Tuesday" };
    if (mode === "rewrite") return { decision: "rewrite", payload: { args: { ...args, content: "rewritten" } } };
    return { decision: mode };
});
const reword = (from, to) => ({ text }) => {
    if (text.includes("rudely")) return { decision: "deny", reason: "not so" };
    if (text.includes(from)) return { decision: "rewrite", payload: { text: text.replaceAll(from, to) } };
};
hook("message.inbound", reword("loudly", "quietly"));
hook("message.outbound", reword("quietly", "softly"));

// Messages may go out at the same time; they are noted one after the other.
let noting = Promise.resolve();
const note = async (content) => {
    const sent = [...((await state.get("sent")) ?? []), content].sort();
    await state.set("sent", sent);
    state.show({ sent });
};
const { inbound } = channel({
    async send({ content }) {
        await hold(content);
        noting = noting.then(() => note(content));
        await noting;
        return { status: "delivered" };
    },
    async webhook({ body_base64 }) {
        const { event_id, text } = JSON.parse(atob(body_base64));
        const taken = await inbound({ event_id, conversation: event_id, sender: { id: "ann" }, text });
        return { status: 200, body: JSON.stringify(taken) };
    },
    setup: {
        begin: () => ({
            kind: "awaiting_user_input",
            fields: [{ key: "secret", label: "Secret", type: "password" }],
        }),
        submit: ({ values: { secret } }) => ({ kind: "done", config: { secret } }),
    },
});
