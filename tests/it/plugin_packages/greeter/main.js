import { tool } from "hive:host";

tool({
    name: "greet",
    description: "Greets somebody by name.",
    input: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    run: ({ name }) => `Hello, ${name}!`,
});
