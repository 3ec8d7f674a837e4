//! The request: the conversation in Anthropic's words, with its cache markers.

use std::borrow::Cow;

use hivewright_actors::{
    engine::{Block, JoinedWords, Message, ToolOutput, plain_id},
    file::FileRef,
    thinking::Thinking,
    tool::specs::ToolSpec,
};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::providers::{
    Access, Ask, Format, Messages, OptionalField, Outgoing, Pictures, endpoint, fault::Fault, key,
    sent_arguments, written, written_parts,
};
use crate::settings::providers::Profile;

const API: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
const FORMAT: Format = Format { plain: "anthropic", pictures: "anthropic with pictures" };
/// The fewest tokens that the server takes for thinking.
const LEAST_THINKING: u32 = 1_024;
/// Ends what the server is to keep, within a block.
const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Part<'a>>,
}

/// A part of the system prompt.
#[derive(Serialize)]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
    text: Cow<'a, RawValue>,
    r#type: &'static str,
}

#[derive(Debug, PartialEq, Serialize)]
struct Turn {
    role: &'static str,
    content: Vec<Value>,
}

pub(in crate::providers) fn access(profile: &Profile, path: &str) -> Result<Access, Fault> {
    let base = profile.api_url.as_deref().unwrap_or(API);
    let credential = Some(("x-api-key", key(profile)?.to_owned()));
    Ok(Access { url: endpoint(base, path), credential })
}

pub(in crate::providers) fn build(ask: &Ask<'_>) -> Result<Outgoing, Fault> {
    let Access { url, credential } = access(ask.profile, "messages")?;
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("anthropic-version", VERSION.to_owned()),
    ];
    headers.extend(credential);
    Outgoing::new(url, headers, &head(ask)?, &messages(ask)?)
}

/// All but the messages. Markers stand at the end of what is the same for all, which covers the tools before it,
/// and at the end of the system prompt.
fn head<'a>(ask: &Ask<'a>) -> Result<Head<'a>, Fault> {
    let parts = written_parts(ask.system)?;
    let shared = usize::from(!ask.system.shared.is_empty());
    let (count, has_markers) = (parts.len(), has_markers(ask));
    let ends = |place: usize| place < shared || place + 1 == count;
    let system = parts.into_iter().enumerate().map(|(place, text)| Part {
        cache_control: (has_markers && ends(place)).then(marker),
        text,
        r#type: "text",
    });
    Ok(Head {
        model: ask.model,
        max_tokens: ask.max_output_tokens,
        thinking: thinking(ask),
        stream: true,
        tools: written(ask, &FORMAT, tool)?,
        system: system.collect(),
    })
}

/// How much of the answer may be thought. The limit of the answer holds for both, so that no level makes it dearer; where
/// it leaves no room for the least that the server takes, nothing is thought.
fn thinking(ask: &Ask<'_>) -> Option<Value> {
    let limit = ask.max_output_tokens;
    let wanted = match ask.thinking? {
        Thinking::Off => return None,
        Thinking::Minimal => 0,
        Thinking::Low => limit / 8,
        Thinking::Medium => limit / 4,
        Thinking::High => limit / 2,
        Thinking::Xhigh => limit / 4 * 3,
    };
    let budget = wanted.max(LEAST_THINKING);
    (budget < limit && !ask.without.has(OptionalField::Thinking))
        .then(|| json!({ "type": "enabled", "budget_tokens": budget }))
}

/// Markers stand at the last message of the former turn and at the last of all. The same conversation gives the
/// same bytes.
fn messages<'a>(ask: &Ask<'a>) -> Result<Messages<'a>, Fault> {
    // An earlier turn ends with words of the model.
    const END: &str = "}]}";
    let mut own = conversation(ask.messages, ask.pictures);
    if has_markers(ask) {
        let last = own.last_mut().and_then(|turn| turn.content.last_mut());
        last.filter(|block| takes_marker(block)).map(mark);
    }
    let mut messages = Messages::new(ask, &FORMAT, conversation, own)?;
    if has_markers(ask)
        && let Some(turn) = messages.earlier.last_mut()
        && let Some(begun) = turn.strip_suffix(END)
    {
        *turn = [begun, MARKER, END].concat().into();
    }
    Ok(messages)
}

