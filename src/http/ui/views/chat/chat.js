// @ts-check
// The chat: topics, the chosen conversation, the composer.

import { list, may } from "../../core/api.js";
import { byId, clean, make } from "../../core/dom.js";
import { paint, withFrame } from "../../core/paint.js";
import { load } from "../../core/load.js";
import { amend, go, here, write } from "../../core/place.js";
import { Retry } from "../../core/retry.js";
import { View } from "../../core/view.js";
import { live } from "../../live/live.js";
import { toast } from "../../parts/toast.js";
import { empty, failure, loading } from "../../parts/states.js";
import { Announcer } from "./announce.js";
import { familyOf, forks } from "./branches.js";
import { UNDECIDED } from "./conversation.js";
import { Attachments } from "./files.js";
import { layout } from "./layout.js";
import { hasEnded } from "./said.js";
import { keyOfTeam, teamOfKey } from "./shelf.js";
import { bytesOf, MOST_BYTES, tooBigWords } from "./size.js";
import { talk } from "./talk.js";
import { showTopics, stateWord } from "./topics.js";
import { loadCards, Turns } from "./turns.js";

const BLOCKED = {
  connecting: "Connecting. Your text is kept; it can be sent in a moment.",
  offline: "Offline: your text is kept.",
  denied: "Your token is not let into the chat. Log in with one that has scope `chat`.",
};
const CROWDED = "Your chat is open in 16 places already. Close one of them; the page keeps trying.";

const WITH_FILES = "Its files go with it. ";

/** What becomes of a message whose words are changed. */
const CORRECTING = "You are changing a message that was not taken. Sent, it replaces that one. ";
const BRANCHING =
  "You are changing an earlier message. Sent, it begins a branch; what was said after it stays on the other. ";

const narrow = matchMedia("(max-width: 900px)");
const touch = matchMedia("(pointer: coarse)");

/** `@team words` are for that team, if there is one; else all of it is words. @param {string} text */
function addressee(text) {
  const [, name, words] = /^@([\w-]+)\s+(.+)$/s.exec(text) ?? [];
  const known = name && name !== "main" && may("operate") && live.state.teams?.has(name);
  return known ? { team: name, text: words } : { team: null, text };
}

export class Chat extends View {
  chosen = UNDECIDED;
  /** The newest line stays in sight. */
  pinned = true;
  /** How far it was scrolled when that was last looked at. */ scrolled = 0;
  /** Profiles whose models may answer. @type {any[]} */ models = [];
  remodelling = new Retry(() => this.loadModels(), 2_000, 60_000);
  /** The one that is chosen for the topic that the next message begins. */ profile = "";
  /** The topic of another version that was chosen: the focus goes there once it is drawn. @type {string | null} */
  switching = null;
  /** The connection as it was drawn last. @type {string | null} */ drawn = null;
  redrawSoon = withFrame(() => this.lifetime.signal.aborted || this.redraw());
  /** @type {any} */ scroller = null;
  /** @type {any} */ composer = null;
  /** @type {import("./menu.js").Menu | undefined} */ menu;
  /** @type {Promise<import("./menu.js").Menu> | undefined} */ opening;
  turns = /** @type {Turns} */ (/** @type {any} */ (null));
  attachments = /** @type {Attachments} */ (/** @type {any} */ (null));
  announcer = new Announcer(talk.conversation, byId("live"));

  begin() {
    if (!may("chat")) return;
    this.build();
    this.turns = new Turns(byId("turns"), {
      onRetry: (turn) => this.retry(turn),
      onContinue: () => this.goOn(),
      onEdit: (turn) => this.edit(turn),
      onDiscard: (turn) => talk.discard(turn),
      onTakeBack: (turn) => this.takeBack(turn),
      onQuote: (text) => this.quote(text),
      onBranch: (topic) => {
        this.switching = topic;
        go("chat", [topic]);
      },
    });
    const signal = this.lifetime.signal;
    talk.addEventListener("changed", () => this.update(), { signal });
    talk.addEventListener("moved", (event) => this.followed(/** @type {CustomEvent} */ (event).detail), { signal });
    talk.addEventListener("forgotten", (event) => this.forgotten(/** @type {CustomEvent} */ (event).detail), {
      signal,
    });
    talk.addEventListener(
      "frame",
      (event) => this.announcer.take(/** @type {CustomEvent} */ (event).detail, this.chosen),
      { signal },
    );
    addEventListener("keydown", (event) => this.keyed(event), { signal });
    addEventListener("resize", () => this.resized(), { signal });
    // What goes on while the service is away, nobody knows.
    const ticks = () => talk.state === "online" && !document.hidden;
    const clock = setInterval(() => ticks() && this.turns.tick(this.items()), 250);
    signal.addEventListener("abort", () => {
      clearInterval(clock);
      talk.viewed = null;
    });
    if (may("operate") && may("read")) {
      this.on(["config.reloaded"], () => this.loadModels());
      signal.addEventListener("abort", () => this.remodelling.stop());
      this.loadModels();
    }
    this.fromAddress();
    // On a phone that would open the keyboard.
    if (!touch.matches && document.activeElement === document.body) this.composer.focus({ preventScroll: true });
  }

