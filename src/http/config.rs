//! `/api/v1/config` and `/api/v1/teams/{name}/config`: the settings files.

use std::{future::Future, pin::Pin, sync::Arc};

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{audit::Audit, store::records::Writes};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    State,
    auth::{principal::Principal, scope::Scope},
    error::ApiError,
    json::{self, Body},
    routes::{self, Methods},
    teams::parts,
};
use crate::{
    machine::sha256,
    settings::{
        effective,
        home::Home,
        load::{self, File},
        problem::{Problem, Problems},
        references::Environment,
        replace::{self, replace},
    },
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/config", Methods::new().get(show))
}

pub(super) fn validation() -> Resource {
    routes::resource("/api/v1/config/validate", Methods::new().post(validate))
}

pub(super) fn reloading() -> Resource {
    routes::resource("/api/v1/config/reload", Methods::new().post(reload))
}

pub(super) fn of_team() -> Resource {
    routes::resource(
        "/api/v1/teams/{name}/config",
        Methods::new().get(show_team).put(put_team),
    )
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

/// Something that is wrong, as answers show it.
#[derive(Serialize)]
struct Fault {
    file: String,
    path: String,
    line: usize,
    column: usize,
    message: String,
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

async fn show(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let (fields, report) = looking(&state, |files| {
        let report = load::check(&files.home, &files.environment);
        (effective::fields(&files.home), report)
    })
    .await?;
    let warnings: Vec<Fault> = report.warnings.into_iter().map(Fault::from).collect();
    let data = json!({
        "fields": fields,
        "problems": faults(report.problems),
        "warnings": warnings,
    });
    Ok(json::clean(&state.secrets, &json!({ "data": data })))
}

#[derive(Deserialize)]
struct Draft {
    file: String,
    content: String,
}

impl Body for Draft {
    const FIELDS: &'static [&'static str] = &["file", "content"];
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
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let draft: Draft = json::read(&request, payload).await?;
    let file = file(&draft.file)?;
    let found = looking(&state, move |files| {
        load::validate(&files.home, &files.environment, &file, &draft.content)
    });
    let problems = found.await?.err().unwrap_or_default();
    let data = json!({ "valid": problems.0.is_empty(), "problems": faults(problems) });
    Ok(json::clean(&state.secrets, &json!({ "data": data })))
}

#[derive(Deserialize)]
struct Nothing {}

impl Body for Nothing {
    const FIELDS: &'static [&'static str] = &[];
}

/// Team files, providers and limits are read again by themselves; this also reads the channels.
async fn reload(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let Nothing {} = json::read(&request, payload).await?;
    let outcome = (state.files.reload)().await;
    let said = if outcome.is_ok() { "done" } else { "refused" };
    audited(&state, &principal, "config.reload", "settings", said).await?;
    match outcome {
        Ok(()) => Ok(json::data(
            StatusCode::OK,
            json!({ "reloaded": ["config", "providers", "channels"], "problems": [] }),
        )),
        Err(problems) => Err(refused(&problems)),
    }
}

fn refused(problems: &Problems) -> ApiError {
    ApiError::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "config_invalid",
        problems.to_string(),
    )
}

async fn audited(
    state: &State,
    principal: &Principal,
    action: &str,
    target: &str,
    outcome: &str,
) -> Result<(), ApiError> {
    let ids = &parts(state)?.ids;
    let now = state.access.auth.now();
    let audit = Audit::new(ids, now, principal.id(), action, target, "api", outcome);
    let stored = state.spine.store.commit(Writes::new().audit(&audit)).await;
    stored.map(drop).map_err(ApiError::internal)
}

/// The file of a team as answers show it.
#[derive(Serialize)]
struct TeamConfig {
    team: String,
    content: String,
    /// Names this text.
    revision: String,
    problems: Vec<Fault>,
}

fn read_team(files: &Files, team: &str) -> std::io::Result<TeamConfig> {
    let content = replace::text(&files.home.team_file(team))?;
    let file = File::Team(team.to_owned());
    let found = load::validate(&files.home, &files.environment, &file, &content);
    Ok(TeamConfig {
        revision: sha256(content.as_bytes()).chars().take(16).collect(),
        team: team.to_owned(),
        content,
        problems: faults(found.err().unwrap_or_default()),
    })
}

fn known(state: &State, team: &str) -> Result<String, ApiError> {
    match state.service.team(team) {
        Some(key) => Ok(key.name.to_string()),
        None => Err(ApiError::not_found(format!("there is no team `{team}`"))),
    }
}

async fn show_team(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let team = known(&state, &name)?;
    let found = looking(&state, move |files| read_team(files, &team)).await?;
    let found = found.map_err(ApiError::internal)?;
    Ok(json::clean(&state.secrets, &json!({ "data": found })))
}

#[derive(Deserialize)]
struct Text {
    content: String,
}

impl Body for Text {
    const FIELDS: &'static [&'static str] = &["content"];
}

async fn put_team(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let Text { content } = json::read(&request, payload).await?;
    let team = known(&state, &name)?;
    let target = team.clone();
    let written = looking(&state, move |files| {
        let file = File::Team(team.clone());
        load::validate(&files.home, &files.environment, &file, &content)
            .map_err(|problems| refused(&problems))?;
        let (path, beside) = (files.home.team_file(&team), files.home.teams());
        replace(&path, &beside, &content).map_err(ApiError::internal)?;
        read_team(files, &team).map_err(ApiError::internal)
    })
    .await?;
    let outcome = if written.is_ok() {
        "written"
    } else {
        "refused"
    };
    audited(&state, &principal, "team.config", &target, outcome).await?;
    Ok(json::clean(&state.secrets, &json!({ "data": written? })))
}
