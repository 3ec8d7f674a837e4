//! `/api/v1/config` and `/api/v1/teams/{name}/config`: the settings files.

use std::{collections::BTreeSet, path::Path};

use actix_web::web;

use hivewright_actors::{
    blocking,
    live::event::{Event, Kind},
};
use serde_json::json;

use super::teams::known_team;
use crate::{
    api::{config::*, endpoint::*, reply::*, scope::Scope},
    http::{
        kit::{call::*, error::*},
        ports::Files,
        state::State,
    },
    logging::Secrets,
    removal::if_there,
    scrub::REDACTED,
    settings::{
        effective,
        home::create_private,
        load::{self, File, ServiceFile},
        problem::Problems,
        replace::{self, replace},
    },
    system::sha256,
};

/// Runs something that looks at files away from the async threads.
pub(super) async fn looking<T: Send + 'static>(
    state: &web::Data<State>,
    look: impl FnOnce(&Files) -> T + Send + 'static,
) -> ApiResult<T> {
    let state = state.clone();
    Ok(blocking::run(move || look(&state.files)).await?)
}

/// The same for a change that is made from what a file says: one at a time.
pub(super) async fn editing<T: Send + 'static>(
    state: &web::Data<State>,
    change: impl FnOnce(&Files) -> T + Send + 'static,
) -> ApiResult<T> {
    looking(state, move |files| replace::edit(|| change(files))).await
}

pub(super) async fn show(Call { state, caller, .. }: Call) -> ApiResult<Data<Settings>> {
    caller.all_teams()?;
    let settings = looking(&state, |files| {
        let report = load::check(&files.home, &files.environment);
        Settings {
            fields: effective::fields(&files.home, &files.environment),
            problems: report.problems.0,
            warnings: report.warnings,
        }
    });
    settings.await.map(Data)
}

fn file(name: &str) -> ApiResult<File> {
    if let Ok(file) = name.parse() {
        return Ok(File::Service(file));
    }
    match name.strip_prefix("team:") {
        Some(team) if !team.is_empty() => Ok(File::Team(team.to_owned())),
        _ => Err(ApiError::invalid_field(
            "file",
            "expected `config`, `providers`, `channels` or `team:<name>`",
        )),
    }
}

pub(super) async fn validate(
    Call { state, caller, body: draft, .. }: Call<Empty, Empty, SettingsDraft>,
) -> ApiResult<Data<SettingsTried>> {
    caller.all_teams()?;
    let file = file(&draft.file)?;
    let found = looking(&state, move |files| load::validate(&files.home, &file, &draft.content));
    let problems = found.await?.err().unwrap_or_default();
    Ok(Data(SettingsTried { valid: problems.0.is_empty(), problems: problems.0 }))
}

/// Team files, providers and limits are read again by themselves; this also reads the channels.
pub(super) async fn reload(Call { state, caller, .. }: Call) -> ApiResult<Data<SettingsReloaded>> {
    caller.all_teams()?;
    let outcome = (state.files.reload)().await;
    outcome.map_err(|problems| refused(&state.secrets, problems))?;
    let reloaded = ["config", "providers", "channels"].map(str::to_owned).to_vec();
    Ok(Data(SettingsReloaded { reloaded, problems: Vec::new() }))
}

/// All that is wrong, in words and by place. What is wrong may be quoted, so it is cleaned.
pub(super) fn refused(secrets: &Secrets, problems: Problems) -> ApiError {
    let message = secrets.scrub_known(&problems.to_string());
    let mut faults = problems.0;
    for fault in &mut faults {
        fault.path = secrets.scrub_known(&fault.path);
        fault.reason = secrets.scrub_known(&fault.reason);
    }
    ApiError::config_invalid(message, faults)
}

/// A file for whoever edits it, and what is wrong with it.
pub(super) fn editable(secrets: &Secrets, content: String, found: Problems) -> EditableFile {
    EditableFile {
        revision: revision(&content),
        scrubbed: secrets.scrub_known(&content) != content,
        content,
        problems: found.0,
    }
}

fn read_service_file(
    files: &Files,
    secrets: &Secrets,
    file: ServiceFile,
) -> std::io::Result<EditableFile> {
    let content = present(&file.path(&files.home))?;
    let found = load::validate(&files.home, &File::Service(file), &content);
    Ok(editable(secrets, content, found.err().unwrap_or_default()))
}

fn service_file(path: &ByFile) -> ApiResult<ServiceFile> {
    let missing = "there is no such settings file: it is `config`, `providers` or `channels`";
    path.file.parse().map_err(|_| ApiError::not_found(missing))
}

/// The text of a file; one that is not there is empty.
fn present(path: &Path) -> std::io::Result<String> {
    if_there(replace::text(path)).map(Option::unwrap_or_default)
}

fn revision(content: &str) -> String {
    sha256(content.as_bytes()).chars().take(16).collect()
}

/// Refuses a text that was made from another one than is there. None stands for a file that is not.
pub(super) fn refuse_stale(before: Option<&str>, edited: Option<&str>) -> ApiResult<()> {
    let now = before.map(revision).unwrap_or_default();
    match edited {
        Some(edited) if edited != now => Err(ApiError::conflict(
            "the file is another than the one that was edited; open it again, and change that one",
        )),
        _ => Ok(()),
    }
}

