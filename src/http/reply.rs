//! Replies: the forms that answers have.

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

pub(super) use crate::api::reply::{Accepted, Bare, Created, Data, Done, Reply, Rows};
use crate::{
    api::{
        draft::Draft,
        reply::{
            Available, Content, EventStream, JSON, Lines, MOST_COUNTED, Progress, Saved, Settled,
        },
    },
    logging::Secrets,
};

/// What a handler answers with.
pub(super) trait Respond {
    fn respond(self) -> HttpResponse;
}

/// What answers as an endpoint says it does: its reply, or that with something about it.
pub(super) trait Answers<R>: Respond {}

impl<R: Respond> Answers<R> for R {}
impl<R: Respond> Answers<R> for Clean<R> {}
impl<R: Respond> Answers<R> for Dressed<R> {}
// What is no JSON is put together by its handler.
impl Answers<Content> for HttpResponse {}
impl Answers<EventStream> for HttpResponse {}
impl Answers<Lines> for HttpResponse {}

/// A reply with header fields of its own.
pub(super) struct Dressed<R> {
    pub(super) reply: R,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// A reply with words of models and tools in it, without what must not be seen.
pub(super) struct Clean<R> {
    reply: R,
    secrets: Secrets,
}

impl<R> Clean<R> {
    pub(super) fn new(secrets: &Secrets, reply: R) -> Self {
        Self { reply, secrets: secrets.clone() }
    }
}

/// A JSON document without the envelope of the API, about something that is not done yet.
pub(super) struct BareAccepted<T>(pub(super) T);

#[derive(Serialize)]
struct Envelope<T> {
    data: T,
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

fn document(status: StatusCode, body: impl Serialize) -> HttpResponse {
    HttpResponse::build(status).json(body)
}

fn enveloped(status: StatusCode, data: impl Serialize) -> HttpResponse {
    document(status, Envelope { data })
}

impl<T: Serialize + JsonSchema + 'static> Respond for Data<T> {
    fn respond(self) -> HttpResponse {
        enveloped(StatusCode::OK, self.0)
    }
}

impl<T: Serialize + JsonSchema + 'static> Respond for Created<T> {
    fn respond(self) -> HttpResponse {
        enveloped(StatusCode::CREATED, self.0)
    }
}

impl<T: Serialize + JsonSchema + 'static> Respond for Accepted<T> {
    fn respond(self) -> HttpResponse {
        enveloped(StatusCode::ACCEPTED, self.0)
    }
}

impl<T: Serialize + JsonSchema + 'static> Respond for Progress<T> {
    fn respond(self) -> HttpResponse {
        let status = if self.is_done { StatusCode::OK } else { StatusCode::ACCEPTED };
        enveloped(status, self.data)
    }
}

impl<T: Serialize + JsonSchema + 'static> Respond for Saved<T> {
    fn respond(self) -> HttpResponse {
        let status = if self.is_new { StatusCode::CREATED } else { StatusCode::OK };
        enveloped(status, self.data)
    }
}

impl<D: Serialize, G: Serialize> Respond for Settled<D, G> {
    fn respond(self) -> HttpResponse {
        match self {
            Self::Done(data) => enveloped(StatusCode::OK, data),
            Self::GoesOn(data) => enveloped(StatusCode::ACCEPTED, data),
        }
    }
}

impl Respond for Done {
    fn respond(self) -> HttpResponse {
        HttpResponse::NoContent().finish()
    }
}

impl<T: Serialize + JsonSchema + 'static> Respond for Rows<T> {
    fn respond(self) -> HttpResponse {
        let list = List {
            data: self.data,
            total: self.total.min(MOST_COUNTED),
            total_capped: (self.total > MOST_COUNTED).then_some(true),
            next_cursor: self.next_cursor,
        };
        document(StatusCode::OK, list)
    }
}

impl<T: Serialize> Respond for Bare<T> {
    fn respond(self) -> HttpResponse {
        document(StatusCode::OK, self.0)
    }
}

impl<T: Serialize> Respond for Available<T> {
    fn respond(self) -> HttpResponse {
        let status =
            if self.is_available { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        document(status, self.document)
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

impl<R: Respond> Respond for Clean<R> {
    fn respond(self) -> HttpResponse {
        let (response, body) = self.reply.respond().into_parts();
        match body.try_into_bytes() {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                response.set_body(BoxBody::new(self.secrets.scrub_known(&text)))
            }
            Err(body) => response.set_body(body),
        }
    }
}

macro_rules! bare {
    ($($name:ident: $status:ident;)+) => {$(
        impl<T: JsonSchema + 'static> Reply for $name<T> {
            fn describe(draft: &mut Draft) {
                let schema = draft.schema::<T>().to_value();
                draft.answers.push((StatusCode::$status.as_u16(), Some((JSON, schema))));
            }
        }

        impl<T: Serialize + JsonSchema + 'static> Respond for $name<T> {
            fn respond(self) -> HttpResponse {
                document(StatusCode::$status, self.0)
            }
        }
    )+};
}

bare! {
    BareAccepted: ACCEPTED;
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
