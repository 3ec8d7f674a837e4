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

/** `.a`, `[b]`, `c`, and `:not()` of one; several with commas. What a pointer or the focus does is nowhere. */
function fits(element, selector) {
  return selector.split(/,\s*/).some((one) =>
    (one.match(/:not\([^)]*\)|:[\w-]+|\.[\w-]+|#[\w-]+|\[[^\]]*\]|^[\w-]+/g) ?? []).every((part) => {
      if (part.startsWith(":not(")) return !fits(element, part.slice(5, -1));
      if (part.startsWith(":")) return false;
      if (part.startsWith(".")) return (element.getAttribute("class") ?? "").split(" ").includes(part.slice(1));
      if (part.startsWith("#")) return element.getAttribute("id") === part.slice(1);
      if (part.startsWith("[")) return element.hasAttribute(part.slice(1, -1));
      return element.localName === part;
    }),
  );
}

class Element extends Node {
  nodeType = 1;
  attributes = [];
  dataset = {};
  style = {};

  constructor(name = "x-view") {
    super();
    this.localName = name;
    this.tagName = this.nodeName = name.toUpperCase();
  }

  addEventListener() {}

  scrollIntoView() {}

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

  get children() {
    return this.childNodes.filter((child) => child instanceof Element);
  }

  get childElementCount() {
    return this.children.length;
  }

  get firstElementChild() {
    return this.children[0] ?? null;
  }

  get lastElementChild() {
    return this.children.at(-1);
  }

  get classList() {
    const names = () => (this.getAttribute("class") ?? "").split(" ").filter(Boolean);
    const toggle = (name, is = !names().includes(name)) =>
      this.setAttribute("class", [...names().filter((one) => one !== name), ...(is ? [name] : [])].join(" "));
    return { contains: (name) => names().includes(name), toggle, remove: (name) => toggle(name, false) };
  }

  matches(selector) {
    return fits(this, selector);
  }

  querySelectorAll(selector) {
    return all(this).filter((element) => fits(element, selector));
  }

  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }

  replaceChildren(...nodes) {
    for (const child of [...this.childNodes]) child.remove();
    this.append(...nodes);
  }
}

class HTMLElement extends Element {
  focus() {
    document.activeElement = this;
  }
}

class HTMLInputElement extends HTMLElement {}
class HTMLTextAreaElement extends HTMLElement {
  value = "";
}
class HTMLSelectElement extends HTMLElement {}

const KINDS = { input: HTMLInputElement, textarea: HTMLTextAreaElement, select: HTMLSelectElement };

/** The elements of the page's own, by name. Only what a test opens comes to life. */
export const defined = new Map();

Object.assign(globalThis, {
  Node,
  Element,
  HTMLElement,
  HTMLInputElement,
  HTMLTextAreaElement,
  HTMLSelectElement,
  customElements: { define: (name, kind) => defined.set(name, kind) },
  location: { hash: "", href: "http://localhost/" },
});
globalThis.document = Object.assign(new EventTarget(), {
  hidden: false,
  createElement: (name) => new (KINDS[name] ?? HTMLElement)(name),
  createElementNS: (_, name) => new Element(name),
  getElementById: (id) => document.body.querySelector(`#${id}`),
});
document.body = new HTMLElement("body");
document.activeElement = document.body;

/** All elements below one, in order. */
export const all = (element) =>
  element.childNodes.filter((child) => child instanceof Element).flatMap((child) => [child, ...all(child)]);
