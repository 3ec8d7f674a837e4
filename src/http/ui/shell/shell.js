// @ts-check
// The frame around the views: navigation, connection, colours, and which view is open.

import { events, may, me, Refusal } from "../core/api.js";
import { byId, clean, icon, make, picture } from "../core/dom.js";
import { checkVersion, load } from "../core/load.js";
import { paint } from "../core/paint.js";
import { here, write } from "../core/place.js";
import { live } from "../live/live.js";
import { failure, loading } from "../parts/states.js";
import { badge } from "../parts/marks.js";
import { toast } from "../parts/toast.js";
import { talk } from "../views/chat/talk.js";
import { keepFocus } from "./focus.js";
import { openPalette } from "./palette.js";
import { offered, PLACES, TABS } from "./places.js";

const WORDS = {
  connecting: "Connecting",
  online: "Connected",
  offline: "Offline",
  denied: "Not let in",
};

/** Its script came, and does not run. */
const NOT_LOADED = new Refusal(0, {
  code: "not_loaded",
  message: "This view could not be opened. Try again, which reloads the page.",
});

const ICON = new URL("../icon.svg", import.meta.url).pathname;
const WAITING = new URL("../waiting.svg", import.meta.url).pathname;

/** @type {any} */ let shown = null;
let opening = 0;

/** @param {{onLeave: () => void}} hooks */
export function openShell({ onLeave }) {
  byId("principal").textContent = clean(me.principal);
  byId("version").textContent = me.version ? `Version ${clean(me.version)}` : "";
  talk.addEventListener("frame", async (event) => {
    const frame = /** @type {CustomEvent} */ (event).detail;
    if (!["response", "error", "notification"].includes(frame.type)) return;
    // Loaded when there is something to tell; what comes while the service is away is told by the page alone.
    const notify = await load("./notify.js", import.meta.url).catch(() => null);
    notify?.notice(frame);
  });
  byId("logout").onclick = onLeave;
  byId("open-palette").onclick = () => openPalette();
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      openPalette();
    }
  });
  addEventListener("hashchange", show);
  addEventListener("amended", drawFrame);
  live.addEventListener("changed", drawFrame);
  // Whoever comes back may be another version.
  live.addEventListener("returned", checkVersion);
  events.addEventListener("updated", () => (byId("updated").hidden = false));
  byId("reload").onclick = () => location.reload();
  live.addEventListener("caught-up", () =>
    toast("This page had missed something. It is up to date again.", { news: true }),
  );
  talk.addEventListener("changed", drawFrame);
  byId("loading").hidden = true;
  byId("app").hidden = false;
  keepFocus();
  show();
}

/** Until a model is connected. */
function drawDemo() {
  // A phone has room for one of them.
  byId("demo").hidden = !(live.state.overview?.demo ?? me.demo) || !byId("offline").hidden;
  byId("connect").hidden = !may("admin");
}

/** Opens the view that the address names. */
async function show() {
  const place = here();
  const [first] = offered();
  const entry = PLACES.find((one) => one.view === place.view) ?? first ?? PLACES[0];
  // Who names no view gets one that there is for them.
  if (!location.hash && first && !may(entry.needs)) return location.replace(write(first.view));
  drawFrame();
  // Whatever was on its way is not wanted any more.
  const number = (opening += 1);
  if (shown?.view === entry.view && shown.element.isConnected) {
    shown.element.moved?.(place);
    return;
  }
  const main = byId("view");
  // Like a view, it keeps off the edges.
  /** @param {HTMLElement} state */
  const showInstead = (state) => main.replaceChildren(make("div", {}, state));
  const slow = setTimeout(() => number === opening && showInstead(loading()), 200);
  try {
    await entry.load();
  } catch (error) {
    clearTimeout(slow);
    if (number !== opening) return;
    const again = error instanceof Refusal && error.code !== "updated" ? show : () => location.reload();
    showInstead(failure(error instanceof Refusal ? error : NOT_LOADED, again));
    shown = null;
    return;
  }
  clearTimeout(slow);
  // Another view was asked for meanwhile.
  if (number !== opening) return;
  const element = document.createElement(entry.tag);
  const moves = shown !== null;
  shown = { view: entry.view, element };
  main.dataset.view = entry.view;
  main.replaceChildren(element);
  main.scrollTop = 0;
  drawFrame();
  if (moves && !byId("view").contains(document.activeElement) && document.activeElement === document.body)
    main.focus({ preventScroll: true });
}

