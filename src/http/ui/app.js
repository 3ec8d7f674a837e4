// The page: login, the chosen topic, the composer, and what happens when a frame arrives.

import { Conversation, hasEnded, UNDECIDED } from "./conversation.js";
import { byId, clean, make } from "./dom.js";
import { Link } from "./link.js";
import * as session from "./session.js";
import { showTopics, stateWord } from "./topics.js";
import { Turns } from "./turns.js";

/** Title, what will be seen, message. */
const EXAMPLES = {
  demo: [
    ["Say hello", "A first answer, word by word", "hello"],
    ["What can you do?", "What the demo understands", "help"],
    [
      "Write a note, then read it",
      "Two tool calls with their results",
      '#say I will write the note first, then read it back.\n#call write {"file_path":"notes/hello.md","content":"Hello from a tool call."}\n#then\n#call read {"file_path":"notes/hello.md"}\n#reply The note is in place. It says: {result}',
    ],
    ["Take your time", "A slow turn, to try Stop", "#say Thinking about it. Press Stop whenever you like.\n#wait 20000\n#reply Done waiting."],
  ],
  model: [
    ["What can you do?", "Tools, files and teams at hand", "What can you do here? Which tools do you have?"],
    ["Look around", "The files of the workspace", "List the files in your workspace and say what each is for."],
    ["Make a plan", "A conversation with questions", "Help me plan my week. Ask me what you need to know first."],
    ["Build a team", "A proposal, nothing created yet", "Which teams could help with a small research project? Propose one, but do not create it yet."],
  ],
};

const BLOCKED = {
  connecting: "Connecting. Your text is kept; it can be sent in a moment.",
  offline: "Offline: the server cannot be reached. Your text is kept, and the page keeps trying.",
  taken: "This conversation is open in another tab.",
  denied: "The server refused this connection: not authorized.",
};
const WORDS = { connecting: "Connecting", online: "Connected", offline: "Offline", taken: "In another tab", denied: "Refused" };

let me = null;
let conversation;
let link;
let turns;
let chosen = UNDECIDED;
let pinned = true;
let drawing = false;
/** Ids of the turns that were told to stop. */
const stopping = new Set();
let announced = { turn: null, length: 0 };

const narrow = matchMedia("(max-width: 760px)");
const touch = matchMedia("(pointer: coarse)");
const composer = byId("composer");
const scroll = byId("scroll");

// ---- who

async function start() {
  showTheme(window.hivewrightTheme.current());
  byId("theme").addEventListener("click", () => showTheme(window.hivewrightTheme.next()));
  byId("login-form").addEventListener("submit", submitToken);
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code) {
    // The code works once; it has no business in the address or the history.
    history.replaceState(null, "", location.pathname);
    try {
      await session.logIn({ code: decodeURIComponent(code) });
    } catch (refusal) {
      // The link may have been used by this very browser before, and its session still be good.
      me = await session.current().catch(() => null);
      if (!me) return showLogin(refusal);
    }
  }
  await enter();
}

async function enter() {
  try {
    me ??= await session.current();
  } catch (refusal) {
    return showLogin(refusal.status === 401 ? null : refusal);
  }
  open();
}

function showLogin(refusal) {
  me = null;
  byId("loading").hidden = true;
  byId("chat").hidden = true;
  byId("login").hidden = false;
  const problem = byId("login-error");
  problem.hidden = !refusal;
  if (refusal) problem.replaceChildren(clean(refusal.message), " ", make("code", {}, clean(refusal.code)), refusal.request ? ` Request ${clean(refusal.request)}` : "");
  byId("token").focus();
}

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
    showLogin(refusal);
  }
  button.disabled = false;
  button.textContent = "Log in";
}

async function leave() {
  try {
    await session.logOut(me.csrf);
  } catch (refusal) {
    return toast(`Could not log out: ${refusal.message}`, refusal.code);
  }
  link.close();
  conversation.clear();
  location.replace(location.pathname);
}

// ---- opening the chat

function open() {
  conversation = new Conversation(localStorage, me.principal);
  conversation.onChange = draw;
  conversation.onMoved = (turn, from, to) => {
    if (from === chosen && from === UNDECIDED) choose(to, { keepDraft: true });
    if (stopping.has(turn.id)) link.send({ type: "cancel", topic_id: to });
  };
  turns = new Turns(byId("turns"), { onRetry: retry });
  link = new Link(conversation, {
    onState: showConnection,
    onFrame: frameCame,
    onRenewed: () => toast("The earlier conversation could not be continued on the server. Its text stays here to read."),
    onLoggedOut: () => location.reload(),
    isLoggedIn: session.isLoggedIn,
  });
  byId("principal").textContent = clean(me.principal);
  byId("version").textContent = me.version ? `Version ${clean(me.version)}` : "";
  byId("demo").hidden = !me.demo;
  byId("examples").replaceChildren(...EXAMPLES[me.demo ? "demo" : "model"].map(example));
  byId("loading").hidden = true;
  byId("login").hidden = true;
  byId("chat").hidden = false;
  listen();
  fromAddress();
  link.open();
  if (!touch.matches) composer.focus();
  setInterval(() => turns.tick(conversation.logs[chosen]?.items ?? []), 500);
}

