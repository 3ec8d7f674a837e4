//! `/api/v1/changes`: what teams changed about themselves after a person agreed, and the way back.

use super::{
    call::Call,
    error::ApiError,
    json, listing,
    routes::{Resource, on},
};
use crate::{
    api::{
        changes::{ChangeFilter, ChangeRow, LIST_CHANGES, ROLL_BACK_CHANGE},
        endpoint::{ById, Empty},
        reply::{Data, Rows},
    },
    teams::self_changes::{Change, ChangeError},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&LIST_CHANGES, list), on(&ROLL_BACK_CHANGE, roll_back)]
}

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

fn refused(error: ChangeError) -> ApiError {
    match error {
        ChangeError::Unknown(_) => ApiError::not_found(error.to_string()),
        ChangeError::Again | ChangeError::MovedOn(_) | ChangeError::File(_) => {
            ApiError::conflict(error.to_string())
        }
        error => ApiError::internal(error),
    }
}

async fn list(
    Call { state, caller, query: ChangeFilter { team }, page, .. }: Call<Empty, ChangeFilter>,
) -> Result<Rows<ChangeRow>, ApiError> {
    let changes = state.changes.list().await.map_err(refused)?;
    let wanted = |change: &Change| {
        let name = change.team.name.as_str();
        caller.reaches(name) && team.as_ref().is_none_or(|team| name == team)
    };
    let rows = changes.into_iter().filter(wanted).map(row);
    listing::page(rows, &page, |row| row.id.clone())
}

async fn roll_back(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> Result<Data<ChangeRow>, ApiError> {
    if caller.principal.teams().is_some() {
        let changes = state.changes.list().await.map_err(refused)?;
        let is_own = |change: &Change| change.id == id && caller.reaches(change.team.name.as_str());
        if !changes.iter().any(is_own) {
            return Err(refused(ChangeError::Unknown(id)));
        }
    }
    let change = state.changes.roll_back(&id, caller.principal.id()).await;
    change.map(row).map(Data).map_err(refused)
}
