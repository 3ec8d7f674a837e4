//! `/api/v1/changes`: what teams changed about themselves after a person agreed, and the way back.

use super::config::tell_changed;
use crate::{
    api::{changes::*, endpoint::*, reply::*},
    http::kit::{audit_log, call::*, error::*, json, listing},
    teams::self_changes::{Change, ChangeError},
};

fn row(change: Change) -> ChangeRow {
    let (by, back_at) = change.rolled_back.unzip();
    ChangeRow {
        id: change.id,
        team: change.team.name.to_string(),
        file: change.file,
        reason: change.reason,
        before: change.before,
        after: change.after,
        task_id: change.task.to_string(),
        at: json::date(change.at),
        rolled_back_by: by,
        rolled_back_at: back_at.and_then(json::date),
    }
}

impl From<ChangeError> for ApiError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Unknown(_) => Self::not_found(error.to_string()),
            ChangeError::Again
            | ChangeError::MovedOn(_)
            | ChangeError::Unfit(_)
            | ChangeError::File(_) => Self::conflict(error.to_string()),
            error => Self::internal(error),
        }
    }
}

pub(super) async fn list(
    Call { state, caller, query: OfTeam { team }, page, .. }: Call<Empty, OfTeam>,
) -> ApiResult<Rows<ChangeRow>> {
    let (rows, lists) = (state.changes.list().await?, caller.lists(team));
    let rows = rows.into_iter().map(row).filter(|row| lists(&row.team));
    listing::page(rows, &page, |row| row.id.clone())
}

pub(super) async fn roll_back(
    Call { state, caller, path: ById { id }, request, .. }: Call<ById>,
) -> ApiResult<Data<ChangeRow>> {
    if caller.principal.teams.is_some() {
        let changes = state.changes.list().await?;
        let is_own = |change: &Change| change.id == id && caller.reaches(change.team.name.as_str());
        if !changes.iter().any(is_own) {
            return Err(ChangeError::Unknown(id).into());
        }
    }
    let from = audit_log::origin(&state, &request);
    let change = state.changes.roll_back(&id, &caller.principal.id, &from).await?;
    tell_changed(&state, change.team.name.as_str(), &change.file);
    Ok(Data(row(change)))
}
