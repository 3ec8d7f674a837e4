//! Families of tools, in the order in which models are told of them.

/// The keys of each family, as patterns; those that no family names are of plugins.
const FAMILIES: &[&[&str]] = &[
    &["bash", "edit", "glob", "grep", "read", "write"],
    &[
        "ask_operator",
        "delegate_task",
        "enqueue_parent_task",
        "escalate",
        "get_status",
        "list_completed_tasks",
        "list_teams",
        "policy_list",
        "propose_change",
        "query_team",
        "query_teams",
        "send_message",
        "shutdown_team",
        "spawn_team",
        "update_team",
    ],
    &[
        "create_trigger",
        "disable_trigger",
        "enable_trigger",
        "list_triggers",
        "report_run",
        "test_trigger",
        "update_trigger",
    ],
    &["add_trusted_sender", "list_trusted_senders", "revoke_sender_trust"],
    &["close_topic", "list_topics", "rename_topic"],
    &["memory_"],
    &["vault_"],
    &["browser_"],
    &["web_fetch"],
    &["search_skill_repository"],
    &["use_skill"],
    &["agent."],
    &["deprecate_plugin_tool", "register_plugin_tool", "remove_plugin_tool"],
];

/// The place of a tool's family: the same set of tools is always told in the same order.
pub(super) fn family(key: &str) -> usize {
    let names = |entry: &&str| {
        let is_prefix = entry.ends_with(['_', '.']);
        key == *entry || is_prefix && key.starts_with(*entry)
    };
    let plugins = FAMILIES.len();
    match FAMILIES.iter().position(|family| family.iter().any(&names)) {
        Some(place) => place,
        None if key.starts_with("mcp.") => plugins + 1,
        None => plugins,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-56, TO-29 to TO-44
    #[test]
    fn families_have_a_fixed_order() {
        let order = [
            "write",
            "delegate_task",
            "create_trigger",
            "add_trusted_sender",
            "close_topic",
            "memory_save",
            "vault_get",
            "browser_click",
            "web_fetch",
            "search_skill_repository",
            "use_skill",
            "agent.scout",
            "register_plugin_tool",
            "engineering.deploy",
            "mcp.github.create_issue",
        ];

        let places: Vec<_> = order.iter().map(|key| family(key)).collect();

        assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
    }
}
