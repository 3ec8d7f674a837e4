// @ts-check
// The models: which profiles there are, and how a new one is connected: tried with a real request, its key into the vault, its
// profile into the file.

import { get, may, part, post, put } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { several } from "../../core/format.js";
import { View } from "../../core/view.js";
import { ask } from "../../parts/dialog.js";
import { input, select } from "../../parts/fields.js";
import { editFile } from "../../parts/file.js";
import { button, intro } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { table } from "../../parts/table.js";
import { act, toast } from "../../parts/toast.js";
import { refused, trial } from "../../parts/trial.js";
import { entryOf, withEntry } from "../../parts/yaml.js";

const FILE = "/config/providers";
/** Whose API: the provider as the file names it, and whether it has an address of its own. @type {Record<string, {word: string, provider: string, own: boolean}>} */
const VENDORS = {
  anthropic: { word: "Anthropic", provider: "anthropic", own: true },
  openai: { word: "OpenAI", provider: "openai", own: true },
  other: { word: "Another with an OpenAI-compatible API: Ollama, vLLM, OpenRouter…", provider: "openai", own: false },
};

class ModelsPart extends View {
  begin() {
    this.config = this.source((signal) => get("/config", {}, signal), ["config.reloaded", "config.invalid"]);
  }

  render() {
    const admin = may("admin");
    return [
      admin
        ? intro(
            ["Teams use the model named ", make("code", {}, "default"), " unless their team file names another."],
            [
              button("Edit providers.yaml…", "edit", () => act(null, () => this.edit())),
              may("secrets") &&
                button("Connect a model…", "plus", () => act(null, () => this.connect()), { tone: "primary" }),
            ],
          )
        : null,
      this.config?.show((config) => this.profiles(config)),
    ];
  }

  /** @param {any} config */
  profiles({ fields }) {
    const rows = profilesOf(fields);
    if (!rows.length)
      return empty(
        "spark",
        "No model is connected",
        "The built-in demo answers, or a model from an environment variable. Connect a model so that teams can do real work.",
        may("admin") && may("secrets")
          ? button("Connect a model…", "plus", () => act(null, () => this.connect()), { tone: "primary" })
          : null,
      );
    return table(
      "Models",
      [
        { name: "Name", cell: (row) => make("code", {}, clean(row.name)) },
        { name: "API", cell: (row) => clean(row.provider ?? "anthropic") },
        { name: "Model", wide: true, cell: (row) => clean(row.model ?? "the default") },
        { name: "Address", quiet: true, cell: (row) => clean(row.api_url ?? "the default") },
      ],
      rows,
      { key: (row) => row.name },
    );
  }

  async edit() {
    const file = await get(FILE);
    await editFile(
      { title: "Edit providers.yaml", path: FILE, file, done: "Saved. Teams use it from their next task on." },
      () => this.config?.reload(),
    );
  }