function example([title, about, text]) {
  const use = () => {
    composer.value = text;
    sized();
    composer.focus();
    if (link.state === "online") submit();
  };
  return make("button", { type: "button", class: "example", onclick: use }, make("strong", {}, title), make("span", {}, about));
}

function listen() {
  byId("composer-form").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  composer.addEventListener("input", () => {
    conversation.drafts[chosen] = composer.value;
    conversation.saveSoon();
    sized();
    showActions();
  });
  composer.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    // On a touch keyboard Enter is the only way to a new line.
    const sends = event.ctrlKey || event.metaKey || (!event.shiftKey && !event.altKey && !touch.matches);
    if (!sends) return;
    event.preventDefault();
    submit();
  });
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === ".") {
      event.preventDefault();
      stop();
    } else if (event.key === "Escape" && byId("chat").classList.contains("drawer")) {
      drawer(false);
    }
  });
  byId("stop").addEventListener("click", stop);
  byId("new-topic").addEventListener("click", () => {
    conversation.freshPage();
    choose(UNDECIDED);
    composer.focus();
  });
  byId("open-topics").addEventListener("click", () => drawer(true));
  byId("close-topics").addEventListener("click", () => drawer(false));
  byId("shade").addEventListener("click", () => drawer(false));
  byId("logout").addEventListener("click", leave);
  byId("to-end").addEventListener("click", () => toEnd(true));
  scroll.addEventListener("scroll", () => {
    pinned = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    byId("to-end").hidden = pinned;
  }, { passive: true });
  addEventListener("hashchange", fromAddress);
  addEventListener("resize", () => {
    sized();
    if (pinned) toEnd(false);
  });
  document.addEventListener("visibilitychange", () => document.hidden || conversation.seen(chosen));
}

// ---- topics

function fromAddress() {
  const topic = /^#\/chat\/(.+)$/.exec(location.hash)?.[1] ?? UNDECIDED;
  choose(decodeURIComponent(topic));
}

function choose(key, { keepDraft = false } = {}) {
  const moved = key !== chosen;
  if (moved && keepDraft) {
    conversation.drafts[key] = composer.value;
    delete conversation.drafts[chosen];
  }
  chosen = key;
  conversation.viewed = key;
  const address = key ? `#/chat/${encodeURIComponent(key)}` : location.pathname;
  if (moved) history.replaceState(null, "", address);
  turns.reset();
  announced = { turn: null, length: 0 };
  const draft = conversation.drafts[key] ?? "";
  if (composer.value !== draft) composer.value = draft;
  sized();
  drawer(false);
  conversation.seen(key);
  redraw();
  toEnd(true);
}

function drawer(opened) {
  const chat = byId("chat");
  const was = chat.classList.contains("drawer");
  if (was === opened) return;
  chat.classList.toggle("drawer", opened);
  byId("shade").hidden = !opened;
  byId("open-topics").setAttribute("aria-expanded", String(opened));
  if (!narrow.matches) return;
  if (opened) byId("close-topics").focus();
  else byId("open-topics").focus();
}

// ---- sending and stopping

function submit() {
  const text = composer.value.trim();
  if (!text || !mayWrite()) return;
  const turn = conversation.compose(text, chosen);
  composer.value = "";
  delete conversation.drafts[chosen];
  sized();
  // Kept before it is sent: a page that dies in between sends it again under the same id.
  conversation.save();
  link.send(conversation.frameOf(turn));
  toEnd(true);
  redraw();
}

function retry(turn) {
  if (link.state !== "online") return;
  if (turn.refused || turn.status === "unconfirmed") conversation.remove(turn);
  if (!mayWrite()) choose(UNDECIDED);
  const again = conversation.compose(turn.text, chosen);
  conversation.save();
  link.send(conversation.frameOf(again));
  toEnd(true);
}

function stop() {
  const turn = conversation.running(chosen);
  if (!turn || link.state !== "online") return;
  stopping.add(turn.id);
  // Without a topic yet it is stopped as soon as the server names one.
  if (chosen !== UNDECIDED) link.send({ type: "cancel", topic_id: chosen });
  showActions();
}

const topicOf = (key) => conversation.listed().find((topic) => topic.id === key);

function mayWrite() {
  return link.state === "online" && !["done", "past"].includes(topicOf(chosen)?.state);
}

// ---- frames

let asked;

function frameCame(frame) {
  const notKnown = frame.topic_id && !conversation.topics.some((topic) => topic.id === frame.topic_id);
  if (frame.type === "ack" || frame.type === "response" || frame.type === "error" || notKnown) {
    asked ??= setTimeout(() => {
      asked = undefined;
      link.askTopics();
    }, 250);
  }
  if (frame.type === "progress" && frame.gap) toast(`The connection was away for long: ${frame.gap.dropped} older update(s) are no longer kept.`);
  if (frame.type === "error" && !frame.message_id && !frame.task_id) {
    stopping.clear();
    showActions();
    toast(frame.error, frame.code);
  }
  if (frame.type === "notification" && frame.topic_id !== chosen) toast(frame.content);
  announce(frame);
}

