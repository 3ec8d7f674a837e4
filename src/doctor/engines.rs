//! Command-line agents: which are installed, and which are missing that a team works with.

use crate::{
    api::doctor::Finding,
    engines::installed::{Installations, Installed},
    settings::{
        config::{Engines, Sdk},
        home::Home,
        load::read_team,
    },
};

const ID: &str = "engines";

/// Looks for all of them, as the settings say. Blocks.
pub fn check(home: &Home, settings: &Engines) -> Vec<Finding> {
    let used = used(home);
    let found = Installations::default();
    let agents = Sdk::ALL.iter().copied().filter(|sdk| *sdk != Sdk::Native);
    agents.map(|sdk| describe(&found, sdk, settings, &used)).collect()
}

fn describe(
    found: &Installations,
    sdk: Sdk,
    settings: &Engines,
    used: &[(String, Sdk)],
) -> Finding {
    let teams: Vec<&str> =
        used.iter().filter(|(_, of)| *of == sdk).map(|(team, _)| team.as_str()).collect();
    match found.find(sdk, settings) {
        Ok(Installed { version, binary, .. }) => {
            let version = version.unwrap_or_else(|| "of unknown version".to_owned());
            Finding::ok(ID, format!("{sdk} {version} at {}", binary.display()))
        }
        Err(_) if teams.is_empty() && settings.binary(sdk).is_none() => {
            Finding::ok(ID, format!("{sdk} is not installed; no team needs it"))
        }
        Err(reason) => {
            let who = match &*teams {
                [] => "no team needs it".to_owned(),
                teams => format!("needed by {}", teams.join(", ")),
            };
            Finding::error(
                ID,
                format!("{sdk}, {who}: {reason}"),
                "give teams another `sdk`, or install it",
            )
        }
    }
}

/// What the turns of teams run on, by team.
fn used(home: &Home) -> Vec<(String, Sdk)> {
    let folders = std::fs::read_dir(home.teams()).into_iter().flatten().flatten();
    let names = folders.filter_map(|folder| folder.file_name().into_string().ok());
    let teams = names.filter_map(|name| Some((read_team(home, &name).ok()?.sdk, name)));
    let mut used: Vec<_> = teams.map(|(sdk, name)| (name, sdk)).collect();
    used.sort();
    used
}
