//! `hivewright engine`: what runs the turns of teams, and the keys that it is given.

use clap::{Args, Subcommand};
use hivewright_actors::ids::MAIN;
use serde_json::json;

use super::doctor;
use crate::{
    api::{
        doctor::{EngineStatus, EngineTeam, KeyState, SHOW_FINDINGS},
        endpoint::Empty,
    },
    cli::{
        answer::Answer,
        blocking::blocking,
        client::Service,
        context::Context,
        failure::Failure,
        table::{self, columns},
    },
    doctor::engines,
    engines::installed::Installations,
    settings::{config::Sdk, load},
};

mod login;

/// See what runs the turns of teams, and give it a key
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright engine list\n  \
    hivewright engine login --team research")]
pub(super) enum Action {
    /// List each engine with its version, the teams that it works for and whether those have a key
    #[command(after_help = "Examples:\n  \
        hivewright engine list\n  \
        hivewright engine list --json | jq '.data[] | select(.problem)'")]
    List,
    /// Give the model of a team another key; work that waits for one goes on
    ///
    /// The key is asked for, or read from standard input, tried once and kept in the vault. Command-line agents have no login
    /// of their own: each reaches its model with the key of its team's profile, which it never sees.
    #[command(after_help = "Examples:\n  \
        hivewright engine login\n  \
        hivewright engine login --team research < key.txt")]
    Login(Login),
}

#[derive(Debug, PartialEq, Args)]
pub(super) struct Login {
    /// The team whose profile gets the key, and with it all teams that use this profile
    #[arg(long, default_value = MAIN)]
    team: String,
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    match action {
        Action::List => list(context).await,
        Action::Login(Login { team }) => login::run(&team, context).await,
    }
}

/// A service tells what it can use itself; without one it is looked for here.
async fn list(context: &Context) -> Result<(), Failure> {
    let engines = match Service::if_running(context)? {
        Some(service) => service.at(&SHOW_FINDINGS, &Empty {}).await?.data()?.engines,
        None => {
            let environment = doctor::environment(context).await;
            let home = context.home.clone();
            let look = move || {
                let config = load::load_config(&home, &environment)?.0;
                let providers = load::read_providers(&home, &environment).0.ok();
                let found = Installations::default();
                Ok(engines::look(&found, &home, &config.engines, providers.as_ref()))
            };
            blocking(look).await?
        }
    };
    let document = json!({"data": engines, "total": engines.len()});
    Answer::<Vec<EngineStatus>>::new(document)
        .show(context.screen, |engines| table::rows(&lines(engines)))
}

/// An engine, and one of the teams that it works for.
struct Line {
    engine: EngineStatus,
    team: Option<EngineTeam>,
}

/// A line for each team, and one for an engine that has none.
fn lines(engines: Vec<EngineStatus>) -> Vec<Line> {
    let of_one = |mut engine: EngineStatus| {
        let mut teams: Vec<_> = std::mem::take(&mut engine.teams).into_iter().map(Some).collect();
        if teams.is_empty() {
            teams.push(None);
        }
        teams.into_iter().map(move |team| Line { engine: engine.clone(), team })
    };
    engines.into_iter().flat_map(of_one).collect()
}

impl Line {
    fn of_team(&self, say: impl FnOnce(&EngineTeam) -> Option<String>) -> String {
        self.team.as_ref().and_then(say).unwrap_or_else(|| "-".to_owned())
    }
}

columns!(Line {
    "ENGINE" => |line| line.engine.sdk.to_string(),
    "VERSION" => |line| match (&line.engine.version, line.engine.sdk) {
        (Some(version), _) => version.clone(),
        (None, Sdk::Native) => env!("CARGO_PKG_VERSION").to_owned(),
        (None, _) => "-".to_owned(),
    },
    "TEAM" => |line| line.of_team(|team| Some(team.name.clone())),
    "MODEL" => |line| line.of_team(|team| team.model.clone()),
    "KEY" => |line| line.of_team(|team| {
        let profile = team.profile.as_deref().unwrap_or_default();
        Some(match team.login? {
            KeyState::Present => format!("of profile {profile}"),
            KeyState::Missing => format!("missing in profile {profile}"),
            KeyState::Unneeded => "not needed".to_owned(),
        })
    }),
    "REMARK" => |line| {
        let of_team = line.team.as_ref().and_then(|team| team.problem.clone());
        let Line { engine: EngineStatus { problem, binary, .. }, .. } = line;
        of_team.or_else(|| problem.clone()).or_else(|| binary.clone()).unwrap_or_default()
    },
});

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-82, EN-98
    #[test]
    fn each_team_is_listed_with_its_engine_and_its_key() {
        let engines: Vec<EngineStatus> = serde_json::from_value(json!([
            {"sdk": "claude", "binary": "/bin/claude", "version": "2.1.325", "teams": [
                {"name": "main", "profile": "default", "model": "large", "login": "present"},
                {"name": "scouts", "profile": "other", "model": "small", "login": "missing"},
                {"name": "lost", "problem": "unknown profile `x`"},
            ]},
            {"sdk": "pi", "problem": "pi CLI not found", "teams": []},
        ]))
        .unwrap();

        let expected = "\
ENGINE  VERSION  TEAM    MODEL  KEY                       REMARK
claude  2.1.325  main    large  of profile default        /bin/claude
claude  2.1.325  scouts  small  missing in profile other  /bin/claude
claude  2.1.325  lost    -      -                         unknown profile `x`
pi      -        -       -      -                         pi CLI not found
";
        assert_eq!(table::rows(&lines(engines)), expected);
    }
}
