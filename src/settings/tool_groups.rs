//! Tool groups: families of tools that a pattern such as `@files` names as a whole.

use hivewright_actors::{
    text::{Words, quoted},
    words,
};

use crate::text::did_you_mean;

words! {
    /// A family of tools, in the order in which models are told of them.
    pub enum ToolGroup {
        Files = "@files",
        Shell = "@shell",
        Org = "@org",
        Triggers = "@triggers",
        Trust = "@trust",
        Memory = "@memory",
        Vault = "@vault",
        Browser = "@browser",
        Web = "@web",
        Skills = "@skills",
        Subagents = "@subagents",
        /// Plugins bring namespaces that nobody knows beforehand, so that it also is a pattern for all of their tools.
        Plugins = "@plugins",
        Mcp = "@mcp",
    }
}

/// A group that earlier versions shipped in the file of the main team, and that never had a tool: naming it is no error.
pub(crate) const WITHOUT_TOOLS: &str = "@topics";

impl ToolGroup {
    /// The group that code names: with a name that none has it does not compile.
    pub(crate) const fn named(name: &str) -> Self {
        let mut place = 0;
        while !is_same(Self::ALL[place].as_str(), name) {
            place += 1;
        }
        Self::ALL[place]
    }

    /// The group that models are told of it with: files and shell are told as one.
    pub(crate) fn told_with(self) -> Self {
        if self == Self::Shell { Self::Files } else { self }
    }
}

/// Looks at one pattern of `allowed_tools`; an error says what is wrong with it.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    match group_of(pattern) {
        "" => Err("expected the name of a tool, a pattern or a group".to_owned()),
        WITHOUT_TOOLS => Ok(()),
        group if group.starts_with('@') && group.parse::<ToolGroup>().is_err() => {
            Err(unknown(group))
        }
        _ => Ok(()),
    }
}

/// What is to be said of a pattern that is no error.
pub(super) fn warning(pattern: &str) -> Option<String> {
    let is_vain = group_of(pattern) == WITHOUT_TOOLS;
    is_vain.then(|| format!("`{WITHOUT_TOOLS}` has no tools and gives nothing; take it out"))
}

/// The words for a group that does not exist.
pub(crate) fn unknown(group: &str) -> String {
    let known = ToolGroup::WORDS;
    match did_you_mean(group, known.iter().copied()) {
        Some(meant) => format!("unknown tool group `{group}` (did you mean `{meant}`?)"),
        None => format!("unknown tool group `{group}`; known groups are {}", quoted(known)),
    }
}

/// `==`, which constants cannot use.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut place = 0;
    while place < one.len() && place < other.len() && one[place] == other[place] {
        place += 1;
    }
    place == one.len() && place == other.len()
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
    fn files_and_shell_are_told_as_one_and_all_other_groups_apart() {
        let told: Vec<_> = ToolGroup::ALL.iter().map(|group| group.told_with()).collect();

        let together = told.iter().zip(&told[1..]).filter(|(one, next)| one == next);
        assert_eq!(together.collect::<Vec<_>>(), [(&ToolGroup::Files, &ToolGroup::Files)]);
        assert!(told.is_sorted(), "{told:?}");
    }

    /// OR-19
    #[test]
    fn a_pattern_names_tools_or_a_group_that_there_is() {
        let table = [
            ("read", Ok(())),
            ("!@files", Ok(())),
            ("@topics", Ok(())),
            (" ", Err("expected the name of a tool, a pattern or a group".to_owned())),
            ("@flies", Err("unknown tool group `@flies` (did you mean `@files`?)".to_owned())),
        ];

        for (pattern, said) in table {
            assert_eq!((pattern, check(pattern)), (pattern, said));
        }
    }
}
