//! `/api/v1/session`: who is logged in; logging in and out.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, http::header, web};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    State,
    access::COOKIE,
    auth::{
        authenticator::{LINK_VALID, LoggedIn},
        principal::Principal,
        scope::{Scope, Scopes},
    },
    error::ApiError,
    json::{self, Body},
    routes::{self, Methods},
};

pub(super) fn resource() -> Resource {
    routes::resource(
        "/api/v1/session",
        Methods::new().get(show).post(log_in).delete(log_out),
    )
}

pub(super) fn links() -> Resource {
    routes::resource("/api/v1/session/links", Methods::new().post(make_link))
}

#[derive(Serialize)]
struct Answer<'a> {
    principal: &'a str,
    scopes: Scopes,
    csrf: Option<String>,
    demo: bool,
    version: &'static str,
}

impl<'a> Answer<'a> {
    fn new(state: &State, principal: &'a Principal, csrf: Option<String>) -> Self {
        Self {
            principal: principal.id().as_str(),
            scopes: principal.scopes(),
            csrf,
            demo: state.service.is_demo(),
            version: super::VERSION,
        }
    }
}

#[derive(Deserialize)]
struct Login {
    token: Option<String>,
    code: Option<String>,
}

impl Body for Login {
    const FIELDS: &'static [&'static str] = &["token", "code"];
}

async fn show(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let principal = state.access.principal(&request)?;
    json::no_query(&request)?;
    let csrf = state.access.csrf(&request);
    let answer = Answer::new(&state, &principal, csrf);
    Ok(json::data(StatusCode::OK, answer))
}

async fn log_in(
    state: web::Data<State>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    json::no_query(&request)?;
    let auth = &state.access.auth;
    let LoggedIn {
        principal,
        cookie,
        csrf,
    } = match json::read(&request, payload).await? {
        Login {
            token: Some(token),
            code: None,
        } => auth.log_in(token.trim()).await?,
        Login {
            token: None,
            code: Some(code),
        } => auth.log_in_by_link(&code).await?,
        _ => return Err(ApiError::invalid("give either `token` or `code`")),
    };
    let mut response = json::data(StatusCode::OK, Answer::new(&state, &principal, Some(csrf)));
    set_cookie(&state, &request, &mut response, cookie.expose(), None)?;
    Ok(response)
}

async fn log_out(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let principal = state.access.principal(&request)?;
    json::no_query(&request)?;
    if state.access.csrf(&request).is_none() {
        return Err(ApiError::invalid(
            "this request comes with a token, which no session can be ended for; revoke it instead",
        ));
    }
    state.access.auth.log_out(&principal).await?;
    let mut response = HttpResponse::NoContent().finish();
    set_cookie(&state, &request, &mut response, "", Some(0))?;
    Ok(response)
}

async fn make_link(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let principal = state.access.require(&request, Scope::Admin)?;
    json::no_query(&request)?;
    let code = state.access.auth.link(&principal)?;
    Ok(json::data(
        StatusCode::CREATED,
        json!({"code": code.expose(), "expires_in_s": LINK_VALID.as_secs()}),
    ))
}

/// Without an age the browser keeps it until it closes; how long it is good is decided here.
fn set_cookie(
    state: &State,
    request: &HttpRequest,
    response: &mut HttpResponse,
    value: &str,
    age: Option<u64>,
) -> Result<(), ApiError> {
    let mut cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict");
    if !state.access.gate.is_plain_loopback(request) {
        cookie.push_str("; Secure");
    }
    if let Some(age) = age {
        cookie.push_str(&format!("; Max-Age={age}"));
    }
    let cookie = header::HeaderValue::try_from(cookie).map_err(ApiError::internal)?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(())
}
