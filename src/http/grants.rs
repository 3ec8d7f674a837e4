//! `/api/v1/grants`: calls that somebody has decided on in advance.

use hivewright_actors::approvals::{
    Revoke,
    grants::{Covers, Grant},
};

use super::{
    State,
    approvals::{PATIENCE, ask},
    call::Call,
    caller::Caller,
    error::ApiError,
    json, listing,
    reply::Clean,
    routes::{Resource, on},
};
use crate::api::{
    endpoint::{ById, Empty},
    grants::{GrantCovers, GrantFilter, GrantRow, LIST_GRANTS, REVOKE_GRANT},
    reply::{Done, Rows},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&LIST_GRANTS, list), on(&REVOKE_GRANT, revoke)]
}

impl From<Covers> for GrantCovers {
    fn from(covers: Covers) -> Self {
        Self {
            team: covers.team.name.to_string(),
            generation: covers.team.generation,
            tool: covers.tool,
            arguments: covers.arguments,
            cwd: covers.cwd,
            secrets: covers.secrets.into_keys().collect(),
            untrusted: covers.untrusted,
        }
    }
}

fn row((grant, uses_left): (Grant, Option<u32>)) -> GrantRow {
    GrantRow {
        id: grant.id,
        covers: grant.covers.into(),
        approval: grant.approval.to_string(),
        granted_by: grant.granted_by,
        created_at: json::date(grant.created_at),
        expires_at: grant.expires_at.and_then(json::date),
        uses_left,
    }
}

/// Those of the teams that a caller reaches.
fn standing(state: &State, caller: &Caller) -> Vec<(Grant, Option<u32>)> {
    let mut all = state.rules.grants().list(state.access.auth.now());
    all.retain(|(grant, _)| caller.reaches(grant.covers.team.name.as_str()));
    all
}

async fn list(
    Call { state, caller, query: GrantFilter { team }, page, .. }: Call<Empty, GrantFilter>,
) -> Result<Clean<Rows<GrantRow>>, ApiError> {
    let rows = standing(&state, &caller).into_iter().map(row);
    let rows = rows.filter(|row| team.as_ref().is_none_or(|team| row.covers.team == *team));
    let page = listing::page(rows, &page, |row| row.id.clone())?;
    Ok(Clean::new(&state.secrets, page))
}

async fn revoke(Call { state, caller, path, .. }: Call<ById>) -> Result<Done, ApiError> {
    let unknown = || ApiError::not_found("there is no such grant");
    let mut known = standing(&state, &caller).into_iter();
    let (grant, _) = known.find(|(grant, _)| grant.id == path.id).ok_or_else(unknown)?;
    let revoke = Revoke { grant: grant.id, by: caller.principal.id().clone() };
    let revoked = state.spine.approvals.send(revoke).timeout(PATIENCE).await;
    if ask(revoked)?.map_err(ApiError::internal)? { Ok(Done) } else { Err(unknown()) }
}
