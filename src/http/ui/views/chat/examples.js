// @ts-check
// First messages to choose from: title, what will be seen, message.

/** @type {Record<"demo" | "model", string[][]>} */
export const EXAMPLES = {
  demo: [
    ["Say hello", "A first answer, word by word", "hello"],
    ["What can you do?", "What the demo understands", "help"],
    ["Create a team", "A team that sets itself up", "create team research: finds things out and sums them up"],
    [
      "Take your time",
      "A slow answer, to try Stop",
      "#say Thinking about it. Press Stop whenever you like.\n#wait 20000\n#reply Done waiting.",
    ],
  ],
  model: [
    ["What can you do?", "Tools, files and teams at hand", "What can you do here? Which tools do you have?"],
    [
      "Look around",
      "The teams, and what they are doing",
      "Which teams are there, what is each for, and what are they doing?",
    ],
    ["Make a plan", "A conversation with questions", "Help me plan my week. Ask me what you need to know first."],
    [
      "Build a team",
      "A proposal, nothing created yet",
      "Which teams could help with a small research project? Propose one, but do not create it yet.",
    ],
  ],
};
