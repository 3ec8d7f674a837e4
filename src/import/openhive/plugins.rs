//! Tools that teams wrote: their sources are kept, none of them runs.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::{clock::Timestamp, store::records::Writes, text::quoted};

use super::{
    files::SOURCES,
    installation::Installation,
    moment::moment,
    plan::{Artifact, Planner, Refusal, Team},
    report::Kind,
    schema::{mark, row},
};
use crate::{plugins::written::Status, tools::plugin_tool::PluginTool};

/// A tool that a team wrote.
pub(super) const KIND: Kind = Kind::listed("plugin");

row! {
    /// A tool that a team wrote.
    PluginRow in "plugin_tools" by "team_name, tool_name" of team {
        team: String as "team_name",
        tool: String as "tool_name",
        status: String,
        source_hash: String,
        created_at: String,
    }
    unread ["source_path", "verification", "updated_at"]
    later [
        "verified_at", "deprecated_at", "deprecated_reason", "deprecated_by", "removed_at",
        "removed_by"
    ]
}

/// Why an imported tool does not run.
pub(super) const REASON: &str = "it was imported from OpenHive as TypeScript; \
     `register_plugin_tool` with its JavaScript puts it into use";

pub(super) fn plan(planner: &mut Planner<'_>, team: &Team<'_>) {
    for row in planner.found.tables.of::<PluginRow>().iter().filter(|row| row.team == team.former) {
        let conversion = if row.status == "removed" {
            Err(Refusal::intended("it was removed"))
        } else {
            let tool = convert(row, team.folder.map(|folder| &folder.plugins), planner.target.now);
            let mut changes = vec![REASON.to_owned()];
            if tool.source.is_none() {
                changes.push("its source is missing".into());
            }
            let skills = team.broken_skills.iter().filter(|(_, tools)| tools.contains(&row.tool));
            let skills = quoted(skills.map(|(skill, _)| skill));
            if !skills.is_empty() {
                changes.push(format!("skills that need it: {skills}"));
            }
            let key = format!("{}/{}", team.key, tool.tool);
            Ok((Artifact::row(&tool.tool, Writes::new().put_at(&key, &tool)), changes))
        };
        let mark = mark("plugin_tools", format!("{}/{}", row.team, row.tool), &row.created_at);
        planner.take(KIND, Some(team.former), &row.tool, mark, conversion);
    }
}

/// The row of a tool. `sources` are the files that the team's folder has.
fn convert(row: &PluginRow, sources: Option<&BTreeSet<String>>, now: Timestamp) -> PluginTool {
    let file = format!("{}.ts", row.tool);
    let is_there = sources.is_some_and(|sources| sources.contains(&file));
    PluginTool {
        tool: row.tool.clone(),
        status: Status::FailedVerification,
        reason: REASON.into(),
        source: is_there.then(|| format!("{SOURCES}/{file}")),
        sha256: row.source_hash.clone(),
        former_status: row.status.clone(),
        created_at: moment(&row.created_at).unwrap_or(now),
        ..PluginTool::default()
    }
}

/// The skills of a team that need tools which must be registered anew, with these tools.
pub(super) fn broken_skills(found: &Installation, former: &str) -> BTreeMap<String, Vec<String>> {
    let Some(folder) = found.folders.get(former) else {
        return BTreeMap::new();
    };
    let rows = found.tables.of::<PluginRow>().iter().filter(|row| row.team == former);
    let files = folder.plugins.iter().filter_map(|name| name.strip_suffix(".ts"));
    let tools = rows.map(|row| row.tool.as_str()).chain(files).map(str::to_owned);
    dependents(&folder.skills, &tools.collect())
}

/// The skills that need one of the tools, with the tools they need.
fn dependents(
    skills: &BTreeMap<String, BTreeSet<String>>,
    tools: &BTreeSet<String>,
) -> BTreeMap<String, Vec<String>> {
    skills
        .iter()
        .map(|(skill, needed)| (skill.clone(), needed.intersection(tools).cloned().collect()))
        .filter(|(_, needed): &(_, Vec<String>)| !needed.is_empty())
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
            source_hash: "ab".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
        };
        let skills = BTreeMap::from([
            ("dig".to_owned(), ["lookup".to_owned(), "bash".to_owned()].into()),
            ("rest".to_owned(), ["bash".to_owned()].into()),
        ]);

        let tool = convert(&row, Some(&["lookup.ts".to_owned()].into()), Timestamp(1));

        assert_eq!(tool.status, Status::FailedVerification);
        assert_eq!(tool.source.as_deref(), Some("plugins/imported/lookup.ts"));
        assert_eq!(
            dependents(&skills, &["lookup".to_owned()].into()),
            BTreeMap::from([("dig".to_owned(), vec!["lookup".to_owned()])])
        );
    }
}
