// @ts-check
// The organisation: who is above whom, and what everyone is at. Drawn, or as a list.

import { get, list, may, part, post, remove } from "../../core/api.js";
import { clean, icon, make } from "../../core/dom.js";
import { money, several } from "../../core/format.js";
import { write } from "../../core/place.js";
import { View } from "../../core/view.js";
import { ask, confirm } from "../../parts/dialog.js";
import { area, input, search, segments, select, split } from "../../parts/fields.js";
import { button, cell, head, pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { act, toast } from "../../parts/toast.js";
import { activity, graph, legend } from "./graph.js";
import { flat, size } from "./layout.js";
import { panel } from "./panel.js";
import { Traffic } from "./traffic.js";

const narrow = matchMedia("(max-width: 760px)");

class Organisation extends View {
  begin() {
    /** @type {Set<string>} */ this.folded = new Set();
    this.seen = { x: 0, y: 0, zoom: 1 };
    this.tree = this.source((signal) => get("/org", {}, signal), ["team.changed", "task.changed"]);
    const traffic = (this.traffic = new Traffic(() => this.update()));
    // Nobody sees what moves in a tab behind others.
    this.on(
      ["task.changed"],
      ({ detail }) => this.tree?.data && !document.hidden && traffic.take(this.tree.data, detail),
    );
    // A turn that begins or ends is seen beside the drawing.
    this.on(
      ["turn"],
      ({ detail }) => this.place.query.team === detail.team && detail.kind !== "stream" && this.update(),
    );
    narrow.addEventListener("change", () => this.update(), { signal: this.lifetime.signal });
    this.wish();
  }

  /** @param {import("../../core/place.js").Place} place */
  moved(place) {
    super.moved(place);
    this.wish();
  }

  render() {
    const { query } = this.place;
    // There is no room for a drawing on a phone.
    const shown = narrow.matches ? "list" : (query.as ?? "graph");
    return [
      head(
        "Teams",
        this.tree?.data
          ? `${several(size(this.tree.data), "team")}. Each does one thing, and gives work to those below it.`
          : "The teams, and who is above whom.",
        may("operate")
          ? [
              button("Pause all", "pause", (pressed) => this.pauseAll(pressed)),
              button("Resume all", "play", (pressed) =>
                act(pressed, () => post("/resume", {}), "All teams are resumed."),
              ),
              button("New team", "plus", () => this.create(), { tone: "primary" }),
            ]
          : null,
      ),
      make(
        "div",
        { class: "bar" },
        narrow.matches
          ? null
          : segments(
              "Show as",
              [
                ["graph", "Graph"],
                ["list", "List"],
              ],
              shown,
              (as) => this.filter({ as: as === "graph" ? "" : as }),
            ),
        search("Find a team", query.q ?? "", (q) => this.find(q)),
        shown === "graph"
          ? make(
              "div",
              { class: "segments push", role: "group", "aria-label": "Zoom" },
              make(
                "button",
                { type: "button", "aria-label": "Smaller", onclick: () => this.zoom(1 / 1.25) },
                icon("dash"),
              ),
              make("button", { type: "button", onclick: () => this.zoom(0) }, "Fit"),
              make("button", { type: "button", "aria-label": "Larger", onclick: () => this.zoom(1.25) }, icon("plus")),
            )
          : null,
      ),
      this.tree?.show((root) => [
        shown === "graph" ? [this.drawn(root), legend()] : this.list(root),
        size(root) === 1
          ? empty(
              "org",
              "Only the main team so far",
              "Say in the chat what you need, or create a team here.",
              may("operate") ? button("New team", "plus", () => this.create(), { tone: "primary" }) : null,
            )
          : null,
      ]),
    ];
  }

  /** @param {any} root */
  drawn(root) {
    const found = (this.place.query.q ?? "").toLowerCase();
    const chosen = flat(root).find(({ node }) => node.name === this.place.query.team)?.node;
    const drawing = make(
      "div",
      { class: "comb-frame" },
      graph(root, {
        folded: this.folded ?? new Set(),
        found,
        chosen: chosen?.name ?? "",
        room: Math.max(600, this.clientWidth - (chosen ? 340 : 0)),
        view: this.seen ?? { x: 0, y: 0, zoom: 1 },
        marks: this.traffic?.marks ?? [],
        onOpen: (name) => this.filter({ team: name === chosen?.name ? "" : name }),
        onFold: (name) => {
          if (!this.folded?.delete(name)) this.folded?.add(name);
          this.update();
        },
        onMove: () => this.update(),
      }),
    );
    return make("div", { class: "comb-row" }, drawing, chosen ? panel(chosen, () => this.filter({ team: "" })) : null);
  }

  /** Brings what was found into sight. @param {string} q */
  find(q) {
    this.filter({ q });
    queueMicrotask(() =>
      this.querySelector(".comb.lying .node:not([data-dim])")?.scrollIntoView({ block: "center", inline: "nearest" }),
    );
  }

  /** @param {number} factor 0 is all of it */
  zoom(factor) {
    if (!this.seen) return;
    if (factor === 0) Object.assign(this.seen, { x: 0, y: 0, zoom: 1 });
    else this.seen.zoom = Math.min(4, Math.max(0.4, this.seen.zoom * factor));
    this.update();
  }

  /** @param {any} root */
  list(root) {
    const found = (this.place.query.q ?? "").toLowerCase();
    const rows = flat(root).filter(
      ({ node }) => !found || `${node.name} ${node.description}`.toLowerCase().includes(found),
    );
    return make(
      "ul",
      { class: "org-list" },
      rows.map(({ node, depth }) =>
        make(
          "li",
          { key: node.name, "data-depth": Math.min(depth, 6) },
          cell(node.name),
          make(
            "div",
            { class: "org-words" },
            make("a", { href: write("team", [node.name]) }, clean(node.name)),
            make("p", { class: "muted" }, clean(node.description) || activity(node)),
            node.fault || node.last_error
              ? make("p", { class: "org-fault" }, icon("alert"), clean(node.fault ?? node.last_error.message))
              : null,
          ),
          pill(node.running ? "running" : node.state, node.running ? activity(node) : node.state),
          make("span", { class: "muted number" }, node.usage_today?.usd ? `${money(node.usage_today.usd)} today` : ""),
          may("operate") ? this.actions(node) : null,
        ),
      ),
    );
  }

  /** @param {any} node */
  actions(node) {
    const paused = node.state === "paused";
    const turn = () => post(`/teams/${part(node.name)}/${paused ? "resume" : "pause"}`, {});
    return make(
      "div",
      { class: "org-actions" },
      button(
        paused ? "Resume" : "Pause",
        paused ? "play" : "pause",
        (pressed) =>
          act(pressed, turn, paused ? `${node.name} is resumed.` : `${node.name} is paused.`).then(() =>
            this.tree?.reload(),
          ),
        { tone: "small quiet", "aria-label": `${paused ? "Resume" : "Pause"} ${node.name}` },
      ),
      node.parent
        ? button("Shut down…", "trash", () => shutDown(node.name, node.children).then(() => this.tree?.reload()), {
            tone: "small quiet",
            "aria-label": `Shut down ${node.name}`,
          })
        : null,
    );
  }

  /** @param {HTMLButtonElement} _ */
  pauseAll(_) {
    return confirm({
      title: "Pause all teams?",
      lost: "No new work starts until you resume them. Running tasks finish first.",
      action: "Pause all",
      submit: () => post("/pause", {}),
    });
  }

  create() {
    const teams = this.tree?.data ? flat(this.tree.data).map(({ node }) => node.name) : ["main"];
    return act(null, () => createTeam(teams)).then(() => this.tree?.reload());
  }
}

/** The engine that new teams are given. */
const USUAL = "the default";

/** What is filled in from a template. */
const FILLED = ["name", "description", "scope", "context"];

/** @param {string[]} parents @param {string} [parent] */
export async function createTeam(parents, parent = "main") {
  const { rows: templates } = await list("/team-templates");
  /** @param {string} name */
  const filled = (name) => {
    const found = templates.find((one) => one.name === name);
    if (!found) return FILLED.map(() => "");
    return [found.name, found.description, found.scope_accepts.join(", "), found.init_context.trim()];
  };
  let taken = FILLED.map(() => "");
  /** Fills in what nobody wrote. @param {HTMLSelectElement} chosen */
  const fill = (chosen) => {
    const said = filled(chosen.value);
    FILLED.forEach((name, at) => {
      const field = /** @type {any} */ (chosen.form?.elements.namedItem(name));
      if (field.value === taken[at]) field.value = said[at];
    });
    taken = said;
  };
  return ask({
    title: "New team",
    about: "It sets itself up from what you write here, and then gets work from the team above it.",
    body: [
      select(
        "Start from",
        "template",
        [["", "an empty team"], ...templates.map(({ name }) => /** @type {[string, string]} */ ([name, name]))],
        {
          onchange: (/** @type {any} */ event) => fill(event.target),
          hint: "A template fills in what follows, and gives the team its tools",
        },
      ),
      input("Name", "name", {
        required: true,
        maxlength: 64,
        pattern: "[a-z0-9][a-z0-9\\-]*",
        placeholder: "research",
        hint: "Small letters, digits and hyphens",
      }),
      input("What it is for", "description", {
        required: true,
        maxlength: 500,
        placeholder: "Finds things out and sums them up",
      }),
      input("Which work it takes", "scope", {
        required: true,
        placeholder: "research, sources, summaries",
        hint: "A few words, separated by commas: matching work is given to this team",
      }),
      area("What it should know", "context", {
        rows: 4,
        placeholder: "How it should work, what to look out for",
      }),
      select("Team above it", "parent", parents, { value: parent }),
      select("Engine", "sdk", [USUAL, "native", "claude", "codex", "pi", "acp"], { value: USUAL }),
    ],
    action: "Create team",
    submit: async ({ name, description, scope, context, parent: above, sdk, template }) => {
      const tools = templates.find((one) => one.name === template)?.allowed_tools;
      const made = await post("/teams", {
        name,
        parent: above,
        description,
        scope_accepts: split(scope),
        ...(context ? { init_context: context } : {}),
        ...(sdk === USUAL ? {} : { sdk }),
        ...(tools ? { allowed_tools: tools } : {}),
      });
      toast(`Team ${name} is being set up.`, { link: ["Open", write("team", [name])] });
      return made;
    },
  });
}

/** @param {string} name @param {number} below */
export function shutDown(name, below) {
  const lost = below
    ? `It and the ${several(below, "team")} below it end. Their open tasks are cancelled.`
    : "It ends, and its open tasks are cancelled.";
  return confirm({
    title: `Shut down ${name}?`,
    lost,
    typed: name,
    action: "Shut down",
    submit: () => remove(`/teams/${part(name)}`, below ? { cascade: true } : {}),
  });
}

customElements.define("hw-org", Organisation);
