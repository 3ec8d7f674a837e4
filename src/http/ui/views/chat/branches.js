// @ts-check
// Topics that share a beginning: a message was edited, and both versions stay. No DOM in here.

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** Where a topic left another one. @param {Conversation} conversation @param {string} key @returns {{topic_id: string, message_id: string, at: number, made_at: number} | null} */
export const branchOf = ({ topics, logs }, key) =>
  topics.find((topic) => topic.id === key)?.branch ?? logs[key]?.branch ?? null;

/** The topic that those begin with which share a beginning with this one. @param {Conversation} conversation @param {string} id */
function rootOf(conversation, id) {
  for (let left = branchOf(conversation, id); left; left = branchOf(conversation, id)) id = left.topic_id;
  return id;
}

/** The first of the topics that share a beginning with this one, and how many they are. @param {Conversation} conversation @param {string} id */
export function familyOf(conversation, id) {
  const root = rootOf(conversation, id);
  return { root, versions: conversation.listed().filter((one) => rootOf(conversation, one.id) === root).length };
}

/** The topics to list: of those that share a beginning, the one that is looked at, or that was used last and is open. @param {Conversation} conversation @param {string} chosen */
export function leading(conversation, chosen) {
  const leaders = new Map();
  const all = conversation.listed();
  for (const topic of all) {
    const root = rootOf(conversation, topic.id);
    const leader = leaders.get(root);
    const isOpened = leader?.state === "done" && topic.state !== "done" && leader.id !== chosen;
    if (topic.id === chosen || !leader || isOpened) leaders.set(root, topic);
  }
  const shown = new Set(leaders.values());
  return all.filter((topic) => shown.has(topic));
}

/** The messages of a topic that others stand beside: the topics that part there, and which one is shown. @param {Conversation} conversation @param {string} key */
export function forks(conversation, key) {
  const found = new Map();
  const turns = conversation.turns(key);
  for (const turn of turns) {
    const of = turn.of ?? key;
    const left = branchOf(conversation, of);
    const isFirst = turns.find((/** @type {any} */ one) => (one.of ?? key) === of) === turn;
    const begins = left && isFirst && conversation.log(key).next?.topic !== of;
    const [topic, message] = begins ? [left.topic_id, left.message_id] : [of, turn.id];
    const branches = conversation.topics.filter(
      ({ branch }) => branch?.topic_id === topic && branch?.message_id === message,
    );
    branches.sort((a, b) => a.branch.made_at - b.branch.made_at);
    const all = [topic, ...branches.map((branch) => branch.id)];
    if (!all.includes(of)) all.push(of);
    if (all.length > 1) found.set(turn.id, { all, at: all.indexOf(of) });
  }
  return found;
}
