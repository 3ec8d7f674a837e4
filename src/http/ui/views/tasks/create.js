// @ts-check
// The form that gives a team work.

import { post } from "../../core/api.js";
import { go } from "../../core/place.js";
import { ask } from "../../parts/dialog.js";
import { area, select } from "../../parts/fields.js";
import { toast } from "../../parts/toast.js";

/** It works in topics, and is given work by what is said to it. */
export const MAIN = "main";

/** @param {string[]} all @param {string} [team] */
export async function createTask(all, team) {
  const teams = all.filter((name) => name !== MAIN);
  if (!teams.length) {
    const agreed = await ask({
      title: "New task",
      about: "There is no team below the main one yet. To give the main team work, write it a message.",
      action: "Write a message",
      submit: async () => true,
    });
    if (agreed) go("chat", [], { new: 1 });
    return;
  }
  return ask({
    title: "New task",
    about: "The team works on it as soon as it is free. Its result appears with the task.",
    body: [
      area("Task", "task", {
        required: true,
        rows: 5,
        placeholder: "Say what you want, and what a good result looks like",
      }),
      [
        select("Team", "team", teams, { value: team ?? teams[0] }),
        select("Priority", "priority", ["critical", "high", "normal", "low"], { value: "normal" }),
      ],
    ],
    action: "Create task",
    submit: async ({ task, team: to, priority }) => {
      const made = await post("/tasks", { team: to, task, priority });
      toast(`Team ${to} has the task.`);
      return made;
    },
  });
}
