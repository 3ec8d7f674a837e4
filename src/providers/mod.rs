//! Model APIs: one request to one of them, from the conversation to the answer or a failure.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use hivewright_actors::{
    engine::{Block, EngineEvent, FixedMessages, Message, SystemPrompt, plain_id},
    file::FileRef,
    ids::FileId,
    shared_list::SharedList,
    task::outcome::Code,
    thinking::Thinking,
    tool::{
        Args,
        specs::{ToolSpec, ToolSpecs},
    },
    usage::Usage,
};
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use crate::settings::providers::{Profile, Provider};

mod anthropic;
pub mod client;
pub(crate) mod fault;
pub(crate) mod http;
pub mod models;
pub(crate) mod offline;
mod openai;
pub(crate) mod sse;
pub(crate) mod tokens;

use fault::{Fault, Remedy};

/// The longest arguments of one tool call.
const LONGEST_CALL: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) model: &'a str,
    pub(crate) max_output_tokens: u32,
    /// Which step of the turn, so that ids we make up are unique in it.
    pub(crate) step: u32,
    pub(crate) system: &'a SystemPrompt,
    pub(crate) tools: &'a ToolSpecs,
    /// The turns before this one, oldest first.
    pub(crate) earlier: &'a SharedList<Arc<FixedMessages>>,
    pub(crate) messages: &'a [Message],
    pub(crate) pictures: &'a Pictures,
    pub(crate) thinking: Option<Thinking>,
    /// Fields that this server is known to refuse.
    pub(crate) without: LeftOut,
}

/// The pictures that a model is shown. All other files are told by their lines.
#[derive(Debug, Default)]
pub(crate) struct Pictures {
    /// In base64. By file, not by content: of two with the same content one may be shown.
    pub(crate) encoded: HashMap<FileId, String>,
    /// The first of the earlier turns whose pictures are shown.
    pub(crate) from: usize,
}

impl Pictures {
    /// A file as a picture, if it is shown as one.
    fn of(&self, file: &FileRef) -> Option<&str> {
        self.encoded.get(&file.id).map(String::as_str)
    }

    /// A turn has pictures that are shown.
    fn has_of(&self, turn: &[Message]) -> bool {
        let mut files = turn.iter().flat_map(Message::files);
        !self.encoded.is_empty() && files.any(|file| self.of(file).is_some())
    }
}

/// The names of a wire format, with and without pictures.
struct Format {
    plain: &'static str,
    pictures: &'static str,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) blocks: Vec<Block>,
    /// Without a price.
    pub(crate) usage: Usage,
    pub(crate) stop_reason: String,
    /// The output limit cut it.
    pub(crate) truncated: bool,
    /// The model wants to go on from here.
    pub(crate) paused: bool,
}

/// Takes what a model says while it says it.
pub(crate) type Listener<'a> = dyn FnMut(EngineEvent) + Send + 'a;

/// A field of a request that the answer does not depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OptionalField {
    CacheMarkers,
    StreamUsage,
    ParallelCalls,
    Thinking,
}

impl OptionalField {
    const ALL: [Self; 4] =
        [Self::CacheMarkers, Self::StreamUsage, Self::ParallelCalls, Self::Thinking];

    /// As servers name it when they refuse it.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::CacheMarkers => &["cache_control"],
            Self::StreamUsage => &["stream_options", "include_usage"],
            Self::ParallelCalls => &["parallel_tool_calls"],
            Self::Thinking => &["thinking", "reasoning_effort"],
        }
    }
}

/// The optional fields that one server does not get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut(u8);

impl LeftOut {
    pub(crate) fn has(self, field: OptionalField) -> bool {
        self.0 & (1 << field as u8) != 0
    }

    pub(crate) fn with(self, field: OptionalField) -> Self {
        Self(self.0 | 1 << field as u8)
    }
}

#[derive(Debug)]
struct Outgoing {
    url: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// The tools of a request in a wire format; none if there are none.
fn written<'a>(
    ask: &Ask<'a>,
    format: &Format,
    tool: fn(&ToolSpec) -> Value,
) -> Result<Option<&'a RawValue>, Fault> {
    if ask.tools.is_empty() {
        return Ok(None);
    }
    let make = |specs: &[ToolSpec]| to_raw_value(&specs.iter().map(tool).collect::<Vec<_>>());
    ask.tools.written(format.plain, make).map(Some).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Fault {
    let message = format!("the request cannot be written: {error}");
    Fault::new(Code::Internal, Remedy::None, message)
}

