//! `/api/v1/identities`: senders of channels who are principals.

use hivewright_actors::router::grants::Grantee;

use crate::{
    api::{endpoint::*, identities::*, reply::*, scope::Scope},
    http::{
        auth::identities::{Link, LinkError},
        kit::{call::*, error::*, json, listing},
    },
};

fn row((link, live): (Link, bool)) -> IdentityRow {
    IdentityRow {
        id: link.id,
        channel_type: link.channel_type,
        sender_id: link.sender,
        token: link.token,
        live,
        linked_by: link.by.to_string(),
        linked_at: json::date(link.at),
    }
}

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<IdentityRow>> {
    caller.all_teams()?;
    let rows = state.identities.list().into_iter().map(row);
    listing::page(rows, &page, |row| row.id.clone())
}

pub(super) async fn link(
    Call { state, caller, body: wish, .. }: Call<Empty, Empty, NewIdentity>,
) -> ApiResult<Created<IdentityRow>> {
    caller.all_teams()?;
    // The sender will have these, so whoever links them must.
    let mut grants = state.access.auth.grants().into_iter();
    let grant = grants.find(|grant| grant.name == wish.token || grant.id.as_str() == wish.token);
    for scope in [Scope::Chat, Scope::Approve] {
        let is_given = grant.as_ref().is_some_and(|grant| grant.scopes.has(scope));
        if is_given && !caller.principal.may(scope) {
            return Err(ApiError::forbidden(scope));
        }
    }
    let NewIdentity { sender, token } = wish;
    let about = sender.to_string();
    let who = Grantee::read(sender.channel_type, &sender.sender_id, None)
        .map_err(|(field, reason)| ApiError::invalid_field(field, reason))?;
    let link = state.identities.link(who, &token, &caller.principal).await?;
    let row = row((link, true));
    caller.names(format!("{} {about} {token}", row.id));
    Ok(Created(row))
}

pub(super) async fn unlink(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Done> {
    caller.all_teams()?;
    state.identities.unlink(&path.id, &caller.principal).await?;
    Ok(Done)
}

impl From<LinkError> for ApiError {
    fn from(error: LinkError) -> Self {
        let message = error.to_string();
        match error {
            LinkError::NoToken(_) => Self::invalid_field("token", message),
            LinkError::Taken { .. } | LinkError::TooMany(_) => Self::conflict(message),
            LinkError::Unknown(_) => Self::not_found("there is no such link"),
            LinkError::Randomness | LinkError::Store(_) => Self::internal(message),
        }
    }
}
