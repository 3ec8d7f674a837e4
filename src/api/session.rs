//! The session of a browser: logging in and out, and who is logged in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    endpoint::Method::*,
    endpoint::*,
    reply::*,
    scope::{Scope::*, Scopes},
};

pub const SHOW_SESSION: Endpoint<Data<SessionRow>> =
    Endpoint::new(Get, "/api/v1/session", Needs::Login, "Says who is logged in.");

pub const LOG_IN: Endpoint<Data<SessionRow>, Empty, Empty, Login> =
    Endpoint::new(Post, "/api/v1/session", Needs::Nothing, "Logs a browser in.")
        .description(
            "Takes a token, or the code of a link. Sets the cookie `hw_session`; requests with it \
             that change something repeat `csrf` in `X-CSRF-Token`.",
        )
        .refuses(&[401])
        .secret()
        .example(r#"{"token": "hwt_…"}"#);

pub const LOG_OUT: Endpoint<Done> =
    Endpoint::new(Delete, "/api/v1/session", Needs::Login, "Logs the browser out that asks.")
        .description("A request with a token has no session to end.");

pub const MAKE_LOGIN_LINK: Endpoint<Created<LoginLink>> =
    post("/api/v1/session/links", Admin, "Makes a code that logs one browser in.").secret();

/// Who is logged in.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionRow {
    /// `operator`, or the name of a token.
    pub principal: String,
    /// What they may do.
    pub scopes: Scopes,
    /// The teams that they may act on; null is all.
    pub teams: Option<Vec<String>>,
    /// For `X-CSRF-Token`; null for a token, which needs none.
    pub csrf: Option<String>,
    /// No model is configured: a script answers.
    pub demo: bool,
    /// Of the service.
    pub version: String,
}

/// A code that logs one browser in.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct LoginLink {
    /// For `code` of a login.
    pub code: String,
    /// How long it is good, in seconds.
    pub expires_in_s: u64,
}

/// Either of them.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Login {
    /// A token.
    #[schemars(extend("writeOnly" = true))]
    pub token: Option<String>,
    /// The code of a link.
    #[schemars(extend("writeOnly" = true))]
    pub code: Option<String>,
}
