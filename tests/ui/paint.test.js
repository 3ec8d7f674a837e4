// OP-68, OP-71: an update touches only what differs, so the focus stays and cards live on.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { detached } from "./document.js";
import { make } from "../../src/http/ui/core/dom.js";
import { paint } from "../../src/http/ui/core/paint.js";
import { View } from "../../src/http/ui/core/view.js";
import { act } from "../../src/http/ui/parts/toast.js";

const row = (key) => make("li", { key }, make("input", { name: `answer-${key}` }));
const keys = (place) => place.childNodes.map((child) => child.childNodes[0].getAttribute("name").at(-1)).join("");

let place;
beforeEach(() => {
  place = make("ul");
  document.body.append(place);
  detached.length = 0;
});

test("when a row goes, those behind it stay where they are", () => {
  paint(place, ["A", "B", "C"].map(row));
  const [first, second] = place.childNodes;
  const field = second.childNodes[0];
  field.focus();

  paint(place, ["B", "C"].map(row));

  assert.deepEqual(detached, [first]);
  assert.equal(document.activeElement, field);
  assert.equal(keys(place), "BC");
});

test("rows that go, come and stay at once", () => {
  paint(place, ["A", "B", "C", "D"].map(row));
  const [first, second, third, last] = place.childNodes;

  paint(place, ["N", "B", "M", "D"].map(row));

  assert.deepEqual(detached, [first, third]);
  assert.deepEqual([place.childNodes[1], place.childNodes[3]], [second, last]);
  assert.equal(keys(place), "NBMD");
});

test("the focus goes with what takes another place", () => {
  paint(place, ["A", "B", "C"].map(row));
  const field = place.childNodes[2].childNodes[0];
  field.focus();

  paint(place, ["C", "A", "B"].map(row));

  assert.equal(document.activeElement, field);
  assert.equal(keys(place), "CAB");
});

test("a card that takes another place goes on living", async () => {
  class Card extends View {
    begun = 0;
    words = "before";
    begin() {
      this.begun += 1;
      this.signal = this.lifetime.signal;
    }
    render() {
      return this.words;
    }
  }
  const card = new Card();
  place.append(make("li"), card);
  place.insertBefore(card, place.firstChild);
  card.words = "behind";
  card.update();
  await Promise.resolve();

  assert.equal(card.textContent, "behind");
  assert.deepEqual([card.begun, card.signal.aborted], [2, false]);
});

// OP-66
test("a button whose act is under way cannot be pressed again, whatever is drawn meanwhile", async () => {
  const drawn = () => paint(place, make("button", { type: "button" }, "Do it"));
  drawn();
  const [button] = place.childNodes;
  let done = () => {};
  const acting = act(button, () => new Promise((resolve) => (done = () => resolve(undefined))));
  const marks = () => ["disabled", "aria-busy"].map((name) => button.hasAttribute(name));

  drawn();
  const during = marks();
  done();
  await acting;

  assert.deepEqual(during, [true, true]);
  assert.deepEqual(marks(), [false, false]);
});
