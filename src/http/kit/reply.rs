//! Replies: how the forms that answers have become responses.

use actix_web::{
    Either, HttpResponse,
    body::{BoxBody, MessageBody},
    http::{
        StatusCode,
        header::{HeaderName, HeaderValue},
    },
};
use schemars::JsonSchema;
use serde::Serialize;

use super::error::ApiError;
use crate::{
    api::{
        draft::Draft,
        reply::{
            Accepted, Available, Bare, Content, Created, Csv, Data, Done, EventStream, JSON, Lines,
            MOST_COUNTED, Matches, Progress, Reply, Requested, Rows, Saved, Settled, bare,
        },
    },
    logging::Secrets,
};

/// What a handler answers with.
pub(in crate::http) trait Respond {
    fn respond(self) -> HttpResponse;
}

/// What answers as an endpoint says it does: its reply, or that with something about it.
pub(in crate::http) trait Answers<R>: Respond {}

impl<R: Respond> Answers<R> for R {}
impl<R: Respond> Answers<R> for Dressed<R> {}
// What is no JSON is put together by its handler.
impl Answers<Content> for HttpResponse {}
impl Answers<EventStream> for HttpResponse {}
impl Answers<Lines> for HttpResponse {}
impl Answers<Csv> for HttpResponse {}

/// A reply with header fields of its own.
pub(in crate::http) struct Dressed<R> {
    pub(in crate::http) reply: R,
    pub(in crate::http) headers: Vec<(HeaderName, HeaderValue)>,
}

/// A JSON document without the envelope of the API, about something that is not done yet.
pub(in crate::http) struct BareAccepted<T>(pub(in crate::http) T);

#[derive(Serialize)]
struct Envelope<T> {
    data: T,
}

#[derive(Serialize)]
struct Found<T> {
    #[serde(flatten)]
    list: List<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<bool>,
}

#[derive(Serialize)]
struct List<T> {
    data: Vec<T>,
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_capped: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl<T> From<Rows<T>> for List<T> {
    fn from(Rows { data, total, next_cursor }: Rows<T>) -> Self {
        Self {
            data,
            total: total.min(MOST_COUNTED),
            total_capped: (total > MOST_COUNTED).then_some(true),
            next_cursor,
        }
    }
}

/// A status and a document for each form of answer in JSON.
macro_rules! documents {
    ($($name:ident: |$reply:ident| $status:expr, $document:expr;)+) => {$(
        impl<T: Serialize> Respond for $name<T> {
            fn respond(self) -> HttpResponse {
                let $reply = self;
                json($status, serde_json::to_vec(&$document))
            }
        }
    )+};
}

documents! {
    Data: |reply| StatusCode::OK, Envelope { data: reply.0 };
    Created: |reply| StatusCode::CREATED, Envelope { data: reply.0 };
    Accepted: |reply| StatusCode::ACCEPTED, Envelope { data: reply.0 };
    Progress: |reply| either(reply.is_done, StatusCode::OK, StatusCode::ACCEPTED),
        Envelope { data: reply.data };
    Saved: |reply| either(reply.is_new, StatusCode::CREATED, StatusCode::OK),
        Envelope { data: reply.data };
    Requested: |reply| either(reply.is_made, StatusCode::CREATED, StatusCode::ACCEPTED),
        Envelope { data: reply.data };
    Rows: |reply| StatusCode::OK, List::from(reply);
    Matches: |reply| StatusCode::OK, Found {
        list: List::from(reply.rows),
        incomplete: (!reply.is_complete).then_some(true),
    };
    Bare: |reply| StatusCode::OK, reply.0;
    BareAccepted: |reply| StatusCode::ACCEPTED, reply.0;
    Available: |reply| either(reply.is_available, StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE),
        reply.document;
}

/// A document that was written. It knows no type, so that it is compiled once and not for each.
fn json(status: StatusCode, document: serde_json::Result<Vec<u8>>) -> HttpResponse {
    match document {
        Ok(document) => HttpResponse::build(status).content_type(JSON).body(document),
        Err(error) => HttpResponse::from_error(ApiError::internal(error)),
    }
}

fn either(is_first: bool, first: StatusCode, second: StatusCode) -> StatusCode {
    if is_first { first } else { second }
}

impl<D: Serialize, G: Serialize> Respond for Settled<D, G> {
    fn respond(self) -> HttpResponse {
        match self {
            Self::Done(data) => Data(data).respond(),
            Self::GoesOn(data) => Accepted(data).respond(),
        }
    }
}

impl Respond for Done {
    fn respond(self) -> HttpResponse {
        HttpResponse::NoContent().finish()
    }
}

impl Respond for HttpResponse {
    fn respond(self) -> HttpResponse {
        self
    }
}

impl<R: Respond> Respond for Dressed<R> {
    fn respond(self) -> HttpResponse {
        let mut response = self.reply.respond();
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl<L: Respond, R: Respond> Respond for Either<L, R> {
    fn respond(self) -> HttpResponse {
        match self {
            Self::Left(reply) => reply.respond(),
            Self::Right(reply) => reply.respond(),
        }
    }
}

impl<L: Reply, R: Reply> Reply for Either<L, R> {
    fn describe(draft: &mut Draft) {
        L::describe(draft);
        R::describe(draft);
    }
}

impl<T: JsonSchema + 'static> Reply for BareAccepted<T> {
    fn describe(draft: &mut Draft) {
        bare::<T>(draft, StatusCode::ACCEPTED.as_u16());
    }
}

/// An answer with words of models and tools in it, without what must not be seen.
pub(in crate::http) fn scrubbed(response: HttpResponse, secrets: &Secrets) -> HttpResponse {
    let (response, body) = response.into_parts();
    match body.try_into_bytes() {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            response.set_body(BoxBody::new(secrets.scrub_known(&text)))
        }
        Err(body) => response.set_body(body),
    }
}
