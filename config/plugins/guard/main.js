// A hook on `tool.before` gets a call with its final arguments. It returns nothing to let it pass, or a decision. If it fails,
// the call is denied; so it is written to fail as seldom as it can.
import { config, hook } from "hive:host";

hook("tool.before", ({ tool, args }) => {
  for (const rule of config.hooks?.rules ?? []) {
    if (!glob(rule.tool).test(tool)) continue;
    const found = rule.pointer === undefined ? undefined : at(args, rule.pointer);
    if (rule.pointer !== undefined && found === undefined) continue;
    if (rule.pattern !== undefined && !new RegExp(rule.pattern).test(asText(found ?? args))) continue;
    if (rule.action === "deny") return { decision: "deny", reason: rule.reason };
    return {
      decision: "rewrite",
      reason: rule.reason,
      payload: { args: changed(args, steps(rule.pointer ?? ""), rule.value) },
    };
  }
});

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A pattern in which only `*` is special. */
const glob = (pattern) => new RegExp(`^${pattern.split("*").map(escaped).join(".*")}$`);
const escaped = (text) => text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&");

/** The steps of a JSON pointer. */
const steps = (pointer) =>
  pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

const at = (value, pointer) => steps(pointer).reduce((inner, step) => inner?.[step], value);

/** The same with another value at a place. */
function changed(value, [step, ...rest], put) {
  if (step === undefined) return put;
  const inner = changed(value?.[step], rest, put);
  return Array.isArray(value) ? value.with(Number(step), inner) : { ...value, [step]: inner };
}
