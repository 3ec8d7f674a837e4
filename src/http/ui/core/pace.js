// @ts-check
// Something that is done again and again as things change: many changes in a row cost one time, and a new time never
// begins before the last one has come to its end.

export class Pace {
  /**
   * @param {() => Promise<void>} act never refuses
   * @param {number} pause from a change to the act, so that those which come together cost one
   * @param {number} apart from one beginning to the next at least
   */
  constructor(act, pause, apart) {
    this.act = act;
    this.pause = pause;
    this.apart = apart;
    this.began = -Infinity;
    this.again = false;
    /** @type {Promise<void> | null} */ this.running = null;
  }

  /** Something has changed. */
  soon() {
    if (this.running) this.again = true;
    else this.timer ??= setTimeout(() => this.now(), Math.max(this.pause, this.began + this.apart - Date.now()));
  }

  /** Does it at once, whether or not it is being done. */
  async now() {
    this.stop();
    this.began = Date.now();
    const running = (this.running = this.act());
    await running;
    // Another time has begun meanwhile, and what came is its affair.
    if (running !== this.running) return;
    this.running = null;
    if (this.again) this.soon();
  }

  /** Forgets what has changed so far. */
  stop() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.again = false;
  }
}
