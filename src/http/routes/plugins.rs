//! `/api/v1/plugins`: the packages of plugins, and putting one there or taking it away.

use std::{sync::Arc, time::Duration};

use actix_web::http::StatusCode;
use hivewright_actors::{
    approvals::{Propose, Withdraw, requests::Proposal},
    blocking,
    ids::{MAIN, TeamKey, TeamName},
    policy::caution::Kind,
    task::cause::Cause,
};
use serde_json::{Value, json};

use crate::{
    api::{endpoint::*, plugins::*, reply::*},
    http::{
        kit::{ask::ask, call::*, error::*, json, listing},
        state::State,
    },
    plugins::{
        capabilities::Capabilities,
        catalogue::{Failed, Loaded},
        depot::{Depot, DepotError, Staged},
        digest::{Extent, MOST_BYTES, list as list_files},
        fault::FaultCode,
        fetch::{self, FetchError},
        lock::{Lock, Locked},
        package::{Origin, Package},
        updates,
    },
    settings::egress::Egress,
};

/// An archive that took this long is given up.
const SLOWEST: Duration = Duration::from_secs(5 * 60);
/// Where skills of a package are.
const SKILLS: &str = "skills/";

impl From<DepotError> for ApiError {
    fn from(error: DepotError) -> Self {
        let message = error.to_string();
        match error {
            DepotError::Fault(fault) => {
                let status = match fault.code {
                    FaultCode::KeyTaken | FaultCode::NamespaceTaken => StatusCode::CONFLICT,
                    _ => StatusCode::UNPROCESSABLE_ENTITY,
                };
                Self::new(status, fault.code.as_str(), message).about(fault.field)
            }
            DepotError::Archive(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "archive_invalid", message)
            }
            DepotError::Unknown(_) => Self::not_found(message),
            DepotError::NotInstalled(_) => Self::conflict_as("not_installed", message),
            DepotError::Waits(_) => Self::conflict_as("update_pending", message),
            DepotError::OtherDigest(_) => Self::conflict_as("digest_mismatch", message),
            DepotError::Folder(_) => Self::internal(message),
        }
    }
}

impl From<FetchError> for ApiError {
    fn from(error: FetchError) -> Self {
        let message = error.to_string();
        match error {
            FetchError::Url => Self::invalid_field("url", message),
            FetchError::Sum => Self::invalid_field("sha256", message),
            FetchError::OtherSum(_) => Self::unfit("sha256", message),
            _ => Self::unfit("url", message),
        }
    }
}

fn row(package: &Package, locked: Option<&Locked>) -> PluginRow {
    let manifest = &package.manifest;
    let capabilities = Capabilities::of(package);
    let source = match (package.origin, &package.files.folder()) {
        (Origin::Shipped, _) => "the release".to_owned(),
        (Origin::Development, Some(folder)) => folder.display().to_string(),
        _ => locked.map(|locked| locked.source.clone()).unwrap_or_default(),
    };
    PluginRow {
        display_name: manifest.display_name.clone(),
        description: manifest.description.clone(),
        version: manifest.version.to_string(),
        kind: Some(manifest.run.kind),
        source,
        digest: package.digest.clone(),
        signed_by: package.signer.clone(),
        asks: capabilities.lines(),
        capabilities: Some(capabilities),
        ..blank(manifest.key.as_str(), package.origin, PluginState::Loaded, None)
    }
}

fn blank(key: &str, origin: Origin, state: PluginState, locked: Option<&Locked>) -> PluginRow {
    PluginRow {
        key: key.to_owned(),
        display_name: key.to_owned(),
        description: String::new(),
        version: locked.map(|locked| locked.version.clone()).unwrap_or_default(),
        origin,
        kind: None,
        state,
        fault: None,
        source: locked.map(|locked| locked.source.clone()).unwrap_or_default(),
        digest: String::new(),
        signed_by: None,
        asks: Vec::new(),
        capabilities: None,
        teams: Vec::new(),
        update: None,
        config_schema: None,
    }
}

/// One that is not loaded; what can be read of it is told all the same.
fn failed_row(failed: &Failed, lock: &Lock) -> PluginRow {
    let is_installed = failed.origin == Origin::Installed;
    let locked = lock.plugins.get(&failed.name).filter(|_| is_installed);
    let read = Package::load(failed.files.clone(), failed.origin).ok();
    let row = match &read {
        Some(package) => row(package, locked),
        None => blank(&failed.name, failed.origin, PluginState::Failed, locked),
    };
    PluginRow { state: PluginState::Failed, fault: Some(failed.fault.clone()), ..row }
}

