// @ts-check
// What the chat is made of: the topics beside, the conversation, the composer below.

import { me } from "../../core/api.js";
import { byId, icon, make } from "../../core/dom.js";
import { live } from "../../live/live.js";
import { EXAMPLES } from "./examples.js";
import { talk } from "./talk.js";

/** @param {import("./chat.js").Chat} chat @returns {Node[]} */
export const layout = (chat) => [
  make("div", { id: "shade", class: "shade", hidden: true, onclick: () => chat.drawer(false) }),
  make(
    "aside",
    { id: "sidebar", class: "sidebar", "aria-label": "Topics" },
    make(
      "div",
      { class: "sidebar-head" },
      make("h2", {}, "Topics"),
      make(
        "button",
        {
          id: "close-topics",
          class: "icon-button narrow-only",
          type: "button",
          "aria-label": "Close topics",
          onclick: () => chat.drawer(false),
        },
        icon("close"),
      ),
    ),
    make(
      "button",
      { id: "new-topic", class: "button new-topic", type: "button", onclick: () => chat.fresh() },
      icon("plus"),
      "New topic",
    ),
    make("nav", { id: "topics", class: "topics", "aria-label": "Topics" }),
  ),
  make(
    "section",
    { class: "talk", "aria-label": "Conversation" },
    make(
      "header",
      { class: "top" },
      make(
        "button",
        {
          id: "open-topics",
          class: "icon-button narrow-only",
          type: "button",
          "aria-label": "Topics",
          "aria-controls": "sidebar",
          "aria-expanded": "false",
          onclick: () => chat.drawer(true),
        },
        icon("menu"),
        make("span", { id: "unread-elsewhere", class: "dot", hidden: true }),
      ),
      make("h1", { id: "topic-name" }, "New topic"),
      make("span", { id: "topic-state", class: "tag", hidden: true }),
      make(
        "div",
        { class: "top-actions" },
        make(
          "button",
          {
            id: "rename",
            class: "icon-button",
            type: "button",
            "aria-label": "Rename this topic",
            title: "Rename",
            onclick: () => chat.rename(),
          },
          icon("edit"),
        ),
        make(
          "button",
          {
            id: "export",
            class: "icon-button",
            type: "button",
            "aria-label": "Download this topic",
            title: "Download",
            onclick: () => chat.export(),
          },
          icon("download"),
        ),
        make(
          "button",
          {
            id: "reopen-topic",
            class: "icon-button",
            type: "button",
            "aria-label": "Open this topic again",
            title: "Open this topic again",
            hidden: true,
            onclick: (/** @type {any} */ event) => chat.reopenTopic(event.currentTarget),
          },
          icon("again"),
        ),
        make(
          "button",
          {
            id: "archive-topic",
            class: "icon-button",
            type: "button",
            "aria-label": "Archive this topic",
            title: "Archive this topic",
            onclick: (/** @type {any} */ event) => chat.archiveTopic(event.currentTarget),
          },
          icon("check"),
        ),
      ),
    ),
    make("hw-start"),
    make(
      "div",
      { id: "scroll", class: "scroll", tabindex: "0", role: "region", "aria-label": "Messages" },
      make(
        "p",
        { class: "earlier" },
        make(
          "button",
          { id: "earlier", class: "button small", type: "button", hidden: true, onclick: () => chat.earlier() },
          icon("again"),
          "Earlier",
        ),
      ),
      make("div", { id: "around" }),
      make("div", { id: "turns", class: "turns" }),
      make(
        "div",
        { id: "empty", class: "welcome", hidden: true },
        make("img", { src: new URL("../../icon.svg", import.meta.url).pathname, alt: "", width: 56, height: 56 }),
        make("h2", {}, "What should we work on?"),
        make(
          "p",
          { class: "muted" },
          "Answers, tool calls and their results appear here as they happen. Write below, or begin with one of these.",
        ),
        make(
          "div",
          { class: "examples" },
          EXAMPLES[(live.state.overview?.demo ?? me.demo) ? "demo" : "model"].map((row) => example(chat, row)),
        ),
      ),
    ),
    make(
      "button",
      { id: "to-end", class: "to-end", type: "button", hidden: true, onclick: () => chat.toEnd(true) },
      "Newest",
    ),
    make(
      "form",
      {
        id: "composer-form",
        class: "composer",
        onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), chat.submit()),
      },
      make(
        "p",
        { id: "blocked", class: "blocked", role: "status", hidden: true },
        make("span", { id: "blocked-text" }),
        " ",
        make("button", { id: "unblock", type: "button", class: "link", hidden: true }),
      ),
      make(
        "p",
        { id: "editing", class: "blocked", role: "status", hidden: true },
        make("span", { id: "editing-text" }),
        make("button", { type: "button", class: "link", onclick: () => chat.stopEditing() }, "Leave it as it is"),
      ),
      make("ul", { id: "attachments", class: "attachments", "aria-label": "Attached files", hidden: true }),
      make(
        "div",
        { class: "composer-field" },
        make("input", {
          id: "choose-files",
          type: "file",
          multiple: true,
          hidden: true,
          onchange: (/** @type {any} */ event) => chat.chosenFiles(event.currentTarget),
        }),
        make(
          "button",
          {
            id: "attach",
            class: "round attach",
            type: "button",
            "aria-label": "Attach files",
            title: "Attach files",
            onclick: () => byId("choose-files").click(),
          },
          icon("clip"),
        ),
        make("ul", {
          id: "offers",
          class: "offers",
          role: "listbox",
          "aria-label": "Commands and teams",
          hidden: true,
        }),
        make("label", { class: "hidden", for: "composer" }, "Message"),
        make("textarea", {
          id: "composer",
          rows: 1,
          placeholder: "Write a message",
          "aria-describedby": "hint",
          "aria-autocomplete": "list",
          "aria-controls": "offers",
          oninput: () => chat.typed(),
          onkeydown: (/** @type {KeyboardEvent} */ event) => chat.enter(event),
          onpaste: (/** @type {ClipboardEvent} */ event) => chat.pasted(event),
        }),
        make(
          "button",
          {
            id: "stop",
            class: "round stop",
            type: "button",
            "aria-label": "Stop the answer",
            title: "Stop (Ctrl+.)",
            hidden: true,
            onclick: () => talk.stop(chat.chosen),
          },
          icon("stop"),
        ),
        make(
          "button",
          { id: "send", class: "round send", type: "submit", "aria-label": "Send", title: "Send (Enter)" },
          icon("send"),
        ),
      ),
      make(
        "label",
        { id: "model-choice", class: "model-choice", hidden: true },
        "Model",
        make("select", {
          id: "model",
          onchange: (/** @type {any} */ event) => chat.chooseModel(event.currentTarget.value),
        }),
      ),
      make(
        "p",
        { id: "hint", class: "hint" },
        make("kbd", {}, "Enter"),
        " sends · ",
        make("kbd", {}, "Shift"),
        "+",
        make("kbd", {}, "Enter"),
        " new line · ",
        make("kbd", {}, "Ctrl"),
        "+",
        make("kbd", {}, "."),
        " stops · ",
        make("kbd", {}, "/"),
        " commands · ",
        make("kbd", {}, "@"),
        " teams",
      ),
    ),
  ),
];

/** @param {import("./chat.js").Chat} chat @param {string[]} row */
const example = (chat, [title, about, text]) =>
  make(
    "button",
    { type: "button", class: "example", onclick: () => chat.use(text) },
    make("strong", {}, title),
    make("span", {}, about),
  );
