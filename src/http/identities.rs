//! `/api/v1/identities`: senders of channels who are principals.

use actix_web::web;
use hivewright_actors::{channel_type::ChannelType, router::grants::Grantee};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    State,
    arguments::{Admin, Caller, Json},
    auth::{
        identities::{Link, LinkError},
        rows::Grant,
        scope::Scope,
    },
    error::ApiError,
    json, listing,
    operation::Operation,
    reply::{Created, Done, Rows},
    routes::{Resource, at},
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/identities")
            .get(
                Operation::new("Lists the senders of channels that are principals.")
                    .pages(&["linked_at", "token"]),
                list,
            )
            .post(
                Operation::new("Makes a sender of a channel the principal of a token.")
                    .refuses(&[409])
                    .example(r#"{"channel_type": "discord", "sender_id": "1234", "token": "ann"}"#),
                link,
            ),
        at("/api/v1/identities/{id}").delete(Operation::new("Ends a link at once."), unlink),
    ]
}

/// A link as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = Identity)]
struct Row {
    id: String,
    #[schema(value_type = String)]
    channel_type: ChannelType,
    sender_id: String,
    /// The name of the token.
    token: String,
    /// The token is still good, and so is the link.
    live: bool,
    linked_by: String,
    linked_at: Option<String>,
}

impl Row {
    fn new(link: Link, live: bool) -> Self {
        Self {
            id: link.id,
            channel_type: link.channel_type,
            sender_id: link.sender,
            token: link.token,
            live,
            linked_by: link.by.to_string(),
            linked_at: json::date(link.at),
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[schema(as = NewIdentity)]
struct Wish {
    /// Such as `discord` or `ws`.
    channel_type: String,
    /// As the channel names them.
    sender_id: String,
    /// The name or id of a token.
    token: String,
}

async fn list(state: web::Data<State>, caller: Caller<Admin>) -> Result<Rows<Row>, ApiError> {
    caller.all_teams()?;
    let links = state.identities.list().into_iter();
    let rows = links.map(|(link, live)| Row::new(link, live));
    listing::page(rows, &caller.query.page()?, |row| row.id.clone())
}

async fn link(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(wish): Json<Wish>,
) -> Result<Created<Row>, ApiError> {
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
    let row = Row::new(link, true);
    let (kind, sender) = (&wish.channel_type, &wish.sender_id);
    caller.names(format!("{} {kind}:{sender} {}", row.id, wish.token));
    Ok(Created(row))
}

async fn unlink(
    state: web::Data<State>,
    caller: Caller<Admin>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    caller.all_teams()?;
    state.identities.unlink(&id, &caller.principal).await?;
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