/// All plugins, by key. It blocks.
fn rows(loaded: &Loaded, lock: &Lock) -> Vec<PluginRow> {
    let mut rows: Vec<_> = loaded
        .packages
        .values()
        .filter(|package| package.fault.is_none())
        .map(|package| row(package, lock.plugins.get(package.manifest.key.as_str())))
        .chain(loaded.failed.iter().map(|failed| failed_row(failed, lock)))
        .collect();
    let is_known =
        |key: &str| rows.iter().any(|row| row.key == key && row.origin == Origin::Installed);
    let missing: Vec<_> = lock
        .plugins
        .iter()
        .filter(|(key, _)| !is_known(key))
        .map(|(key, locked)| {
            let row = blank(key, Origin::Installed, PluginState::Missing, Some(locked));
            let capabilities = Some(locked.capabilities.clone());
            PluginRow { capabilities, asks: locked.capabilities.lines(), ..row }
        })
        .collect();
    rows.extend(missing);
    for row in rows.iter_mut().filter(|row| row.origin == Origin::Installed) {
        row.update = lock.held.get(&row.key).map(PluginUpdate::from);
    }
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    rows
}

async fn all(state: &Arc<State>, caller: &Caller) -> ApiResult<Vec<PluginRow>> {
    let depot = state.depot.clone();
    let rows = blocking::run(move || {
        let lock = depot.lock()?;
        Ok::<_, DepotError>(rows(&depot.catalogue().now(), &lock))
    });
    let mut rows = rows.await??;
    for row in &mut rows {
        row.teams = state.plugins.teams_with(&row.key);
        row.teams.retain(|team| caller.reaches(team.as_str()));
    }
    Ok(rows)
}

async fn one(state: &Arc<State>, caller: &Caller, key: &str) -> ApiResult<PluginRow> {
    let rows = all(state, caller).await?;
    // Of two of one key, the one that is loaded is meant.
    let mut found: Vec<_> = rows.into_iter().filter(|row| row.key == key).collect();
    found.sort_by_key(|row| row.state != PluginState::Loaded);
    let row = found.into_iter().next();
    let row = row.ok_or_else(|| ApiError::not_found(format!("there is no plugin `{key}`")))?;
    let package = state.depot.catalogue().get(key).filter(|_| row.state == PluginState::Loaded);
    Ok(PluginRow { config_schema: package.map(|package| package.schema.json().clone()), ..row })
}

pub(super) async fn list(
    Call { state, caller, query: PluginFilter { channel }, page, .. }: Call<Empty, PluginFilter>,
) -> ApiResult<Rows<PluginRow>> {
    let has_channel = |row: &PluginRow| {
        row.capabilities.as_ref().is_some_and(|capabilities| capabilities.channel.is_some())
    };
    let rows = all(&state, &caller).await?;
    let rows =
        rows.into_iter().filter(|row| channel.is_none_or(|wanted| has_channel(row) == wanted));
    listing::page(rows, &page, |row| format!("{}/{}", row.key, row.source))
}

pub(super) async fn show(
    Call { state, caller, path: ByKey { key }, .. }: Call<ByKey>,
) -> ApiResult<Data<PluginRow>> {
    one(&state, &caller, &key).await.map(Data)
}

/// The archive of a request: its body, or what is where it says.
async fn archive(
    state: &State,
    query: &PluginArchive,
    payload: Option<actix_web::web::Payload>,
) -> ApiResult<Vec<u8>> {
    match (&query.url, &query.sha256) {
        (Some(url), Some(sha256)) => {
            return Ok(fetch::fetch(&state.egress, &Egress::default(), url, sha256).await?);
        }
        (None, None) => {}
        (Some(_), None) => {
            return Err(ApiError::invalid_field(
                "sha256",
                "an address needs the SHA-256 of what is there",
            ));
        }
        (None, Some(_)) => {
            return Err(ApiError::invalid_field("url", "a SHA-256 needs an address"));
        }
    }
    let payload = payload.ok_or_else(|| ApiError::internal("no body"))?;
    json::bytes(payload, MOST_BYTES as usize, SLOWEST).await
}

async fn stage(depot: &Depot, archive: Vec<u8>) -> ApiResult<Staged> {
    let depot = depot.clone();
    Ok(blocking::run(move || depot.stage(&archive)).await??)
}

fn preview(depot: &Depot, staged: &Staged) -> Result<PluginPreview, DepotError> {
    let package = staged.package();
    let manifest = &package.manifest;
    let capabilities = Capabilities::of(package);
    let files = list_files(&package.files, Extent::Whole)?;
    let skills = files.iter().filter(|file| file.path.starts_with(SKILLS));
    let lock = depot.lock()?;
    let locked = lock.plugins.get(manifest.key.as_str());
    Ok(PluginPreview {
        key: manifest.key.to_string(),
        display_name: manifest.display_name.clone(),
        description: manifest.description.clone(),
        version: manifest.version.to_string(),
        digest: package.digest.clone(),
        signed_by: package.signer.clone(),
        asks: capabilities.lines(),
        installed: locked.map(|locked| locked.version.clone()),
        beyond: depot.beyond(staged)?.unwrap_or_default(),
        skills: skills.map(|file| file.path.clone()).collect(),
        capabilities,
    })
}

