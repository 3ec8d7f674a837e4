//! The parts of a prompt as text: the same input gives the same bytes.

use std::{fmt::Write, path::Path};

use hivewright_actors::{
    ids::{MAIN, TeamName},
    task::TopicRef,
};

use super::rules::{Audience, Reader, Tier};

const TOOLS: &str = include_str!("../../config/prompt/tools.md");
const HTTP: &str = include_str!("../../config/prompt/http.md");

/// Whether the team has a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAvailability {
    pub tool: &'static str,
    pub enabled: bool,
}

/// Parts 1 to 3: nothing in it depends on team, time or session.
pub(super) fn shared([system, organisation]: [&Tier; 2]) -> String {
    let for_all = |audience| audience == Audience::All;
    join([
        headed("System rules", &system.joined(for_all)),
        headed("Organisation rules", &organisation.joined(for_all)),
        TOOLS.trim().to_owned(),
        HTTP.trim().to_owned(),
    ])
}

/// Part 4: who the agent is, its place in the tree, and where it works.
pub(super) fn identity(
    team: &TeamName,
    ancestors: &[TeamName],
    description: &str,
    workspace: &Path,
) -> String {
    let place = match ancestors {
        _ if team.as_str() == MAIN => {
            "the root of this organisation of teams. People talk to you".to_owned()
        }
        [] => format!("one of the teams below `{MAIN}`. Other teams give you work"),
        [.., parent] => {
            let line: Vec<_> = ancestors.iter().map(TeamName::as_str).collect();
            let line = line.join(" → ");
            format!("in this organisation of teams: {line} → {team}. `{parent}` gives you work")
        }
    };
    let mut text = format!("You are the team `{team}`, {place}.");
    if !description.trim().is_empty() {
        let _ = write!(text, "\n\nYour purpose: {}", description.trim());
    }
    let _ = write!(
        text,
        "\n\nYour workspace is `{}`. Relative paths begin there. What you want to remember goes into memory \
         with the memory tools, not into files.",
        workspace.display()
    );
    headed("Who you are", &text)
}

/// Part 5: which tools the team has, and what is to be said of them.
pub(super) fn availability(tools: &[ToolAvailability], notes: &[String]) -> String {
    let mut lines = String::new();
    for (state, is_enabled) in [("ENABLED", true), ("DISABLED", false)] {
        let those = tools.iter().filter(|tool| tool.enabled == is_enabled);
        let names = those.map(|ToolAvailability { tool, enabled }| match *tool {
            "bash" if *enabled => "`bash` (for local work)".to_owned(),
            tool => format!("`{tool}`"),
        });
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            let _ = writeln!(lines, "- {state}: {}", names.join(", "));
        }
    }
    for note in notes {
        let _ = writeln!(lines, "- {note}");
    }
    headed("Your tools", lines.trim_end())
}

/// Part 6: rules for this role, then of the lineage, then of the team.
pub(super) fn role(
    reader: &Reader<'_>,
    general: [&Tier; 2],
    lineage: &[(TeamName, Tier)],
    own: &Tier,
) -> String {
    let for_role = |audience: Audience| audience != Audience::All && audience.concerns(reader);
    let concerns = |audience: Audience| audience.concerns(reader);
    let mut parts =
        vec![headed("Rules for your role", &join(general.map(|tier| tier.joined(for_role))))];
    for (team, tier) in lineage {
        let heading = if team == reader.team {
            "Rules for your team and those below it".to_owned()
        } else {
            format!("Rules of `{team}` for the teams below it")
        };
        parts.push(headed(&heading, &tier.joined(concerns)));
    }
    parts.push(headed("Team rules", &own.joined(concerns)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Part 9: what the turn is about.
pub(super) fn topic(topic: Option<&TopicRef>) -> String {
    match topic {
        Some(topic) => headed(
            "Topic",
            &format!(
                "This conversation is about the topic \"{}\". Stay on it.",
                one_line(&topic.name)
            ),
        ),
        None => String::new(),
    }
}

/// Puts parts one after another, without the empty ones.
pub(super) fn join<const N: usize>(parts: [String; N]) -> String {
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn headed(heading: &str, text: &str) -> String {
    match text {
        "" => String::new(),
        _ => format!("# {heading}\n\n{text}"),
    }
}

fn one_line(text: &str) -> String {
    // These two end lines as well, and are no control characters.
    text.replace(|found: char| found.is_control() || "\u{2028}\u{2029}".contains(found), " ")
}
