// @ts-check
// The service at a glance, its channels, its health, its backups.

import { get, may, part, post, upTo } from "../../core/api.js";
import { clean, coded, icon, make } from "../../core/dom.js";
import { count, duration, money, size, when, words } from "../../core/format.js";
import { View } from "../../core/view.js";
import { live } from "../../live/live.js";
import { button, facts, panel, pill } from "../../parts/marks.js";
import { empty } from "../../parts/states.js";
import { remainder, table } from "../../parts/table.js";
import { act, toast } from "../../parts/toast.js";
import { connectDiscord } from "./discord.js";

/** @type {Record<string, string>} */
const CHANNELS = { ws: "Page and other clients (WebSocket)", discord: "Discord" };

class ServicePart extends View {
  begin() {
    this.overview = this.source(
      (signal) => get("/overview", {}, signal),
      ["channel.changed", "team.changed", "task.changed"],
    );
  }

  render() {
    return this.overview?.show((now) => [
      panel(
        "Now",
        facts([
          ["Version", clean(now.version)],
          ["Running for", duration(now.uptime_s * 1000)],
          ["Store", size(now.store_bytes)],
          ["Teams", `${count(now.teams?.total)}, ${count(now.teams?.active)} active`],
          ["Tasks", `${count(now.tasks?.running)} running, ${count(now.tasks?.queued)} queued`],
          ["Triggers", now.triggers ? `${count(now.triggers.active)} of ${count(now.triggers.total)} active` : null],
          ["Spent today", now.spend_today_usd ? money(now.spend_today_usd) : null],
          ["Shutting down", now.drain ? "Yes: no new work is accepted" : null],
        ]),
      ),
      make(
        "section",
        { class: "section" },
        make("h2", {}, "Channels"),
        now.channels?.length
          ? table(
              "Channels",
              [
                { name: "Channel", cell: (row) => CHANNELS[row.type] ?? words(row.type) },
                { name: "State", cell: (row) => pill(row.state) },
                { name: "Connected", number: true, cell: (row) => count(row.connected) },
                { name: "Problem", wide: true, cell: (row) => clean(row.error ?? "") || "–", quiet: true },
              ],
              now.channels,
              { key: (row) => row.type },
            )
          : make("p", { class: "muted" }, "No channel is set up."),
        may("admin") && may("secrets")
          ? make(
              "div",
              { class: "choices" },
              button("Connect Discord…", "plus", () => act(null, () => connectDiscord(() => this.overview?.reload()))),
            )
          : null,
      ),
    ]);
  }
}

class DoctorPart extends View {
  begin() {
    this.deep = false;
    this.checks = this.source(
      async (signal) => (await get("/doctor", {}, signal)).checks,
      ["config.reloaded", "config.invalid"],
    );
  }

  /** @param {HTMLButtonElement} pressed */
  async examine(pressed) {
    await act(
      pressed,
      async () => {
        const found = await post("/doctor", { deep: true });
        if (this.checks) this.checks.data = found.checks;
        this.update();
      },
      "Checked, with a real request to each model.",
    );
  }

  render() {
    return [
      make(
        "div",
        { class: "bar" },
        button("Check again", "again", () => this.checks?.reload()),
        button("Test the models too", "spark", (pressed) => this.examine(pressed)),
      ),
      this.checks?.show((rows) =>
        rows.length
          ? make(
              "ul",
              { class: "checks" },
              [...rows]
                .sort((a, b) => RANK.indexOf(a.state) - RANK.indexOf(b.state))
                .map((/** @type {any} */ row) =>
                  make(
                    "li",
                    { key: `${row.id} ${row.message}` },
                    pill(row.state),
                    make(
                      "div",
                      {},
                      make("p", {}, make("strong", {}, words(row.id)), " ", coded(row.message)),
                      row.fix ? make("p", { class: "muted" }, "What to do: ", coded(row.fix)) : null,
                    ),
                  ),
                ),
            )
          : empty("check", "Everything is fine", "No problem was found."),
      ),
    ];
  }
}

const RANK = ["error", "warn", "ok"];

class BackupsPart extends View {
  begin() {
    /** @type {string | null} */ this.job = null;
    this.kept = this.source((signal, wanted) => upTo("/backups", {}, wanted, signal), ["job.progress"]);
    live.addEventListener("job.progress", () => this.update(), { signal: this.lifetime.signal });
  }

  /** @param {HTMLButtonElement} pressed */
  start(pressed) {
    return act(pressed, async () => {
      const { job_id } = await post("/backups", {});
      this.job = job_id;
      await this.wait(job_id);
    });
  }

  /** Until the job is over: each step of it is told; what was told during a break is asked for. @param {string} id */
  async wait(id) {
    const { signal } = this.lifetime;
    const ask = () => get(`/jobs/${part(id)}`, {}, signal);
    let job = await ask();
    // It may have ended while it was asked for.
    job = live.state.jobs.get(id) ?? job;
    while (job.state === "running") {
      const woken = await new Promise((resolve) => {
        for (const type of ["job.progress", "resync"])
          live.addEventListener(type, () => resolve(type), { once: true, signal });
      });
      job = woken === "resync" ? await ask() : (live.state.jobs.get(id) ?? job);
    }
    live.state.jobs.set(id, job);
    this.update();
    if (job.state !== "done")
      throw Object.assign(new Error(job.message || "No backup was written."), { code: `backup_${job.state}` });
    toast(`Backup written: ${job.message}`);
  }

  render() {
    // What is done is among those that are kept.
    const jobs = [...live.state.jobs.values()].filter((job) => job.kind === "backup" && job.state !== "done").reverse();
    return [
      make(
        "div",
        { class: "panel" },
        make("h2", {}, "Back up now"),
        make(
          "p",
          { class: "muted" },
          "Copies all data while the service keeps running, and checks the copy. To restore one, run ",
          make("code", {}, "hivewright restore FILE"),
          ".",
        ),
        make(
          "div",
          { class: "choices" },
          button("Back up", "download", (pressed) => this.start(pressed), { tone: "primary" }),
        ),
      ),
      jobs.length
        ? table(
            "Under way",
            [
              { name: "State", cell: (job) => pill(job.state) },
              {
                name: "Progress",
                cell: (job) =>
                  job.total ? make("progress", { max: job.total, value: job.done, "aria-label": "Progress" }) : "–",
              },
              { name: "Result", wide: true, cell: (job) => clean(job.message) || "–" },
            ],
            jobs,
            { key: (job) => job.id },
          )
        : null,
      this.kept?.show(({ rows }) =>
        rows.length
          ? make(
              "section",
              { class: "section" },
              table(
                "Backups",
                [
                  {
                    name: "File",
                    wide: true,
                    cell: (row) => [
                      make("code", {}, clean(row.file)),
                      row.holds_redacted
                        ? [" ", make("span", { class: "tag" }, "holds what was redacted later")]
                        : null,
                    ],
                  },
                  { name: "Size", number: true, cell: (row) => size(row.bytes) },
                  { name: "Created", cell: (row) => when(row.created_at), quiet: true },
                ],
                rows,
                { key: (row) => row.file },
              ),
              remainder(this.kept),
            )
          : make("p", { class: "muted section" }, icon("clock"), " There is no backup yet."),
      ),
    ];
  }
}

customElements.define("hw-service-part", ServicePart);
customElements.define("hw-doctor-part", DoctorPart);
customElements.define("hw-backups-part", BackupsPart);
