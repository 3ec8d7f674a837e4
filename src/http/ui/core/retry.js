// @ts-check
// Trying again after a break: with pauses that grow, and that differ from page to page.

export class Retry {
  /** @param {() => void} act @param {number} first the first pause @param {number} longest in milliseconds */
  constructor(act, first, longest) {
    this.act = act;
    this.first = first;
    this.longest = longest;
    this.failures = 0;
  }

  /** It failed: once more, later. */
  later() {
    this.stop();
    const pause = Math.min(this.longest, this.first * 2 ** this.failures);
    this.failures += 1;
    this.timer = setTimeout(this.act, pause * (0.8 + Math.random() * 0.4));
  }

  /** It is being tried, or nobody wants it any more. */
  stop() {
    clearTimeout(this.timer);
  }

  /** It succeeded, or there is hope: the next pause is the first again. */
  hope() {
    this.failures = 0;
  }
}
