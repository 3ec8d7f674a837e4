//! `/api/v1/grants`: calls that somebody has decided on in advance.

use actix_web::web;
use hivewright_actors::approvals::{
    Revoke,
    grants::{Covers, Grant},
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    State,
    approvals::{PATIENCE, ask},
    arguments::{Approve, Caller, Read},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Clean, Done, Rows},
    routes::{Resource, at},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/grants").get(
            Operation::new("Lists calls that need no decision, because somebody made it before.")
                .query(const { &[Field::text("team", "Only of this team.")] })
                .pages(&["-created_at", "team", "tool"]),
            list,
        ),
        at("/api/v1/grants/{id}").delete(
            Operation::new("Takes back a grant: the next such call asks again.").recorded(),
            revoke,
        ),
    ]
}

/// What a grant covers: calls that equal it in everything.
#[derive(Serialize, ToSchema)]
#[schema(as = GrantCovers)]
pub(super) struct Shown {
    team: String,
    generation: u32,
    tool: String,
    /// The exact arguments.
    arguments: Value,
    cwd: Option<String>,
    /// Names of the secrets that it uses; a new value of one voids the grant.
    secrets: Vec<String>,
    /// Also for turns that have read what a stranger wrote.
    untrusted: bool,
}

impl From<Covers> for Shown {
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

/// A grant as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Grant)]
struct Row {
    id: String,
    #[serde(flatten)]
    covers: Shown,
    /// The approval that it was given with.
    approval: String,
    granted_by: String,
    created_at: Option<String>,
    expires_at: Option<String>,
    /// How many calls are left; null for any number.
    uses_left: Option<u32>,
}

impl Row {
    fn new(grant: Grant, uses_left: Option<u32>) -> Self {
        Self {
            id: grant.id,
            covers: grant.covers.into(),
            approval: grant.approval.to_string(),
            granted_by: grant.granted_by,
            created_at: json::date(grant.created_at),
            expires_at: grant.expires_at.and_then(json::date),
            uses_left,
        }
    }
}

/// Those of the teams that a caller reaches.
fn standing<R>(state: &State, caller: &Caller<R>) -> Vec<(Grant, Option<u32>)> {
    let mut all = state.rules.grants().list(state.access.auth.now());
    all.retain(|(grant, _)| caller.reaches(grant.covers.team.name.as_str()));
    all
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Clean<Rows<Row>>, ApiError> {
    let team = caller.query.text("team");
    let rows = standing(&state, &caller).into_iter();
    let rows =
        rows.filter(|(grant, _)| team.is_none_or(|team| grant.covers.team.name.as_str() == team));
    let rows = rows.map(|(grant, left)| Row::new(grant, left));
    let page = listing::page(rows, &caller.query.page()?, |row| row.id.clone())?;
    Ok(Clean::new(&state.secrets, page))
}

async fn revoke(
    state: web::Data<State>,
    caller: Caller<Approve>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    let unknown = || ApiError::not_found("there is no such grant");
    let mut known = standing(&state, &caller).into_iter();
    let (grant, _) = known.find(|(grant, _)| grant.id == *id).ok_or_else(unknown)?;
    let revoke = Revoke { grant: grant.id, by: caller.principal.id().clone() };
    let revoked = state.spine.approvals.send(revoke).timeout(PATIENCE).await;
    if ask(revoked)?.map_err(ApiError::internal)? { Ok(Done) } else { Err(unknown()) }
}