/** Tells a screen reader whole sentences, not tokens. */
function announce(frame) {
  if (frame.topic_id !== chosen) return;
  const turn = conversation.turns(chosen).find((one) => one.id === frame.message_id || (one.task && one.task === frame.task_id));
  if (!turn) return;
  if (frame.type === "error") return say(`Failed: ${turn.error?.text ?? ""}`);
  if (frame.kind === "tool_call") return say(frame.content);
  if (frame.type !== "response" && frame.kind !== "text_delta") return;
  if (announced.turn !== turn.id) announced = { turn: turn.id, length: 0 };
  const text = turn.blocks.filter((block) => block.kind === "text").map((block) => block.text).join("\n");
  const rest = text.slice(announced.length);
  const ready = hasEnded(turn) ? rest.length : (/^[\s\S]*[.!?:](?=\s)|^[\s\S]*\n(?=\n)/.exec(rest)?.[0].length ?? 0);
  if (ready > 0) say(rest.slice(0, ready));
  announced.length += ready;
  if (hasEnded(turn)) say(turn.status === "cancelled" ? "Stopped." : "End of the answer.");
}

function say(words) {
  const live = byId("live");
  live.append(make("p", {}, clean(words)));
  while (live.childElementCount > 12) live.firstElementChild.remove();
}

// ---- drawing

function draw(key) {
  if (key === chosen && !document.hidden && conversation.logs[key]) conversation.logs[key].unread = 0;
  if (drawing) return;
  drawing = true;
  // A hidden page gets no animation frames, and need not be drawn.
  requestAnimationFrame(() => {
    drawing = false;
    redraw();
  });
}

function redraw() {
  const items = conversation.logs[chosen]?.items ?? [];
  const topic = topicOf(chosen);
  turns.update(items);
  byId("empty").hidden = items.length > 0 || chosen !== UNDECIDED;
  const name = topic ? clean(topic.name) : conversation.turns(chosen).some((turn) => !hasEnded(turn)) ? "Choosing a topic…" : "New topic";
  byId("topic-name").textContent = name;
  const tag = byId("topic-state");
  tag.hidden = !topic || topic.state === "active";
  tag.textContent = topic ? stateWord(topic) : "";
  showTopics(byId("topics"), conversation, chosen, choose);
  const unread = Object.entries(conversation.logs).reduce((sum, [key, log]) => sum + (key === chosen && !document.hidden ? 0 : log.unread), 0);
  byId("unread-elsewhere").hidden = unread === 0;
  document.title = `${unread ? `(${unread}) ` : ""}${topic ? `${name} · ` : ""}Hivewright`;
  showActions();
  if (pinned) toEnd(false);
}

function showActions() {
  const topic = topicOf(chosen);
  const over = topic && ["done", "past"].includes(topic.state);
  const running = conversation.running(chosen);
  byId("stop").hidden = !running;
  byId("stop").disabled = stopping.has(running?.id) || link.state !== "online";
  byId("send").disabled = !composer.value.trim() || !mayWrite();
  const reason = BLOCKED[link.state] ?? (over ? "This topic is over." : "");
  byId("blocked").hidden = !reason;
  byId("blocked-text").textContent = reason;
  const unblock = byId("unblock");
  const way = link.state === "taken" ? ["Use it here", () => link.takeBack()]
    : link.state === "offline" ? ["Try now", () => link.hurry()]
    : link.state === "online" && over ? ["Begin a new one", () => choose(UNDECIDED)]
    : null;
  unblock.hidden = !way;
  unblock.textContent = way?.[0] ?? "";
  unblock.onclick = way?.[1] ?? null;
  composer.placeholder = running ? "Next message" : "Write a message";
}

function showConnection(state) {
  byId("connection").dataset.state = state;
  byId("connection-word").textContent = WORDS[state];
  redraw();
}

function showTheme(theme) {
  const button = byId("theme");
  button.querySelector("use").setAttribute("href", `#i-${theme}`);
  const word = { system: "as the system", light: "light", dark: "dark" }[theme];
  button.setAttribute("aria-label", `Colours: ${word}. Switch`);
  button.title = `Colours: ${word}`;
}

function sized() {
  const most = innerHeight * 0.4;
  composer.style.height = "auto";
  composer.style.overflowY = composer.scrollHeight > most ? "auto" : "hidden";
  composer.style.height = `${Math.min(composer.scrollHeight, most)}px`;
}

function toEnd(now) {
  if (now) pinned = true;
  scroll.scrollTop = byId("empty").hidden ? scroll.scrollHeight : 0;
  byId("to-end").hidden = true;
}

function toast(words, code) {
  const note = make("div", { class: "toast" }, clean(words), code ? make("code", {}, clean(code)) : null);
  byId("toasts").append(note);
  setTimeout(() => note.remove(), 7000);
}

start();
