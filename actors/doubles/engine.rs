//! An engine that plays a script.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    engine::{
        Block, Engine, EngineEvent, EngineFailure, EventSink, JoinedWords, Message, StepReply,
        StepRequest,
    },
    task::outcome::Code,
    tool::{Args, ToolCall},
    usage::Usage,
};

/// Something an engine does in a step.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// Streams a piece of text.
    Say(&'static str),
    /// Ends the text block.
    EndText,
    /// Reports something.
    Report(EngineEvent),
    /// Takes so long.
    Wait(Duration),
    /// Never ends.
    Hang,
    /// Does not answer.
    Fail(Code),
    /// Answers, and the answer breaks.
    Break(Code),
    /// Wants fewer requests, for so long.
    Limit(Duration),
    Panic,
    /// The step costs so much.
    Cost(f64),
    /// The step reads so many tokens.
    Reads(u64),
    /// Answers with what was said.
    Answer,
    /// The same, cut by the output limit.
    Cut,
    /// Asks for tools: id and name.
    Call(Vec<(&'static str, &'static str)>),
    /// Asks for one tool, with arguments.
    CallWith(&'static str, &'static str, Value),
}

pub(crate) type Script = Arc<dyn Fn(&StepRequest) -> Vec<Play> + Send + Sync>;

/// Plays a script and keeps what it was asked.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) script: Script,
    pub(crate) asked: Arc<Mutex<Vec<Vec<Message>>>>,
    pub(crate) earlier: Arc<Mutex<Vec<Vec<Message>>>>,
}

/// The words that the step answers.
pub(crate) fn last_words(request: &StepRequest) -> &str {
    let last = request.messages.iter().rev().find_map(|message| match message {
        Message::User(text) | Message::Joined(JoinedWords { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    last.unwrap_or_default()
}

pub(crate) fn seconds(seconds: u64) -> Play {
    Play::Wait(Duration::from_secs(seconds))
}

impl Engine for Scripted {
    fn run(
        &self,
        request: StepRequest,
        events: EventSink,
    ) -> BoxFuture<'static, Result<StepReply, EngineFailure>> {
        self.asked.lock().unwrap().push(request.messages.to_vec());
        let earlier = request.earlier.iter().flat_map(|part| part.to_vec());
        self.earlier.lock().unwrap().push(earlier.collect());
        let plays = (self.script)(&request);
        Box::pin(async move {
            let mut said = String::new();
            let mut block_ended = false;
            let mut cost = None;
            let mut input = 1;
            let reply = |said: &str, calls: &[(&str, &str)], (cost, input)| {
                let mut reply = reply(said, calls);
                reply.usage.cost_usd = cost;
                reply.usage.input = input;
                reply
            };
            for play in plays {
                match play {
                    Play::Say(piece) => {
                        if std::mem::take(&mut block_ended) {
                            said.push('\n');
                        }
                        said.push_str(piece);
                        events(EngineEvent::Text(piece.to_owned()));
                    }
                    Play::EndText => {
                        block_ended = true;
                        events(EngineEvent::TextEnd);
                    }
                    Play::Report(event) => {
                        if event == EngineEvent::Reset {
                            said.clear();
                        }
                        events(event);
                    }
                    Play::Wait(pause) => tokio::time::sleep(pause).await,
                    Play::Hang => std::future::pending().await,
                    Play::Fail(code) => {
                        return Err(EngineFailure::new(code, "the provider failed"));
                    }
                    Play::Break(code) => {
                        let failure = EngineFailure::new(code, "the answer broke off");
                        return Err(EngineFailure { answered: true, ..failure });
                    }
                    Play::Limit(pause) => {
                        let failure = EngineFailure::new(Code::RateLimited, "too many requests");
                        return Err(EngineFailure { retry_after: Some(pause), ..failure });
                    }
                    Play::Panic => panic!("an engine that panics"),
                    Play::Cost(usd) => cost = Some(usd),
                    Play::Reads(tokens) => input = tokens,
                    Play::Answer => return Ok(reply(&said, &[], (cost, input))),
                    Play::Cut => {
                        let reply = reply(&said, &[], (cost, input));
                        return Ok(StepReply { truncated: true, ..reply });
                    }
                    Play::Call(calls) => return Ok(reply(&said, &calls, (cost, input))),
                    Play::CallWith(id, name, args) => {
                        let mut reply = reply(&said, &[(id, name)], (cost, input));
                        if let Some(Block::Call(call)) = reply.blocks.last_mut() {
                            call.args = Args::Json(args);
                        }
                        return Ok(reply);
                    }
                }
            }
            Ok(reply(&said, &[], (cost, input)))
        })
    }
}

/// What a model answers: text, then calls.
pub(crate) fn reply(text: &str, calls: &[(&str, &str)]) -> StepReply {
    let mut blocks = Vec::new();
    if !text.is_empty() {
        blocks.push(Block::Text { text: text.to_owned() });
    }
    blocks.extend(calls.iter().map(|(id, name)| {
        Block::Call(ToolCall {
            id: (*id).into(),
            name: (*name).to_owned(),
            args: Args::Json(json!({})),
        })
    }));
    StepReply {
        blocks,
        usage: Usage { input: 1, output: 1, ..Usage::default() },
        stop_reason: "end_turn".to_owned(),
        truncated: false,
        profile: "default".to_owned(),
        model: "scripted".to_owned(),
    }
}
