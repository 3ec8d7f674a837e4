//! The offline demo in the wire formats of the vendors, so that each agent runs without a network.

use std::{future::ready, io};

use futures_util::{StreamExt, stream};
use hivewright_actors::{
    engine::{Block, EngineEvent, Message, SystemPrompt, ToolOutput},
    shared_list::SharedList,
    tool::{
        Args, ToolCall, ToolFault,
        specs::{ToolSpec, ToolSpecs},
    },
    usage::Usage,
};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Bytes, Frame},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

mod chat;
mod messages;
mod responses;

use super::{Asked, Body, Refusal, Relay, Route, Told, Wire, json_response, response};
use crate::{
    engines::{harness::wake, native::Link},
    providers::{self, Answer, Ask, LeftOut},
};

/// What agents put around what they add to a conversation on their own: that is not for the demo to obey.
const ADDED: [&str; 3] = ["<system-reminder>", "<environment_context>", "<turn_aborted>"];

pub(super) async fn answer(
    relay: &Relay,
    link: &Link,
    route: Route,
    asked: Asked,
    body: &[u8],
) -> Result<Response<Body>, Refusal> {
    let Route::Ask(wire) = route else {
        let count = json!({ "input_tokens": body.len() / 4 });
        return Ok(json_response(StatusCode::OK, &count));
    };
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let format: &'static dyn Format = match wire {
        Wire::Messages => &messages::Messages,
        Wire::Responses => &responses::Responses,
        Wire::Chat => &chat::Chat,
    };
    let tools = format.tools(&body);
    let messages = format.conversation(&body);
    let step = messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count();
    let spoken = Spoken {
        id: format!("offline_{}", step + 1),
        model: asked.model,
        tells_usage: body["stream_options"]["include_usage"] == true,
        said: Vec::new(),
        open: false,
    };
    let mut telling = Telling { format, spoken, tools, number: 0 };
    let permit = relay.enter(link, route).await;
    relay.tell(Told::Answered);
    let events = play(relay, link, step as u32 + 1, messages, &telling.tools);
    // The place is free when the answer is over.
    let events = events.map(move |event| {
        let _ = &permit;
        event
    });
    if asked.stream == Some(true) {
        let begin = telling.format.begin(&telling.spoken);
        let begin = telling.frames(begin);
        let rest = events.map(move |event| telling.on(event));
        let frames = stream::once(ready(begin)).chain(rest);
        let frames = frames.filter(|frame| ready(!frame.is_empty()));
        let body = StreamBody::new(frames.map(|text| Ok(Frame::data(Bytes::from(text)))));
        return Ok(response(StatusCode::OK, "text/event-stream", body.boxed_unsync()));
    }
    let whole = stream::once(async move {
        let events: Vec<Played> = events.collect().await;
        let whole = events.into_iter().filter_map(|event| telling.whole(event)).last();
        Ok::<_, io::Error>(Frame::data(Bytes::from(whole.unwrap_or_default().to_string())))
    });
    Ok(response(StatusCode::OK, "application/json", StreamBody::new(whole).boxed_unsync()))
}

/// What the demo does, and in the end its answer.
enum Played {
    Event(EngineEvent),
    End(Answer),
}

/// Plays a step, in its own time. Dropping the stream ends it.
fn play(
    relay: &Relay,
    link: &Link,
    step: u32,
    messages: Vec<Message>,
    tools: &[Offered],
) -> impl stream::Stream<Item = Played> + Send + 'static {
    let tools: ToolSpecs = tools.iter().map(Offered::spec).collect();
    let (http, link, bill) = (relay.http.clone(), link.clone(), relay.bill(link));
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let work = async move {
        let ask = Ask {
            profile: &link.profile,
            model: &link.model,
            max_output_tokens: link.profile.max_output_tokens,
            step,
            system: &SystemPrompt::default(),
            tools: &tools,
            earlier: &SharedList::default(),
            messages: &messages,
            pictures: &providers::Pictures::default(),
            thinking: None,
            without: LeftOut::default(),
        };
        // Nobody hears it: then this is dropped too.
        let mut listener = |event| drop(sender.send(Played::Event(event)));
        let answer = providers::ask(&http, ask, &mut listener).await.unwrap_or_default();
        bill(answer.usage);
        let _ = sender.send(Played::End(answer));
    };
    let work = stream::once(work).map(|()| None);
    let played = stream::poll_fn(move |cx| receiver.poll_recv(cx)).map(Some);
    stream::select(work, played).filter_map(ready)
}

