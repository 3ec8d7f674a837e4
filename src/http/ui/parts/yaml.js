// @ts-check
// A YAML file with one more entry. Comments and everything else stay as they are.

/** How far a line is indented. @param {string} line */
const indent = (line) => line.length - line.trimStart().length;

/**
 * The text with an entry at the beginning of a section, in place of one of the same name.
 * @param {string} text @param {string} section a key at the top of the file
 * @param {string} name @param {string} value what follows the name: the rest of its line, and lines that are indented by four
 */
export function withEntry(text, section, name, value) {
  const lines = text.split("\n");
  const at = lines.findIndex((line) => line.replace(/\s*(\{\s*\})?\s*(#.*)?$/, "") === `${section}:`);
  // As far as the others of the section are.
  const others = at < 0 ? [] : lines.slice(at + 1).filter((line) => line.trim() && !line.trim().startsWith("#"));
  const step = " ".repeat((others.length && indent(others[0])) || 2);
  const entry = `${step}${name}:${value.startsWith("\n") ? "" : " "}${value.replaceAll("\n    ", `\n${step}${step}`)}`;
  if (at < 0) return `${text.trimEnd()}${text.trim() ? "\n\n" : ""}${section}:\n${entry}\n`;
  const rest = lines.slice(at + 1);
  const old = rest.findIndex((line) => line.trimStart().startsWith(`${name}:`) && indent(line) > 0);
  const end = rest.findIndex((line) => /^[^\s#]/.test(line));
  if (old >= 0 && (end < 0 || old < end)) {
    const after = rest.slice(old + 1).findIndex((line) => indent(line) <= indent(rest[old]));
    rest.splice(old, after < 0 ? rest.length : after + 1);
  }
  return [...lines.slice(0, at), `${section}:`, entry, ...rest].join("\n");
}
