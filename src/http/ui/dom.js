// Building elements. Text only ever becomes text nodes, so nothing that was said can become markup.

/** `make("p", {class: "muted", onclick}, "text", child)` */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export const byId = (id) => document.getElementById(id);

// Colour and cursor codes of terminals, other control characters, and the marks that make text read in another
// order than it stands, which could disguise an address.
const CODES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]/g;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

export const clean = (text) => String(text ?? "").replace(/\r\n?/g, "\n").replace(CODES, "").replace(CONTROLS, "");

export function copyButton(label, text) {
  const word = make("span", {}, label);
  const button = make("button", { type: "button", class: "copy", "aria-label": `${label} to the clipboard` }, icon("copy"), word);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      word.textContent = "Copied";
    } catch {
      word.textContent = "Not allowed";
    }
    setTimeout(() => (word.textContent = label), 1500);
  });
  return button;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function ago(at) {
  const minutes = Math.floor((Date.now() - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return new Date(at).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

export function moment(at) {
  const date = new Date(at);
  const shown = date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  return make("time", { datetime: date.toISOString(), title: `${date.toLocaleString()} · ${date.toISOString()}` }, shown);
}
