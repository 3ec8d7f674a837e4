//! Tool groups: families of tools that a pattern such as `@files` names as a whole.

use crate::text::did_you_mean;

/// The groups, in the order in which models are told of their tools, and whether a group has any yet. One
/// without may be named, and gives nothing. Which tools a group has, they say.
pub(crate) const GROUPS: [(&str, bool); 14] = [
    ("@files", true),
    ("@shell", true),
    ("@org", true),
    ("@triggers", true),
    ("@trust", true),
    ("@topics", false),
    ("@memory", true),
    ("@vault", true),
    ("@browser", true),
    ("@web", true),
    ("@skills", true),
    ("@subagents", true),
    ("@plugins", true),
    ("@mcp", true),
];

/// The place of a group among all, if there is such a group.
pub(crate) fn place(group: &str) -> Option<usize> {
    GROUPS.iter().position(|(known, _)| *known == group)
}

/// The group of a pattern, if it names one whose tools are still to come.
pub(crate) fn future(pattern: &str) -> Option<&'static str> {
    let (group, has_tools) = GROUPS[place(group_of(pattern))?];
    (!has_tools).then_some(group)
}

/// Looks at one pattern of `allowed_tools`; an error says what is wrong with it.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    match group_of(pattern) {
        "" => Err("expected the name of a tool, a pattern or a group".to_owned()),
        group if group.starts_with('@') && place(group).is_none() => Err(unknown(group)),
        _ => Ok(()),
    }
}

/// The words for a group that does not exist.
pub(crate) fn unknown(group: &str) -> String {
    let known = || GROUPS.into_iter().filter_map(|(group, has_tools)| has_tools.then_some(group));
    match did_you_mean(group, known()) {
        Some(meant) => format!("unknown tool group `{group}` (did you mean `{meant}`?)"),
        None => {
            let known: Vec<_> = known().collect();
            format!("unknown tool group `{group}`; known groups are `{}`", known.join("`, `"))
        }
    }
}

fn group_of(pattern: &str) -> &str {
    let pattern = pattern.trim();
    pattern.strip_prefix('!').unwrap_or(pattern)
}
