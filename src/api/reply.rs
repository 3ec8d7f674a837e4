//! Replies: the forms that answers have.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::draft::Draft;

pub const JSON: &str = "application/json";
/// Of events, as browsers read them.
pub const EVENT_STREAM: &str = "text/event-stream";
/// Of JSON, one document a line.
pub const LINES: &str = "application/x-ndjson";
/// Of rows, for spreadsheets.
pub const CSV: &str = "text/csv";
/// Lists are counted so far.
pub const MOST_COUNTED: usize = 10_000;

/// The form of an answer.
pub trait Reply: Sized + 'static {
    fn describe(draft: &mut Draft);
}

/// The form of an answer that a client reads.
pub trait Readable: Reply {
    type Content: DeserializeOwned;
    /// Where the content stands in the document, as a JSON pointer.
    const PLACE: &'static str = "/data";
}

/// One thing.
pub struct Data<T>(pub T);

/// A thing that was just made.
pub struct Created<T>(pub T);

/// What is going on about something that is not done yet.
pub struct Accepted<T>(pub T);

/// What is done, or goes on after the answer.
pub struct Progress<T> {
    pub data: T,
    pub is_done: bool,
}

/// A thing that was just made, or that there was before.
pub struct Saved<T> {
    pub data: T,
    pub is_new: bool,
}

/// A thing that was just made, or that will be once a person has agreed to it.
pub struct Requested<T> {
    pub data: T,
    pub is_made: bool,
}

/// What came of something that is done, or what is known of one that goes on after the answer.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Settled<D, G> {
    Done(D),
    GoesOn(G),
}

/// It is done, and there is nothing to say.
pub struct Done;

/// A JSON document without the envelope of the API.
pub struct Bare<T>(pub T);

/// The same of a service that can serve, or cannot now.
pub struct Available<T> {
    pub document: T,
    pub is_available: bool,
}

/// Something that is not JSON, whole.
pub struct Content;

/// Events, each sent when it happens.
pub struct EventStream;

/// JSON documents, one a line, sent as they are read.
pub struct Lines;

/// All rows of a list, for spreadsheets, sent as they are read.
pub struct Csv;

/// Some of the things of a kind, and how many there are.
pub struct Rows<T> {
    pub data: Vec<T>,
    /// However many: it is shown up to a bound.
    pub total: usize,
    pub next_cursor: Option<String>,
}

/// Some of the things that were found, and whether all were looked through.
pub struct Matches<T> {
    pub rows: Rows<T>,
    pub is_complete: bool,
}

/// Why one of several acts in one request failed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ItemError {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Adds an answer with something under `data`.
fn enveloped(draft: &mut Draft, status: u16, data: Schema) {
    let schema = json!({"type": "object", "properties": {"data": data}, "required": ["data"]});
    draft.answers.push((status, Some((JSON, schema))));
}

macro_rules! enveloped {
    ($($name:ident: $($status:literal),+;)+) => {$(
        impl<T: JsonSchema + 'static> Reply for $name<T> {
            fn describe(draft: &mut Draft) {
                let data = draft.schema::<T>();
                $(enveloped(draft, $status, data.clone());)+
            }
        }

        impl<T: JsonSchema + DeserializeOwned + 'static> Readable for $name<T> {
            type Content = T;
        }
    )+};
}

enveloped! {
    Data: 200;
    Created: 201;
    Accepted: 202;
    Progress: 200, 202;
    Saved: 200, 201;
    Requested: 201, 202;
}

impl<D: JsonSchema + 'static, G: JsonSchema + 'static> Reply for Settled<D, G> {
    fn describe(draft: &mut Draft) {
        let (done, goes_on) = (draft.schema::<D>(), draft.schema::<G>());
        enveloped(draft, 200, done);
        enveloped(draft, 202, goes_on);
    }
}

impl<D, G> Readable for Settled<D, G>
where
    D: JsonSchema + DeserializeOwned + 'static,
    G: JsonSchema + DeserializeOwned + 'static,
{
    type Content = Self;
}

impl Reply for Done {
    fn describe(draft: &mut Draft) {
        draft.answers.push((204, None));
    }
}

impl Readable for Done {
    type Content = Value;
}

/// Adds an answer without an envelope.
pub(crate) fn bare<T: JsonSchema>(draft: &mut Draft, status: u16) {
    let schema = draft.schema::<T>().to_value();
    draft.answers.push((status, Some((JSON, schema))));
}

impl<T: JsonSchema + 'static> Reply for Bare<T> {
    fn describe(draft: &mut Draft) {
        bare::<T>(draft, 200);
    }
}

impl<T: JsonSchema + 'static> Reply for Available<T> {
    fn describe(draft: &mut Draft) {
        bare::<T>(draft, 200);
        bare::<T>(draft, 503);
    }
}

impl<T: JsonSchema + DeserializeOwned + 'static> Readable for Bare<T> {
    type Content = T;
    const PLACE: &'static str = "";
}

macro_rules! not_json {
    ($($name:ident: $kind:expr, $schema:tt;)+) => {$(
        impl Reply for $name {
            fn describe(draft: &mut Draft) {
                draft.answers.push((200, Some(($kind, json!($schema)))));
            }
        }
    )+};
}

not_json! {
    Content: "*/*", {};
    EventStream: EVENT_STREAM, {"type": "string"};
    Lines: LINES, {"type": "string"};
    Csv: CSV, {"type": "string"};
}

impl<T: JsonSchema + 'static> Reply for Rows<T> {
    fn describe(draft: &mut Draft) {
        let data = draft.schema::<Vec<T>>();
        draft.answers.push((200, Some((JSON, page(data)))));
    }
}

/// The schema of some of the things of a kind.
fn page(data: Schema) -> Value {
    json!({
        "type": "object",
        "properties": {
            "data": data,
            "total": {
                "type": "integer", "minimum": 0, "maximum": MOST_COUNTED,
                "description": "How many there are in all, counted up to 10,000.",
            },
            "total_capped": {
                "type": "boolean", "description": "There are more than were counted.",
            },
            "next_cursor": {
                "type": "string",
                "description": "For `cursor` of the request for the next rows.",
            },
        },
        "required": ["data", "total"],
    })
}

impl<T: JsonSchema + DeserializeOwned + 'static> Readable for Rows<T> {
    type Content = Vec<T>;
}

impl<T: JsonSchema + 'static> Reply for Matches<T> {
    fn describe(draft: &mut Draft) {
        Rows::<T>::describe(draft);
        if let Some((_, Some((_, schema)))) = draft.answers.last_mut() {
            schema["properties"]["incomplete"] = json!({
                "type": "boolean",
                "description": "What was written last could not be looked through yet.",
            });
        }
    }
}

impl<T: JsonSchema + DeserializeOwned + 'static> Readable for Matches<T> {
    type Content = Vec<T>;
}
