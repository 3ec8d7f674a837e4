//! Command-line agents: which are installed, which are missing that a team works with, and how each of those teams reaches
//! its model.

use crate::{
    api::doctor::Finding,
    engines::{
        self,
        installed::{self, Installations, Installed},
    },
    settings::{
        config::{Engines, Sdk},
        home::Home,
        load::read_team,
        providers::{Profile, Provider, Providers},
        team::Team,
    },
};

const ID: &str = "engines";

/// Looks for all of them, as the settings say. Blocks.
pub fn check(home: &Home, settings: &Engines, providers: Option<&Providers>) -> Vec<Finding> {
    let teams = teams(home);
    let found = Installations::default();
    let agents = Sdk::ALL.iter().copied().filter(|sdk| *sdk != Sdk::Native);
    let mut findings = Vec::new();
    for sdk in agents {
        let own: Vec<_> = teams.iter().filter(|(_, team)| team.sdk == sdk).collect();
        findings.push(describe(&found, sdk, settings, &own));
        // Without settings of models there is another finding.
        let reached = own.iter().filter_map(|(name, team)| Some(reach(name, team, providers?)));
        findings.extend(reached);
    }
    findings
}

fn describe(
    found: &Installations,
    sdk: Sdk,
    settings: &Engines,
    own: &[&(String, Team)],
) -> Finding {
    let named = settings.binary(sdk);
    let who = match own {
        [] => "no team uses it".to_owned(),
        own => {
            let names: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
            format!("used by {}", names.join(", "))
        }
    };
    match found.find(sdk, settings) {
        Ok(Installed { version, binary, .. }) => {
            let version = version.unwrap_or_else(|| "of unknown version".to_owned());
            Finding::ok(ID, format!("{sdk} {version} at {}, {who}", binary.display()))
        }
        Err(_) if own.is_empty() && named.is_none() => {
            let how = installed::how(sdk, settings);
            Finding::ok(ID, format!("{sdk} is not installed, {who}; {how}"))
        }
        Err(reason) => Finding::error(
            ID,
            format!("{sdk}, {who}: {reason}"),
            "install it, or give those teams another `sdk`",
        ),
    }
}

/// How the agent of a team reaches its model.
fn reach(name: &str, team: &Team, providers: &Providers) -> Finding {
    let sdk = team.sdk;
    let profile = match providers.choose(&team.provider_profile, team.model.as_deref()) {
        Ok(profile) => profile,
        Err(error) => {
            let fix = format!("mend `provider_profile` or `model` of `{name}`");
            return Finding::error(ID, format!("`{name}`: {error}"), fix);
        }
    };
    if let Err(reason) = engines::speaks(sdk, &profile) {
        let fix = format!("give `{name}` another `sdk` or `provider_profile`");
        return Finding::error(ID, format!("`{name}`: {reason}"), fix);
    }
    let Profile { name: used, model, provider, api_key, .. } = &profile;
    let reached =
        format!("`{name}`: {sdk} reaches {model} through the relay with profile `{used}`");
    match (api_key, provider) {
        (Some(_), _) => Finding::ok(ID, format!("{reached}, whose key is present")),
        (None, Provider::Offline) => Finding::ok(ID, format!("{reached}, which needs no key")),
        (None, _) => Finding::warn(
            ID,
            format!("{reached}, whose key is missing"),
            format!(
                "set `api_key` of `{used}` in config/providers.yaml, unless its server needs none"
            ),
        ),
    }
}

/// The files of teams that can be read, by name.
fn teams(home: &Home) -> Vec<(String, Team)> {
    let folders = std::fs::read_dir(home.teams()).into_iter().flatten().flatten();
    let names = folders.filter_map(|folder| folder.file_name().into_string().ok());
    let teams = names.filter_map(|name| Some((read_team(home, &name).ok()?, name)));
    let mut teams: Vec<_> = teams.map(|(team, name)| (name, team)).collect();
    teams.sort_by(|(one, _), (other, _)| one.cmp(other));
    teams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{secret::Secret, tests::place};

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

        let found = check(&place.home, &Engines::default(), Some(&providers));

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