  build() {
    this.replaceChildren(...layout(this));
    this.scroller = byId("scroll");
    this.composer = byId("composer");
    // The view may be another one when a file has arrived.
    this.attachments = new Attachments(byId("attachments"), () => talk.tell("changed"));
    this.addEventListener("dragover", (event) => this.dragged(event));
    this.addEventListener("dragleave", () => this.classList.remove("dropping"));
    this.addEventListener("drop", (event) => this.dropped(event));
    this.scroller.addEventListener("scroll", () => this.measure(), { passive: true });
    // Cards, pictures and finished texts grow once they are loaded, and may hold what waits for a person.
    const grown = new ResizeObserver(() => this.pinned && this.toEnd(false));
    grown.observe(byId("turns"));
    grown.observe(this.scroller);
    this.lifetime.signal.addEventListener("abort", () => grown.disconnect());
    // What somebody opens stays where it is.
    this.scroller.addEventListener("click", (/** @type {any} */ { target }) => {
      if (!target.closest("summary")) return;
      this.pinned = false;
      requestAnimationFrame(() => requestAnimationFrame(() => this.measure()));
    });
  }

  /** Whether the newest line stays in sight: until somebody scrolls up. What grows below is no reason to let go of it. */
  measure() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    if (scrollHeight - scrollTop - clientHeight < 80) this.pinned = true;
    else if (scrollTop < this.scrolled) this.pinned = false;
    this.scrolled = scrollTop;
    byId("to-end").hidden = this.pinned || !byId("empty").hidden;
  }

  async loadModels() {
    this.remodelling.stop();
    try {
      this.models = (await list("/profiles", { limit: 200 })).rows;
    } catch {
      // Until then the team's model answers, as it does anyway.
      if (!this.lifetime.signal.aborted) this.remodelling.later();
      return;
    }
    this.remodelling.hope();
    if (!this.lifetime.signal.aborted) this.showModel();
  }

  /** Whose model answers here, where there is a choice. */
  showModel() {
    const known = this.chosen === UNDECIDED || (this.topic() && !this.isOver() && !teamOfKey(this.chosen));
    const hidden = this.models.length < 2 || !known;
    byId("model-choice").hidden = hidden;
    const select = byId("model");
    // Not while somebody is choosing.
    if (hidden || document.activeElement === select) return;
    const options = this.models.map(({ name, model }) =>
      make("option", { value: name }, `${clean(name)}: ${clean(model)}`),
    );
    paint(select, make("option", { value: "" }, "As the team has it"), options);
    select.value = this.chosen === UNDECIDED ? this.profile : (this.topic()?.profile ?? "");
  }

  /** Takes words that somebody else wrote. What was typed stays before they are sent. @param {string} text */
  use(text) {
    const sends = !this.composer.value.trim() && !this.attachments.all.length && talk.state === "online";
    this.writeBefore(text);
    if (sends) this.submit();
  }

  // ---- which topic

  moved() {
    if (this.composer) this.fromAddress();
  }

  fromAddress() {
    const { rest, query } = here();
    if (query.new) return this.fresh(true);
    this.choose(rest[0] ?? UNDECIDED, true);
    if (query.task) this.seek(query.task);
  }

  /** Brings the message of a task into sight, however long ago it was said. @param {string} task */
  async seek(task) {
    const key = this.chosen;
    const found = () => this.items().find((/** @type {any} */ item) => item.kind === "turn" && item.task === task);
    const goesOn = () => key === this.chosen && talk.conversation.logs[key]?.next && !talk.refusals.has(key);
    await talk.show(key);
    while (!found() && goesOn()) await talk.load(key, false, true);
    if (key !== this.chosen || !found()) return;
    this.pinned = false;
    this.redraw();
    this.turns.point(found().id);
  }

  /** @param {boolean} [arriving] */
  fresh(arriving = false) {
    talk.conversation.freshPage();
    this.choose(UNDECIDED, arriving);
    this.composer.focus();
  }

  /** A message without a topic was given one. @param {{turn: any, from: string, to: string}} move */
  followed({ turn, from, to }) {
    if (from !== this.chosen || from !== UNDECIDED || turn.left) return;
    talk.conversation.draft(to, this.composer.value);
    talk.conversation.draft(from, "");
    talk.attachedTo(to).push(...talk.attachedTo(from).splice(0));
    this.choose(to);
  }

  /** A topic was deleted, here or elsewhere. @param {string} key */
  forgotten(key) {
    if (key !== this.chosen) return;
    // Words that were not sent yet are not of the topic.
    const [typed, files] = [this.composer.value, this.attachments.all];
    this.fresh(true);
    this.attachments.all.push(...files);
    if (typed) this.writeBefore(typed);
    this.redraw();
    toast(`The topic is deleted.${typed || files.length ? " What you had not sent is kept here." : ""}`);
  }

  /** @param {string} key @param {boolean} [arriving] the address says it already, or should no more say what it does */
  choose(key, arriving = false) {
    const left = this.chosen;
    const moved = key !== left || arriving;
    this.chosen = key;
    if (this.switching !== key) this.switching = null;
    talk.viewed = key;
    talk.last = key;
    talk.conversation.viewed = key;
    talk.conversation.release(left);
    // A page where nothing was said is no place to come back to.
    if (moved) amend(key ? write("chat", [key]) : "", !arriving && left !== UNDECIDED);
    this.turns.reset();
    this.announcer.reset();
    this.attachments.all = talk.attachedTo(key);
    const draft = this.editing?.text ?? talk.conversation.drafts[key] ?? "";
    if (this.composer.value !== draft) this.composer.value = draft;
    this.sized();
    this.drawer(false);
    talk.seen(key);
    talk.show(key);
    this.redraw();
    this.toEnd(true);
  }

  /** @param {boolean} opened */
  drawer(opened) {
    const was = this.classList.contains("drawer");
    if (was === opened) return;
    this.classList.toggle("drawer", opened);
    byId("shade").hidden = !opened;
    byId("open-topics").setAttribute("aria-expanded", String(opened));
    if (narrow.matches) byId(opened ? "close-topics" : "open-topics").focus();
  }

  /** A message whose words are being changed here. */
  get editing() {
    return talk.edits.get(this.chosen) ?? null;
  }

  items() {
    return talk.conversation.logs[this.chosen]?.items ?? [];
  }

  topic() {
    return talk.topics().find((one) => one.id === this.chosen);
  }

  isOver() {
    return this.topic()?.state === "done";
  }

  /** Fetches what was said before, and stays where one was reading. */
  async earlier() {
    const { scroller } = this;
    const below = scroller.scrollHeight - scroller.scrollTop;
    await talk.load(this.chosen, false, true);
    this.redraw();
    scroller.scrollTop = scroller.scrollHeight - below;
  }

  mayWrite() {
    return talk.state === "online" && !this.isOver();
  }

  // ---- what a person does

  /** @param {KeyboardEvent} event */
  keyed(event) {
    if ((event.ctrlKey || event.metaKey) && event.key === ".") {
      event.preventDefault();
      talk.stop(this.chosen);
    } else if (event.key === "Escape" && this.classList.contains("drawer")) this.drawer(false);
  }

  /** @param {KeyboardEvent} event */
  enter(event) {
    if (this.menu?.keyed(event)) return;
    if (event.key !== "Enter" || event.isComposing) return;
    // On a touch keyboard Enter is the only way to a new line.
    const sends = event.ctrlKey || event.metaKey || (!event.shiftKey && !event.altKey && !touch.matches);
    if (!sends) return;
    event.preventDefault();
    this.submit();
  }

  typed() {
    if (this.editing) this.editing.text = this.composer.value;
    // A message that was refused is nowhere else.
    if (!this.editing || this.editing.turn.refused) talk.conversation.draft(this.chosen, this.composer.value);
    this.sized();
    this.showActions();
    if (this.menu || /^[/@]/.test(this.composer.value)) this.offer();
  }

  /** Commands and teams, loaded when the first is typed. */
  async offer() {
    this.opening ??= load("./menu.js", import.meta.url).then(
      ({ Menu }) =>
        new Menu(this.composer, byId("offers"), {
          // Only the main team works in topics.
          hasTopics: () => !teamOfKey(this.chosen),
          onCommand: (text) => this.write(text),
          onTeam: (team) => {
            // What was typed here was its name.
            talk.conversation.draft(this.chosen, "");
            this.choose(keyOfTeam(team));
          },
        }),
    );
    try {
      this.menu = await this.opening;
      this.menu.typed();
    } catch {
      // The service is away; the next letter asks again.
      this.opening = undefined;
    }
  }

  /** Puts words into the composer, in place of what is there. @param {string} text */
  write(text) {
    this.composer.value = text;
    this.typed();
    this.composer.focus();
  }

  // ---- files

  /** @param {HTMLInputElement} input */
  chosenFiles(input) {
    this.attachments.add([...(input.files ?? [])]);
    // The same file may be chosen again.
    input.value = "";
    this.composer.focus();
  }

  /** Words are pasted as words, also where an office program adds a picture of them. @param {ClipboardEvent} event */
  pasted(event) {
    const given = event.clipboardData;
    if (!given?.files.length || given.types.includes("text/plain")) return;
    event.preventDefault();
    this.attachments.add([...given.files]);
  }

  /** @param {DragEvent} event */
  dragged(event) {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    this.classList.add("dropping");
  }

  /** @param {DragEvent} event */
  dropped(event) {
    this.classList.remove("dropping");
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    this.attachments.add([...event.dataTransfer.files]);
    this.composer.focus();
  }

  /** Something is to be said, and all of it is here. */
  isReady() {
    const { all, ready } = this.attachments;
    return ready && (all.length > 0 || this.composer.value.trim() !== "");
  }

  submit() {
    if (!this.isReady() || !this.mayWrite() || this.excess()) return;
    const files = this.attachments.take();
    // The service says the same of files that come without words.
    const typed = this.composer.value.trim() || files.map((file) => file.name).join(", ");
    this.menu?.close();
    if (this.editing) return this.replace(this.editing.turn, typed, files);
    const { team, text } = addressee(typed);
    this.composer.value = "";
    talk.conversation.draft(this.chosen, "");
    this.sized();
    if (team) this.choose(keyOfTeam(team));
    this.say(text, files);
  }

  /** @param {string} text @param {any[]} files @param {any} [instead] the message that it stands for on a branch */
  say(text, files, instead = null) {
    const profile = this.chosen === UNDECIDED && !instead ? this.profile || null : null;
    talk.say(text, this.chosen, files, { instead, profile });
    this.profile = "";
    this.toEnd(true);
    this.redraw();
  }

  /** Has another model answer here. @param {string} profile an empty one is the team's */
  chooseModel(profile) {
    if (this.chosen === UNDECIDED) this.profile = profile;
    else this.toTopic((acts, topic) => acts.answerBy(topic, profile));
  }

  /** What is wrong with the size of what is typed. */
  excess() {
    const text = this.composer.value.trim();
    // No character takes more than twelve bytes, so most texts need not be counted.
    if (text.length * 12 <= MOST_BYTES) return "";
    const bytes = bytesOf(text);
    return bytes > MOST_BYTES ? tooBigWords(bytes) : "";
  }

  /** Puts the words of a message where they can be changed. @param {any} turn */
  edit(turn) {
    const branches = turn.task && !teamOfKey(this.chosen) && !turn.joined;
    if (!branches && !turn.refused) return this.takeOver(turn);
    talk.edits.set(this.chosen, { turn, text: turn.text, draft: this.editing?.draft ?? this.composer.value });
    if (turn.refused) this.profile = turn.profile ?? "";
    this.showModel();
    this.write(turn.text);
  }

  /** What was typed before is there again. */
  stopEditing() {
    const draft = this.editing?.draft ?? "";
    talk.edits.delete(this.chosen);
    this.write(draft);
  }

  /** Says other words in place of a message. One that had a turn stays, beside the branch that begins there. @param {any} turn @param {string} text @param {any[]} files */
  replace(turn, text, files) {
    const topic = turn.of ?? this.chosen;
    this.stopEditing();
    if (turn.refused) talk.discard(turn);
    else {
      talk.conversation.freshPage();
      this.choose(UNDECIDED);
    }
    const instead = turn.refused ? turn.instead : { message: turn.id, topic, at: turn.at };
    this.say(text, [...turn.files, ...files], instead);
  }

  /** Puts words before what is typed. @param {string} text */
  writeBefore(text) {
    const typed = this.composer.value.trim();
    this.write(typed ? `${text}\n\n${typed}` : text);
  }

  /** @param {any} turn */
  async takeBack(turn) {
    if (await talk.takeBack(turn)) this.takeOver(turn);
  }

  /** Says again what a message said, with its files. @param {any} turn */
  takeOver(turn) {
    const known = new Set(this.attachments.all.map((one) => one.file?.id));
    this.attachments.put(turn.files.filter((/** @type {any} */ file) => !known.has(file.id)));
    this.writeBefore(turn.text);
  }

  /** @param {string} text */
  quote(text) {
    const lines = clean(text).trim().split("\n");
    this.writeBefore(`${lines.map((line) => `> ${line}`).join("\n")}\n\n`);
  }

  /** @param {any} turn */
  retry(turn) {
    if (talk.state !== "online") return;
    const untaken = turn.refused || turn.status === "unconfirmed";
    if (untaken) talk.conversation.remove(turn);
    if (!this.mayWrite()) this.choose(UNDECIDED);
    // What it stood for, and whose model was to answer, is said again only where it was not heard.
    talk.say(turn.text, this.chosen, turn.files, untaken ? { instead: turn.instead, profile: turn.profile } : {});
    this.toEnd(true);
  }

  /** Asks for the rest of an answer that was cut. */
  goOn() {
    if (talk.state !== "online" || !this.mayWrite()) return;
    talk.say("Go on where you stopped.", this.chosen);
    this.toEnd(true);
    this.redraw();
  }

  /** Does something to the chosen topic, by what is loaded when it is first needed. @param {(acts: typeof import("./acts.js"), topic: any) => Promise<any>} act */
  async toTopic(act, topic = this.topic()) {
    try {
      await act(await load("./acts.js", import.meta.url), topic);
    } catch (error) {
      toast(`That could not be done. ${/** @type {Error} */ (error).message}`, { bad: true });
    }
    talk.link.askTopics();
  }

  /** @param {HTMLButtonElement} button */
  archiveTopic(button) {
    return this.toTopic((acts, topic) => acts.archive(topic, Boolean(talk.conversation.running(this.chosen)), button));
  }

  /** What can be done to a topic of the list. @param {string} id @param {any} button */
  topicMenu(id, button) {
    const topic = talk.topics().find((one) => one.id === id);
    const running = topic?.running || Boolean(talk.conversation.running(id));
    return (
      topic && this.toTopic(async (acts) => acts.menu(topic, running, button, familyOf(talk.conversation, id)), topic)
    );
  }

  /** @param {HTMLButtonElement} button */
  reopenTopic(button) {
    return this.toTopic((acts, topic) => acts.reopen(topic, button));
  }

  rename() {
    return this.toTopic((acts, topic) => acts.rename(topic));
  }

  /** All of the topic, as text. */
  async export() {
    // Another may be looked at when all of it is here.
    const [key, topic] = [this.chosen, this.topic()];
    await talk.loadAll(key);
    const refusal = talk.refusals.get(key);
    if (refusal)
      return toast(`Not all of the topic could be read, so it was not saved. ${refusal.message}`, { bad: true });
    return this.toTopic(
      async (acts) => acts.save(topic?.name ?? "topic", talk.conversation.logs[key]?.items ?? []),
      topic,
    );
  }

  // ---- drawing

  update() {
    if (!this.composer) {
      this.replaceChildren(
        empty(
          "chat",
          "Your token may not chat",
          "The other views are open to you. To write to teams, log in with a token that has scope chat.",
        ),
      );
      return;
    }
    // With the connection comes what it brought, so that nobody sees one without the other.
    if (talk.state !== this.drawn) return this.redraw();
    this.redrawSoon();
  }

  redraw() {
    const { conversation } = talk;
    const connected = talk.state === "online" && this.drawn !== "online";
    this.drawn = talk.state;
    this.classList.toggle("unconnected", talk.state !== "online");
    const items = this.items();
    const topic = this.topic();
    this.turns.update(items, forks(conversation, this.chosen));
    const version = this.switching === this.chosen && this.turns.container.querySelector(".fork button:enabled");
    if (version) {
      this.switching = null;
      /** @type {HTMLElement} */ (version).focus();
    }
    this.showAround();
    byId("empty").hidden = items.length > 0 || this.chosen !== UNDECIDED;
    const choosing = conversation.turns(this.chosen).some((/** @type {any} */ turn) => !hasEnded(turn));
    const team = teamOfKey(this.chosen);
    const name = topic ? clean(topic.name) : choosing ? "Choosing a topic…" : "New topic";
    byId("topic-name").textContent = team ? clean(this.chosen) : name;
    const tag = byId("topic-state");
    tag.hidden = !topic || topic.state === "active";
    tag.textContent = topic ? stateWord(topic) : "";
    byId("export").hidden = items.length === 0;
    const fixed = !topic || team || this.isOver() || !may("operate");
    byId("reopen-topic").hidden = !this.isOver() || !may("operate");
    byId("archive-topic").hidden = fixed;
    byId("rename").hidden = fixed;
    showTopics(byId("topics"), conversation, this.chosen, {
      // A step that one can go back from.
      onChoose: (key) => (key === this.chosen ? this.drawer(false) : go("chat", [key])),
      onMenu: may("operate") ? (id, button) => this.topicMenu(id, button) : null,
    });
    this.showModel();
    this.attachments.draw();
    byId("unread-elsewhere").hidden = talk.unread() === 0;
    this.showActions();
    if (connected) loadCards();
    if (this.pinned) this.toEnd(false);
  }

  /** What is not there yet: it is older, on its way, or not to be had. */
  showAround() {
    const log = talk.conversation.logs[this.chosen];
    const refusal = talk.refusals.get(this.chosen);
    const fetching = talk.fetching.has(this.chosen);
    byId("earlier").hidden = !log?.next || fetching;
    const team = teamOfKey(this.chosen);
    const first = team && log?.whole && log.items.length === 0;
    paint(
      byId("around"),
      refusal ? failure(refusal, () => talk.load(this.chosen)) : fetching && !log?.whole && loading(),
      first &&
        empty(
          "org",
          `Talk to ${clean(team)}`,
          "It answers here. It does not know what you wrote before, so say all it needs in each message.",
        ),
    );
  }

  showActions() {
    const state = talk.state;
    if (state === "online" && !performance.getEntriesByName("usable").length) {
      performance.mark("usable");
      // First steps that do not come are missed by nobody.
      if (may("admin")) load("./start.js", import.meta.url).catch(() => {});
    }
    const running = talk.conversation.running(this.chosen);
    byId("stop").hidden = !running;
    byId("stop").disabled = talk.stopping.has(running?.id) || state !== "online";
    const excess = this.excess();
    byId("editing").hidden = !this.editing;
    const { refused, files } = this.editing?.turn ?? {};
    byId("editing-text").textContent = `${refused ? CORRECTING : BRANCHING}${files?.length ? WITH_FILES : ""}`;
    byId("send").disabled = !this.isReady() || !this.mayWrite() || excess !== "";
    const blocked = talk.link.crowded ? CROWDED : BLOCKED[/** @type {keyof typeof BLOCKED} */ (state)];
    const reason = blocked ?? (this.isOver() ? "This topic is archived." : excess);
    byId("blocked").hidden = !reason;
    byId("blocked-text").textContent = reason;
    const unblock = byId("unblock");
    const way =
      state === "offline"
        ? ["Try now", () => talk.link.hurry()]
        : state === "online" && this.isOver()
          ? may("operate")
            ? ["Open it again", () => this.reopenTopic(unblock)]
            : ["Begin a new topic", () => this.fresh()]
          : null;
    unblock.hidden = !way;
    unblock.textContent = way?.[0] ?? "";
    unblock.onclick = way?.[1] ?? null;
    const team = teamOfKey(this.chosen);
    this.composer.placeholder = team ? `Message ${clean(team)}` : running ? "Next message" : "Write a message";
  }

  resized() {
    this.sized();
    if (this.pinned) this.toEnd(false);
  }

  sized() {
    const { style, scrollHeight } = this.composer;
    const most = innerHeight * 0.4;
    style.height = "auto";
    const needed = this.composer.scrollHeight || scrollHeight;
    style.overflowY = needed > most ? "auto" : "hidden";
    style.height = `${Math.min(needed, most)}px`;
  }

  /** @param {boolean} now */
  toEnd(now) {
    if (now) this.pinned = true;
    this.scroller.scrollTop = byId("empty").hidden ? this.scroller.scrollHeight : 0;
    byId("to-end").hidden = true;
  }
}

customElements.define("hw-chat", Chat);
