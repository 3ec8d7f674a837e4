//! `/api/v1/identities`: senders of channels who are principals.

use hivewright_actors::router::grants::Grantee;

use super::{
    auth::{
        identities::{Link, LinkError},
        rows::Grant,
    },
    call::Call,
    error::ApiError,
    json, listing,
    routes::{Resource, on},
};
use crate::api::{
    endpoint::{ById, Empty},
    identities::{IdentityRow, LINK_IDENTITY, LIST_IDENTITIES, NewIdentity, UNLINK_IDENTITY},
    reply::{Created, Done, Rows},
    scope::Scope,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&LIST_IDENTITIES, list).on(&LINK_IDENTITY, link), on(&UNLINK_IDENTITY, unlink)]
}

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

async fn list(Call { state, caller, page, .. }: Call) -> Result<Rows<IdentityRow>, ApiError> {
    caller.all_teams()?;
    let rows = state.identities.list().into_iter().map(row);
    listing::page(rows, &page, |row| row.id.clone())
}

async fn link(
    Call { state, caller, body: wish, .. }: Call<Empty, Empty, NewIdentity>,
) -> Result<Created<IdentityRow>, ApiError> {
    caller.all_teams()?;
    // The sender will have these, so whoever links them must.
    let mut grants = state.access.auth.grants().into_iter();
    let grant = grants.find(|grant| grant.name == wish.token || grant.id.as_str() == wish.token);
    let given = [Scope::Chat, Scope::Approve].into_iter().find(|scope| {
        let has = |grant: &Grant| grant.scopes.has(*scope);
        grant.as_ref().is_some_and(has) && !caller.principal.may(*scope)
    });
    if let Some(missing) = given {
        return Err(ApiError::forbidden(missing));
    }
    let who = Grantee::read(&wish.channel_type, &wish.sender_id, None)
        .map_err(|(field, reason)| ApiError::invalid_field(field, reason))?;
    let by = &caller.principal;
    let link = state.identities.link(who, &wish.token, by).await?;
    let row = row((link, true));
    let (kind, sender) = (&wish.channel_type, &wish.sender_id);
    caller.names(format!("{} {kind}:{sender} {}", row.id, wish.token));
    Ok(Created(row))
}

async fn unlink(Call { state, caller, path, .. }: Call<ById>) -> Result<Done, ApiError> {
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
