// @ts-check
// The form that gives a team work.

import { post } from "../../core/api.js";
import { ask } from "../../parts/dialog.js";
import { area, select } from "../../parts/fields.js";
import { toast } from "../../parts/toast.js";

/** @param {string[]} teams @param {string} [team] */
export function createTask(teams, team) {
  return ask({
    title: "New task",
    about: "The team works on it as soon as it is free. Its result appears with the task.",
    body: [
      area("What is to be done", "task", {
        required: true,
        rows: 5,
        placeholder: "Say what you want, and what a good result looks like",
      }),
      [
        select("Team", "team", teams.length ? teams : ["main"], { value: team ?? teams[0] }),
        select("Priority", "priority", ["critical", "high", "normal", "low"], { value: "normal" }),
      ],
    ],
    action: "Give the task",
    submit: async ({ task, team: to, priority }) => {
      const made = await post("/tasks", { team: to, task, priority });
      toast(`Team ${to} has the task.`);
      return made;
    },
  });
}
