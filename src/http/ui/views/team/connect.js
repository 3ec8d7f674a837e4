// @ts-check
// A new MCP server of a team: tried with a real connection, its key into the vault, the setting shown before it is written.

import { get, part, post, put } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several } from "../../core/format.js";
import { ask } from "../../parts/dialog.js";
import { area, input, select, split } from "../../parts/fields.js";
import { editFile } from "../../parts/file.js";
import { refused, trial } from "../../parts/trial.js";
import { withEntry } from "../../parts/yaml.js";

/** @param {string} team @param {string[]} taken names of its servers @param {() => void} onDone */
export async function connectServer(team, taken, onDone) {
  const path = `/teams/${part(team)}/config`;
  const file = await get(path);
  const address = [input("Address", "url", { hint: "The whole address, as its documentation gives it" })];
  const program = [
    input("Program", "command", { placeholder: "/opt/mcp/bin/server", hint: "Its path on the machine of the service" }),
    area("Arguments", "args", { rows: 2, hint: "One on each line" }),
    input("Folders it may read", "read_dirs", {
      placeholder: "/opt/mcp",
      hint: "Where it is installed, separated by commas",
    }),
    input("Variable for the key", "variable", { placeholder: "API_KEY" }),
  ];
  /** @param {string} form */
  const show = (form) => {
    for (const field of address) field.hidden = form !== "address";
    for (const field of program) field.hidden = form !== "program";
  };
  show("address");
  /** @type {any} */ let given;
  const draft = await ask({
    title: `Connect an MCP server to ${clean(team)}`,
    about: "It offers the team tools. The team uses them like its own, by the same rules.",
    body: [
      input("Name", "name", {
        required: true,
        pattern: "[a-z0-9_\\-]{1,32}",
        placeholder: "github",
        hint: "Small letters, digits, _ and -",
      }),
      select(
        "It is",
        "form",
        [
          ["address", "at an address"],
          ["program", "a program on this machine"],
        ],
        { onchange: (/** @type {any} */ event) => show(event.target.value) },
      ),
      address,
      program,
      input("Key", "key", {
        type: "password",
        autocomplete: "new-password",
        hint: "If it needs one. It goes into the vault of the team and is shown nowhere again",
      }),
      trial(async (values) => {
        const content = withKey(values, values.key);
        const { tools, left_out, last_error } = await post("/mcp/try", { team, server: values.name, content });
        if (last_error) return refused(last_error);
        return [
          make(
            "p",
            {},
            tools.length ? `It offers ${several(tools.length, "tool")}: ` : "It offers no tools.",
            make("code", {}, clean(tools.join(", "))),
          ),
          left_out.length ? make("p", { class: "muted" }, `Left out: ${clean(left_out.join("; "))}`) : null,
        ];
      }),
    ],
    action: "Review changes",
    submit: async (values) => {
      given = values;
      return withKey(values, values.key && `\${vault:${keyOf(values)}}`);
    },
  });
  if (!draft) return;
  await editFile(
    {
      title: `File of ${team}`,
      path,
      file,
      draft,
      review: true,
      done: "Saved. The team has its tools from its next task on.",
      // Nothing connects without its key.
      before: async () => {
        if (given.key)
          await put(`/vault/${part(`team:${team}`)}/${part(keyOf(given))}`, {
            value: given.key,
            tools: [`mcp.${given.name}`],
          });
      },
    },
    onDone,
  );

  /** The file with the server in it. It is tried with the key itself: nothing is kept before it is wanted. @param {any} values @param {string} secret */
  function withKey(values, secret) {
    if (!values.name) throw new Error("Give it a name first.");
    if (taken.includes(values.name)) throw new Error(`There is a server called ${values.name} already.`);
    return withServer(file.content, values, secret);
  }
}

/** What its key is called in the vault. @param {any} values */
const keyOf = ({ name }) => `mcp-${name}`;

/**
 * The text of a team's file with a server more, whose tools the team may use.
 * @param {string} text @param {any} values what the form says @param {string} secret its key, or how the vault names it, if it needs one
 */
export function withServer(text, { name, form, url, command, args, read_dirs, variable }, secret) {
  const said = Object.entries(
    form === "program"
      ? {
          command: command.trim(),
          args: args.split("\n").filter((/** @type {string} */ line) => line.trim()),
          read_dirs: split(read_dirs),
          env: secret ? { [variable.trim() || "API_KEY"]: secret } : {},
        }
      : { url: url.trim(), headers: secret ? { Authorization: `Bearer ${secret}` } : {} },
  );
  const lines = said.filter(([, value]) => typeof value === "string" || Object.keys(value).length);
  const entry = lines.map(([field, value]) => `\n    ${field}: ${JSON.stringify(value)}`).join("");
  return withEntry(allowing(text, name), "mcp_servers", name, entry);
}

/** The text with the server's tools among those that the team may use, where those are listed. @param {string} text @param {string} name */
function allowing(text, name) {
  const own = `mcp.${name}.*`;
  const enough = new Set(["*", "@mcp", "mcp.*", own]);
  const isIn = (/** @type {string[]} */ tools) =>
    tools.some((tool) => enough.has(tool.trim().replace(/^(["'])(.*)\1$/, "$2")));
  return text
    .replace(/^(allowed_tools: *\[)(.*)(\] *)$/m, (line, start, tools, end) =>
      isIn(tools.split(",")) ? line : `${start}${tools.trim() ? `${tools}, ` : ""}"${own}"${end}`,
    )
    .replace(/^allowed_tools: *\n((?: *- .*(?:\n|$))+)/m, (block, items) => {
      const lines = items.trimEnd().split("\n");
      if (isIn(lines.map((/** @type {string} */ line) => line.replace(/^ *- /, "").replace(/ +#.*$/, ""))))
        return block;
      const [indent] = /** @type {string[]} */ (/^ */.exec(lines[0]));
      return `allowed_tools:\n${lines.join("\n")}\n${indent}- "${own}"\n`;
    });
}
