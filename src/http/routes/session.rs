//! `/api/v1/session`: who is logged in; logging in and out.

use actix_web::{HttpRequest, http::header};

use crate::{
    api::{endpoint::*, reply::*, session::*},
    http::{
        auth::{
            access::COOKIE,
            authenticator::{LINK_VALID, LoggedIn, Principal},
        },
        kit::{audit_log, call::*, error::*, reply::Dressed},
        state::State,
    },
};

fn row(state: &State, principal: &Principal, csrf: Option<String>) -> SessionRow {
    SessionRow {
        principal: principal.id.to_string(),
        scopes: principal.scopes,
        teams: principal.teams.as_deref().map(<[String]>::to_vec),
        csrf,
        demo: state.service.is_demo(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

pub(super) async fn show(Call { state, caller, request, .. }: Call) -> ApiResult<Data<SessionRow>> {
    let csrf = state.access.csrf(&request);
    Ok(Data(row(&state, &caller.principal, csrf)))
}

pub(super) async fn log_in(
    Call { state, body: login, request, .. }: Call<Empty, Empty, Login, Anyone>,
) -> ApiResult<Dressed<Data<SessionRow>>> {
    let auth = &state.access.auth;
    let LoggedIn { principal, cookie, csrf } = match login {
        Login { token: Some(token), code: None } => auth.log_in(token.trim()).await?,
        Login { token: None, code: Some(code) } => auth.log_in_by_link(&code).await?,
        _ => return Err(ApiError::invalid("give either `token` or `code`")),
    };
    audit_log::acts_as(&request, &principal.id);
    let cookie = cookie_of(&state, &request, cookie.expose(), None)?;
    Ok(Dressed {
        reply: Data(row(&state, &principal, Some(csrf))),
        headers: vec![(header::SET_COOKIE, cookie)],
    })
}

pub(super) async fn log_out(Call { state, caller, request, .. }: Call) -> ApiResult<Dressed<Done>> {
    if state.access.csrf(&request).is_none() {
        return Err(ApiError::invalid(
            "this request comes with a token, which no session can be ended for; revoke it instead",
        ));
    }
    state.access.auth.log_out(&caller.principal).await?;
    let cookie = cookie_of(&state, &request, "", Some(0))?;
    Ok(Dressed { reply: Done, headers: vec![(header::SET_COOKIE, cookie)] })
}

pub(super) async fn make_link(Call { state, caller, .. }: Call) -> ApiResult<Created<LoginLink>> {
    let code = state.access.auth.link(&caller.principal)?;
    let expires_in_s = LINK_VALID.as_secs();
    Ok(Created(LoginLink { code: code.expose().to_owned(), expires_in_s }))
}

/// Without an age the browser keeps it until it closes; how long it is good is decided here.
fn cookie_of(
    state: &State,
    request: &HttpRequest,
    value: &str,
    age: Option<u64>,
) -> ApiResult<header::HeaderValue> {
    let mut cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict");
    if !state.access.gate.is_plain_loopback(request) {
        cookie.push_str("; Secure");
    }
    if let Some(age) = age {
        cookie.push_str(&format!("; Max-Age={age}"));
    }
    header::HeaderValue::try_from(cookie).map_err(ApiError::internal)
}
