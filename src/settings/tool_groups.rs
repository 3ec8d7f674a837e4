//! Tool groups: families of tools that a pattern such as `@files` names as a whole.

use crate::text::did_you_mean;

/// Each group with the tools or patterns that it stands for.
const GROUPS: &[(&str, &[&str])] = &[
    ("@files", &["edit", "glob", "grep", "read", "write"]),
    ("@shell", &["bash"]),
    (
        "@org",
        &[
            "ask_operator",
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
    ("@memory", &["memory_delete", "memory_list", "memory_save", "memory_search"]),
    ("@vault", &["vault_delete", "vault_get", "vault_list", "vault_set"]),
    ("@skills", &["search_skill_repository", "use_skill"]),
    ("@subagents", &["agent.*"]),
];

/// Groups whose tools are still to come. They may be named, and give nothing yet.
const FUTURE: &[(&str, &[&str])] = &[
    ("@web", &["web_fetch"]),
    ("@browser", &["browser_*"]),
    ("@topics", &["close_topic", "list_topics", "rename_topic"]),
    ("@plugins", &["deprecate_plugin_tool", "register_plugin_tool", "remove_plugin_tool"]),
    ("@mcp", &["mcp.*"]),
];

/// The tools or patterns that a group stands for, if there is such a group.
pub(crate) fn members(group: &str) -> Option<&'static [&'static str]> {
    let mut groups = GROUPS.iter().chain(FUTURE);
    let found = groups.find(|(name, _)| *name == group);
    found.map(|(_, members)| *members)
}

/// The group of a pattern, if it names one whose tools are still to come.
pub(crate) fn future(pattern: &str) -> Option<&'static str> {
    let mut groups = FUTURE.iter();
    let found = groups.find(|(name, _)| *name == group_of(pattern));
    found.map(|(name, _)| *name)
}

/// Looks at one pattern of `allowed_tools`; an error says what is wrong with it.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    match group_of(pattern) {
        "" => Err("expected the name of a tool, a pattern or a group".to_owned()),
        group if group.starts_with('@') && members(group).is_none() => Err(unknown(group)),
        _ => Ok(()),
    }
}

/// The words for a group that does not exist.
pub(crate) fn unknown(group: &str) -> String {
    let known = || GROUPS.iter().map(|(name, _)| *name);
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
