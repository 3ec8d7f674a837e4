// @ts-check
// The setup of a plugin's channel: one step after another, as the plugin asks for it.

import { post } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { ask } from "../../parts/dialog.js";
import { input, select } from "../../parts/fields.js";
import { toast } from "../../parts/toast.js";

const TYPES = { password: "password", number: "number", phone: "tel" };

/** @param {any} field */
function control(field) {
  const label = clean(field.label);
  const more = { required: !field.optional };
  if (field.type === "select") {
    const options = field.options.map((/** @type {string} */ word) => [word, clean(word)]);
    return select(label, field.key, field.optional ? [["", "None"], ...options] : options, more);
  }
  return input(label, field.key, {
    ...more,
    type: TYPES[/** @type {keyof typeof TYPES} */ (field.type)] ?? "text",
    placeholder: clean(field.placeholder ?? ""),
    autocomplete: "off",
    ...(field.type === "password" && { hint: "A secret: it goes to the vault of the team." }),
    ...(field.type === "number" && { step: "any" }),
  });
}

/**
 * What a step that waits for something elsewhere shows.
 * @param {any} state
 */
const outside = (state) => [
  make("p", {}, clean(state.instructions)),
  state.redirect_url
    ? make(
        "p",
        {},
        make("a", { href: state.redirect_url, target: "_blank", rel: "noreferrer" }, clean(state.redirect_url)),
      )
    : null,
  state.qr_text ? make("p", {}, "The code says ", make("code", {}, clean(state.qr_text))) : null,
];

/**
 * Walks through the setup. Whoever leaves it has changed nothing.
 * @param {string} path of the plugin of the team
 * @param {string} name
 * @returns {Promise<boolean>} whether the channel is set up
 */
export async function setUp(path, name) {
  let { session, state } = await post(`${path}/setup/begin`, {});
  /** Why it began anew. */ let problem = "";
  const go = async (/** @type {string} */ step, /** @type {any} */ more) => {
    const next = await post(`${path}/setup/${step}`, { session, ...more });
    problem = next.state.kind === "error" ? next.state.message : "";
    if (!problem) return next.state;
    // It is over: another try is a setup of its own.
    const anew = await post(`${path}/setup/begin`, {});
    session = anew.session;
    // What was typed stays where the first step is the one that failed.
    if (JSON.stringify(anew.state) === JSON.stringify(state)) throw new Error(problem);
    return anew.state;
  };
  const title = `Set up ${clean(name)}`;
  while (state.kind !== "done") {
    if (state.kind === "error") throw new Error(state.message);
    const { fields } = state;
    const about = problem ? make("p", { class: "problem", role: "alert" }, clean(problem)) : null;
    state = fields
      ? await ask({
          title,
          about,
          body: fields.map(control),
          action: "Go on",
          submit: (values) =>
            go("submit", { values: Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")) }),
        })
      : await ask({
          title,
          about,
          body: outside(state),
          action: "I have done it",
          submit: async () => {
            const next = await go("poll", {});
            if (JSON.stringify(next) === JSON.stringify(state)) throw new Error("It is not done yet.");
            return next;
          },
        });
    if (!state) {
      await post(`${path}/setup/cancel`, { session }).catch(() => {});
      return false;
    }
  }
  toast(`${name} is set up, and switched on.`);
  return true;
}
