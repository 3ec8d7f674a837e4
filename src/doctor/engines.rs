//! Engines: which command-line agents are installed, which are missing that a team works with, and how each team reaches its
//! model.

use crate::{
    api::doctor::{EngineStatus, EngineTeam, Finding, KeyState},
    engines::{
        self,
        installed::{self, Installations, Installed},
    },
    settings::{
        config::{Engines, Sdk},
        home::Home,
        load::{read_team, team_names},
        providers::{Provider, Providers},
        team::Team,
    },
};

const ID: &str = "engines";

/// Looks for all of them, as the settings say, and for the teams that they work for. Blocks.
pub fn look(
    found: &Installations,
    home: &Home,
    settings: &Engines,
    providers: Option<&Providers>,
) -> Vec<EngineStatus> {
    let teams = teams(home);
    let status = |sdk| {
        let own = teams.iter().filter(|(_, team)| team.sdk == sdk);
        let own = own.map(|(name, team)| reach(name, team, providers)).collect();
        let (installed, problem) = match found.find(sdk, settings) {
            _ if sdk == Sdk::Native => (None, None),
            Ok(installed) => (Some(installed), None),
            Err(problem) => (None, Some(problem)),
        };
        let binary =
            installed.as_ref().map(|Installed { binary, .. }| binary.display().to_string());
        let version = installed.and_then(|installed| installed.version);
        EngineStatus { sdk, binary, version, problem, teams: own }
    };
    Sdk::ALL.iter().copied().map(status).collect()
}

/// What is to be said of the agents. What our own loop needs is among the models.
pub fn findings(engines: &[EngineStatus], settings: &Engines) -> Vec<Finding> {
    let mut findings = Vec::new();
    for agent in engines.iter().filter(|engine| engine.sdk != Sdk::Native) {
        findings.push(describe(agent, settings));
        findings.extend(agent.teams.iter().filter_map(|team| describe_team(agent.sdk, team)));
    }
    findings
}

fn describe(agent: &EngineStatus, settings: &Engines) -> Finding {
    let EngineStatus { sdk, binary, version, problem, teams } = agent;
    let who = match teams.as_slice() {
        [] => "no team uses it".to_owned(),
        teams => {
            let names: Vec<&str> = teams.iter().map(|team| team.name.as_str()).collect();
            format!("used by {}", names.join(", "))
        }
    };
    match problem {
        None => {
            let version = version.as_deref().unwrap_or("of unknown version");
            let binary = binary.as_deref().unwrap_or_default();
            Finding::ok(ID, format!("{sdk} {version} at {binary}, {who}"))
        }
        Some(_) if teams.is_empty() && settings.binary(*sdk).is_none() => {
            let how = installed::how(*sdk, settings);
            Finding::ok(ID, format!("{sdk} is not installed, {who}; {how}"))
        }
        Some(reason) => Finding::error(
            ID,
            format!("{sdk}, {who}: {reason}"),
            "install it, or give those teams another `sdk`",
        ),
    }
}

/// None without settings of models: then there is another finding.
fn describe_team(sdk: Sdk, team: &EngineTeam) -> Option<Finding> {
    let EngineTeam { name, profile, model, login, problem } = team;
    if let Some(problem) = problem {
        let fix = format!("mend `sdk`, `provider_profile` or `model` of `{name}`");
        return Some(Finding::error(ID, format!("`{name}`: {problem}"), fix));
    }
    let (used, model) = (profile.as_deref()?, model.as_deref()?);
    let reached =
        format!("`{name}`: {sdk} reaches {model} through the relay with profile `{used}`");
    Some(match (*login)? {
        KeyState::Present => Finding::ok(ID, format!("{reached}, whose key is present")),
        KeyState::Unneeded => Finding::ok(ID, format!("{reached}, which needs no key")),
        KeyState::Missing => Finding::warn(
            ID,
            format!("{reached}, whose key is missing"),
            format!(
                "set `api_key` of `{used}` in config/providers.yaml, unless its server needs none"
            ),
        ),
    })
}

/// How the agent of a team reaches its model.
fn reach(name: &str, team: &Team, providers: Option<&Providers>) -> EngineTeam {
    let name = name.to_owned();
    let mut reached = EngineTeam { name, profile: None, model: None, login: None, problem: None };
    let Some(providers) = providers else { return reached };
    let profile = match providers.choose(&team.provider_profile, team.model.as_deref()) {
        Ok(profile) => profile,
        Err(error) => return EngineTeam { problem: Some(error.to_string()), ..reached },
    };
    reached.problem = engines::speaks(team.sdk, &profile).err();
    reached.login = Some(match (&profile.api_key, profile.provider) {
        (Some(_), _) => KeyState::Present,
        (None, Provider::Offline) => KeyState::Unneeded,
        (None, _) => KeyState::Missing,
    });
    EngineTeam { profile: Some(profile.name), model: Some(profile.model), ..reached }
}

/// The files of teams that can be read, by name.
fn teams(home: &Home) -> Vec<(String, Team)> {
    let names = team_names(home).into_iter();
    let teams = names.filter_map(|name| Some((read_team(home, &name).ok()?, name)));
    teams.map(|(team, name)| (name, team)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{providers::Profile, secret::Secret, tests::place};

    /// EN-96, EN-100: each team with its agent, its profile and whether that has a key, which is not shown.
    #[test]
    fn it_says_how_each_team_reaches_its_model() {
        let place = place();
        for (name, file) in [
            ("main", "sdk: claude\n"),
            ("coder", "sdk: codex\nprovider_profile: vendor\n"),
            ("lost", "sdk: pi\nprovider_profile: nowhere\n"),
            ("own", "sdk: native\n"),
            ("wrong", "sdk: claude\nmodel: \"vendor:m2\"\n"),
        ] {
            place.write(&place.home.team_file(name), file);
        }
        let keyed = Profile {
            api_key: Some(Secret::new("sk-very-secret".to_owned())),
            ..Profile::new("default", Provider::Anthropic)
        };
        let vendor = Profile::new("vendor", Provider::OpenAi);
        let profiles = [keyed, vendor].map(|profile| (profile.name.clone(), profile));
        let providers = Providers { profiles: profiles.into(), ..Providers::default() };

        let settings = Engines::default();
        let agents = look(&Installations::default(), &place.home, &settings, Some(&providers));
        let found = findings(&agents, &settings);

        let said: Vec<String> = found.iter().map(|finding| finding.message.clone()).collect();
        let said = said.join("\n");
        assert!(!said.contains("sk-very-secret"), "{said}");
        for expected in [
            "`main`: claude reaches claude-sonnet-5-5 through the relay with profile `default`, whose key is present",
            "`coder`: codex reaches gpt-5.5 through the relay with profile `vendor`, whose key is missing",
            "`wrong`: profile `vendor` is of the provider `openai`, whose format claude does not speak",
            "`lost`: ",
        ] {
            assert!(said.contains(expected), "{expected}\n\n{said}");
        }
        assert!(!said.contains("`own`"), "{said}");
    }
}
