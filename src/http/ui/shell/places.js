// @ts-check
// The views, in the order of the navigation. Each is loaded when it is first opened.

/**
 * @typedef {{view: string, title: string, picture: string, group: string, tag: string, load: () => Promise<any>, short?: string, hidden?: boolean}} Entry
 */

/** @type {Entry[]} */
export const PLACES = [
  {
    view: "chat",
    title: "Chat",
    picture: "chat",
    group: "Work",
    tag: "hw-chat",
    load: () => import("../views/chat/chat.js"),
  },
  {
    view: "tasks",
    title: "Tasks",
    picture: "tasks",
    group: "Work",
    tag: "hw-tasks",
    load: () => import("../views/tasks/tasks.js"),
  },
  {
    view: "approvals",
    title: "Approvals",
    picture: "approvals",
    group: "Work",
    tag: "hw-approvals",
    load: () => import("../views/approvals/approvals.js"),
  },
  {
    view: "org",
    title: "Organisation",
    short: "Teams",
    picture: "org",
    group: "Work",
    tag: "hw-org",
    load: () => import("../views/org/org.js"),
  },
  {
    view: "team",
    title: "Team",
    picture: "org",
    group: "",
    tag: "hw-team",
    load: () => import("../views/team/team.js"),
    hidden: true,
  },
  {
    view: "triggers",
    title: "Triggers",
    picture: "triggers",
    group: "Keep",
    tag: "hw-triggers",
    load: () => import("../views/triggers/triggers.js"),
  },
  {
    view: "memory",
    title: "Memory",
    picture: "memory",
    group: "Keep",
    tag: "hw-memory",
    load: () => import("../views/memory.js"),
  },
  {
    view: "vault",
    title: "Vault",
    picture: "vault",
    group: "Keep",
    tag: "hw-vault",
    load: () => import("../views/vault.js"),
  },
  {
    view: "search",
    title: "Search",
    picture: "search",
    group: "Look",
    tag: "hw-search",
    load: () => import("../views/search.js"),
  },
  {
    view: "history",
    title: "History",
    picture: "history",
    group: "Look",
    tag: "hw-history",
    load: () => import("../views/history.js"),
  },
  {
    view: "usage",
    title: "Usage",
    picture: "usage",
    group: "Look",
    tag: "hw-usage",
    load: () => import("../views/usage.js"),
  },
  {
    view: "logs",
    title: "Logs",
    picture: "logs",
    group: "Look",
    tag: "hw-logs",
    load: () => import("../views/logs.js"),
  },
  {
    view: "settings",
    title: "Settings",
    picture: "settings",
    group: "Look",
    tag: "hw-settings",
    load: () => import("../views/settings/settings.js"),
  },
];

/** The ones with a place of their own on a phone; the rest is behind `More`. */
export const TABS = ["chat", "tasks", "approvals", "org"];
