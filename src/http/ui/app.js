// @ts-check
// The page: who is logged in, then everything else.

import { events, me } from "./core/api.js";
import { byId, clean, coded, make } from "./core/dom.js";
import * as session from "./core/session.js";
import { live } from "./live/live.js";
import { toast } from "./parts/toast.js";
import { openShell, showTheme } from "./shell/shell.js";
import { talk } from "./views/chat/talk.js";

/** Somebody has just logged out in this tab. */
const LEFT = "hivewright.left";

/** What a code that is no good any more comes to. */
const USED_UP = {
  message:
    "This link was used before, or is older than two minutes. Make another with `hivewright token link`, or log in with a token.",
  code: "link_used_up",
};

/** What a token that is no good comes to. */
const NOT_A_TOKEN = {
  message:
    "This token is not known here, or it was revoked or has expired. Check that you pasted all of it, or make a link with `hivewright token link`.",
  code: "unauthenticated",
};

const theme = /** @type {any} */ (window).hivewrightTheme;

async function start() {
  showTheme(theme.current());
  byId("theme").addEventListener("click", () => showTheme(theme.next()));
  byId("login-form").addEventListener("submit", submitToken);
  events.addEventListener("logged-out", () => location.reload(), { once: true });
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code) {
    // The code works once; it has no business in the address or the history.
    history.replaceState(null, "", location.pathname);
    try {
      await session.logIn({ code: decodeURIComponent(code) });
    } catch (refusal) {
      // The link may have been used by this very browser before, and its session still be good.
      await session.current().catch(() => null);
      if (!me.principal) return showLogin(/** @type {any} */ (refusal).status === 401 ? USED_UP : refusal);
    }
  }
  await enter();
}

async function enter() {
  try {
    if (!me.principal) await session.current();
  } catch (refusal) {
    return showLogin(/** @type {any} */ (refusal).status === 401 ? null : refusal);
  }
  byId("login").hidden = true;
  // First what one can write in, then what happens elsewhere.
  talk.open();
  openShell({ onLeave: leave });
  live.open();
}

/** @param {any} refusal */
function showLogin(refusal) {
  me.principal = "";
  byId("loading").hidden = true;
  byId("app").hidden = true;
  byId("login").hidden = false;
  byId("login-note").hidden = sessionStorage.getItem(LEFT) === null;
  sessionStorage.removeItem(LEFT);
  const problem = byId("login-error");
  problem.hidden = !refusal;
  if (refusal)
    problem.replaceChildren(
      make("span", {}, coded(refusal.message), " "),
      make("code", {}, clean(refusal.code)),
      refusal.request ? ` Request ${clean(refusal.request)}` : "",
    );
  byId("token").focus();
}

/** @param {SubmitEvent} event */
async function submitToken(event) {
  event.preventDefault();
  const button = byId("login-button");
  if (button.disabled) return;
  button.disabled = true;
  button.textContent = "Logging in…";
  try {
    await session.logIn({ token: byId("token").value.trim() });
    byId("token").value = "";
    await enter();
  } catch (refusal) {
    showLogin(/** @type {any} */ (refusal).status === 401 ? NOT_A_TOKEN : refusal);
  }
  button.disabled = false;
  button.textContent = "Log in";
}

async function leave() {
  try {
    await session.logOut();
  } catch (refusal) {
    const { message, code } = /** @type {any} */ (refusal);
    return toast(`You are still logged in. ${message}`, { code, bad: true });
  }
  talk.leave();
  sessionStorage.setItem(LEFT, "yes");
  location.replace(location.pathname);
}

start();
