// @ts-check
// What all views have in common: a life from their opening to their closing, data that is loaded and kept fresh, and drawing
// at most once per frame.

import { live } from "../live/live.js";
import { failure, loading } from "../parts/states.js";
import { Pace } from "./pace.js";
import { amend, here, write } from "./place.js";
import { paint } from "./paint.js";

/** From an event to the request for what it changed, and between two such requests. */
const PAUSE = 120;
const APART = 500;

/** Rows of a list that are shown at first; each time that more are wanted, twice as many. */
export const SOME = 60;

/** Something that is fetched and shown. */
export class Source {
  /**
   * @param {View} view
   * @param {(signal: AbortSignal, wanted: number) => Promise<any>} fetch a list gets as many rows as are wanted
   * @param {string[]} freshenOn types of live events that make it stale
   */
  constructor(view, fetch, freshenOn = []) {
    this.view = view;
    this.fetch = fetch;
    this.life = new AbortController();
    this.signal = AbortSignal.any([this.life.signal, view.lifetime.signal]);
    /** @type {any} */ this.data = null;
    /** @type {any} */ this.refusal = null;
    this.slow = false;
    this.ready = false;
    this.wanted = SOME;
    /** More rows were asked for, and are on their way. */ this.growing = false;
    this.pace = new Pace(() => this.ask(), PAUSE, APART);
    this.signal.addEventListener("abort", () => {
      this.pace.stop();
      view.sources.delete(this);
    });
    const soon = () => this.soon();
    for (const type of [...freshenOn, "resync"]) live.addEventListener(type, soon, { signal: this.signal });
    this.reload();
  }

  /** Nobody wants it any more. */
  close() {
    this.life.abort();
  }

  /** Something it shows has changed. A request under way is never given up for that, however fast events come. */
  soon() {
    if (!this.signal.aborted) this.pace.soon();
  }

  /** Asks at once, also when an answer is on its way: it may be the answer to another question. */
  reload() {
    this.asking?.abort();
    return this.pace.now();
  }

  /** The list is to be longer. */
  more() {
    this.wanted *= 2;
    // The longer a list, the more its answers cost.
    this.pace.apart = APART * Math.max(1, this.wanted / 1000);
    this.growing = true;
    this.view.update();
    return this.reload();
  }

  async ask() {
    const asking = (this.asking = new AbortController());
    const signal = AbortSignal.any([asking.signal, this.signal]);
    const slow = setTimeout(() => {
      this.slow = true;
      this.view.update();
    }, 200);
    try {
      const data = await this.fetch(signal, this.wanted);
      if (signal.aborted) return;
      this.data = data;
      this.refusal = null;
      this.ready = true;
    } catch (refusal) {
      if (signal.aborted) return;
      this.refusal = refusal;
    } finally {
      clearTimeout(slow);
    }
    this.slow = false;
    this.growing = false;
    this.view.update();
  }

  /**
   * What is there to see now: the data, that it is on its way, or why it is not coming.
   * @param {(data: any) => import("./dom.js").Child} drawn
   * @returns {import("./dom.js").Child}
   */
  show(drawn) {
    if (this.refusal) return [failure(this.refusal, () => this.view.askAgain()), this.ready ? drawn(this.data) : null];
    if (this.ready) return drawn(this.data);
    return this.slow ? loading() : null;
  }
}

export class View extends HTMLElement {
  constructor() {
    super();
    this.lifetime = new AbortController();
    this.place = here();
    this.due = false;
    /** @type {Set<Source>} */ this.sources = new Set();
  }

  connectedCallback() {
    // One that was moved to another place on the page begins again.
    if (this.lifetime.signal.aborted) this.lifetime = new AbortController();
    this.begin();
    this.update();
  }

  disconnectedCallback() {
    this.lifetime.abort();
  }

  /** Called when the view is opened. */
  begin() {}

  /** Called when the filters in the address have become others: asks for what they let through. */
  refresh() {}

  /** Called when the palette asks for something new. */
  create() {}

  /** Called when the address changes within the view. @param {import("./place.js").Place} place */
  moved(place) {
    const was = JSON.stringify(this.place.query);
    this.place = place;
    this.update();
    if (was !== JSON.stringify(place.query)) this.refresh();
  }

  /** What the view looks like now. @returns {import("./dom.js").Child} */
  render() {
    return null;
  }

  update() {
    if (this.due) return;
    this.due = true;
    queueMicrotask(() => {
      this.due = false;
      if (!this.lifetime.signal.aborted) paint(this, this.render());
    });
  }

  /** @param {(signal: AbortSignal, wanted: number) => Promise<any>} fetch @param {string[]} [freshenOn] */
  source(fetch, freshenOn) {
    const source = new Source(this, fetch, freshenOn);
    this.sources.add(source);
    return source;
  }

  /** Asks once more for all that did not come. */
  askAgain() {
    for (const source of this.sources) if (source.refusal) source.reload();
  }

  /** @param {string[]} types @param {(event: any) => void} heard */
  on(types, heard) {
    for (const type of types) live.addEventListener(type, heard, { signal: this.lifetime.signal });
  }

  /** Redraws in steps, for clocks. @param {number} ms */
  every(ms) {
    const timer = setInterval(() => document.hidden || this.update(), ms);
    this.lifetime.signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** Puts filters into the address. @param {Record<string, any>} changes */
  filter(changes) {
    const { view, rest, query } = this.place;
    amend(write(view, rest, { ...query, ...changes }));
    this.place = here();
    this.update();
  }

  /** The same with filters of what is fetched. @param {Record<string, string>} changes */
  narrow(changes) {
    this.filter(changes);
    this.refresh();
  }

  /** The palette asks for something new by the address. */
  wish() {
    if (!this.place.query.new) return;
    this.filter({ new: "" });
    this.create();
  }
}
