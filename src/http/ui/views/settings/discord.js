// @ts-check
// Discord: a bot is connected. Its token is tried and goes into the vault, the setting is shown before it is written.

import { get, post, put } from "../../core/api.js";
import { clean, make } from "../../core/dom.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input, split } from "../../parts/fields.js";
import { editFile } from "../../parts/file.js";
import { refused, trial } from "../../parts/trial.js";
import { entryOf, withEntry } from "../../parts/yaml.js";

const FILE = "/config/channels";
/** The entry of the vault. */
const KEY = "discord.token";
/** What a file begins with that is not there: once it is, it has to name this channel too. */
const PAGE_CHANNEL = "ws:\n  enabled: true\n";

/** @param {() => void} onDone */
export async function connectDiscord(onDone) {
  /** @type {string[]} */ let people = [];
  const token = await ask({
    title: "Connect Discord",
    about: [
      "Make an application in ",
      make(
        "a",
        { href: "https://discord.com/developers/applications", target: "_blank", rel: "noopener noreferrer" },
        "Discord's developer portal",
      ),
      ", reset its token under Bot, and turn on the Message Content Intent there.",
    ],
    body: [
      input("Token of the bot", "token", {
        type: "password",
        autocomplete: "new-password",
        required: true,
        hint: "It goes into the vault and is shown nowhere again",
      }),
      input("People it answers", "people", {
        placeholder: "80351110224678912",
        hint: "Their ids on Discord, separated by commas. Without one it answers nobody; add people later under Trust",
      }),
      trial(async (values) => {
        const { bot, invite, error } = await post("/channels/discord/try", { token: values.token });
        if (bot === null) return refused(error);
        return make(
          "p",
          {},
          "The token belongs to ",
          make("strong", {}, clean(bot)),
          ". ",
          make("a", { href: invite, target: "_blank", rel: "noopener noreferrer" }, "Invite it to your server"),
          ".",
        );
      }),
    ],
    action: "Review changes",
    submit: async (values) => {
      people = split(values.people);
      return values.token.trim();
    },
  });
  if (!token) return;
  const file = await get(FILE);
  const reference = `\${vault:${KEY}}`;
  const keep = () => put(`/vault/system/${KEY}`, { value: token, tools: [] });
  const trust = async () => {
    for (const sender_id of people)
      await post("/trust", { channel_type: "discord", sender_id, trust_level: "trusted" });
    onDone();
  };
  if (entryOf(file.content, "discord", "token") === reference) {
    const replaced = await confirm({
      title: "Replace the token of the bot?",
      lost: "Discord is connected already. The former token is deleted; the settings stay as they are.",
      action: "Replace",
      submit: keep,
    });
    return replaced && trust();
  }
  await editFile(
    {
      title: "Edit channels.yaml",
      path: FILE,
      file,
      draft: withEntry(file.content || PAGE_CHANNEL, "discord", "token", reference),
      review: true,
      done: "Saved. The bot connects now.",
      // A reference to a value that is not there would be refused.
      before: keep,
    },
    trust,
  );
}
