//! Replies: the forms that answers have.

use actix_web::{
    Either, HttpRequest, HttpResponse, Responder,
    body::{BoxBody, MessageBody},
    http::{
        StatusCode,
        header::{HeaderName, HeaderValue},
    },
};
use serde::Serialize;
use utoipa::{
    ToSchema,
    openapi::{
        RefOr,
        schema::{AnyOfBuilder, Array, Object, ObjectBuilder, Schema, SchemaType, Type},
    },
};

use super::operation::Draft;
use crate::logging::Secrets;

const JSON: &str = "application/json";
/// Of events, as browsers read them.
pub(super) const EVENT_STREAM: &str = "text/event-stream";
/// Of JSON, one document a line.
pub(super) const LINES: &str = "application/x-ndjson";
/// Lists are counted so far.
pub(super) const MOST_COUNTED: usize = 10_000;

/// What a handler answers with. Its type says what the description does.
pub(super) trait Reply: Sized + 'static {
    fn respond(self) -> HttpResponse;

    fn describe(draft: &mut Draft);
}

/// One thing.
pub(super) struct Data<T>(pub(super) T);

/// One thing, if there is any.
pub(super) struct Maybe<T>(pub(super) Option<T>);

/// A thing that was just made.
pub(super) struct Created<T>(pub(super) T);

/// What is going on about something that is not done yet.
pub(super) struct Accepted<T>(pub(super) T);

/// It is done, and there is nothing to say.
pub(super) struct Done;

/// Some of the things of a kind, and how many there are.
pub(super) struct Rows<T> {
    pub(super) data: Vec<T>,
    /// However many: it is shown up to a bound.
    pub(super) total: usize,
    pub(super) next_cursor: Option<String>,
}

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

/// A JSON document without the envelope of the API.
pub(super) struct Bare<T>(pub(super) T);

/// The same, about something that is not done yet.
pub(super) struct BareAccepted<T>(pub(super) T);

/// The same, which says that the service cannot serve now.
pub(super) struct Unavailable<T>(pub(super) T);

/// Something that is not JSON, whole.
pub(super) struct Content(pub(super) HttpResponse);

/// Events, each sent when it happens: `text/event-stream`.
pub(super) struct EventStream(pub(super) HttpResponse);

/// JSON documents, one a line, sent as they are read: `application/x-ndjson`.
pub(super) struct Lines(pub(super) HttpResponse);

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

fn json(status: StatusCode, body: impl Serialize) -> HttpResponse {
    HttpResponse::build(status).json(body)
}

fn enveloped<T: ToSchema>(draft: &mut Draft, status: StatusCode) {
    let schema = ObjectBuilder::new().property("data", draft.schema::<T>()).required("data");
    let schema: RefOr<Schema> = Schema::Object(schema.build()).into();
    draft.answers.push((status.as_u16(), Some((JSON, schema))));
}

impl<T: Serialize + ToSchema + 'static> Reply for Data<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::OK, Envelope { data: self.0 })
    }

    fn describe(draft: &mut Draft) {
        enveloped::<T>(draft, StatusCode::OK);
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for Maybe<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::OK, Envelope { data: self.0 })
    }

    fn describe(draft: &mut Draft) {
        let either =
            AnyOfBuilder::new().item(draft.schema::<T>()).item(Object::with_type(Type::Null));
        let schema =
            ObjectBuilder::new().property("data", Schema::AnyOf(either.build())).required("data");
        let schema: RefOr<Schema> = Schema::Object(schema.build()).into();
        draft.answers.push((200, Some((JSON, schema))));
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for Created<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::CREATED, Envelope { data: self.0 })
    }

    fn describe(draft: &mut Draft) {
        enveloped::<T>(draft, StatusCode::CREATED);
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for Accepted<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::ACCEPTED, Envelope { data: self.0 })
    }

    fn describe(draft: &mut Draft) {
        enveloped::<T>(draft, StatusCode::ACCEPTED);
    }
}

impl Reply for Done {
    fn respond(self) -> HttpResponse {
        HttpResponse::NoContent().finish()
    }

