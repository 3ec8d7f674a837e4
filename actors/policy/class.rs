//! Policy classes: what kind of thing a tool does.

use crate::wildcard::fits;

/// The classes there are. Those ending in `.*` have one class for each of their tools.
pub const CLASSES: &[&str] = &[
    "file.read",
    "file.write",
    "exec",
    "net.read",
    "net.write",
    "browser",
    "secret.use",
    "memory",
    "vault",
    "topic",
    "agent",
    "skill",
    "plugin.register",
    "trust",
    "plugin",
    "mcp",
    "org.*",
    "trigger.*",
];

/// Any call that expands a reference to a secret, beside the class of its tool.
pub const SECRET_USE: &str = "secret.use";

/// Refuses a class that no tool has.
pub fn check(name: &str) -> Result<(), String> {
    let wild = name.contains(['*', '?']);
    let known = CLASSES.iter().any(|class| match class.strip_suffix('*') {
        Some(family) => name.strip_prefix(family).is_some_and(|tool| !tool.is_empty()),
        None => name == *class || (wild && fits(name, class)),
    });
    if known || (wild && CLASSES.iter().any(|class| fits(name, class))) {
        Ok(())
    } else {
        Err(format!("unknown class `{name}`; there are {}", CLASSES.join(", ")))
    }
}