fn has_markers(ask: &Ask<'_>) -> bool {
    !ask.without.has(OptionalField::CacheMarkers)
}

fn mark(block: &mut Value) {
    block["cache_control"] = marker();
}

fn marker() -> Value {
    json!({ "type": "ephemeral" })
}

fn takes_marker(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("text" | "tool_use" | "tool_result"))
}

fn tool(spec: &ToolSpec) -> Value {
    json!({ "name": spec.name, "description": spec.description, "input_schema": spec.schema })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Roles alternate: what follows in the same role joins the message before it.
fn conversation(messages: &[Message], pictures: &Pictures) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in messages {
        let (role, content): (_, Vec<Value>) = match message {
            Message::User(words) | Message::Joined(JoinedWords { text: words, .. }) => {
                ("user", words_block(words).into_iter().collect())
            }
            Message::Files(files) => {
                ("user", files.iter().flat_map(|file| file_blocks(file, pictures)).collect())
            }
            Message::Assistant(blocks) => {
                ("assistant", blocks.iter().filter_map(assistant_block).collect())
            }
            Message::ToolResults(results) => {
                ("user", results.iter().map(|result| result_block(result, pictures)).collect())
            }
        };
        match turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(Turn { role, content }),
        }
    }
    turns
}

/// A picture before its line, any other file by its line alone.
fn file_blocks(file: &FileRef, pictures: &Pictures) -> Vec<Value> {
    image(file, pictures).into_iter().chain([text(&file.line())]).collect()
}

fn image(file: &FileRef, pictures: &Pictures) -> Option<Value> {
    let source = json!({ "type": "base64", "media_type": file.mime, "data": pictures.of(file)? });
    Some(json!({ "type": "image", "source": source }))
}

fn assistant_block(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text } => words_block(text),
        // A block of another provider means nothing here.
        Block::Thinking { block, .. } => block.clone(),
        Block::Call(call) => Some(json!({
            "type": "tool_use",
            "id": plain_id(call.id.as_str()),
            "name": call.name,
            "input": sent_arguments(&call.args),
        })),
    }
}

/// A result with its pictures behind its words. One that failed may hold words alone.
fn result_block(result: &ToolOutput, pictures: &Pictures) -> Value {
    let failed = result.fault.is_some();
    let words = result.words(|file| !failed && pictures.of(file).is_some());
    let shown = result.pictures.iter().filter(|_| !failed);
    let images: Vec<Value> = shown.filter_map(|file| image(file, pictures)).collect();
    let content = if images.is_empty() {
        json!(words)
    } else {
        words_block(&words).into_iter().chain(images).collect()
    };
    json!({
        "type": "tool_result",
        "tool_use_id": plain_id(result.id.as_str()),
        "content": content,
        "is_error": failed,
    })
}

