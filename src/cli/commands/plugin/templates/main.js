// Runs in the service's own JavaScript host: no files, no processes, no network beyond the hosts in plugin.toml.
import { tool, config } from "hive:host";

tool({
    name: "greet",
    description: "Greets somebody by name.",
    input: {
        type: "object",
        properties: { name: { type: "string", description: "Who is greeted." } },
        required: ["name"],
        additionalProperties: false,
    },
    run({ name }) {
        return `${config.tools?.greeting ?? "Hello"}, ${name}!`;
    },
});
