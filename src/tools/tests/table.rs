//! The table of tools in the documentation says what the tools say of themselves.

use std::fmt::Write as _;

use hivewright_actors::text::Span;

use crate::{
    settings::tool_groups::ToolGroup,
    tests::assert_snapshot,
    tools::{REGISTRY, about::GivenTo},
};

const HEAD: &str = "\
# Tools, one by one

What `allowed_tools` of a team names, by tool or by group, and what rules name with `tool:` and `class:`
([what teams may do](teams.md#what-teams-may-do)).

| tool | group | class | which teams | longest call |
|---|---|---|---|---|
";

const BEHIND: &str = "
`mcp.*` are the tools of [servers](../mcp.md), `@plugins` those that [plugins](../plugins.md) bring and [teams write](team-tools.md).
A call that waits for a person's decision has not begun.
";

/// OP-07: no tool is missing in the table, and none is invented.
#[test]
fn the_table_of_tools_is_made_from_the_tools() {
    let mut page = HEAD.to_owned();
    let mut listed = 0;
    for group in ToolGroup::ALL {
        let mut tools: Vec<_> = REGISTRY.abouts().filter(|about| about.group == *group).collect();
        tools.sort_by_key(|about| about.keys);
        for about in tools {
            let classes = [Some(about.class), about.other_class].into_iter().flatten();
            let classes: Vec<String> = classes.map(|class| format!("`{class}`")).collect();
            let teams = match about.given_to {
                GivenTo::All => "all",
                GivenTo::Main => "the main team",
                GivenTo::BelowMain => "all but the main team",
            };
            let longest = if about.whole_turn {
                "its turn".to_owned()
            } else {
                Span(about.longest).to_string()
            };
            let (keys, group, classes) = (about.keys, group.as_str(), classes.join(" or "));
            writeln!(page, "| `{keys}` | `{group}` | {classes} | {teams} | {longest} |").unwrap();
            listed += 1;
        }
    }

    assert_eq!(listed, REGISTRY.abouts().count());
    assert_snapshot("docs/operating/tools.md", &(page + BEHIND), module_path!());
}