/// A tool as the agent offers it to the model.
struct Offered {
    name: String,
    namespace: Option<String>,
}

impl Offered {
    fn new(name: &Value, namespace: Option<&Value>) -> Option<Self> {
        let namespace = namespace.and_then(Value::as_str).map(str::to_owned);
        Some(Self { name: name.as_str()?.to_owned(), namespace })
    }

    /// Its name without the server that has it.
    fn plain(&self) -> &str {
        self.name.strip_prefix("mcp__hivewright__").unwrap_or(&self.name)
    }

    fn spec(&self) -> ToolSpec {
        let name = self.plain().to_owned();
        ToolSpec { name, description: String::new(), schema: json!({}) }
    }
}

/// A block of the answer, as far as it was said.
enum Said {
    Text(String),
    Thinking(String),
    Call { id: String, name: String, namespace: Option<String>, arguments: String },
}

impl Said {
    /// A piece of the other kind begins another block.
    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// An answer while it is said.
struct Spoken {
    id: String,
    model: String,
    /// A stream ends with the figures: OpenAI's only if asked to.
    tells_usage: bool,
    said: Vec<Said>,
    /// The last block may go on.
    open: bool,
}

impl Spoken {
    /// The block that is said now, and its place.
    fn last(&self) -> Option<(usize, &Said)> {
        self.said.iter().enumerate().next_back()
    }

    fn has_calls(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Said::Call { .. }))
    }
}

/// A wire format: how a request is read, and which events an answer has. Those of a block are about the last one.
trait Format: Send + Sync {
    fn conversation(&self, body: &Value) -> Vec<Message>;
    fn tools(&self, body: &Value) -> Vec<Offered>;
    fn begin(&self, spoken: &Spoken) -> Vec<Value>;
    /// A block begins, before a word of it is said.
    fn open(&self, at: usize, said: &Said, spoken: &Spoken) -> Vec<Value>;
    fn piece(&self, at: usize, said: &Said, piece: &str, spoken: &Spoken) -> Vec<Value>;
    fn close(&self, at: usize, said: &Said, spoken: &Spoken) -> Vec<Value>;
    fn end(&self, spoken: &Spoken, usage: &Usage) -> Vec<Value>;
    /// The answer in one piece.
    fn whole(&self, spoken: &Spoken, usage: &Usage) -> Value;
    /// An event on the wire.
    fn frame(&self, event: &Value) -> String {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    }
    /// Ends a stream.
    fn last_frame(&self) -> &'static str {
        ""
    }
}

/// Tells what is played in a wire format.
struct Telling {
    format: &'static dyn Format,
    spoken: Spoken,
    tools: Vec<Offered>,
    /// Of the next event.
    number: u64,
}

impl Telling {
    fn on(&mut self, played: Played) -> String {
        let events = self.events(&played);
        let mut frames = self.frames(events);
        if let Played::End(answer) = played {
            let end = self.format.end(&self.spoken, &answer.usage);
            frames += &self.frames(end);
            frames += self.format.last_frame();
        }
        frames
    }

    fn whole(&mut self, played: Played) -> Option<Value> {
        self.events(&played);
        match played {
            Played::Event(_) => None,
            Played::End(answer) => Some(self.format.whole(&self.spoken, &answer.usage)),
        }
    }

    fn events(&mut self, played: &Played) -> Vec<Value> {
        let mut events = Vec::new();
        match played {
            Played::Event(EngineEvent::Text(piece)) => {
                self.say(Said::Text(String::new()), piece, &mut events);
            }
            Played::Event(EngineEvent::Thinking(piece)) => {
                self.say(Said::Thinking(String::new()), piece, &mut events);
            }
            Played::Event(EngineEvent::TextEnd) => self.end_block(&mut events),
            Played::Event(_) => {}
            Played::End(answer) => {
                // The demo calls after it has spoken.
                for block in &answer.blocks {
                    if let Block::Call(call) = block {
                        let (said, arguments) = self.call(call);
                        self.begin_block(said, &mut events);
                        self.go_on(&arguments, &mut events);
                    }
                }
                self.end_block(&mut events);
            }
        }
        events
    }