pub(super) async fn check(
    Call { state, caller, query, payload, .. }: Call<Empty, PluginArchive>,
) -> ApiResult<Data<PluginPreview>> {
    caller.all_teams()?;
    let archive = archive(&state, &query, payload).await?;
    let staged = stage(&state.depot, archive).await?;
    let depot = state.depot.clone();
    // What was unpacked is removed where it may block.
    let preview = blocking::run(move || preview(&depot, &staged));
    Ok(Data(preview.await??))
}

pub(super) async fn install(
    Call { state, caller, query, payload, .. }: Call<Empty, PluginArchive>,
) -> ApiResult<Requested<PluginRow>> {
    caller.all_teams()?;
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    let archive = archive(&state, &query, payload).await?;
    let staged = stage(&state.depot, archive).await?;
    let key = staged.package().manifest.key.clone();
    let depot = state.depot.clone();
    // What stands behind a path may be a credential.
    let bare = |url: String| url.split(['?', '#']).next().unwrap_or_default().to_owned();
    let source = query.url.map(bare).or(query.source);
    let source = source.unwrap_or_else(|| "an archive".to_owned());
    let agreed = query.digest;
    let held = blocking::run(move || {
        let digest = &staged.package().digest;
        match &agreed {
            Some(agreed) if agreed != digest => {
                return Err(DepotError::OtherDigest(digest.clone()));
            }
            Some(_) => {}
            None => {
                let beyond = depot.beyond(&staged)?.unwrap_or_default();
                if !beyond.is_empty() {
                    let package = staged.package();
                    let asked = json!({
                        "plugin": package.manifest.key, "version": package.manifest.version,
                        "digest": digest, "source": source,
                    });
                    depot.hold(staged, &source)?;
                    return Ok(Some((asked, beyond)));
                }
            }
        }
        depot.install(staged, &source).map(|_| None)
    });
    let held = held.await??;
    caller.names(key.as_str());
    let is_made = held.is_none();
    match held {
        None => {
            withdraw(&state, key.as_str()).await?;
            tracing::info!(plugin = %key, "a plugin was installed");
        }
        Some((asked, beyond)) => propose(&state, &caller, key.as_str(), asked, &beyond).await?,
    }
    Ok(Requested { data: one(&state, &caller, key.as_str()).await?, is_made })
}

/// Asks a person about a version that is held.
async fn propose(
    state: &State,
    caller: &Caller,
    key: &str,
    asked: Value,
    beyond: &[String],
) -> ApiResult<()> {
    let main = TeamName::from(MAIN);
    let team = state.service.team(main.as_str()).unwrap_or_else(|| TeamKey::first(main));
    let version = asked["version"].as_str().unwrap_or_default();
    let lines = beyond.iter().map(|line| format!("+ {line}\n"));
    let proposal = Proposal {
        kind: Kind::Plugin,
        team,
        requester: Cause::Operator { name: caller.principal.id.to_string() },
        summary: format!(
            "Plugin `{key}` becomes {version}, which asks for more than was agreed to"
        ),
        diff: Some(lines.collect()),
        arguments: asked,
    };
    let proposed = ask(&state.spine.approvals, Propose(proposal)).await;
    let (depot, key) = (state.depot.clone(), key.to_owned());
    match proposed {
        Ok(Ok(approval)) => {
            blocking::run(move || depot.asked(&key, &approval.id)).await??;
            // Somebody may have decided by now.
            updates::settle(&state.depot, &state.spine.store).await;
            Ok(())
        }
        failed => {
            blocking::run(move || depot.dismiss(&key)).await??;
            Ok(failed?.map(drop)?)
        }
    }
}

/// Nobody need decide on another version of a plugin that was installed or taken away.
async fn withdraw(state: &State, key: &str) -> ApiResult<()> {
    let (depot, key) = (state.depot.clone(), key.to_owned());
    if let Some(approval) = blocking::run(move || depot.dismiss(&key)).await?? {
        state.spine.approvals.do_send(Withdraw { approval });
    }
    Ok(())
}

pub(super) async fn approve(
    Call { state, caller, path: ByKey { key }, body, .. }: Call<ByKey, Empty, PluginApproval>,
) -> ApiResult<Data<PluginRow>> {
    caller.all_teams()?;
    let (depot, wanted) = (state.depot.clone(), key.clone());
    let approved = blocking::run(move || depot.approve(&wanted, Some(&body.digest)).map(drop));
    approved.await??;
    one(&state, &caller, &key).await.map(Data)
}

pub(super) async fn uninstall(
    Call { state, caller, path: ByKey { key }, query, .. }: Call<ByKey, PluginRemoval>,
) -> ApiResult<Done> {
    caller.all_teams()?;
    let (depot, wanted) = (state.depot.clone(), key.clone());
    blocking::run(move || depot.uninstall(&wanted).map(drop)).await??;
    withdraw(&state, &key).await?;
    if query.purge {
        state.plugins.purge(&key).await.map_err(DepotError::from)?;
    }
    tracing::info!(plugin = key, purge = query.purge, "a plugin was uninstalled");
    Ok(Done)
}
