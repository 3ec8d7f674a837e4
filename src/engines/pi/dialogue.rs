//! What Pi is told in its two modes, and what its lines mean.

use std::collections::{HashMap, HashSet};

use hivewright_actors::{
    engine::{Block, EngineFailure},
    task::outcome::Code,
    tool::{Args, ToolCall},
};
use serde_json::{Value, json};

use super::{PREFIX, failure::classify};
use crate::{
    engines::{
        harness::program::{self, Act, Speech},
        pictures::Picture,
    },
    settings::config::PiMode,
};

/// The ids of our commands; those of what it is told are `tell-1`, `tell-2` and so on.
const STATE: &str = "state";
const IDLE: &str = "idle";

pub(super) struct Dialogue {
    mode: PiMode,
    tools: HashSet<String>,
    told: u32,
    /// What it was told and has not acknowledged.
    unanswered: HashSet<String>,
    /// A run has ended, and nothing says that another follows.
    ending: bool,
    over: bool,
    /// The text that was streamed of each block of the message that is being written.
    streamed: HashMap<u64, String>,
    /// Why the last message stopped.
    stop: Option<String>,
    /// The words of a message that failed. They count only if it is not tried again.
    failed: Option<(Vec<Block>, EngineFailure)>,
    /// The last that it complained of.
    complaint: Option<String>,
}

impl Dialogue {
    pub(super) fn new(mode: PiMode, tools: &[String]) -> Self {
        Self {
            mode,
            tools: tools.iter().cloned().collect(),
            told: 0,
            unanswered: HashSet::new(),
            ending: false,
            over: false,
            streamed: HashMap::new(),
            stop: None,
            failed: None,
            complaint: None,
        }
    }

    fn response(&mut self, line: &Value) -> Vec<Act> {
        let id = text(&line["id"]);
        let success = line["success"] == true;
        match id {
            STATE if success => vec![Act::Ready],
            STATE => self.finish(Err(breach(&format!(
                "its state is not to be had: {}",
                text(&line["error"])
            )))),
            // A version that says when it has settled is not idle before.
            IDLE if self.ending && line["data"]["isStreaming"] == true => vec![ask_whether_idle()],
            IDLE if self.ending => self.settle(),
            id if self.unanswered.remove(id) => self.acknowledged(success, text(&line["error"])),
            _ => vec![],
        }
    }

    /// It has taken, or refused, what it was told.
    fn acknowledged(&mut self, success: bool, error: &str) -> Vec<Act> {
        if success {
            // After the end of a run it begins another.
            self.ending = false;
            return vec![];
        }
        let mut acts = vec![Act::Note(format!("pi did not take a message: {error}"))];
        if self.told == 1 {
            acts.extend(self.finish(Err(classify(error))));
        } else if self.ending {
            acts.extend(self.settle());
        }
        acts
    }

    fn update(&mut self, event: &Value) -> Vec<Act> {
        let delta = text(&event["delta"]).to_owned();
        let speech = match text(&event["type"]) {
            "text_delta" => Speech::Text,
            "thinking_delta" => Speech::Thinking,
            _ => return vec![],
        };
        if delta.is_empty() {
            return vec![];
        }
        let block = event["contentIndex"].as_u64().unwrap_or_default();
        self.streamed.entry(block).or_default().push_str(&delta);
        vec![speech.piece(delta)]
    }

