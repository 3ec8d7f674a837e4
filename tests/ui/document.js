// A document that is just enough to build elements in.

class Text {
  constructor(text) {
    this.nodeName = "#text";
    this.textContent = String(text);
  }
}

class Element {
  constructor(name) {
    this.localName = name;
    this.tagName = name.toUpperCase();
    this.attributes = {};
    this.childNodes = [];
    this.style = {};
  }

  append(...nodes) {
    for (const node of nodes) {
      const child = node instanceof Element || node instanceof Text ? node : new Text(node);
      child.parent = this;
      this.childNodes.push(child);
    }
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  remove() {
    this.parent.childNodes = this.parent.childNodes.filter((child) => child !== this);
  }

  get childElementCount() {
    return this.childNodes.filter((child) => child instanceof Element).length;
  }

  get lastElementChild() {
    return this.childNodes.filter((child) => child instanceof Element).at(-1);
  }

  get textContent() {
    return this.childNodes.map((child) => child.textContent).join("");
  }

  set textContent(text) {
    this.childNodes = [new Text(text)];
  }
}

globalThis.Node = class {
  static [Symbol.hasInstance](value) {
    return value instanceof Element || value instanceof Text;
  }
};
globalThis.document = { createElement: (name) => new Element(name), createElementNS: (_, name) => new Element(name) };

/** All elements below one, in order. */
export const all = (element) => element.childNodes.filter((child) => child instanceof Element).flatMap((child) => [child, ...all(child)]);
