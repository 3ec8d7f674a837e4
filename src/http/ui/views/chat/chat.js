// @ts-check
// The chat: topics, the chosen conversation, the composer.

import { may, patch, part } from "../../core/api.js";
import { byId, clean, download } from "../../core/dom.js";
import { amend, here, write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { act, toast } from "../../parts/toast.js";
import { ask, confirm } from "../../parts/dialog.js";
import { input } from "../../parts/fields.js";
import { empty, failure, loading } from "../../parts/states.js";
import { Announcer } from "./announce.js";
import { UNDECIDED } from "./conversation.js";
import { Attachments } from "./files.js";
import { layout } from "./layout.js";
import { hasEnded } from "./said.js";
import { bytesOf, MOST_BYTES, tooBigWords } from "./size.js";
import { talk } from "./talk.js";
import { showTopics, stateWord } from "./topics.js";
import { loadCards, Turns } from "./turns.js";

const BLOCKED = {
  connecting: "Connecting. Your text is kept; it can be sent in a moment.",
  offline: "Offline: the server cannot be reached. Your text is kept, and the page keeps trying.",
  denied: "The server refused this connection: not authorized.",
};
const CROWDED = "This conversation is open in 16 places already. Close one of them; the page keeps trying.";

const narrow = matchMedia("(max-width: 900px)");
const touch = matchMedia("(pointer: coarse)");

export class Chat extends View {
  chosen = UNDECIDED;
  /** The newest line stays in sight. */
  pinned = true;
  /** The connection as it was drawn last. @type {string | null} */ drawn = null;
  /** @type {any} */ scroller = null;
  /** @type {any} */ composer = null;
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
    });
    const signal = this.lifetime.signal;
    talk.addEventListener("changed", () => this.update(), { signal });
    talk.addEventListener("moved", (event) => this.followed(/** @type {CustomEvent} */ (event).detail), { signal });
    talk.addEventListener(
      "frame",
      (event) => this.announcer.take(/** @type {CustomEvent} */ (event).detail, this.chosen),
      { signal },
    );
    addEventListener("keydown", (event) => this.keyed(event), { signal });
    addEventListener("resize", () => this.resized(), { signal });
    const clock = setInterval(() => document.hidden || this.turns.tick(this.items()), 250);
    signal.addEventListener("abort", () => {
      clearInterval(clock);
      talk.viewed = null;
    });
    this.fromAddress();
  }

  build() {
    this.replaceChildren(...layout(this));
    this.scroller = byId("scroll");
    this.composer = byId("composer");
    this.attachments = new Attachments(byId("attachments"), () => this.composer && this.showActions());
    this.addEventListener("dragover", (event) => this.dragged(event));
    this.addEventListener("dragleave", () => this.classList.remove("dropping"));
    this.addEventListener("drop", (event) => this.dropped(event));
    this.scroller.addEventListener(
      "scroll",
      () => {
        this.pinned = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < 80;
        byId("to-end").hidden = this.pinned;
      },
      { passive: true },
    );
  }

  /** Takes words that somebody else wrote. @param {string} text */
  use(text) {
    this.composer.value = text;
    this.sized();
    this.composer.focus();
    if (talk.state === "online") this.submit();
  }

  // ---- which topic

  moved() {
    if (this.composer) this.fromAddress();
  }

  fromAddress() {
    const { rest, query } = here();
    if (query.new) return this.fresh();
    this.choose(rest[0] ?? UNDECIDED, true);
  }

  fresh() {
    talk.conversation.freshPage();
    this.choose(UNDECIDED);
    this.composer.focus();
  }

  /** A message without a topic was given one. @param {{from: string, to: string}} move */
  followed({ from, to }) {
    if (from !== this.chosen || from !== UNDECIDED) return;
    talk.conversation.draft(to, this.composer.value);
    talk.conversation.draft(from, "");
    this.choose(to);
  }

  /** @param {string} key @param {boolean} [arriving] */
  choose(key, arriving = false) {
    const moved = key !== this.chosen || arriving;
    this.chosen = key;
    talk.viewed = key;
    talk.last = key;
    talk.conversation.viewed = key;
    if (moved) amend(key ? write("chat", [key]) : "");
    this.turns.reset();
    this.announcer.reset();
    const draft = talk.conversation.drafts[key] ?? "";
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
    if (event.key !== "Enter" || event.isComposing) return;
    // On a touch keyboard Enter is the only way to a new line.
    const sends = event.ctrlKey || event.metaKey || (!event.shiftKey && !event.altKey && !touch.matches);
    if (!sends) return;
    event.preventDefault();
    this.submit();
  }

  typed() {
    talk.conversation.draft(this.chosen, this.composer.value);
    this.sized();
    this.showActions();
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
    const text = this.composer.value.trim() || files.map((file) => file.name).join(", ");
    this.composer.value = "";
    talk.conversation.draft(this.chosen, "");
    this.sized();
    talk.say(text, this.chosen, files);
    this.toEnd(true);
    this.redraw();
  }

  /** What is wrong with the size of what is typed. */
  excess() {
    const text = this.composer.value.trim();
    // No character takes more than twelve bytes, so most texts need not be counted.
    if (text.length * 12 <= MOST_BYTES) return "";
    const bytes = bytesOf(text);
    return bytes > MOST_BYTES ? tooBigWords(bytes) : "";
  }

  /** Puts the words of a message that was refused back where they can be changed. @param {any} turn */
  edit(turn) {
    const typed = this.composer.value.trim();
    talk.discard(turn);
    this.composer.value = typed ? `${turn.text}\n\n${typed}` : turn.text;
    this.typed();
    this.composer.focus();
  }

  /** @param {any} turn */
  retry(turn) {
    if (talk.state !== "online") return;
    if (turn.refused || turn.status === "unconfirmed") talk.conversation.remove(turn);
    if (!this.mayWrite()) this.choose(UNDECIDED);
    talk.say(turn.text, this.chosen, turn.files);
    this.toEnd(true);
  }

  /** Asks for the rest of an answer that was cut. */
  goOn() {
    if (talk.state !== "online" || !this.mayWrite()) return;
    talk.say("Go on where you stopped.", this.chosen);
    this.toEnd(true);
    this.redraw();
  }

  /** @param {HTMLButtonElement} button */
  async closeTopic(button) {
    const topic = this.topic();
    const closed = () => patch(`/topics/${part(topic.id)}`, { state: "done" });
    if (talk.conversation.running(this.chosen)) {
      await confirm({
        title: "Close this topic?",
        lost: "A turn is running in it. It goes on, but no further message can be written here.",
        action: "Close topic",
        submit: closed,
      });
    } else await act(button, closed, "The topic is closed.");
    talk.link.askTopics();
  }

  async rename() {
    const topic = this.topic();
    await ask({
      title: "Rename this topic",
      body: input("Name", "name", { value: topic.name, required: true, maxlength: 60 }),
      action: "Rename",
      submit: ({ name }) => patch(`/topics/${part(topic.id)}`, { name }),
    });
    talk.link.askTopics();
  }

  /** All of the topic, as text. */
  async export() {
    await talk.loadAll(this.chosen);
    const lines = this.items().map((item) =>
      item.kind === "turn"
        ? [
            item.text ? `## You, ${new Date(item.at).toISOString()}\n\n${item.text}` : "",
            ...item.blocks.map((/** @type {any} */ block) =>
              block.kind === "tool" ? `> ${block.tool} ${block.args}` : block.text,
            ),
          ]
            .filter(Boolean)
            .join("\n\n")
        : `> ${item.team}: ${item.content}`,
    );
    if (!lines.length) return toast("There is nothing to download yet.");
    const name = clean(this.topic()?.name ?? "topic");
    download(
      `${name.replace(/[^\w-]+/g, "-").slice(0, 60) || "topic"}.md`,
      `# ${name}\n\n${lines.join("\n\n")}\n`,
      "text/markdown",
    );
  }

  // ---- drawing

  update() {
    if (!this.composer) {
      this.replaceChildren(
        empty("chat", "No right to chat", "Your token has no scope `chat`, so this page can only be looked at."),
      );
      return;
    }
    // With the connection comes what it brought, so that nobody sees one without the other.
    if (talk.state !== this.drawn) return this.redraw();
    if (this.due) return;
    this.due = true;
    // A hidden page gets no animation frames, and need not be drawn.
    requestAnimationFrame(() => {
      this.due = false;
      if (!this.lifetime.signal.aborted) this.redraw();
    });
  }

  redraw() {
    const { conversation } = talk;
    this.drawn = talk.state;
    const items = this.items();
    const topic = this.topic();
    this.turns.update(items);
    this.showAround();
    byId("empty").hidden = items.length > 0 || this.chosen !== UNDECIDED;
    const choosing = conversation.turns(this.chosen).some((/** @type {any} */ turn) => !hasEnded(turn));
    byId("topic-name").textContent = topic ? clean(topic.name) : choosing ? "Choosing a topic…" : "New topic";
    const tag = byId("topic-state");
    tag.hidden = !topic || topic.state === "active";
    tag.textContent = topic ? stateWord(topic) : "";
    byId("export").hidden = items.length === 0;
    const fixed = !topic || this.isOver() || !may("operate");
    byId("close-topic").hidden = fixed;
    byId("rename").hidden = fixed;
    showTopics(byId("topics"), conversation, this.chosen, (/** @type {string} */ key) => this.choose(key));
    byId("unread-elsewhere").hidden = talk.unread() === 0;
    this.showActions();
    if (this.pinned) this.toEnd(false);
  }

  /** What is not there yet: it is older, on its way, or not to be had. */
  showAround() {
    const log = talk.conversation.logs[this.chosen];
    const refusal = talk.refusals.get(this.chosen);
    const fetching = talk.fetching.has(this.chosen);
    byId("earlier").hidden = !log?.next || fetching;
    byId("around").replaceChildren(
      ...(refusal ? [failure(refusal, () => talk.load(this.chosen))] : fetching && !log?.whole ? [loading()] : []),
    );
  }

  showActions() {
    const state = talk.state;
    if (state === "online" && !performance.getEntriesByName("usable").length) {
      performance.mark("usable");
      loadCards();
    }
    const running = talk.conversation.running(this.chosen);
    byId("stop").hidden = !running;
    byId("stop").disabled = talk.stopping.has(running?.id) || state !== "online";
    const excess = this.excess();
    byId("send").disabled = !this.isReady() || !this.mayWrite() || excess !== "";
    const blocked = talk.link.crowded ? CROWDED : BLOCKED[/** @type {keyof typeof BLOCKED} */ (state)];
    const reason = blocked ?? (this.isOver() ? "This topic is over." : excess);
    byId("blocked").hidden = !reason;
    byId("blocked-text").textContent = reason;
    const unblock = byId("unblock");
    const way =
      state === "offline"
        ? ["Try now", () => talk.link.hurry()]
        : state === "online" && this.isOver()
          ? ["Begin a new one", () => this.fresh()]
          : null;
    unblock.hidden = !way;
    unblock.textContent = way?.[0] ?? "";
    unblock.onclick = way?.[1] ?? null;
    this.composer.placeholder = running ? "Next message" : "Write a message";
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