    fn describe(draft: &mut Draft) {
        draft.answers.push((204, None));
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for Rows<T> {
    fn respond(self) -> HttpResponse {
        let list = List {
            data: self.data,
            total: self.total.min(MOST_COUNTED),
            total_capped: (self.total > MOST_COUNTED).then_some(true),
            next_cursor: self.next_cursor,
        };
        json(StatusCode::OK, list)
    }

    fn describe(draft: &mut Draft) {
        let total = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(MOST_COUNTED))
            .description(Some("How many there are in all, counted up to 10,000."))
            .build();
        let capped = ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .description(Some("There are more than were counted."))
            .build();
        let cursor = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("For `cursor` of the request for the next rows."))
            .build();
        let schema = ObjectBuilder::new()
            .property("data", Array::new(draft.schema::<T>()))
            .property("total", total)
            .property("total_capped", capped)
            .property("next_cursor", cursor)
            .required("data")
            .required("total");
        let schema: RefOr<Schema> = Schema::Object(schema.build()).into();
        draft.answers.push((200, Some((JSON, schema))));
    }
}

impl<R: Reply> Reply for Dressed<R> {
    fn respond(self) -> HttpResponse {
        let mut response = self.reply.respond();
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn describe(draft: &mut Draft) {
        R::describe(draft);
    }
}

impl<R: Reply> Reply for Clean<R> {
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

    fn describe(draft: &mut Draft) {
        R::describe(draft);
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for Bare<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::OK, self.0)
    }

    fn describe(draft: &mut Draft) {
        let schema = draft.schema::<T>();
        draft.answers.push((200, Some((JSON, schema))));
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for BareAccepted<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::ACCEPTED, self.0)
    }

    fn describe(draft: &mut Draft) {
        let schema = draft.schema::<T>();
        draft.answers.push((202, Some((JSON, schema))));
    }
}

impl<T: Serialize + ToSchema + 'static> Reply for Unavailable<T> {
    fn respond(self) -> HttpResponse {
        json(StatusCode::SERVICE_UNAVAILABLE, self.0)
    }

    fn describe(draft: &mut Draft) {
        let schema = draft.schema::<T>();
        draft.answers.push((503, Some((JSON, schema))));
    }
}

impl Reply for Content {
    fn respond(self) -> HttpResponse {
        self.0
    }

    fn describe(draft: &mut Draft) {
        let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        let anything: RefOr<Schema> = Schema::Object(anything.build()).into();
        draft.answers.push((200, Some(("*/*", anything))));
    }
}

/// What is said of an answer that is text of some kind.
fn textual(draft: &mut Draft, kind: &'static str) {
    let text: RefOr<Schema> = Schema::Object(Object::with_type(Type::String)).into();
    draft.answers.push((200, Some((kind, text))));
}

impl Reply for EventStream {
    fn respond(self) -> HttpResponse {
        self.0
    }

    fn describe(draft: &mut Draft) {
        textual(draft, EVENT_STREAM);
    }
}

impl Reply for Lines {
    fn respond(self) -> HttpResponse {
        self.0
    }

    fn describe(draft: &mut Draft) {
        textual(draft, LINES);
    }
}

impl<L: Reply, R: Reply> Reply for Either<L, R> {
    fn respond(self) -> HttpResponse {
        match self {
            Either::Left(reply) => reply.respond(),
            Either::Right(reply) => reply.respond(),
        }
    }

    fn describe(draft: &mut Draft) {
        L::describe(draft);
        R::describe(draft);
    }
}

macro_rules! responders {
    ($($reply:ident $(<$param:ident: $bound:path>)?),* $(,)?) => {$(
        impl$(<$param: $bound>)? Responder for $reply$(<$param>)?
        where
            Self: Reply,
        {
            type Body = BoxBody;

            fn respond_to(self, _: &HttpRequest) -> HttpResponse {
                self.respond()
            }
        }
    )*};
}

responders!(
    Data<T: Serialize>,
    Maybe<T: Serialize>,
    Created<T: Serialize>,
    Accepted<T: Serialize>,
    Done,
    Rows<T: Serialize>,
    Dressed<R: Reply>,
    Clean<R: Reply>,
    Bare<T: Serialize>,
    BareAccepted<T: Serialize>,
    Unavailable<T: Serialize>,
    Content,
    EventStream,
    Lines,
);
