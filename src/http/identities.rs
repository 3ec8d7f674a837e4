//! `/api/v1/identities`: senders of channels who are principals.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{channel_type::ChannelType, router::grants::Grantee};
use serde::{Deserialize, Serialize};

use super::{
    State,
    auth::{
        identities::{Link, LinkError},
        scope::Scope,
    },
    error::ApiError,
    json::{self, Body},
    routes::{self, Methods},
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/identities", Methods::new().get(list).post(link))
}

pub(super) fn one() -> Resource {
    routes::resource("/api/v1/identities/{id}", Methods::new().delete(unlink))
}

/// A link as answers show it.
#[derive(Serialize)]
struct Row {
    id: String,
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

#[derive(Deserialize)]
struct Wish {
    channel_type: String,
    sender_id: String,
    token: String,
}

impl Body for Wish {
    const FIELDS: &'static [&'static str] = &["channel_type", "sender_id", "token"];
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let links = state.identities.list().into_iter();
    let rows: Vec<Row> = links.map(|(link, live)| Row::new(link, live)).collect();
    Ok(json::list(&rows))
}

async fn link(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let wish: Wish = json::read(&request, payload).await?;
    let who = Grantee::read(&wish.channel_type, &wish.sender_id, None)
        .map_err(|(field, reason)| ApiError::invalid_field(field, reason))?;
    let link = state.identities.link(who, &wish.token, &principal).await?;
    Ok(json::data(StatusCode::CREATED, Row::new(link, true)))
}

async fn unlink(
    state: web::Data<State>,
    request: HttpRequest,
    id: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    state.identities.unlink(&id, &principal).await?;
    Ok(HttpResponse::NoContent().finish())
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