/// Text without a visible character is rejected.
fn words_block(words: &str) -> Option<Value> {
    (!words.trim().is_empty()).then(|| text(words))
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;

    use hivewright_actors::{
        engine::{FixedMessages, SystemPrompt},
        shared_list::SharedList,
        tool::{Args, ToolCall, ToolFault, specs::ToolSpecs},
    };

    use super::*;
    use crate::{
        providers::LeftOut,
        settings::{
            providers::{Profile, Provider},
            secret::Secret,
        },
    };

    fn call(id: &str, args: Args) -> Block {
        Block::Call(ToolCall { id: id.into(), name: "read".into(), args })
    }

    fn messages() -> Vec<Message> {
        let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let output = |id: &str, fault| ToolOutput {
            id: id.into(),
            name: "read".into(),
            content: format!("content of {id}"),
            fault,
            pictures: Vec::new(),
        };
        vec![
            Message::User("go".into()),
            Message::Assistant(vec![
                Block::Thinking { text: "hm".into(), block: Some(thinking) },
                Block::Text { text: " ".into() },
                call("a", Args::Json(json!({"path": "x"}))),
                call("b:1", Args::Unreadable { unreadable: "{".into(), reason: "EOF".into() }),
            ]),
            Message::ToolResults(vec![
                output("a", None),
                output("b:1", Some(ToolFault::InvalidArguments)),
            ]),
            Message::User("and be quick".into()),
        ]
    }

    fn sent(messages: &[Message], without: LeftOut) -> Vec<u8> {
        sent_behind(&[], messages, without)
    }

    fn sent_behind(
        earlier: &[Arc<FixedMessages>],
        messages: &[Message],
        without: LeftOut,
    ) -> Vec<u8> {
        let profile = Profile {
            api_key: Some(Secret::new("key".into())),
            ..Profile::new("default", Provider::Anthropic)
        };
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            description: "d".into(),
            schema: json!({"type": "object"}),
        };
        let system =
            SystemPrompt { shared: "shared".into(), team: "team".into(), turn: "turn".into() };
        let specs = [tool("read"), tool("write")].into_iter().collect();
        let ask = Ask {
            profile: &profile,
            model: "m",
            max_output_tokens: 100,
            step: 2,
            system: &system,
            tools: &specs,
            earlier: &earlier.iter().cloned().collect(),
            messages,
            pictures: &Pictures::default(),
            thinking: None,
            without,
        };
        build(&ask).unwrap().body
    }

    fn thought(level: Option<Thinking>, max_output_tokens: u32, without: LeftOut) -> Value {
        let profile = Profile {
            api_key: Some(Secret::new("key".into())),
            ..Profile::new("default", Provider::Anthropic)
        };
        let ask = Ask {
            profile: &profile,
            model: "m",
            max_output_tokens,
            step: 1,
            system: &SystemPrompt::default(),
            tools: &ToolSpecs::default(),
            earlier: &SharedList::default(),
            messages: &[Message::User("hello".into())],
            pictures: &Pictures::default(),
            thinking: level,
            without,
        };
        let body: Value = serde_json::from_slice(&build(&ask).unwrap().body).unwrap();
        assert_eq!(body["max_tokens"], max_output_tokens);
        body["thinking"]["budget_tokens"].clone()
    }

    /// EN-37: a level is a share of the answer's limit, which it leaves as it is.
    #[test]
    fn a_level_of_thinking_is_a_share_of_the_answer() {
        let budgets = |limit| {
            let levels = [None].into_iter().chain(Thinking::ALL.iter().copied().map(Some));
            let budget = |level| thought(level, limit, LeftOut::default());
            levels.map(budget).collect::<Vec<_>>()
        };

        let none = Value::Null;
        let [low, medium, high, most] = [2_000, 4_000, 8_000, 12_000].map(Value::from);
        let least = Value::from(1_024);
        let large = [none.clone(), none.clone(), least.clone(), low, medium, high, most];
        assert_eq!(budgets(16_000), large);
        assert_eq!(budgets(1_024), vec![none.clone(); 7]);
        let without = LeftOut::default().with(OptionalField::Thinking);
        assert_eq!(thought(Some(Thinking::High), 16_000, without), none);
    }

    /// A turn with a call that has ended.
    fn ended(number: usize) -> Arc<FixedMessages> {
        let id = format!("call-{number}");
        let output = ToolOutput {
            id: id.as_str().into(),
            name: "read".into(),
            content: "found".into(),
            fault: None,
            pictures: Vec::new(),
        };
        Arc::new(FixedMessages::new(vec![
            Message::User(format!("question {number}")),
            Message::Assistant(vec![call(&id, Args::Json(json!({"path": "x"})))]),
            Message::ToolResults(vec![output]),
            Message::Assistant(vec![Block::Text { text: format!("answer {number}") }]),
        ]))
    }

    /// SE-41, SE-44: what was told before this turn stands before it, with a marker at its end; it is written as
    /// if all were one turn.
    #[test]
    fn earlier_turns_stand_before_this_one_with_a_marker_at_their_end() {
        let earlier = [ended(1), ended(2)];
        let flat: Vec<Message> =
            earlier.iter().flat_map(|turn| turn.to_vec()).chain(messages()).collect();
        let without = LeftOut::default().with(OptionalField::CacheMarkers);

        let plain = sent_behind(&earlier, &messages(), without);
        let marked: Value =
            serde_json::from_slice(&sent_behind(&earlier, &messages(), LeftOut::default()))
                .unwrap();

        assert_eq!(String::from_utf8(plain), String::from_utf8(sent(&flat, without)));
        let list = marked["messages"].as_array().unwrap();
        let marks: Vec<usize> = (0..list.len())
            .filter(|place| list[*place].to_string().contains("cache_control"))
            .collect();
        assert_eq!(marks, [7, list.len() - 1]);
        assert_eq!(list[7]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
        assert_eq!(marked.to_string().matches("cache_control").count(), 4);
    }

    /// SE-41: a turn is written once, and the next request begins with the same bytes.
    #[test]
    fn a_turn_that_ended_is_written_once() {
        let earlier = [ended(1), ended(2), ended(3)];
        let without = LeftOut::default().with(OptionalField::CacheMarkers);
        let short = sent_behind(&earlier[..2], &messages()[..1], without);
        let written = || earlier[0].rendered.get(FORMAT.plain, || panic!("it is written")).unwrap();
        let first = written();
        let long = sent_behind(&earlier, &messages()[..1], without);

        assert!(std::ptr::eq(first, written()));
        let own = short.len() - short.windows(5).rposition(|w| w == b"{\"con").unwrap();
        assert!(long.starts_with(&short[..short.len() - own]));
    }

    /// SE-44, SE-115: markers at the end of what is the same for all, of the system prompt and of all; the results of a step and what was said after them are one
    /// message; thinking goes back as it came.
    #[test]
    fn the_request_has_its_markers_and_one_message_for_the_results() {
        let sent = String::from_utf8(sent(&messages(), LeftOut::default())).unwrap();
        let body: Value = serde_json::from_str(&sent).unwrap();

        // Parts that were written before stand there as if all were written at once.
        assert!(sent.contains(&format!(r#""system":{}"#, body["system"])));
        let mark = json!({"type": "ephemeral"});
        assert_eq!(
            body,
            json!({
                "model": "m",
                "max_tokens": 100,
                "stream": true,
                "tools": [
                    {"name": "read", "description": "d", "input_schema": {"type": "object"}},
                    {"name": "write", "description": "d", "input_schema": {"type": "object"}},
                ],
                "system": [
                    {"type": "text", "text": "shared", "cache_control": mark},
                    {"type": "text", "text": "team"},
                    {"type": "text", "text": "turn", "cache_control": mark},
                ],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "go"}]},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                        {"type": "tool_use", "id": "b_1", "name": "read", "input": {"unreadable": "{"}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "a", "content": "content of a", "is_error": false},
                        {"type": "tool_result", "tool_use_id": "b_1", "content": "content of b:1", "is_error": true},
                        {"type": "text", "text": "and be quick", "cache_control": mark},
                    ]},
                ],
            })
        );
    }

    /// SE-31: and what was sent before is the beginning of what is sent next, up to the marker.
    #[test]
    fn the_same_conversation_gives_the_same_bytes() {
        assert_eq!(sent(&messages(), LeftOut::default()), sent(&messages(), LeftOut::default()));

        let without = LeftOut::default().with(OptionalField::CacheMarkers);
        let (short, long) = (sent(&messages()[..1], without), sent(&messages(), without));
        let shared = short.strip_suffix(b"]}").unwrap();
        assert!(long.starts_with(shared));
    }

    /// SE-117
    #[test]
    fn markers_are_left_out_where_they_are_refused() {
        let without = LeftOut::default().with(OptionalField::CacheMarkers);

        let body = String::from_utf8(sent(&messages(), without)).unwrap();

        assert!(!body.contains("cache_control"));
    }
}
