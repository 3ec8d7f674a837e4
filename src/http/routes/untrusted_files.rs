//! `/api/v1/teams/{name}/untrusted-files`: what untrusted turns wrote, and accepting it.

use std::path::{Path, PathBuf};

use hivewright_actors::blocking;

use super::teams::known_team;
use crate::{
    api::{endpoint::*, reply::*, untrusted_files::*},
    http::{
        kit::{audit_log, call::*, error::*, listing},
        state::State,
    },
    taint::TaintError,
};

fn path_from(folder: &Path, path: &str) -> String {
    let path = Path::new(path);
    let inside = path.strip_prefix(folder).unwrap_or(path);
    if inside.as_os_str().is_empty() { ".".to_owned() } else { inside.display().to_string() }
}

/// The real folder of a team that the caller may act on.
async fn folder(state: &State, caller: &Caller, name: &str) -> ApiResult<PathBuf> {
    let team = known_team(state, caller, name)?;
    let folder = state.files.home.team(team.name.as_str());
    Ok(blocking::run(move || folder.canonicalize().unwrap_or(folder)).await?)
}

pub(super) async fn list(
    Call { state, caller, path: ByName { name }, page, .. }: Call<ByName>,
) -> ApiResult<Rows<UntrustedFileRow>> {
    let folder = folder(&state, &caller, &name).await?;
    let labels = state.taint.list(&name.as_str().into());
    let rows =
        labels.iter().map(|label| UntrustedFileRow::from((label, path_from(&folder, &label.path))));
    listing::page(rows, &page, |row| row.id.clone())
}

pub(super) async fn accept(
    Call { state, caller, path: ByName { name }, body, request, .. }: Call<
        ByName,
        Empty,
        AcceptFiles,
    >,
) -> ApiResult<Data<AcceptedFiles>> {
    let folder = folder(&state, &caller, &name).await?;
    let team = name.as_str().into();
    let from = audit_log::origin(&state, &request);
    let accepted = state.taint.accept(&team, &body.ids, &caller.principal.id, &from).await;
    let accepted = accepted.map_err(|error| match error {
        TaintError::Unknown(_) => ApiError::conflict(error.to_string()),
        error => ApiError::internal(error),
    })?;
    let accepted = accepted.iter().map(|label| path_from(&folder, &label.path)).collect();
    Ok(Data(AcceptedFiles { accepted }))
}