impl Outgoing {
    /// A request whose body is all fields of a head, then the messages.
    fn new(
        url: String,
        headers: Vec<(&'static str, String)>,
        head: &impl Serialize,
        messages: &Messages<'_>,
    ) -> Result<Self, Fault> {
        let head = serde_json::to_string(head).map_err(unwritable)?;
        // The messages are its last field.
        let begun = [head.strip_suffix('}').unwrap_or(&head), ",\"messages\":["];
        let earlier = messages.earlier.iter().flat_map(|turn| [&**turn, ","]);
        let end = [inside(&messages.own), "]}"];
        let body: Vec<&str> = begun.into_iter().chain(earlier).chain(end).collect();
        Ok(Self { url, headers, body: body.concat().into_bytes() })
    }
}

/// The messages of a request in a wire format.
///
/// Those of earlier turns were written once and are put in as they are: a long conversation is not written anew
/// for each step.
struct Messages<'a> {
    /// What stands before those of the turn: the items of lists.
    earlier: Vec<Cow<'a, str>>,
    /// Those of the turn, as a list.
    own: Box<RawValue>,
}

impl<'a> Messages<'a> {
    fn new<T: Serialize>(
        ask: &Ask<'a>,
        format: &Format,
        make: impl Fn(&[Message], &Pictures) -> Vec<T>,
        own: Vec<T>,
    ) -> Result<Self, Fault> {
        let none = Pictures::default();
        let turns = ask.earlier.iter().enumerate().map(|(place, turn)| {
            let is_seen = place >= ask.pictures.from && ask.pictures.has_of(turn);
            let (name, pictures) =
                if is_seen { (format.pictures, ask.pictures) } else { (format.plain, &none) };
            let turn = turn.rendered.get(name, || to_raw_value(&make(turn, pictures)))?;
            Ok(Cow::Borrowed(inside(turn)))
        });
        let earlier = turns.collect::<Result<_, _>>().map_err(unwritable)?;
        Ok(Self { earlier, own: to_raw_value(&own).map_err(unwritable)? })
    }
}

/// What a JSON list or text has between its brackets or quotes.
fn inside(json: &RawValue) -> &str {
    let json = json.get();
    json.get(1..json.len() - 1).unwrap_or_default()
}

/// The address of an endpoint, and the header that authenticates us there.
pub(crate) struct Access {
    pub(crate) url: String,
    pub(crate) credential: Option<(&'static str, String)>,
}

/// Where an endpoint of a profile is: `path` is what stands behind the version.
pub(crate) fn access(profile: &Profile, path: &str) -> Result<Access, Fault> {
    match profile.provider {
        Provider::Anthropic => anthropic::request::access(profile, path),
        Provider::OpenAi => openai::request::access(profile, path),
        Provider::Offline => Err(Fault::new(Code::Internal, Remedy::None, "it has no address")),
    }
}

/// The key of a profile that cannot do without.
fn key(profile: &Profile) -> Result<&str, Fault> {
    let key = profile.api_key.as_ref().map(|key| key.expose());
    key.ok_or_else(|| Fault::new(Code::ProviderAuth, Remedy::Fallback, "it has no `api_key`"))
}

/// The parts of a prompt, without those that say nothing.
fn parts(prompt: &SystemPrompt) -> impl Iterator<Item = &str> {
    let parts = [&*prompt.shared, &prompt.team, &prompt.turn];
    parts.into_iter().filter(|part| !part.is_empty())
}

/// The same parts in JSON. Only that of the turn is written for each request.
fn written_parts(prompt: &SystemPrompt) -> Result<Vec<Cow<'_, RawValue>>, Fault> {
    let fixed = [&prompt.shared, &prompt.team].into_iter().filter(|part| !part.is_empty());
    let fixed = fixed.map(|part| part.json().map(Cow::Borrowed));
    let own = Some(&prompt.turn).filter(|part| !part.is_empty());
    let own = own.map(|part| to_raw_value(part).map(Cow::Owned));
    fixed.chain(own).collect::<Result<_, _>>().map_err(unwritable)
}

