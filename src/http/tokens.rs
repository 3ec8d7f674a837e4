//! `/api/v1/tokens`: credentials for programs and people.

use std::time::Duration;

use actix_web::web;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    arguments::{Admin, Caller, Json},
    auth::{
        registry::{DEFAULT_EXPIRY, NewToken},
        rows::{Grant, Kind, MintedBy},
    },
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Created, Done, Rows},
    routes::{Resource, at},
};
use crate::{
    api::{
        endpoint::Empty,
        scope::{Scope, Scopes},
    },
    settings::units,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/tokens")
            .get(
                Operation::new("Lists tokens, without their text.")
                    .pages(&["created_at", "name", "last_used_at"]),
                list,
            )
            .post(
                Operation::new("Makes a token, whose text is shown this once.")
                    .description(
                        "Nobody gives a scope or a team that they do not have themselves. `expires` is \
                         a duration such as `90d`, which is usual, or `never`; it ends with the token that made \
                         it in any case.",
                    )
                    .refuses(&[409])
                    .secret()
                    .example(r#"{"name": "ci", "scopes": ["read", "chat"], "expires": "30d"}"#),
                create,
            ),
        at("/api/v1/tokens/operator/rotate").post(
            Operation::new("Replaces the operator token.").description(
                "The new one is in its file, not in the answer. Needs every scope, and all teams.",
            ),
            rotate,
        ),
        at("/api/v1/tokens/{id}").delete(
            Operation::new("Revokes a token, named by its id or name, and all that it opened.")
                .query(
                    const {
                        &[Field::flag(
                            "minted",
                            "Also the tokens that it made, and those that they made.",
                        )]
                    },
                )
                .refuses(&[409]),
            revoke,
        ),
    ]
}

/// A token as the list shows it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Token")]
pub struct Row {
    id: String,
    kind: Kind,
    /// Whom it speaks for.
    name: String,
    scopes: Scopes,
    /// The teams that it may act on; null is all.
    teams: Option<Vec<String>>,
    created_at: Option<String>,
    /// Null is never.
    expires_at: Option<String>,
    /// About when.
    last_used_at: Option<String>,
    /// The token that made it; null if that is not known.
    minted_by: Option<MintedBy>,
    /// Shown once, to whoever made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Row {
    /// For the audit: which token, and what it may do.
    fn described(&self) -> String {
        let scopes: Vec<_> = self.scopes.iter().map(Scope::as_str).collect();
        let teams = self.teams.as_ref().map(|teams| teams.join(","));
        let teams = teams.map(|teams| format!(" for {teams}")).unwrap_or_default();
        format!("{} {} {}{teams}", self.id, self.name, scopes.join(","))
    }
}

impl From<Grant> for Row {
    fn from(grant: Grant) -> Self {
        Self {
            id: grant.id.to_string(),
            kind: grant.kind,
            name: grant.name,
            scopes: grant.scopes,
            teams: grant.teams,
            created_at: json::date(grant.created_at),
            expires_at: grant.expires_at.and_then(json::date),
            last_used_at: grant.last_used_at.and_then(json::date),
            minted_by: grant.minted_by,
            token: None,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewToken")]
struct Wish {
    /// Unique: 1 to 64 of `a-z 0-9 . _ -`.
    name: String,
    scopes: Scopes,
    /// The teams that it may act on; all, if there is no such list.
    teams: Option<Vec<String>>,
    /// `never`, or a duration such as `90d`.
    expires: Option<String>,
}

/// How long a token is to be good: `never`, or a duration such as `90d`.
pub fn expiry(text: Option<&str>) -> Option<Option<Duration>> {
    match text {
        None => Some(Some(DEFAULT_EXPIRY)),
        Some("never") => Some(None),
        Some(text) => units::duration(text).map(Some),
    }
}

async fn list(state: web::Data<State>, caller: Caller<Admin>) -> Result<Rows<Row>, ApiError> {
    let grants = state.access.auth.grants().into_iter();
    let grants = grants.filter(|grant| is_within(grant, &caller));
    let page = caller.query.page()?;
    listing::page(grants.map(Row::from), &page, |row| row.id.clone())
}

async fn create(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(wish): Json<Wish>,
) -> Result<Created<Row>, ApiError> {
    let expires_in = expiry(wish.expires.as_deref()).ok_or_else(|| {
        ApiError::invalid_field("expires", "expected a duration such as 90d, or `never`")
    })?;
    caller.names(&wish.name);
    let wish = NewToken { name: wish.name, scopes: wish.scopes, teams: wish.teams, expires_in };
    let minted = state.access.auth.mint(wish, &caller.principal).await?;
    let mut row = Row::from(minted.row);
    caller.names(row.described());
    row.token = Some(minted.text.expose().to_owned());
    Ok(Created(row))
}

async fn revoke(
    state: web::Data<State>,
    caller: Caller<Admin>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    let mut grants = state.access.auth.grants().into_iter();
    let meant = grants.find(|grant| grant.id.as_str() == *id || grant.name == *id);
    if meant.is_some_and(|grant| !is_within(&grant, &caller)) {
        return Err(ApiError::not_found("there is no such token"));
    }
    let with_minted = caller.query.flag("minted").unwrap_or_default();
    let auth = &state.access.auth;
    let ended = auth.revoke(&id, with_minted, &caller.principal).await?;
    let ended: Vec<_> = ended.iter().map(|id| id.as_str()).collect();
    caller.names(ended.join(" "));
    Ok(Done)
}

/// It reaches no more teams than the caller does.
pub(super) fn is_within(grant: &Grant, caller: &Caller<Admin>) -> bool {
    match (&grant.teams, caller.principal.teams()) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(teams), Some(_)) => teams.iter().all(|team| caller.reaches(team)),
    }
}

/// The new token is in its file, not in the answer.
async fn rotate(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(Empty {}): Json<Empty>,
) -> Result<Done, ApiError> {
    let principal = &caller.principal;
    // The operator token has all scopes: only whoever has them all may make one.
    if let Some(missing) = Scopes::all().beyond(principal.scopes()) {
        return Err(ApiError::forbidden(missing));
    }
    caller.all_teams()?;
    state.access.auth.rotate_operator(principal).await?;
    Ok(Done)
}
