//! `/api/v1/config` and `/api/v1/teams/{name}/config`: the settings files.

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc};

use actix_web::web;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    arguments::{Admin, Caller, Json, Read},
    error::{ApiError, Fault},
    operation::Operation,
    reply::{Clean, Data},
    routes::{Resource, at},
};
use crate::{
    api::endpoint::Empty,
    logging::Secrets,
    scrub::REDACTED,
    settings::{
        effective,
        home::Home,
        load::{self, File},
        problem::{Problem, Problems},
        references::Environment,
        replace::{self, replace},
    },
    system::sha256,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/config").get(
            Operation::new("Shows each setting with its value and where that comes from.")
                .description("References stay references."),
            show,
        ),
        at("/api/v1/config/validate").post(
            Operation::new("Tries out a settings file, and writes nothing.")
                .description("References are checked for their form, and not followed.")
                .secret()
                .example(r#"{"file": "config", "content": "server:\n  port: 8080\n"}"#),
            validate,
        ),
        at("/api/v1/config/reload").post(
            Operation::new("Reads the settings files again.")
                .description("If one of them is wrong, all stays as it was.")
                .refuses(&[422]),
            reload,
        ),
        at("/api/v1/teams/{name}/config")
            .get(Operation::new("Shows the file of a team."), show_team)
            .put(
                Operation::new("Replaces the file of a team, if the new one is valid.")
                    .refuses(&[422])
                    .example(r#"{"content": "description: Invoices\n"}"#),
                put_team,
            ),
    ]
}

/// Reads the files again that count while the service runs, and tells what is wrong with them.
pub type Reload =
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), Problems>> + Send>> + Send + Sync;

/// Where the settings files are, and what they refer to.
pub struct Files {
    /// The folders.
    pub home: Home,
    /// What references stand for.
    pub environment: Environment,
    /// Reads them again.
    pub reload: Arc<Reload>,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self {
            file: problem.file,
            path: problem.path,
            line: problem.line,
            column: problem.column,
            message: problem.reason,
        }
    }
}

fn faults(problems: Problems) -> Vec<Fault> {
    problems.0.into_iter().map(Fault::from).collect()
}

/// Runs something that looks at files away from the async threads.
async fn looking<T: Send + 'static>(
    state: &web::Data<State>,
    look: impl FnOnce(&Files) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let state = state.clone();
    let looked = tokio::task::spawn_blocking(move || look(&state.files));
    looked.await.map_err(ApiError::internal)
}

/// The settings that count.
#[derive(Serialize, JsonSchema)]
struct Settings {
    fields: Vec<effective::Field>,
    problems: Vec<Fault>,
    warnings: Vec<Fault>,
}

/// What came of trying out a file.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SettingsTried")]
struct Tried {
    valid: bool,
    problems: Vec<Fault>,
}