/** @param {string} view */
function waiting(view) {
  const { overview, unread } = live.state;
  if (view === "chat") return [talk.unread(), "unread"];
  if (view === "approvals")
    return [(overview?.approvals_open ?? 0) + (overview?.questions_open ?? 0) + (unread ?? 0), "waiting"];
  return [0, ""];
}

function link(/** @type {any} */ entry, /** @type {string} */ current) {
  const [number, word] = /** @type {[number, string]} */ (waiting(entry.view));
  const is = current === entry.view || (entry.view === "org" && current === "team");
  // Back to the chat is back to where one was in it.
  const address = entry.view === "chat" ? write("chat", [talk.last]) : write(entry.view);
  return make(
    "a",
    { key: entry.view, href: address, "aria-current": is ? "page" : null, title: entry.title },
    icon(entry.picture),
    make("span", { class: "nav-word" }, entry.title),
    badge(number, word),
  );
}

function drawFrame() {
  const current = here().view;
  const entries = offered();
  const groups = [...new Set(entries.map((entry) => entry.group))];
  paint(
    byId("nav"),
    groups.map((group) =>
      make(
        "div",
        { class: "nav-group", key: group, role: "group", "aria-label": group },
        entries.filter((entry) => entry.group === group).map((entry) => link(entry, current)),
      ),
    ),
  );
  const onTabs = TABS.includes(current) || current === "team";
  paint(
    byId("tabs"),
    entries.filter((entry) => TABS.includes(entry.view)).map((entry) => link(entry, current)),
    make(
      "button",
      { type: "button", key: "more", "aria-current": onTabs ? null : "page", onclick: () => openPalette() },
      icon("more"),
      make("span", { class: "nav-word" }, "More"),
    ),
  );
  drawConnection();
  drawDemo();
  const entry = PLACES.find((one) => one.view === current) ?? PLACES[0];
  const open = (live.state.overview?.approvals_open ?? 0) + (live.state.overview?.questions_open ?? 0);
  const total = open + talk.unread();
  const title = current === "chat" ? talk.title() : current === "team" ? (here().rest[0] ?? entry.title) : entry.title;
  drawMark(open);
  drawBadge(total);
  document.title = `${total ? `(${total}) ` : ""}${title ? `${title} · ` : ""}Hivewright`;
  byId("app").dataset.view = entry.view;
}

/** What waits is seen on the tab too. @param {number} waiting */
function drawMark(waiting) {
  const file = waiting ? WAITING : ICON;
  const mark = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=icon]"));
  if (mark.getAttribute("href") !== file) mark.setAttribute("href", file);
}

let badged = 0;

/** On the icon of an installed page. @param {number} total */
function drawBadge(total) {
  if (total === badged || !("setAppBadge" in navigator)) return;
  badged = total;
  // Refused where it is not installed.
  (total ? navigator.setAppBadge(total) : navigator.clearAppBadge()).catch(() => {});
}

function drawConnection() {
  const shown =
    live.connection === "offline"
      ? "offline"
      : (talk.state ?? (live.connection === "missing" ? "online" : live.connection));
  const state = /** @type {keyof typeof WORDS} */ (shown);
  const place = byId("connection");
  if (place.dataset.state !== state) {
    place.dataset.state = state;
    byId("connection-word").textContent = WORDS[state];
  }
  const offline = byId("offline");
  offline.hidden = state !== "offline";
  offline.textContent = offline.hidden
    ? ""
    : "Offline: the service cannot be reached. What you see may be out of date.";
}

/** @param {string} theme */
export function showTheme(theme) {
  const button = byId("theme");
  button.querySelector("use").setAttribute("href", picture(theme));
  const word = { system: "as the system", light: "light", dark: "dark" }[theme];
  button.setAttribute("aria-label", `Colours: ${word}. Switch`);
  button.title = `Colours: ${word}`;
}