pub(super) async fn show_service_file(
    Call { state, caller, path, .. }: Call<ByFile>,
) -> ApiResult<Data<EditableFile>> {
    caller.all_teams()?;
    let file = service_file(&path)?;
    let secrets = state.secrets.clone();
    Ok(Data(looking(&state, move |files| read_service_file(files, &secrets, file)).await??))
}

/// Whoever says where a model is says where its key goes, so that this needs every right; and what the
/// machine has beside the vault is referred to only by whoever sits at it.
pub(super) async fn put_service_file(
    Call { state, caller, path, body, .. }: Call<ByFile, Empty, FileContent>,
) -> ApiResult<Data<EditableFile>> {
    caller.everything()?;
    let file = service_file(&path)?;
    let secrets = state.secrets.clone();
    let written = editing(&state, move |files| -> ApiResult<()> {
        let FileContent { content, revision } = body;
        let path = file.path(&files.home);
        let before = present(&path)?;
        refuse_stale(Some(&before), revision.as_deref())?;
        refuse_unseen(&secrets, &before, &content)?;
        if let Some(reference) = references(&content).difference(&references(&before)).next() {
            let reason = format!(
                "`{reference}` refers to the machine; write it into the file there, or put the value into \
                 the vault and `${{vault:KEY}}` here"
            );
            return Err(ApiError::unfit("content", reason));
        }
        load::validate(&files.home, &File::Service(file), &content)
            .map_err(|problems| refused(&secrets, problems))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        create_private(folder).map_err(|error| ApiError::internal(error.to_string()))?;
        Ok(replace(&path, folder, &content)?)
    });
    written.await??;
    // What a reference leads to is found wrong only now; the file is shown with it.
    let problems = (state.files.reload)().await.err().unwrap_or_default();
    let secrets = state.secrets.clone();
    let mut shown =
        looking(&state, move |files| read_service_file(files, &secrets, file)).await??;
    shown.problems.extend(problems.0);
    Ok(Data(shown))
}

/// All references to variables and files of the machine.
fn references(text: &str) -> BTreeSet<&str> {
    let starts = ["${env:", "${file:"].into_iter().flat_map(|start| text.match_indices(start));
    let found = starts.map(|(at, _)| {
        let rest = &text[at..];
        rest.find('}').map_or(rest, |end| &rest[..=end])
    });
    found.collect()
}

fn read_team(files: &Files, secrets: &Secrets, team: &str) -> std::io::Result<TeamConfig> {
    let content = replace::text(&files.home.team_file(team))?;
    let file = File::Team(team.to_owned());
    let found = load::validate(&files.home, &file, &content);
    let file = editable(secrets, content, found.err().unwrap_or_default());
    Ok(TeamConfig { team: team.to_owned(), file })
}

pub(super) async fn show_team(
    Call { state, caller, path: ByName { name }, .. }: Call<ByName>,
) -> ApiResult<Data<TeamConfig>> {
    let team = known_team(&state, &caller, &name)?.name.to_string();
    let secrets = state.secrets.clone();
    let found = looking(&state, move |files| read_team(files, &secrets, &team)).await??;
    Ok(Data(found))
}

pub(super) async fn put_team(
    Call { state, caller, path, body, .. }: Call<ByName, Empty, FileContent>,
) -> ApiResult<Data<TeamConfig>> {
    let FileContent { content, revision } = body;
    let team = known_team(&state, &caller, &path.name)?.name.to_string();
    let secrets = state.secrets.clone();
    let of_some_teams = caller.principal.teams.is_some();
    let may_move_secrets = caller.principal.may(Scope::Secrets);
    let written = editing(&state, move |files| {
        let file = File::Team(team.clone());
        let (path, beside) = (files.home.team_file(&team), files.home.teams());
        let before = replace::text(&path).unwrap_or_default();
        refuse_stale(Some(&before), revision.as_deref())?;
        refuse_unseen(&secrets, &before, &content)?;
        load::validate(&files.home, &file, &content)
            .map_err(|problems| refused(&secrets, problems))?;
        if of_some_teams && load::gains_of_machine(&files.home, &team, &before, &content) {
            return Err(ApiError::other_team().about("content"));
        }
        // Whoever says where a server is says where its key goes.
        if !may_move_secrets && load::moves_secrets(&files.home, &team, &before, &content) {
            return Err(ApiError::forbidden(Scope::Secrets).about("content"));
        }
        replace(&path, &beside, &content)?;
        Ok(read_team(files, &secrets, &team)?)
    });
    let written = written.await??;
    let file = state.files.home.team_file(&path.name);
    state.taint.operator_wrote(file).await.map_err(ApiError::internal)?;
    tell_changed(&state, &path.name, "config.yaml");
    Ok(Data(written))
}

/// Tells whoever watches that a file of a team is another one, which counts from its next turn on.
pub(super) fn tell_changed(state: &State, team: &str, file: &str) {
    let event = Event::new(Kind::ConfigReloaded, json!({ "file": file }));
    state.spine.live.publish(event.of_team(&team.into()));
}

/// Refuses a text in which a mark stands for a value that was not shown.
pub(super) fn refuse_unseen(secrets: &Secrets, before: &str, content: &str) -> ApiResult<()> {
    let Some(mark) = mark_of_unseen(secrets, before, content) else {
        return Ok(());
    };
    let reason = format!(
        "`{mark}` stands for a value that is not shown, and would replace it; put the value into \
         the vault and a reference here, or edit the file on the machine"
    );
    Err(ApiError::unfit("content", reason))
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
