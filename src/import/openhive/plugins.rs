//! Tools that teams wrote: their sources are kept, none of them runs.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::clock::Timestamp;
use serde::{Deserialize, Serialize};

use super::{moment::moment, rows::PluginRow};

/// Why an imported tool does not run.
pub(super) const REASON: &str = "it was imported from OpenHive as TypeScript; \
     `register_plugin_tool` with its JavaScript puts it into use";

/// Where the sources of a team's tools go, in its folder.
pub(super) const FOLDER: &str = "plugins/imported";

/// A tool that waits to be registered anew, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTool {
    /// Its name in its team.
    pub tool: String,
    /// Always `failed_verification`.
    pub status: String,
    /// What has to be done.
    pub reason: String,
    /// The source, in the team's folder; none if it is gone.
    pub source: Option<String>,
    /// The digest that its source had.
    pub sha256: String,
    /// What its status was.
    pub former_status: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The row of a tool. `sources` are the files that the team's folder has.
pub(super) fn convert(row: &PluginRow, sources: &BTreeSet<String>, now: Timestamp) -> ImportedTool {
    let file = format!("{}.ts", row.tool);
    ImportedTool {
        tool: row.tool.clone(),
        status: "failed_verification".into(),
        reason: REASON.into(),
        source: sources.contains(&file).then(|| format!("{FOLDER}/{file}")),
        sha256: row.source_hash.clone(),
        former_status: row.status.clone(),
        created_at: moment(&row.created_at).unwrap_or(now),
    }
}

/// The skills of a team that need one of its tools, with the tools they need.
pub(super) fn dependents(
    skills: &BTreeMap<String, BTreeSet<String>>,
    tools: &BTreeSet<String>,
) -> BTreeMap<String, Vec<String>> {
    skills
        .iter()
        .map(|(skill, needed)| {
            let needed: Vec<_> = needed.intersection(tools).cloned().collect();
            (skill.clone(), needed)
        })
        .filter(|(_, needed)| !needed.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OR-29
    #[test]
    fn a_tool_waits_to_be_registered_anew_and_who_needs_it_is_named() {
        let row = PluginRow {
            team: "research".into(),
            tool: "lookup".into(),
            status: "active".into(),
            source_path: "/app/.run/teams/research/plugins/lookup.ts".into(),
            source_hash: "ab".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
            updated_at: "2026-01-01T00:00:00.000Z".into(),
        };
        let skills = BTreeMap::from([
            ("dig".to_owned(), ["lookup".to_owned(), "bash".to_owned()].into()),
            ("rest".to_owned(), ["bash".to_owned()].into()),
        ]);

        let tool = convert(&row, &["lookup.ts".to_owned()].into(), Timestamp(1));

        assert_eq!(tool.status, "failed_verification");
        assert_eq!(tool.source.as_deref(), Some("plugins/imported/lookup.ts"));
        assert_eq!(
            dependents(&skills, &["lookup".to_owned()].into()),
            BTreeMap::from([("dig".to_owned(), vec!["lookup".to_owned()])])
        );
    }
}
