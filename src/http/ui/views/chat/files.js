// @ts-check
// Files of a conversation: what a person is about to attach, and how files are shown. The page never opens one: pictures of
// pixels are drawn by an element of its own, everything is a download.

import { address, part, Refusal, upload } from "../../core/api.js";
import { clean, coded, icon, make, spinner } from "../../core/dom.js";
import { size } from "../../core/format.js";
import { paint } from "../../core/paint.js";

/** The most files that one message names. */
export const MOST_FILES = 10;
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** @typedef {{id: string, name: string, mime: string, size: number}} FileRef */

/** @param {FileRef} file */
const place = (file) => address(`/files/${part(file.id)}`);

/** A file as it is shown. @param {FileRef} file */
function shown(file) {
  const name = clean(file.name);
  const link = { href: place(file), download: name, title: `Download ${name}` };
  if (PICTURES.has(file.mime))
    return make(
      "a",
      { ...link, class: "file picture" },
      make("img", { src: place(file), alt: name, loading: "lazy", decoding: "async" }),
    );
  return make(
    "a",
    { ...link, class: "file" },
    icon("download"),
    make("span", { class: "file-name" }, name),
    make("span", { class: "muted" }, size(file.size)),
  );
}

/** Shows files in an element, which stays as it is as long as they do. @param {HTMLElement} element @param {FileRef[]} files */
export function showFiles(element, files) {
  const ids = files.map((file) => file.id).join(" ");
  element.hidden = files.length === 0;
  if (element.dataset.files === ids) return;
  element.dataset.files = ids;
  element.replaceChildren(...files.map(shown));
}

/** A file on its way to the service, or there. @typedef {{name: string, size: number, file: FileRef | null, error: string, abort: AbortController}} Attached */

/** What is attached to the message that is being written. */
export class Attachments {
  /** Kept with the topic, also while another is looked at. @type {Attached[]} */
  all = [];

  /** @param {HTMLElement} element @param {() => void} onChange the page may show another view by then */
  constructor(element, onChange) {
    this.element = element;
    this.onChange = onChange;
  }

  /** Files that the service has already, of a message that is written anew. @param {FileRef[]} files */
  put(files) {
    const none = { error: "", abort: new AbortController() };
    this.all.push(...files.map((file) => ({ name: file.name, size: file.size, file, ...none })));
    this.onChange();
  }

  /** @param {Iterable<File>} files */
  add(files) {
    for (const file of files) {
      const one = { name: file.name, size: file.size, file: null, error: "", abort: new AbortController() };
      if (this.all.length < MOST_FILES) this.send(one, file);
      else one.error = `A message has at most ${MOST_FILES} files. Send the others with the next one.`;
      this.all.push(one);
    }
    this.onChange();
  }

  /** @param {any} one @param {File} file */
  async send(one, file) {
    try {
      one.file = await upload(file, one.abort.signal);
    } catch (error) {
      if (one.abort.signal.aborted) return;
      one.error = error instanceof Refusal ? error.message : "This file cannot be read. Remove it, or choose it again.";
    }
    this.onChange();
  }

  /** @param {any} one */
  remove(one) {
    one.abort.abort();
    this.all.splice(this.all.indexOf(one), 1);
    this.onChange();
  }

  /** They are all with the service. */
  get ready() {
    return this.all.every((one) => one.file);
  }

  /** Hands them over to a message. @returns {FileRef[]} */
  take() {
    const files = this.all.splice(0).flatMap((one) => (one.file ? [one.file] : []));
    this.onChange();
    return files;
  }

  draw() {
    this.element.hidden = this.all.length === 0;
    paint(
      this.element,
      this.all.map((one) =>
        make(
          "li",
          { class: "attached", "data-state": one.error ? "failed" : one.file ? "ready" : "busy" },
          one.error ? icon("alert") : one.file ? icon("check") : spinner(),
          make("span", { class: "file-name" }, clean(one.file?.name ?? one.name)),
          make("span", { class: "muted" }, one.error ? coded(one.error) : size(one.size)),
          make(
            "button",
            {
              type: "button",
              class: "icon-button",
              "aria-label": `Remove ${clean(one.name)}`,
              title: "Remove",
              onclick: () => this.remove(one),
            },
            icon("close"),
          ),
        ),
      ),
    );
  }
}
