//! Tool groups: families of tools that a pattern such as `@files` names as a whole.

use crate::text::did_you_mean;

/// What settings call all tools of plugins by: plugins bring namespaces that nobody knows beforehand.
pub(crate) const PLUGINS: &str = "@plugins";

/// The built-in tools, in the order in which prompts show them.
pub(crate) const BUILT_IN: [&str; 6] = ["bash", "edit", "glob", "grep", "read", "write"];

/// The groups with the keys of their tools, in the order in which models are told of them. One that has no tool yet may be
/// named, and gives nothing.
pub(crate) const GROUPS: [(&str, &[&str]); 14] = [
    ("@files", &["edit", "glob", "grep", "read", "write", "send_file"]),
    ("@shell", &["bash"]),
    (
        "@org",
        &[
            "ask_operator",
            "control_team",
            "delegate_task",
            "enqueue_parent_task",
            "escalate",
            "get_status",
            "list_completed_tasks",
            "list_teams",
            "query_team",
            "query_teams",
            "send_message",
            "shutdown_team",
            "spawn_team",
            "update_team",
            "whoami",
        ],
    ),
    (
        "@triggers",
        &[
            "create_trigger",
            "disable_trigger",
            "enable_trigger",
            "list_triggers",
            "test_trigger",
            "update_trigger",
        ],
    ),
    ("@trust", &["add_trusted_sender", "list_trusted_senders", "revoke_sender_trust"]),
    ("@topics", &[]),
    ("@memory", &["memory_delete", "memory_list", "memory_save", "memory_search"]),
    ("@vault", &["vault_delete", "vault_get", "vault_list", "vault_set"]),
    (
        "@browser",
        &[
            "browser_click",
            "browser_close",
            "browser_go_back",
            "browser_go_forward",
            "browser_navigate",
            "browser_screenshot",
            "browser_snapshot",
            "browser_type",
        ],
    ),
    ("@web", &["web_fetch", "web_search"]),
    ("@skills", &["use_skill", "search_skill_repository"]),
    ("@subagents", &["agent.*"]),
    (PLUGINS, &[PLUGINS, "deprecate_plugin_tool", "register_plugin_tool", "remove_plugin_tool"]),
    ("@mcp", &["mcp.*"]),
];

/// All tools that settings can name, by key.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, tools)| tools.iter().copied())
}

/// The patterns that a group stands for: keys of its tools, as a rule. One whose tools are still to come
/// stands for itself, so that it gives nothing and can still be compared.
pub(crate) fn members(group: &str) -> Option<Vec<&'static str>> {
    let (_, tools) = GROUPS[place(group)?];
    Some(tools.iter().copied().chain(future(group)).collect())
}

/// The place of a group's tools among all that models are told: files and shell are told as one.
pub(crate) fn place_told(group: &str) -> Option<usize> {
    place(if group == "@shell" { "@files" } else { group })
}

/// The place of a group among all, if there is such a group.
pub(crate) fn place(group: &str) -> Option<usize> {
    GROUPS.iter().position(|(known, _)| *known == group)
}

/// The group of a pattern, if it names one whose tools are still to come.
pub(crate) fn future(pattern: &str) -> Option<&'static str> {
    let (group, tools) = GROUPS[place(group_of(pattern))?];
    tools.is_empty().then_some(group)
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
    let has_tools = |(_, tools): &(&str, &[&str])| !tools.is_empty();
    let known = || GROUPS.into_iter().filter(has_tools).map(|(group, _)| group);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-56, TO-29 to TO-44
    #[test]
    fn groups_have_a_fixed_order() {
        let apart = GROUPS.iter().filter(|(group, _)| *group != "@shell");

        let places: Vec<_> = apart.map(|(group, _)| place_told(group).unwrap()).collect();

        assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
        assert_eq!(place_told("@shell"), place_told("@files"));
    }

    /// OR-19
    #[test]
    fn a_group_stands_for_its_tools_and_for_itself_before_it_has_any() {
        assert_eq!(members("@shell").unwrap(), ["bash"]);
        assert_eq!(members("@topics").unwrap(), ["@topics"]);
        assert_eq!(members("@everything"), None);
    }
}