/// Puts an answer together from the events of a stream.
trait Reader: Send {
    fn on(&mut self, event: &sse::Event, listener: &mut Listener<'_>) -> Result<(), Fault>;

    /// Takes an answer that came in one piece though a stream was asked for.
    fn whole(&mut self, body: &[u8], listener: &mut Listener<'_>) -> Result<(), Fault>;

    /// All has been said: what comes after is not worth waiting for.
    fn is_complete(&self) -> bool;

    /// The answer, once the stream has ended.
    fn finish(&mut self, listener: &mut Listener<'_>) -> Result<Answer, Fault>;

    /// What the provider has reported so far, for a call that breaks.
    fn reported(&self) -> Usage;
}

pub(crate) async fn ask(
    http: &reqwest::Client,
    ask: Ask<'_>,
    listener: &mut Listener<'_>,
) -> Result<Answer, Fault> {
    match ask.profile.provider {
        Provider::Offline => Ok(offline::answer(ask, listener).await),
        Provider::Anthropic => {
            let outgoing = anthropic::request::build(&ask)?;
            let mut reader = anthropic::reader::Reading::default();
            http::exchange(http, &ask, outgoing, &mut reader, listener).await
        }
        Provider::OpenAi => {
            let outgoing = openai::request::build(&ask)?;
            let mut reader = openai::reader::Reading::new(&ask);
            http::exchange(http, &ask, outgoing, &mut reader, listener).await
        }
    }
}

/// The fault that an event of a stream tells of, in any of the formats of a provider.
pub(crate) fn error_event(provider: Provider, event: &Value) -> Option<Fault> {
    let places = [&event["response"]["error"], &event["error"]];
    let is_error = |place: &&Value| place.is_object() || place.is_string();
    let error = places.into_iter().find(is_error);
    // The responses API has an event whose fields are those of the error.
    let error = error.or_else(|| (event["type"] == "error").then_some(event))?;
    Some(match provider {
        Provider::Anthropic => anthropic::reader::failure(error),
        Provider::OpenAi | Provider::Offline => openai::reader::failure(error),
    })
}

/// The address of an endpoint, for a base that may or may not name the version.
fn endpoint(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/');
    let version = base.rsplit('/').next().unwrap_or_default();
    let versioned = version
        .strip_prefix('v')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    if versioned { format!("{base}/{path}") } else { format!("{base}/v1/{path}") }
}

/// Arguments as the model wrote them: no text at all means none.
fn arguments(text: String) -> Args {
    if text.trim().is_empty() {
        return Args::Json(Value::Object(serde_json::Map::new()));
    }
    match serde_json::from_str(&text) {
        Ok(value) => Args::Json(value),
        Err(error) => Args::Unreadable { reason: error.to_string(), unreadable: text },
    }
}

/// Arguments as a provider takes them back: an object in any case.
fn sent_arguments(args: &Args) -> Value {
    match args {
        Args::Json(object @ Value::Object(_)) => object.clone(),
        Args::Json(other) => serde_json::json!({ "value": other }),
        Args::Unreadable { unreadable, .. } => serde_json::json!({ "unreadable": unreadable }),
    }
}

/// The ids of all calls in a conversation, in the form that every provider takes.
pub(crate) fn call_ids<'a>(messages: impl Iterator<Item = &'a Message>) -> HashSet<String> {
    messages.flat_map(Message::calls).map(|call| plain_id(call.id.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-98
    #[test]
    fn an_address_works_with_and_without_its_version() {
        for base in ["https://host", "https://host/", "https://host/v1", "https://host/v1/"] {
            assert_eq!(endpoint(base, "messages"), "https://host/v1/messages");
        }
        assert_eq!(endpoint("https://host/api/v4", "x"), "https://host/api/v4/x");
    }

    /// SE-86
    #[test]
    fn arguments_that_are_not_json_say_where() {
        assert_eq!(
            arguments(r#"{"path": "#.into()),
            Args::Unreadable {
                unreadable: r#"{"path": "#.into(),
                reason: "EOF while parsing a value at line 1 column 9".into(),
            }
        );
        assert_eq!(arguments(String::new()), Args::Json(serde_json::json!({})));
    }
}