  async connect() {
    // As it is now: another one could be replaced by what is not known here.
    const { fields } = await get("/config");
    const names = profilesOf(fields).map((row) => row.name);
    /** What was written from this form may be mended with it. @type {Set<string>} */
    const written = new Set();
    const offered = make("datalist", { id: "models" });
    const address = input("Address", "api_url", {
      placeholder: "localhost:11434/v1",
      hint: "As given in its documentation; a server in your own network may need no key",
    });
    const model = input("Model", "model", { list: "models", hint: "Try it to see which models there are" });
    /** The default is a model of the vendor. @param {string} vendor */
    const arrange = (vendor) => {
      const { own } = VENDORS[vendor];
      address.hidden = own;
      fieldOf(address).required = fieldOf(model).required = !own;
      fieldOf(model).placeholder = own ? "The default" : "";
    };
    arrange(Object.keys(VENDORS)[0]);
    const done = await ask({
      title: "Connect a model",
      about: "Its key is kept in the vault and never shown again.",
      body: [
        select(
          "API",
          "vendor",
          Object.entries(VENDORS).map(([id, { word }]) => [id, word]),
          { onchange: (/** @type {any} */ event) => arrange(event.target.value) },
        ),
        address,
        input("Key", "api_key", { type: "password", autocomplete: "new-password" }),
        model,
        offered,
        names.includes("default")
          ? input("Name", "name", {
              value: freeName(names),
              required: true,
              pattern: "[a-z0-9_\\-]{1,40}",
              hint: "Teams and topics choose it by this name",
            })
          : null,
        trial(async (values) => {
          let found = await post("/models/try", trialOf(values));
          const { models, unlisted } = found;
          offered.replaceChildren(...models.map((/** @type {string} */ name) => make("option", { value: name })));
          if (fieldOf(model).required && !fieldOf(model).value && models.length) {
            fieldOf(model).value = models[0];
            // There is no default that every server has: what was tried is not what would be connected.
            found = await post("/models/try", trialOf({ ...values, model: models[0] }));
          }
          const { answer, error, model: tried } = found;
          return [
            answer === null
              ? refused(error)
              : make("p", {}, make("strong", {}, clean(tried)), ` answered: ${clean(answer)}`),
            models.length
              ? make("p", { class: "muted" }, `${several(models.length, "model")} to choose from, above.`)
              : null,
            unlisted ? make("p", { class: "muted" }, `Its models are not known: ${clean(unlisted)}.`) : null,
          ];
        }),
      ],
      action: "Connect",
      submit: (values) => this.save(values, written),
    });
    if (!done) return;
    toast("Connected. It answers the next message.");
    this.config?.reload();
  }

  /** The key first: a profile whose key is not there would be refused. @param {Record<string, string>} values @param {Set<string>} written */
  async save(values, written) {
    const { provider, api_url, api_key, model } = trialOf(values);
    const name = values.name ?? "default";
    const key = `model-${name}`;
    const file = await get(FILE);
    if (!written.has(name) && entryOf(file.content, "profiles", name) !== undefined)
      throw new Error(`There is a model called \`${name}\` already. Choose another name, or edit providers.yaml.`);
    const lines = [
      `provider: ${provider}`,
      api_url ? `api_url: ${JSON.stringify(api_url)}` : "",
      api_key ? `api_key: \${vault:${key}}` : "",
      model ? `model: ${JSON.stringify(model)}` : "",
    ].filter(Boolean);
    const profile = lines.map((line) => `\n    ${line}`).join("");
    const content = withEntry(file.content, "profiles", name, profile);
    if (api_key) await put(`/vault/system/${part(key)}`, { value: api_key, tools: [] });
    const { problems } = await put(FILE, { content, revision: file.revision });
    written.add(name);
    if (problems?.length) throw new Error(problems.map((/** @type {any} */ one) => one.message).join(" "));
    return true;
  }
}

/** @param {HTMLElement} label @returns {HTMLInputElement} */
const fieldOf = (label) => /** @type {any} */ (label.querySelector("input"));

/** The profiles that the file has. @param {any[]} fields @returns {any[]} */
function profilesOf(fields) {
  /** @type {Map<string, any>} */ const rows = new Map();
  for (const { file, path, value } of fields) {
    const [, name, field] = /^profiles\.([^.]+)\.(.+)$/.exec(path) ?? [];
    if (!name || !String(file).startsWith("providers")) continue;
    rows.set(name, { ...rows.get(name), name, [field]: value });
  }
  return [...rows.values()];
}

/** @param {string[]} names */
function freeName(names) {
  for (let number = 2; ; number += 1) if (!names.includes(`model-${number}`)) return `model-${number}`;
}

/** What the form says, as the service reads it. @param {Record<string, string>} values */
function trialOf({ vendor, api_url, api_key, model }) {
  const { provider, own } = VENDORS[vendor];
  return {
    provider,
    ...(own || !api_url.trim() ? {} : { api_url: whole(api_url.trim()) }),
    ...(api_key ? { api_key } : {}),
    ...(model.trim() ? { model: model.trim() } : {}),
  };
}

/** An address without its scheme is of this machine, or secure. @param {string} address */
function whole(address) {
  if (/^[a-z]+:\/\//i.test(address)) return address;
  return `${/^(localhost|127\.|\[::1\])/.test(address) ? "http" : "https"}:${"//"}${address}`;
}

customElements.define("hw-models-part", ModelsPart);
