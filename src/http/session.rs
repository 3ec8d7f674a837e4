//! `/api/v1/session`: who is logged in; logging in and out.

use actix_web::{HttpRequest, http::header, web};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    access::COOKIE,
    arguments::{Admin, Anyone, Caller, Json, Login as LoggedInCaller},
    auth::{
        authenticator::{LINK_VALID, LoggedIn},
        principal::Principal,
    },
    error::ApiError,
    operation::Operation,
    record,
    reply::{Created, Data, Done, Dressed},
    routes::{Resource, at},
};
use crate::api::{endpoint::Empty, scope::Scopes};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/session")
            .get(Operation::new("Says who is logged in."), show)
            .post(
                Operation::new("Logs a browser in.")
                    .description(
                        "Takes a token, or the code of a link. Sets the cookie `hw_session`; requests \
                         with it that change something repeat `csrf` in `X-CSRF-Token`.",
                    )
                    .refuses(&[401])
                    .secret()
                    .example(r#"{"token": "hwt_…"}"#),
                log_in,
            )
            .delete(
                Operation::new("Logs the browser out that asks.")
                    .description("A request with a token has no session to end."),
                log_out,
            ),
        at("/api/v1/session/links").post(
            Operation::new("Makes a code that logs one browser in.").secret(),
            make_link,
        ),
    ]
}

/// Who is logged in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
struct Answer {
    /// `operator`, or the name of a token.
    principal: String,
    /// What they may do.
    scopes: Scopes,
    /// The teams that they may act on; null is all.
    teams: Option<Vec<String>>,
    /// For `X-CSRF-Token`; null for a token, which needs none.
    csrf: Option<String>,
    /// No model is configured: a script answers.
    demo: bool,
    /// Of the service.
    version: &'static str,
}

/// A code that logs one browser in.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LoginLink")]
struct Link {
    /// For `code` of a login.
    code: String,
    /// How long it is good, in seconds.
    expires_in_s: u64,
}

impl Answer {
    fn new(state: &State, principal: &Principal, csrf: Option<String>) -> Self {
        let teams = principal.teams().map(|teams| teams.to_vec());
        Self {
            teams,
            principal: principal.id().to_string(),
            scopes: principal.scopes(),
            csrf,
            demo: state.service.is_demo(),
            version: super::VERSION,
        }
    }
}

/// Either of them.
#[derive(Deserialize, JsonSchema)]
struct Login {
    /// A token.
    #[schemars(extend("writeOnly" = true))]
    token: Option<String>,
    /// The code of a link.
    #[schemars(extend("writeOnly" = true))]
    code: Option<String>,
}

async fn show(
    state: web::Data<State>,
    caller: Caller<LoggedInCaller>,
    request: HttpRequest,
) -> Result<Data<Answer>, ApiError> {
    let csrf = state.access.csrf(&request);
    Ok(Data(Answer::new(&state, &caller.principal, csrf)))
}

async fn log_in(
    state: web::Data<State>,
    _: Anyone,
    request: HttpRequest,
    Json(login): Json<Login>,
) -> Result<Dressed<Data<Answer>>, ApiError> {
    let auth = &state.access.auth;
    let LoggedIn { principal, cookie, csrf } = match login {
        Login { token: Some(token), code: None } => auth.log_in(token.trim()).await?,
        Login { token: None, code: Some(code) } => auth.log_in_by_link(&code).await?,
        _ => return Err(ApiError::invalid("give either `token` or `code`")),
    };
    record::acts_as(&request, principal.id());
    let cookie = cookie_of(&state, &request, cookie.expose(), None)?;
    Ok(Dressed {
        reply: Data(Answer::new(&state, &principal, Some(csrf))),
        headers: vec![(header::SET_COOKIE, cookie)],
    })
}

async fn log_out(
    state: web::Data<State>,
    caller: Caller<LoggedInCaller>,
    request: HttpRequest,
) -> Result<Dressed<Done>, ApiError> {
    if state.access.csrf(&request).is_none() {
        return Err(ApiError::invalid(
            "this request comes with a token, which no session can be ended for; revoke it instead",
        ));
    }
    state.access.auth.log_out(&caller.principal).await?;
    let cookie = cookie_of(&state, &request, "", Some(0))?;
    Ok(Dressed { reply: Done, headers: vec![(header::SET_COOKIE, cookie)] })
}

async fn make_link(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(Empty {}): Json<Empty>,
) -> Result<Created<Link>, ApiError> {
    let code = state.access.auth.link(&caller.principal)?;
    Ok(Created(Link { code: code.expose().to_owned(), expires_in_s: LINK_VALID.as_secs() }))
}

/// Without an age the browser keeps it until it closes; how long it is good is decided here.
fn cookie_of(
    state: &State,
    request: &HttpRequest,
    value: &str,
    age: Option<u64>,
) -> Result<header::HeaderValue, ApiError> {
    let mut cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict");
    if !state.access.gate.is_plain_loopback(request) {
        cookie.push_str("; Secure");
    }
    if let Some(age) = age {
        cookie.push_str(&format!("; Max-Age={age}"));
    }
    header::HeaderValue::try_from(cookie).map_err(ApiError::internal)
}