/// What was read again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SettingsReloaded")]
struct Reloaded {
    reloaded: Vec<&'static str>,
    problems: Vec<Fault>,
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
) -> Result<Clean<Data<Settings>>, ApiError> {
    caller.all_teams()?;
    let (fields, report) = looking(&state, |files| {
        let report = load::check(&files.home, &files.environment);
        (effective::fields(&files.home, &files.environment), report)
    })
    .await?;
    let settings = Settings {
        fields,
        problems: faults(report.problems),
        warnings: report.warnings.into_iter().map(Fault::from).collect(),
    };
    Ok(Clean::new(&state.secrets, Data(settings)))
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SettingsDraft")]
struct Draft {
    /// `config`, `providers`, `channels` or `team:<name>`.
    file: String,
    content: String,
}

fn file(name: &str) -> Result<File, ApiError> {
    match name {
        "config" => Ok(File::Config),
        "providers" => Ok(File::Providers),
        "channels" => Ok(File::Channels),
        _ => match name.strip_prefix("team:") {
            Some(team) if !team.is_empty() => Ok(File::Team(team.to_owned())),
            _ => Err(ApiError::invalid_field(
                "file",
                "expected `config`, `providers`, `channels` or `team:<name>`",
            )),
        },
    }
}

async fn validate(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(draft): Json<Draft>,
) -> Result<Clean<Data<Tried>>, ApiError> {
    caller.all_teams()?;
    let file = file(&draft.file)?;
    let found = looking(&state, move |files| load::validate(&files.home, &file, &draft.content));
    let problems = found.await?.err().unwrap_or_default();
    let tried = Tried { valid: problems.0.is_empty(), problems: faults(problems) };
    Ok(Clean::new(&state.secrets, Data(tried)))
}

/// Team files, providers and limits are read again by themselves; this also reads the channels.
async fn reload(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(Empty {}): Json<Empty>,
) -> Result<Data<Reloaded>, ApiError> {
    caller.all_teams()?;
    let outcome = (state.files.reload)().await;
    outcome.map_err(|problems| refused(&state.secrets, problems))?;
    Ok(Data(Reloaded { reloaded: vec!["config", "providers", "channels"], problems: Vec::new() }))
}

/// All that is wrong, in words and by place. What is wrong may be quoted, so it is cleaned.
fn refused(secrets: &Secrets, problems: Problems) -> ApiError {
    let message = secrets.scrub_known(&problems.to_string());
    let mut faults = faults(problems);
    for fault in &mut faults {
        fault.path = secrets.scrub_known(&fault.path);
        fault.message = secrets.scrub_known(&fault.message);
    }
    ApiError::config_invalid(message, faults)
}

/// The file of a team as answers show it.
#[derive(Serialize, JsonSchema)]
struct TeamConfig {
    team: String,
    content: String,
    /// Names this text.
    revision: String,
    /// Values in it are not shown: marks stand in their place, and it cannot be written back so.
    scrubbed: bool,
    problems: Vec<Fault>,
}

fn read_team(files: &Files, secrets: &Secrets, team: &str) -> std::io::Result<TeamConfig> {
    let content = replace::text(&files.home.team_file(team))?;
    let file = File::Team(team.to_owned());
    let found = load::validate(&files.home, &file, &content);
    Ok(TeamConfig {
        revision: sha256(content.as_bytes()).chars().take(16).collect(),
        team: team.to_owned(),
        scrubbed: secrets.scrub_known(&content) != content,
        content,
        problems: faults(found.err().unwrap_or_default()),
    })
}

pub(super) fn known(state: &State, team: &str) -> Result<String, ApiError> {
    match state.service.team(team) {
        Some(key) => Ok(key.name.to_string()),
        None => Err(ApiError::not_found(format!("there is no team `{team}`"))),
    }
}

async fn show_team(
    state: web::Data<State>,
    caller: Caller<Read>,
    name: web::Path<String>,
) -> Result<Clean<Data<TeamConfig>>, ApiError> {
    caller.team(&name)?;
    let team = known(&state, &name)?;
    let secrets = state.secrets.clone();
    let found = looking(&state, move |files| read_team(files, &secrets, &team)).await?;
    let found = found.map_err(ApiError::internal)?;
    Ok(Clean::new(&state.secrets, Data(found)))
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TeamConfigText")]
struct Text {
    /// The whole file, in YAML.
    content: String,
}

async fn put_team(
    state: web::Data<State>,
    caller: Caller<Admin>,
    name: web::Path<String>,
    Json(Text { content }): Json<Text>,
) -> Result<Clean<Data<TeamConfig>>, ApiError> {
    caller.team(&name)?;
    let team = known(&state, &name)?;
    let secrets = state.secrets.clone();
    let of_some_teams = caller.principal.teams().is_some();
    let written = looking(&state, move |files| {
        let file = File::Team(team.clone());
        let (path, beside) = (files.home.team_file(&team), files.home.teams());
        let before = replace::text(&path).unwrap_or_default();
        if let Some(mark) = mark_of_unseen(&secrets, &before, &content) {
            let reason = format!(
                "`{mark}` stands for a value that is not shown, and would replace it; put the value into \
                 the vault and a reference here, or edit the file on the machine"
            );
            return Err(ApiError::unfit("content", reason));
        }
        load::validate(&files.home, &file, &content)
            .map_err(|problems| refused(&secrets, problems))?;
        if of_some_teams && load::gains_folders(&files.home, &team, &before, &content) {
            return Err(ApiError::other_team().about("content"));
        }
        replace(&path, &beside, &content).map_err(ApiError::internal)?;
        read_team(files, &secrets, &team).map_err(ApiError::internal)
    })
    .await??;
    let path = state.files.home.team_file(&name);
    let kept = state.taint.operator_wrote(path).await;
    kept.map_err(ApiError::internal)?;
    Ok(Clean::new(&state.secrets, Data(written)))
}

/// A mark that a shown text has in place of a value of the file, and that would be written instead.
fn mark_of_unseen(secrets: &Secrets, before: &str, after: &str) -> Option<String> {
    let shown = secrets.scrub_known(before);
    let count = |text: &str, mark: &str| text.matches(mark).count();
    let stands = |mark: &&str| {
        let in_file = count(before, mark);
        count(&shown, mark) > in_file && count(after, mark) > in_file
    };
    let marks = marks(&shown).into_iter().chain([REDACTED]);
    let mark = marks.collect::<BTreeSet<_>>().into_iter().find(stands)?;
    Some(mark.to_owned())
}

/// All that may stand for a value of the vault.
fn marks(text: &str) -> Vec<&str> {
    let starts = text.match_indices("${vault:").map(|(start, _)| start);
    let mark = |start: usize| {
        let end = text[start..].find('}')?;
        Some(&text[start..=start + end])
    };
    starts.filter_map(mark).collect()
}
