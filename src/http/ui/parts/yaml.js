// @ts-check
// A YAML file with one more entry. Comments and everything else stay as they are.

/** How far a line is indented. @param {string} line */
const indent = (line) => line.length - line.trimStart().length;

/** A line that says something: neither blank nor a comment, which may stand anywhere. @param {string} line */
const says = (line) => /^\s*[^\s#]/.test(line);

/** The name of the entry that begins in a line, without its quotes. @param {string} line */
const nameIn = (line) => /^\s*(["']?)(.+?)\1\s*:(\s|$)/.exec(line)?.[2];

/**
 * Where a section begins, what follows it up to the next, how far its entries are indented, and their names.
 * @param {string[]} lines @param {string} section a key at the top of the file
 */
function find(lines, section) {
  const at = lines.findIndex((line) => line.replace(/\s*(\{\s*\})?\s*(#.*)?$/, "") === `${section}:`);
  const behind = at < 0 ? [] : lines.slice(at + 1);
  const end = behind.findIndex((line) => says(line) && indent(line) === 0);
  const inside = end < 0 ? behind : behind.slice(0, end);
  const step = indent(inside.find(says) ?? "") || 2;
  const names = inside.map((line) => (says(line) && indent(line) === step ? nameIn(line) : undefined));
  return { at, inside, step, names };
}

/** What follows the name of an entry in its line; undefined if there is none. @param {string} text @param {string} section @param {string} name */
export function entryOf(text, section, name) {
  const { inside, names } = find(text.split("\n"), section);
  const line = inside[names.indexOf(name)];
  return (
    line &&
    line
      .slice(line.indexOf(":") + 1)
      .replace(/\s#.*$/, "")
      .trim()
      .replace(/^(["'])(.*)\1$/, "$2")
  );
}

/**
 * The text with an entry at the beginning of a section, in place of one of the same name.
 * @param {string} text @param {string} section a key at the top of the file
 * @param {string} name @param {string} value what follows the name: the rest of its line, and lines that are indented by four
 */
export function withEntry(text, section, name, value) {
  const lines = text.split("\n");
  const { at, inside, step, names } = find(lines, section);
  const gap = " ".repeat(step);
  const entry = `${gap}${name}:${value.startsWith("\n") ? "" : " "}${value.replaceAll("\n    ", `\n${gap}${gap}`)}`;
  if (at < 0) return `${text.trimEnd()}${text.trim() ? "\n\n" : ""}${section}:\n${entry}\n`;
  const rest = [...inside];
  const old = names.indexOf(name);
  if (old >= 0) {
    const next = inside.findIndex((line, place) => place > old && says(line) && indent(line) <= step);
    const last = inside.slice(0, next < 0 ? inside.length : next).findLastIndex(says);
    rest.splice(old, last - old + 1);
  }
  return [...lines.slice(0, at), `${section}:`, entry, ...rest, ...lines.slice(at + 1 + inside.length)].join("\n");
}
