//! Registry of tools: which there are, by what each says of itself.

use super::{
    about::About, agent, ask_operator, bash, browser, contract::Tool, edit, glob, grep, mcp,
    memory, org, plugin, plugin_tool, read, send_file, triggers, trust, use_skill, vault, web,
    write,
};
use crate::settings::tool_groups;

/// The built-in tools, in the order in which prompts show them.
const BUILT_IN: &[About] = &[
    bash::Bash::ABOUT,
    edit::Edit::ABOUT,
    glob::Glob::ABOUT,
    grep::Grep::ABOUT,
    read::Read::ABOUT,
    write::Write::ABOUT,
];

/// Tools that have no folder of their family.
const SINGLE: &[About] = &[
    send_file::SendFile::ABOUT,
    ask_operator::AskOperator::ABOUT,
    use_skill::UseSkill::ABOUT,
    agent::Agent::ABOUT,
    mcp::ABOUT,
    plugin::ABOUT,
];

/// All tools that settings can name.
const ALL: [&[About]; 10] = [
    BUILT_IN,
    SINGLE,
    org::TOOLS,
    triggers::TOOLS,
    trust::TOOLS,
    memory::TOOLS,
    vault::TOOLS,
    browser::TOOLS,
    web::TOOLS,
    plugin_tool::manage::TOOLS,
];

/// The built-in tools by key, in the order in which prompts show them.
pub(crate) fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|tool| tool.keys)
}

/// All tools that settings can name, by key.
pub(crate) fn keys() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|tools| tools.iter()).map(|tool| tool.keys)
}

/// The patterns that a group stands for: keys of its tools, as a rule. One whose tools are still to come
/// stands for itself, so that it gives nothing and can still be compared.
pub(crate) fn members(group: &str) -> Option<Vec<&'static str>> {
    tool_groups::place(group)?;
    let tools = ALL.iter().flat_map(|tools| tools.iter()).filter(|tool| tool.group == group);
    Some(tools.map(|tool| tool.keys).chain(tool_groups::future(group)).collect())
}

/// The place of a group's tools among all that models are told: files and shell are told as one.
pub(super) fn place(group: &str) -> Option<usize> {
    tool_groups::place(if group == bash::Bash::ABOUT.group {
        read::Read::ABOUT.group
    } else {
        group
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-56, TO-29 to TO-44
    #[test]
    fn groups_have_a_fixed_order() {
        let apart = tool_groups::GROUPS.iter().filter(|(group, _)| *group != "@shell");

        let places: Vec<_> = apart.map(|(group, _)| place(group).unwrap()).collect();

        assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
        assert_eq!(place("@shell"), place("@files"));
    }

    #[test]
    fn every_tool_is_in_a_group_that_has_tools() {
        for tool in ALL.iter().flat_map(|tools| tools.iter()) {
            assert!(tool_groups::place(tool.group).is_some(), "{tool:?}");
            assert_eq!(tool_groups::future(tool.group), None, "{tool:?}");
        }
    }

    /// OR-19
    #[test]
    fn a_group_stands_for_its_tools_and_for_itself_before_it_has_any() {
        assert_eq!(members("@shell").unwrap(), ["bash"]);
        assert_eq!(
            members("@files").unwrap(),
            ["edit", "glob", "grep", "read", "write", "send_file"]
        );
        assert_eq!(members("@subagents").unwrap(), ["agent.*"]);
        assert_eq!(
            members("@plugins").unwrap(),
            ["@plugins", "deprecate_plugin_tool", "register_plugin_tool", "remove_plugin_tool"]
        );
        assert_eq!(members("@everything"), None);
    }
}
