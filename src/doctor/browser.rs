//! The browser: whether one is installed for teams that want its tools.

use crate::{
    api::doctor::Finding,
    browser::program::Installed,
    settings::{home::Home, load, tool_groups::ToolGroup},
    tools::{REGISTRY, filter::ToolFilter},
};

const ID: &str = "browser";
const INSTALL: &str = "install Chromium (`apt install chromium`), and start the service again";

/// Looks for one, and for teams that have its tools. Blocks.
pub fn check(home: &Home) -> Finding {
    let names = load::team_names(home).into_iter();
    let wanting = names.filter(|name| {
        load::read_team(home, name).is_ok_and(|team| wants_one(&team.allowed_tools))
    });
    found(Installed::find(), &wanting.collect::<Vec<_>>())
}

/// Whether one of its tools is among those of a team.
fn wants_one(allowed_tools: &[String]) -> bool {
    let mut tools = REGISTRY.members(ToolGroup::Browser);
    ToolFilter::parse(allowed_tools, REGISTRY)
        .is_ok_and(|filter| tools.any(|tool| filter.allows(tool)))
}

fn found(installed: Option<Installed>, wanting: &[String]) -> Finding {
    match (installed, wanting) {
        (Some(installed), _) => {
            Finding::ok(ID, format!("{}, in our sandbox", installed.path().display()))
        }
        (None, []) => Finding::ok(ID, "none is installed, and no team has its tools"),
        (None, teams) => {
            let message =
                format!("none is installed, so its tools are missing for {}", teams.join(", "));
            Finding::warn(ID, message, INSTALL)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO-86
    #[test]
    fn a_missing_browser_is_told_to_whoever_needs_one() {
        let quiet = found(None, &[]);
        let missing = found(None, &["main".to_owned()]);

        assert_eq!(quiet, Finding::ok(ID, "none is installed, and no team has its tools"));
        let message = "none is installed, so its tools are missing for main";
        assert_eq!(missing, Finding::warn(ID, message, INSTALL));
        let wanting = [&["*"][..], &["@browser"], &["read", "browser_*"], &["*", "!@browser"]];
        let wanting = wanting.map(|tools| {
            wants_one(&tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>())
        });
        assert_eq!(wanting, [true, true, true, false]);
    }
}
