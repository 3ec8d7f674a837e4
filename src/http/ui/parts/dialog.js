// @ts-check
// Dialogs: forms and questions above the page. Only its buttons and Escape close one, and Escape asks before something
// is lost that was typed. Focus returns to where it was.

import { clean, coded, icon, make, sentence } from "../core/dom.js";

/**
 * Opens a form. `submit` gets its values and may refuse by throwing; the dialog then stays and says why. With `stays` it
 * stays also after a success, to be used again.
 * @param {{title: string, about?: import("../core/dom.js").Child, body?: import("../core/dom.js").Child, action: string, leave?: string, dangerous?: boolean,
 *   wide?: boolean, stays?: boolean, submit: (values: Record<string, string>, form: HTMLFormElement) => Promise<any>}} what
 * @returns {Promise<any>} what `submit` returned, or undefined if it was left
 */
export function ask({ title, about, body, action, leave = "Cancel", dangerous, wide, stays, submit }) {
  return new Promise((resolve) => {
    const problem = make("p", { class: "problem", role: "alert", hidden: true });
    const send = make("button", { type: "submit", class: dangerous ? "button danger" : "button primary" }, action);
    const form = make(
      "form",
      { method: "dialog", novalidate: false },
      make(
        "header",
        {},
        make("h2", { id: "dialog-title" }, title),
        make(
          "button",
          { type: "button", class: "icon-button", "aria-label": "Close", onclick: () => dialog.close() },
          icon("close"),
        ),
      ),
      make("div", { class: "dialog-body" }, about ? make("div", { class: "muted" }, about) : null, body, problem),
      make(
        "footer",
        {},
        make("button", { type: "button", class: "button", onclick: () => dialog.close() }, leave),
        send,
      ),
    );
    const dialog = make("dialog", { class: wide ? "dialog wide" : "dialog", "aria-labelledby": "dialog-title" }, form);
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    /** @type {any} */ let answer;
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (send.disabled) return;
      send.disabled = true;
      send.setAttribute("aria-busy", "true");
      try {
        const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
        answer = (await submit(values, form)) ?? true;
        problem.hidden = true;
        if (!stays) dialog.close();
      } catch (refusal) {
        const { code, request } = /** @type {any} */ (refusal);
        problem.hidden = false;
        problem.replaceChildren(
          make("span", {}, coded(reason(/** @type {any} */ (refusal), form)), " "),
          ...(code ? [make("code", {}, clean([code, request].filter(Boolean).join(" · ")))] : []),
        );
        // A long form may hide it below its edge.
        problem.scrollIntoView({ block: "nearest" });
      }
      send.disabled = false;
      send.removeAttribute("aria-busy");
    };
    let typed = false;
    form.oninput = () => (typed = true);
    const keep = () => {
      question.hidden = true;
      (first ?? send).focus();
    };
    const question = make(
      "p",
      { class: "problem", role: "alert", hidden: true },
      "What you typed is not saved. ",
      make("button", { type: "button", class: "link", onclick: () => dialog.close() }, "Discard it"),
      " ",
      make("button", { type: "button", class: "link", onclick: keep }, "Keep writing"),
    );
    form.querySelector(".dialog-body")?.append(question);
    const closing = new AbortController();
    /** Somebody wants to leave without a button. @param {Event} event */
    const leaving = (event) => {
      event.preventDefault();
      if (!typed) return dialog.close();
      question.hidden = false;
      /** @type {HTMLElement | null} */ (question.querySelector("button:last-child"))?.focus();
    };
    dialog.oncancel = leaving;
    // Wherever the focus is, which a button that goes away leaves to the page.
    addEventListener(
      "keydown",
      (event) => {
        if (event.key === "Escape" && [...document.querySelectorAll("dialog[open]")].at(-1) === dialog) leaving(event);
      },
      { signal: closing.signal },
    );
    // Back leads elsewhere: a dialog of another view would lie above it. What led here may not be told yet.
    setTimeout(() => addEventListener("hashchange", leaving, { signal: closing.signal }));
    dialog.onclose = () => {
      closing.abort();
      dialog.remove();
      before?.focus?.();
      resolve(answer);
    };
    document.body.append(dialog);
    dialog.showModal();
    const first = /** @type {HTMLElement | null} */ (form.querySelector(".dialog-body :is(input, textarea, select)"));
    (first ?? send).focus();
  });
}

/** Why something was refused, with the field that it is about as the form calls it. @param {{field?: string | null, message: string}} refusal @param {HTMLFormElement | null} form */
export function reason({ field: about, message }, form) {
  const words = clean(message);
  const field = about ?? /^`([\w.]+)`: /.exec(words)?.[1];
  if (!field) return words;
  const label = /** @type {any} */ (form?.elements.namedItem(field))?.closest?.("label")?.firstElementChild
    ?.textContent;
  const begins = words.replaceAll("`", "").toLowerCase().startsWith(field);
  if (!label) return begins ? words : `${clean(field)}: ${words}`;
  // What the service calls it is not said as well.
  return `${label}: ${begins ? sentence(words.replace(/^`?[^`:\s]+`?:?\s+/, "")) : words}`;
}

/**
 * Asks before something is lost. With `typed` the name has to be written out.
 * @param {{title: string, lost: string, action: string, typed?: string, submit: () => Promise<any>}} what
 */
export function confirm({ title, lost, action, typed, submit }) {
  const field = typed
    ? make(
        "label",
        { class: "field" },
        make("span", {}, "Type ", make("code", {}, typed), " to confirm"),
        make("input", {
          name: "typed",
          autocomplete: "off",
          spellcheck: "false",
          required: true,
          pattern: typed.replace(/[^\w-]/g, "\\$&"),
        }),
      )
    : null;
  return ask({ title, about: lost, body: field, action, dangerous: true, submit });
}
