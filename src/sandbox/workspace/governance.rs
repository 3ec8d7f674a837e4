//! Which paths of its own workspace a team may write.

use std::path::Path;

use hivewright_actors::{
    policy::caution::{SELF_FILE, SELF_FOLDERS},
    words,
};

words! {
    /// What a path in the workspace is, by where it really lies, as messages and the audit name it.
    pub enum Class {
        /// `config.yaml`: what the team may do.
        OwnConfig = "own-config",
        /// `plugins/`: code that was verified.
        OwnPlugins = "own-plugins",
        /// `org-rules/`.
        OwnOrgRules = "own-org-rules",
        /// `team-rules/`.
        OwnTeamRules = "own-team-rules",
        /// `skills/`.
        OwnSkills = "own-skills",
        /// `subagents/`.
        OwnSubagents = "own-subagents",
        /// The rest.
        Other = "other",
    }
}

/// Entries at the top of a workspace that no tool of the team writes.
pub const GOVERNED_FILE: &str = "config.yaml";
/// The governed folder.
pub const GOVERNED_DIR: &str = "plugins";

/// What tells the team what it is, and is kept from commands of a turn that is not believed.
pub const SELF: [&str; 5] = {
    let [org_rules, team_rules, skills, subagents] = SELF_FOLDERS;
    [org_rules, team_rules, skills, subagents, SELF_FILE]
};

/// A path relative to the workspace, free of links, is of what governs the team or tells it what it is.
pub fn is_governed(inside: &Path) -> bool {
    Class::of(inside) != Class::Other || inside == Path::new(SELF_FILE)
}

impl Class {
    /// The class of a path relative to the workspace, free of links.
    pub fn of(relative: &Path) -> Self {
        match relative.components().next().and_then(|part| part.as_os_str().to_str()) {
            Some(GOVERNED_FILE) => Self::OwnConfig,
            Some(GOVERNED_DIR) => Self::OwnPlugins,
            Some("org-rules") => Self::OwnOrgRules,
            Some("team-rules") => Self::OwnTeamRules,
            Some("skills") => Self::OwnSkills,
            Some("subagents") => Self::OwnSubagents,
            _ => Self::Other,
        }
    }

    /// Whether tools of the team may write there.
    pub fn writable(self) -> bool {
        !matches!(self, Self::OwnConfig | Self::OwnPlugins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO-52, TO-53, TO-55
    #[test]
    fn the_top_name_decides_the_class() {
        let classes = [
            ("config.yaml", "own-config", false),
            ("plugins/a.js", "own-plugins", false),
            ("org-rules/a.md", "own-org-rules", true),
            ("team-rules/a.md", "own-team-rules", true),
            ("skills/a/SKILL.md", "own-skills", true),
            ("subagents/a.md", "own-subagents", true),
            ("notes/config.yaml", "other", true),
            ("Config.yaml", "other", true),
            ("plugins2/a", "other", true),
        ];

        for (path, name, writable) in classes {
            let class = Class::of(Path::new(path));
            assert_eq!((path, class.as_str(), class.writable()), (path, name, writable));
        }
    }
}
