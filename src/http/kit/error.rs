//! Refusals: every error that a client sees has one form.

use std::fmt;

use actix::MailboxError;
use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{self, HeaderName},
    },
};
use hivewright_actors::{
    blocking::CutOff, room::DISK_FULL, storage::StorageError, store::StoreError,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    api::{check::Problems, reply::ItemError, scope::Scope},
    http::auth::error::AuthError,
    memory::error::MemoryError,
    settings::problem::Problem as SettingsFault,
};

/// What comes of a request, or why it is refused.
pub(in crate::http) type ApiResult<T> = Result<T, ApiError>;

/// Why a request is refused. Its body is written on the way out, where the request's id is known.
///
/// It is small, since every step of every handler hands it on.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Refused>);

#[derive(Clone, Debug)]
struct Refused {
    status: StatusCode,
    code: &'static str,
    message: Box<str>,
    field: Option<Box<str>>,
    /// What to do instead.
    hint: Option<Box<str>>,
    /// What is wrong with settings files, each with its place.
    problems: Box<[SettingsFault]>,
    header: Option<(HeaderName, String)>,
    /// For the log, never for the client.
    cause: Option<Box<str>>,
    /// What was asked for may have been done all the same.
    unsure: bool,
}

impl ApiError {
    /// A refusal of one's own kind.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Refused {
            status,
            code,
            message: message.into().into_boxed_str(),
            field: None,
            hint: None,
            problems: Box::default(),
            header: None,
            cause: None,
            unsure: status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE,
        }))
    }

    /// The request says something that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_input", message)
    }

    /// A field makes no sense.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(message).about(field)
    }

    /// A field is well formed and does not fit what it is for.
    pub fn unfit(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_input", message).about(field)
    }

    /// A field makes no sense, with a code of its own.
    pub fn invalid_as(
        field: impl Into<String>,
        code: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).about(field)
    }

    /// The same, about a field.
    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into().into_boxed_str());
        self
    }

    /// Nobody knows who is asking.
    pub fn unauthenticated() -> Self {
        let message = "no valid credential; log in or send `Authorization: Bearer …`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
            .with(header::WWW_AUTHENTICATE, "Bearer")
    }

    /// The credential does not allow it.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn forbidden(missing: Scope) -> Self {
        Self::denied(format!("this needs a token with scope `{missing}`"))
    }

    /// A page of someone else sent it.
    pub fn origin(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "origin", message)
    }

    /// There is no such thing.
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", what)
    }

    /// The path is right, the method is not.
    pub fn method(allowed: &str) -> Self {
        let message = format!("this path answers {allowed}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
            .with(header::ALLOW, allowed)
    }

    /// It is in the way of something else.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// The same with a code of its own.
    pub fn conflict_as(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// Too much waits already.
    pub fn queue_full(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "queue_full", message)
    }

    /// The body is too long.
    pub fn too_large(most: usize) -> Self {
        let message = format!("a body has at most {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// Too much at once.
    pub fn rate_limited(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            .with(header::RETRY_AFTER, "1")
    }

    /// Our own fault. The cause goes to the log.
    pub fn internal(cause: impl fmt::Display) -> Self {
        let message = "something went wrong here; the log has it under this request id";
        let mut refusal = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message);
        refusal.0.cause = Some(cause.to_string().into_boxed_str());
        refusal
    }

    pub(in crate::http) fn with(mut self, header: HeaderName, value: &str) -> Self {
        self.0.header = Some((header, value.to_owned()));
        self
    }

    /// The same, of what may have been done before it was cut off.
    pub fn unsure(mut self) -> Self {
        self.0.unsure = true;
        self
    }

    /// Whoever was refused so may ask again: nothing was done.
    pub(in crate::http) fn changed_nothing(&self) -> bool {
        !self.0.unsure
    }

    /// The same, said after the act: what was done cannot be written down.
    pub(in crate::http) fn after_the_act(mut self) -> Self {
        let message = "this was done, but could not be written into the audit; do not ask for it again. \
                       What is shown only once is lost: end it and make another";
        self.0.message = message.into();
        self
    }

    /// What is behind an error of our own.
    pub(in crate::http) fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    pub(in crate::http) fn body(&self, request_id: &str) -> Value {
        json!(Refusal {
            error: Problem {
                code: self.0.code,
                message: &self.0.message,
                field: self.0.field.as_deref(),
                details: self.details(),
                request_id,
            },
        })
    }

    fn details(&self) -> Option<Details<'_>> {
        let details = Details { hint: self.0.hint.as_deref(), problems: &self.0.problems };
        (details.hint.is_some() || !details.problems.is_empty()).then_some(details)
    }

    /// Settings that cannot count, each fault with its place.
    pub(in crate::http) fn config_invalid(
        message: impl Into<String>,
        problems: Vec<SettingsFault>,
    ) -> Self {
        let mut refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "config_invalid", message);
        refusal.0.problems = problems.into_boxed_slice();
        refusal
    }

    /// The same, with what to do instead.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into().into_boxed_str());
        self
    }
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident: $status:ident, $code:literal, $message:expr;)+) => {
        /// Refusals that say the same wherever they are met.
        impl ApiError {$(
            $(#[$doc])*
            pub fn $name() -> Self {
                Self::new(StatusCode::$status, $code, $message)
            }
        )+}
    };
}

