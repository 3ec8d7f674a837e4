// @ts-check
// The views, in the order of the navigation. Each is loaded when it is first opened, by whoever may look at it.

import { may } from "../core/api.js";
import { load } from "../core/load.js";

/**
 * What is behind `needs` a scope of the token.
 * @typedef {{view: string, needs: string, title: string, picture: string, group: string, tag: string, load: () => Promise<any>, hidden?: boolean}} Entry
 */

/** @type {Entry[]} */
export const PLACES = [
  {
    view: "chat",
    needs: "chat",
    title: "Chat",
    picture: "chat",
    group: "Work",
    tag: "hw-chat",
    load: () => load("../views/chat/chat.js", import.meta.url),
  },
  {
    view: "tasks",
    needs: "read",
    title: "Tasks",
    picture: "tasks",
    group: "Work",
    tag: "hw-tasks",
    load: () => load("../views/tasks/tasks.js", import.meta.url),
  },
  {
    view: "approvals",
    needs: "read",
    title: "Approvals",
    picture: "approvals",
    group: "Work",
    tag: "hw-approvals",
    load: () => load("../views/approvals/approvals.js", import.meta.url),
  },
  {
    view: "org",
    needs: "read",
    title: "Teams",
    picture: "org",
    group: "Work",
    tag: "hw-org",
    load: () => load("../views/org/org.js", import.meta.url),
  },
  {
    view: "team",
    needs: "read",
    title: "Team",
    picture: "org",
    group: "",
    tag: "hw-team",
    load: () => load("../views/team/team.js", import.meta.url),
    hidden: true,
  },
  {
    view: "triggers",
    needs: "operate",
    title: "Triggers",
    picture: "triggers",
    group: "Keep",
    tag: "hw-triggers",
    load: () => load("../views/triggers/triggers.js", import.meta.url),
  },
  {
    view: "memory",
    needs: "read",
    title: "Memory",
    picture: "memory",
    group: "Keep",
    tag: "hw-memory",
    load: () => load("../views/memory.js", import.meta.url),
  },
  {
    view: "vault",
    needs: "secrets",
    title: "Vault",
    picture: "vault",
    group: "Keep",
    tag: "hw-vault",
    load: () => load("../views/vault.js", import.meta.url),
  },
  {
    view: "search",
    needs: "read",
    title: "Search",
    picture: "search",
    group: "Look",
    tag: "hw-search",
    load: () => load("../views/search.js", import.meta.url),
  },
  {
    view: "history",
    needs: "read",
    title: "History",
    picture: "history",
    group: "Look",
    tag: "hw-history",
    load: () => load("../views/history.js", import.meta.url),
  },
  {
    view: "usage",
    needs: "read",
    title: "Usage",
    picture: "usage",
    group: "Look",
    tag: "hw-usage",
    load: () => load("../views/usage.js", import.meta.url),
  },
  {
    view: "logs",
    needs: "read",
    title: "Logs",
    picture: "logs",
    group: "Look",
    tag: "hw-logs",
    load: () => load("../views/logs.js", import.meta.url),
  },
  {
    view: "settings",
    needs: "read",
    title: "Settings",
    picture: "settings",
    group: "Look",
    tag: "hw-settings",
    load: () => load("../views/settings/settings.js", import.meta.url),
  },
];

/** Those that are offered: whoever is logged in may look at them. */
export const offered = () => PLACES.filter((entry) => !entry.hidden && may(entry.needs));

/** The ones with a place of their own on a phone; the rest is behind `More`. */
export const TABS = ["chat", "tasks", "approvals", "org"];