    /// A call of the tool that is meant: a script names it without the server that has it.
    fn call(&self, call: &ToolCall) -> (Said, String) {
        let ours = |tool: &&Offered| {
            tool.plain() == call.name && (tool.namespace.is_some() || tool.name != call.name)
        };
        let tool = self.tools.iter().find(ours);
        let said = Said::Call {
            id: call.id.to_string(),
            name: tool.map_or(&call.name, |tool| &tool.name).clone(),
            namespace: tool.and_then(|tool| tool.namespace.clone()),
            arguments: String::new(),
        };
        (said, call.args.to_string())
    }

    fn say(&mut self, block: Said, piece: &str, events: &mut Vec<Value>) {
        let goes_on = self.spoken.said.last().is_some_and(|last| last.is_like(&block));
        if !(goes_on && self.spoken.open) {
            self.begin_block(block, events);
        }
        self.go_on(piece, events);
    }

    fn begin_block(&mut self, said: Said, events: &mut Vec<Value>) {
        self.end_block(events);
        self.spoken.said.push(said);
        self.spoken.open = true;
        if let Some((at, said)) = self.spoken.last() {
            events.extend(self.format.open(at, said, &self.spoken));
        }
    }

    fn go_on(&mut self, piece: &str, events: &mut Vec<Value>) {
        match self.spoken.said.last_mut() {
            Some(Said::Text(text) | Said::Thinking(text)) => text.push_str(piece),
            Some(Said::Call { arguments, .. }) => arguments.push_str(piece),
            None => {}
        }
        if let Some((at, said)) = self.spoken.last() {
            events.extend(self.format.piece(at, said, piece, &self.spoken));
        }
    }

    fn end_block(&mut self, events: &mut Vec<Value>) {
        if std::mem::take(&mut self.spoken.open)
            && let Some((at, said)) = self.spoken.last()
        {
            events.extend(self.format.close(at, said, &self.spoken));
        }
    }

    fn frames(&mut self, events: Vec<Value>) -> String {
        let frames = events.into_iter().map(|mut event| {
            if event["response"].is_object() || event["output_index"].is_u64() {
                event["sequence_number"] = self.number.into();
                self.number += 1;
            }
            self.format.frame(&event)
        });
        frames.collect()
    }
}

/// The text of a content: plain, or in parts.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.filter(|text| !is_added(text)).collect::<Vec<_>>().join("\n\n")
        }
        _ => String::new(),
    }
}

fn is_added(text: &str) -> bool {
    ADDED.iter().any(|tag| text.trim_start().starts_with(tag))
}

/// Adds what a person said, unless the agent said it.
fn add_words(messages: &mut Vec<Message>, content: &Value) {
    let words = words(content);
    if !words.trim().is_empty() && !is_added(&words) {
        messages.extend(wake::read(&words));
    }
}

/// Adds a part of what the model said, to the message that it is a part of.
fn add_block(messages: &mut Vec<Message>, block: Block) {
    match messages.last_mut() {
        Some(Message::Assistant(blocks)) => blocks.push(block),
        _ => messages.push(Message::Assistant(vec![block])),
    }
}

fn add_result(messages: &mut Vec<Message>, id: &Value, content: &Value, failed: bool) {
    let output = ToolOutput {
        id: id.as_str().unwrap_or_default().into(),
        name: String::new(),
        content: words(content),
        fault: failed.then_some(ToolFault::ToolFailed),
        pictures: Vec::new(),
    };
    match messages.last_mut() {
        Some(Message::ToolResults(results)) => results.push(output),
        _ => messages.push(Message::ToolResults(vec![output])),
    }
}

fn call_block(id: &Value, name: &Value) -> Block {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Block::Call(ToolCall { id: word(id).into(), name: word(name), args: Args::Json(json!({})) })
}