fixed! {
    /// A credential stands in the address, where logs and histories keep it.
    token_in_url: BAD_REQUEST, "token_in_url",
        "a token may not stand in a URL; send it as `Authorization: Bearer …`, and replace this one, \
         since it may have been recorded on the way";
    disk_full: SERVICE_UNAVAILABLE, "disk_full", DISK_FULL;
    draining: SERVICE_UNAVAILABLE, "draining",
        "the service is shutting down; try again when it is back";
    /// The credential is for some teams, and this is about others.
    other_team: FORBIDDEN, "forbidden",
        "this token is for other teams; use one whose `teams` reach this";
    /// A browser sent it without what its page knows.
    csrf: FORBIDDEN, "csrf", "`X-CSRF-Token` must repeat the `csrf` value of the session";
    /// The sender may not call themselves something else.
    sender: FORBIDDEN, "sender_not_allowed", "`X-Sender-Id` needs scope `assert_sender`";
    /// The body took too long to come.
    too_slow: REQUEST_TIMEOUT, "timeout", "the body did not arrive in time";
    /// The body is no JSON by its own account.
    media_type: UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type",
        "a body needs `Content-Type: application/json`";
    /// The name under which we were reached is not ours.
    unknown_host: MISDIRECTED_REQUEST, "unknown_host",
        "this server is not known under that `Host`; name it in `server.public_url`";
    header_too_large: REQUEST_HEADER_FIELDS_TOO_LARGE, "header_too_large",
        "the request has too many or too long header fields";
}

/// Failures of our own, about which whoever asks can do nothing.
macro_rules! internal {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                Self::internal(error)
            }
        }
    )+};
}

impl From<StorageError> for ApiError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::TooSlow(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", error.to_string())
            }
            error => Self::internal(error),
        }
    }
}

internal!(StoreError, MailboxError, CutOff, getrandom::Error, serde_json::Error, std::io::Error,);

/// Why a request is refused.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(in crate::http) struct Refusal<'a> {
    error: Problem<'a>,
}

#[derive(Serialize, JsonSchema)]
struct Problem<'a> {
    /// For programs.
    code: &'a str,
    /// For people.
    message: &'a str,
    /// The field of the body or query that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
    /// As in `X-Request-Id`, and in the log.
    request_id: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProblemDetails")]
struct Details<'a> {
    /// What to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// What is wrong with settings files.
    #[serde(skip_serializing_if = "<[SettingsFault]>::is_empty")]
    problems: &'a [SettingsFault],
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.0.status);
        // Whoever is sent away is told when to come back.
        if self.0.status == StatusCode::SERVICE_UNAVAILABLE {
            response.insert_header((header::RETRY_AFTER, "5"));
        }
        if let Some((name, value)) = &self.0.header {
            response.insert_header((name.clone(), value.as_str()));
        }
        response.finish()
    }
}

/// What a request for one of several acts alone would have been answered with, and its parts.
pub(in crate::http) fn told<T>(outcome: ApiResult<T>) -> (u16, Option<T>, Option<ItemError>) {
    match outcome {
        Ok(done) => (200, Some(done), None),
        Err(ApiError(error)) => {
            let item = ItemError {
                code: error.code.to_owned(),
                message: error.message.into(),
                field: error.field.map(String::from),
            };
            (error.status.as_u16(), None, Some(item))
        }
    }
}

/// The first problem is the one to blame; the others are told with it.
impl From<Problems> for ApiError {
    fn from(Problems(problems): Problems) -> Self {
        let mut problems = problems.into_iter();
        let Some(first) = problems.next() else { return Self::invalid("not a usable value") };
        let others: String = problems.map(|other| format!("; {other}")).collect();
        let message = format!("{}{others}", first.reason);
        let refusal = match first.path.to_string() {
            path if path.is_empty() => Self::invalid(message),
            path => Self::invalid_field(path, message),
        };
        match first.meant {
            Some(meant) => refusal.hint(format!("use `{meant}`")),
            None => refusal,
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let message = error.to_string();
        match error {
            AuthError::Name => Self::invalid_field("name", message),
            AuthError::NameTaken(_) | AuthError::TooMany(_) | AuthError::Operator => {
                Self::conflict(message)
            }
            AuthError::NoScopes => Self::invalid_field("scopes", message),
            AuthError::BeyondOwn(_) => Self::denied(message).about("scopes"),
            AuthError::BeyondOwnTeams(_) => Self::denied(message).about("teams"),
            AuthError::NoTeams => Self::invalid_field("teams", message),
            AuthError::Expiry => Self::invalid_field("expires", message),
            AuthError::Unknown(_) => Self::not_found("there is no such token"),
            AuthError::Ended => Self::unauthenticated(),
            AuthError::File { .. }
            | AuthError::NotAToken { .. }
            | AuthError::Randomness
            | AuthError::Store(_)
            | AuthError::Storage(_) => Self::internal(message),
        }
    }
}

impl From<MemoryError> for ApiError {
    fn from(error: MemoryError) -> Self {
        let (message, field) = (error.to_string(), error.field().map(Into::into));
        let mut refused = match error {
            MemoryError::Exists { .. }
            | MemoryError::Raced { .. }
            | MemoryError::State(_)
            | MemoryError::Forgotten => Self::conflict(message),
            MemoryError::Full => Self::new(StatusCode::CONFLICT, error.code(), message),
            MemoryError::Secret(_) | MemoryError::HiddenSecret => {
                Self::new(StatusCode::BAD_REQUEST, error.code(), message)
            }
            MemoryError::Rate(_) => Self::rate_limited(message),
            MemoryError::Unknown(_) => Self::not_found(message),
            MemoryError::Store(_) | MemoryError::Storage(_) => Self::internal(message),
            _ => Self::invalid(message),
        };
        refused.0.field = field;
        refused
    }
}