    fn message_ended(&mut self, message: &Value) -> Vec<Act> {
        if message["role"] != "assistant" {
            return vec![];
        }
        let stop = text(&message["stopReason"]).to_owned();
        let (mut acts, mut blocks) = (vec![], vec![]);
        for (index, part) in message["content"].as_array().into_iter().flatten().enumerate() {
            let mut said = |speech: Speech, words: &Value| {
                let words = text(words);
                if !words.is_empty() {
                    acts.extend(self.rest(index, words).map(|rest| speech.piece(rest)));
                    blocks.push(speech.block(words.to_owned()));
                }
            };
            match text(&part["type"]) {
                "text" => said(Speech::Text, &part["text"]),
                "thinking" => said(Speech::Thinking, &part["thinking"]),
                "toolCall" => match self.call(part, &stop) {
                    Ok(call) => blocks.push(Block::Call(call)),
                    Err(note) => acts.extend(note.map(Act::Note)),
                },
                _ => {}
            }
        }
        self.streamed.clear();
        self.stop = Some(stop.clone());
        if matches!(stop.as_str(), "error" | "aborted") {
            self.failed = Some((blocks, classify(text(&message["errorMessage"]))));
            return acts;
        }
        self.failed = None;
        acts.extend(blocks.into_iter().map(Act::Block));
        acts.push(Act::MessageEnd(Some(stop)));
        acts
    }

    /// What was not streamed of a block.
    fn rest(&self, index: usize, whole: &str) -> Option<String> {
        let streamed = self.streamed.get(&(index as u64)).map_or("", String::as_str);
        let rest = whole.strip_prefix(streamed)?;
        (!rest.is_empty()).then(|| rest.to_owned())
    }

    /// A call that comes to us, or why it does not: then Pi answers the model itself.
    fn call(&self, part: &Value, stop: &str) -> Result<ToolCall, Option<String>> {
        let name = text(&part["name"]);
        // Told of when Pi has refused it.
        let plain = self.plain(name).ok_or(None)?;
        let reason = match stop {
            "error" | "aborted" => return Err(None),
            "length" => Some("the message was cut short"),
            _ if part["argumentsError"].is_string() => Some("its arguments are not JSON"),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(Some(format!("a call of `{plain}` was not made: {reason}")));
        }
        Ok(ToolCall {
            id: text(&part["id"]).into(),
            name: plain.to_owned(),
            args: Args::Json(part["arguments"].clone()),
        })
    }

    /// The name of a tool of ours without the prefix.
    fn plain<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(PREFIX).filter(|name| self.tools.contains(*name))
    }

    /// A tool that is not ours is never run: Pi says that it is not found.
    fn tool_ended(&mut self, line: &Value) -> Vec<Act> {
        let name = text(&line["toolName"]);
        if self.plain(name).is_some() {
            return vec![];
        }
        let answer = text(&line["result"]["content"][0]["text"]);
        let refused = answer.starts_with(&format!("Tool {name} not found"))
            || self.stop.as_deref() == Some("length")
            || answer.starts_with("Invalid arguments for tool");
        if line["isError"] == true && refused {
            return vec![Act::Note(format!(
                "the model called `{name}`, which is not one of its tools"
            ))];
        }
        self.finish(Err(breach(&format!("it ran the tool `{name}`, which is not one of ours"))))
    }

    fn run_ended(&mut self, line: &Value) -> Vec<Act> {
        if line["willRetry"] == true {
            return vec![];
        }
        self.ending = true;
        match self.mode {
            // What tells a pause from the end comes after it, or never: it is asked.
            PiMode::Rpc => vec![ask_whether_idle()],
            // It does not try again in this mode, and is told no more.
            PiMode::Json => self.settle(),
        }
    }

    /// It does no more by itself.
    fn settle(&mut self) -> Vec<Act> {
        self.ending = true;
        if !self.unanswered.is_empty() {
            return vec![];
        }
        match self.failed.take() {
            None => self.finish(Ok(())),
            Some((blocks, failure)) => {
                let mut acts: Vec<Act> = blocks.into_iter().map(Act::Block).collect();
                acts.extend(self.finish(Err(failure)));
                acts
            }
        }
    }

    /// It says so after the end of a run, and in old versions nothing else does.
    fn tries_again(&mut self, reason: &str) -> Vec<Act> {
        self.ending = false;
        let has_said = self.failed.as_ref().is_some_and(|(blocks, _)| !blocks.is_empty());
        let note = Act::Retry(format!("pi tries again: {reason}"));
        has_said.then_some(Act::Reset).into_iter().chain([note]).collect()
    }

    fn finish(&mut self, result: Result<(), EngineFailure>) -> Vec<Act> {
        self.over = true;
        vec![Act::Done(result)]
    }
}

