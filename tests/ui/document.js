// A document that is just enough to build elements in, and to see what becomes of them.

/** All that left their place, also to take another one. */
export const detached = [];

class Node {
  parentNode = null;
  childNodes = [];

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get nextSibling() {
    return this.parentNode?.childNodes[this.parentNode.childNodes.indexOf(this) + 1] ?? null;
  }

  get isConnected() {
    return this === document.body || Boolean(this.parentNode?.isConnected);
  }

  contains(other) {
    for (let node = other; node; node = node.parentNode) if (node === this) return true;
    return false;
  }

  append(...nodes) {
    for (const node of nodes) this.insertBefore(node, null);
  }

  insertBefore(node, place) {
    const child = node instanceof Node ? node : new Text(node);
    child.remove();
    child.parentNode = this;
    if (place === null) this.childNodes.push(child);
    else this.childNodes.splice(this.childNodes.indexOf(place), 0, child);
    if (child.connectedCallback && child.isConnected) child.connectedCallback();
    return child;
  }

  remove() {
    if (!this.parentNode) return;
    const wasConnected = this.isConnected;
    this.parentNode.childNodes = this.parentNode.childNodes.filter((child) => child !== this);
    this.parentNode = null;
    if (!wasConnected) return;
    detached.push(this);
    if (this.contains(document.activeElement)) document.activeElement = document.body;
    this.disconnectedCallback?.();
  }

  replaceWith(node) {
    this.parentNode.insertBefore(node, this);
    this.remove();
  }

  get textContent() {
    return this.childNodes.map((child) => child.textContent).join("");
  }

  set textContent(text) {
    this.childNodes = [];
    this.append(String(text));
  }
}

class Text extends Node {
  nodeName = "#text";
  nodeType = 3;

  constructor(text) {
    super();
    this.nodeValue = String(text);
  }

  get textContent() {
    return this.nodeValue;
  }
}

class Element extends Node {
  nodeType = 1;
  attributes = [];
  style = {};

  constructor(name = "x-view") {
    super();
    this.localName = name;
    this.tagName = this.nodeName = name.toUpperCase();
  }

  addEventListener() {}

  setAttribute(name, value) {
    const known = this.attributes.find((one) => one.name === name);
    if (known) known.value = value;
    else this.attributes.push({ name, value });
  }

  getAttribute(name) {
    return this.attributes.find((one) => one.name === name)?.value ?? null;
  }

  hasAttribute(name) {
    return this.getAttribute(name) !== null;
  }

  removeAttribute(name) {
    this.attributes = this.attributes.filter((one) => one.name !== name);
  }

  get disabled() {
    return this.hasAttribute("disabled");
  }

  set disabled(is) {
    if (is) this.setAttribute("disabled", "");
    else this.removeAttribute("disabled");
  }

  get childElementCount() {
    return this.childNodes.filter((child) => child instanceof Element).length;
  }

  get lastElementChild() {
    return this.childNodes.filter((child) => child instanceof Element).at(-1);
  }
}

class HTMLElement extends Element {
  focus() {
    document.activeElement = this;
  }
}

class HTMLInputElement extends HTMLElement {}
class HTMLTextAreaElement extends HTMLElement {}
class HTMLSelectElement extends HTMLElement {}

const KINDS = { input: HTMLInputElement, textarea: HTMLTextAreaElement, select: HTMLSelectElement };

Object.assign(globalThis, {
  Node,
  Element,
  HTMLElement,
  HTMLInputElement,
  HTMLTextAreaElement,
  HTMLSelectElement,
  customElements: { define() {} },
  location: { hash: "", href: "http://localhost/" },
});
globalThis.document = Object.assign(new EventTarget(), {
  hidden: false,
  createElement: (name) => new (KINDS[name] ?? HTMLElement)(name),
  createElementNS: (_, name) => new Element(name),
});
document.body = new HTMLElement("body");
document.activeElement = document.body;

/** All elements below one, in order. */
export const all = (element) =>
  element.childNodes.filter((child) => child instanceof Element).flatMap((child) => [child, ...all(child)]);
