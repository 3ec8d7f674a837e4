// @ts-check
// The views, in the order of the navigation. Each is loaded when it is first opened, by whoever may look at it.

import { may } from "../core/api.js";

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
    load: () => import("../views/chat/chat.js"),
  },
  {
    view: "tasks",
    needs: "read",
    title: "Tasks",
    picture: "tasks",
    group: "Work",
    tag: "hw-tasks",
    load: () => import("../views/tasks/tasks.js"),
  },
  {
    view: "approvals",
    needs: "read",
    title: "Approvals",
    picture: "approvals",
    group: "Work",
    tag: "hw-approvals",
    load: () => import("../views/approvals/approvals.js"),
  },
  {
    view: "org",
    needs: "read",
    title: "Teams",
    picture: "org",
    group: "Work",
    tag: "hw-org",
    load: () => import("../views/org/org.js"),
  },
  {
    view: "team",
    needs: "read",
    title: "Team",
    picture: "org",
    group: "",
    tag: "hw-team",
    load: () => import("../views/team/team.js"),
    hidden: true,
  },
  {
    view: "triggers",
    needs: "operate",
    title: "Triggers",
    picture: "triggers",
    group: "Keep",
    tag: "hw-triggers",
    load: () => import("../views/triggers/triggers.js"),
  },
  {
    view: "memory",
    needs: "read",
    title: "Memory",
    picture: "memory",
    group: "Keep",
    tag: "hw-memory",
    load: () => import("../views/memory.js"),
  },
  {
    view: "vault",
    needs: "secrets",
    title: "Vault",
    picture: "vault",
    group: "Keep",
    tag: "hw-vault",
    load: () => import("../views/vault.js"),
  },
  {
    view: "search",
    needs: "read",
    title: "Search",
    picture: "search",
    group: "Look",
    tag: "hw-search",
    load: () => import("../views/search.js"),
  },
  {
    view: "history",
    needs: "read",
    title: "History",
    picture: "history",
    group: "Look",
    tag: "hw-history",
    load: () => import("../views/history.js"),
  },
  {
    view: "usage",
    needs: "read",
    title: "Usage",
    picture: "usage",
    group: "Look",
    tag: "hw-usage",
    load: () => import("../views/usage.js"),
  },
  {
    view: "logs",
    needs: "read",
    title: "Logs",
    picture: "logs",
    group: "Look",
    tag: "hw-logs",
    load: () => import("../views/logs.js"),
  },
  {
    view: "settings",
    needs: "read",
    title: "Settings",
    picture: "settings",
    group: "Look",
    tag: "hw-settings",
    load: () => import("../views/settings/settings.js"),
  },
];

/** Those that are offered: whoever is logged in may look at them. */
export const offered = () => PLACES.filter((entry) => !entry.hidden && may(entry.needs));

/** The ones with a place of their own on a phone; the rest is behind `More`. */
export const TABS = ["chat", "tasks", "approvals", "org"];