impl program::Dialogue for Dialogue {
    fn open(&mut self) -> Vec<Act> {
        match self.mode {
            // Answered when our extension has our tools: Pi waits for it before it reads its input.
            PiMode::Rpc => vec![
                Act::write(&json!({"id": STATE, "type": "get_state"})),
                Act::write(&json!({"type": "set_auto_compaction", "enabled": false})),
            ],
            // Its first line comes after the end of its input.
            PiMode::Json => vec![Act::Ready],
        }
    }

    fn hear(&mut self, line: Value) -> Vec<Act> {
        if self.over {
            return vec![];
        }
        match text(&line["type"]) {
            "response" => self.response(&line),
            "agent_start" => {
                self.ending = false;
                vec![]
            }
            "message_start" => {
                self.streamed.clear();
                vec![]
            }
            "message_update" => self.update(&line["assistantMessageEvent"]),
            "message_end" => self.message_ended(&line["message"]),
            "tool_execution_end" => self.tool_ended(&line),
            "agent_end" => self.run_ended(&line),
            "agent_settled" => self.settle(),
            "auto_retry_start" => self.tries_again(text(&line["errorMessage"])),
            "compaction_start" => vec![Act::Note("pi wants to compact its conversation".into())],
            "extension_ui_request" => answer_dialog(&line),
            "extension_error" => {
                let error = text(&line["error"]).to_owned();
                self.complaint = Some(error.clone());
                vec![Act::Note(format!("the extension of pi failed: {error}"))]
            }
            _ => vec![],
        }
    }

    fn show(&mut self, text: &str, pictures: &[Picture]) -> Vec<Act> {
        self.told += 1;
        match self.mode {
            PiMode::Rpc => {
                let id = format!("tell-{}", self.told);
                self.unanswered.insert(id.clone());
                // Into the run if there is one, else it begins one. A `steer` would lie there for ever.
                let mut prompt = json!({
                    "id": id, "type": "prompt", "message": text, "streamingBehavior": "steer",
                });
                if !pictures.is_empty() {
                    let image = |Picture { mime, data }: &Picture| json!({"type": "image", "data": data, "mimeType": mime});
                    prompt["images"] = pictures.iter().map(image).collect();
                }
                vec![Act::write(&prompt)]
            }
            PiMode::Json if self.told == 1 => vec![Act::Write(text.to_owned()), Act::CloseInput],
            PiMode::Json => vec![Act::Note("pi takes no more messages in this mode".into())],
        }
    }

    fn ended(&mut self) -> EngineFailure {
        let reason = match (self.failed.take(), self.complaint.take()) {
            (Some((_, failure)), _) => failure.message,
            (None, Some(complaint)) => complaint,
            (None, None) => {
                return EngineFailure::new(Code::Crash, "pi ended before its turn was over");
            }
        };
        EngineFailure::new(Code::Crash, format!("pi ended before its turn was over: {reason}"))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn ask_whether_idle() -> Act {
    Act::write(&json!({"id": IDLE, "type": "get_state"}))
}

/// There is nobody to ask.
fn answer_dialog(request: &Value) -> Vec<Act> {
    match text(&request["method"]) {
        "select" | "confirm" | "input" | "editor" => vec![Act::write(&json!({
            "type": "extension_ui_response", "id": request["id"], "cancelled": true,
        }))],
        "notify" => vec![Act::Note(text(&request["message"]).to_owned())],
        _ => vec![],
    }
}

fn breach(what: &str) -> EngineFailure {
    EngineFailure::new(Code::ProviderError, format!("pi broke its protocol: {what}"))
}
