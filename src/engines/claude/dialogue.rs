//! The stream-json protocol: what is said to and by one process.

use std::collections::{HashMap, HashSet};

use hivewright_actors::{
    engine::{Block, EngineFailure},
    task::outcome::Code,
    tool::{Args, ToolCall},
};
use serde_json::{Value, json};

use super::{PREFIX, SERVER, failure::Signs};
use crate::engines::{
    harness::program::{self, Act, Order},
    pictures::Picture,
};

const HANDSHAKE: &str = "initialize";

/// What is said to and by one process.
#[derive(Debug, Default)]
pub(super) struct Dialogue {
    /// Our tools, as the program names them.
    tools: HashSet<String>,
    /// How many of the texts told are in no request to the model yet.
    waiting: usize,
    message: Message,
    /// Calls of tools that are not ours, by id.
    foreign: HashMap<String, String>,
    /// The model has said some text.
    spoken: bool,
    missing_noted: bool,
    signs: Signs,
}

/// The message of the model that is under way.
///
/// The program makes a call as soon as its block is whole, and may answer it itself. So a call is
/// held until the message ends, and what follows it too, for the order.
#[derive(Debug, Default)]
struct Message {
    open: bool,
    held: Vec<Block>,
}

impl Dialogue {
    pub(super) fn new(order: &Order) -> Self {
        let tools = order.tools.iter().map(|tool| format!("{PREFIX}{tool}"));
        Self { tools: tools.collect(), ..Self::default() }
    }

    fn answered(&self, line: &Value) -> Vec<Act> {
        let response = &line["response"];
        if response["request_id"] != HANDSHAKE {
            return vec![];
        }
        if response["subtype"] == "success" {
            vec![Act::Ready]
        } else {
            let reason = response["error"].as_str().unwrap_or("without a reason");
            failed(Code::ProviderError, format!("claude refused the handshake: {reason}"))
        }
    }

    fn system(&mut self, line: &Value) -> Vec<Act> {
        match line["subtype"].as_str() {
            Some("init") => self.init(line),
            Some("api_retry") => {
                self.signs.retry(line);
                let status = line["error_status"].as_u64().map(|status| format!(" ({status})"));
                vec![Act::Retry(format!(
                    "claude asks the model again, attempt {} of {}: {}{}",
                    line["attempt"],
                    line["max_retries"],
                    line["error"].as_str().unwrap_or("unknown"),
                    status.unwrap_or_default()
                ))]
            }
            Some("compact_boundary") => vec![Act::Note("claude compacted its conversation".into())],
            Some("informational") => line["content"]
                .as_str()
                .map(|text| Act::Note(text.to_owned()))
                .into_iter()
                .collect(),
            _ => vec![],
        }
    }

    /// Checks that it has our tools and no others.
    fn init(&mut self, line: &Value) -> Vec<Act> {
        let offered: HashSet<&str> = texts(&line["tools"]).collect();
        let mut others: Vec<&str> =
            offered.iter().copied().filter(|tool| !self.tools.contains(*tool)).collect();
        if !others.is_empty() {
            others.sort_unstable();
            let words = format!("claude has tools of its own: {}", others.join(", "));
            return failed(Code::ProviderError, words);
        }
        let connected = items(&line["mcp_servers"])
            .any(|server| server["name"] == SERVER && server["status"] == "connected");
        if !connected {
            return failed(Code::Crash, "its tools are not available");
        }
        let mut missing: Vec<&str> = self
            .tools
            .iter()
            .filter(|tool| !offered.contains(tool.as_str()))
            .filter_map(|tool| plain(tool))
            .collect();
        if missing.is_empty() || std::mem::replace(&mut self.missing_noted, true) {
            return vec![];
        }
        missing.sort_unstable();
        vec![Act::Note(format!("claude does not show the model: {}", missing.join(", ")))]
    }

    fn stream(&mut self, line: &Value) -> Vec<Act> {
        let event = &line["event"];
        match event["type"].as_str() {
            Some("message_start") => {
                self.message = Message { open: true, held: vec![] };
                self.signs = Signs::default();
                vec![]
            }
            Some("content_block_delta") => {
                let delta = &event["delta"];
                let piece = |field: &str| delta[field].as_str().filter(|piece| !piece.is_empty());
                let text = piece("text").map(|piece| Act::Text(piece.to_owned()));
                let thinking = piece("thinking").map(|piece| Act::Thinking(piece.to_owned()));
                text.or(thinking).into_iter().collect()
            }
            Some("message_delta") if self.message.open => {
                self.end_message(event["delta"]["stop_reason"].as_str())
            }
            // A message that broke off has no `message_delta`. What is whole of it counts; if nothing
            // is, the program asks for it again.
            Some("message_stop") if self.message.open => {
                if line["abandoned_blocks"]["from_block_index"] == 0 {
                    self.message.open = false;
                    vec![Act::Reset]
                } else {
                    self.end_message(None)
                }
            }
            _ => vec![],
        }
    }

    fn end_message(&mut self, stop: Option<&str>) -> Vec<Act> {
        let message = std::mem::take(&mut self.message);
        let mut blocks = message.held;
        let held = blocks.len();
        // Nothing is done for a message that was refused. Versions differ in whether they take back a
        // call that they have made, so the process is not to go on.
        if stop == Some("refusal") {
            blocks.retain(|block| !matches!(block, Block::Call(_)));
        }
        let made_calls = blocks.len() < held;
        let mut acts: Vec<Act> = blocks.into_iter().map(Act::Block).collect();
        acts.push(Act::MessageEnd(stop.map(str::to_owned)));
        if made_calls {
            acts.extend(failed(Code::ProviderRefused, "the model declined while it called a tool"));
        }
        acts
    }

    fn assistant(&mut self, line: &Value) -> Vec<Act> {
        let message = &line["message"];
        if message["model"] == "<synthetic>" {
            self.signs.synthetic(line);
            // Of a message that broke off, some versions say no more than this before they wait for
            // its calls.
            return if self.message.held.is_empty() {
                vec![]
            } else {
                self.end_message(message["stop_reason"].as_str().filter(|why| *why == "refusal"))
            };
        }
        let streamed = self.message.open;
        let mut acts = vec![];
        for part in items(&message["content"]) {
            let Some(block) = self.block(part) else { continue };
            self.spoken |= matches!(block, Block::Text { .. });
            if !streamed {
                acts.extend(live(&block));
            }
            if matches!(block, Block::Call(_)) || !self.message.held.is_empty() {
                self.message.held.push(block);
            } else {
                acts.push(Act::Block(block));
            }
        }
        if !streamed {
            acts.extend(self.end_message(message["stop_reason"].as_str()));
        }
        acts
    }

    fn block(&mut self, part: &Value) -> Option<Block> {
        let text =
            |field: &str| part[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        match part["type"].as_str()? {
            "text" => Some(Block::Text { text: text("text")? }),
            "thinking" => Some(Block::Thinking { text: text("thinking")?, block: None }),
            "tool_use" => {
                let (id, name) = (text("id")?, text("name")?);
                if self.tools.contains(&name) {
                    let name = plain(&name)?.to_owned();
                    let args = Args::Json(part["input"].clone());
                    Some(Block::Call(ToolCall { id: id.into(), name, args }))
                } else {
                    self.foreign.insert(id, name);
                    None
                }
            }
            _ => None,
        }
    }

    fn user(&mut self, line: &Value) -> Vec<Act> {
        let content = &line["message"]["content"];
        if line["isReplay"] == true {
            // Texts that waited together are taken together, each as a block.
            let taken = content.as_array().map_or(1, Vec::len);
            self.waiting = self.waiting.saturating_sub(taken);
            return vec![];
        }
        items(content).filter_map(|part| self.tool_result(part)).collect()
    }

    /// A result that the program shows. Those of our tools are known; what is left are calls that
    /// it has answered itself.
    fn tool_result(&mut self, part: &Value) -> Option<Act> {
        let id = part["tool_use_id"].as_str()?;
        if let Some(name) = self.foreign.remove(id) {
            let absent = part["is_error"] == true && said(part).contains("No such tool available");
            return Some(if absent {
                Act::Note(format!("the model called `{name}`, which does not exist"))
            } else {
                let words = format!("claude ran `{name}`, a tool of its own");
                Act::Done(Err(EngineFailure::new(Code::ProviderError, words)))
            });
        }
        let held = &mut self.message.held;
        let position = held
            .iter()
            .position(|block| matches!(block, Block::Call(call) if call.id.as_str() == id))?;
        let Block::Call(call) = held.remove(position) else { return None };
        Some(Act::Note(format!("claude did not make the call of `{}`", call.name)))
    }

    fn result(&mut self, line: &Value) -> Vec<Act> {
        let mut acts = vec![];
        if self.message.open {
            acts.extend(self.end_message(None));
        }
        for denied in items(&line["permission_denials"]) {
            let name = denied["tool_name"].as_str().unwrap_or("?");
            acts.push(Act::Note(format!("claude denied the model `{name}`")));
        }
        let words = line["result"].as_str().unwrap_or_default();
        if line["is_error"] == true {
            acts.push(Act::Done(Err(self.signs.failure(line))));
        } else if line["num_turns"] == 0 {
            let words = format!("claude did not pass the message on to the model: {words}");
            acts.extend(failed(Code::ProviderError, words));
        } else {
            if !self.spoken && !words.is_empty() {
                let block = Block::Text { text: words.to_owned() };
                acts.extend(live(&block));
                acts.extend([Act::Block(block), Act::MessageEnd(None)]);
            }
            self.spoken = false;
            // What was told meanwhile comes next, with a `result` of its own.
            if self.waiting == 0 {
                acts.push(Act::Done(Ok(())));
            }
        }
        acts
    }
}

impl program::Dialogue for Dialogue {
    fn open(&mut self) -> Vec<Act> {
        let request = json!({"subtype": "initialize"});
        let line = json!({"type": "control_request", "request_id": HANDSHAKE, "request": request});
        vec![Act::write(&line)]
    }

    fn hear(&mut self, line: Value) -> Vec<Act> {
        // What an agent of its own says, of which there are none.
        if line["parent_tool_use_id"].is_string() {
            return vec![];
        }
        match line["type"].as_str() {
            Some("control_response") => self.answered(&line),
            Some("control_request") => vec![declined(&line["request_id"])],
            Some("system") => self.system(&line),
            Some("stream_event") => self.stream(&line),
            Some("assistant") => self.assistant(&line),
            Some("user") => self.user(&line),
            Some("result") => self.result(&line),
            _ => vec![],
        }
    }

    fn show(&mut self, text: &str, pictures: &[Picture]) -> Vec<Act> {
        self.waiting += 1;
        let mut content = vec![json!({"type": "text", "text": text})];
        content.extend(pictures.iter().map(|Picture { mime, data }| {
            let source = json!({"type": "base64", "media_type": mime, "data": data});
            json!({"type": "image", "source": source})
        }));
        let frame = json!({"type": "user", "message": {"role": "user", "content": content}});
        vec![Act::write(&frame)]
    }

    fn ended(&mut self) -> EngineFailure {
        EngineFailure::new(Code::Crash, "claude stopped before the turn was over")
    }
}

/// The answer to a question of the program, which would wait for it.
fn declined(id: &Value) -> Act {
    let response = json!({"subtype": "error", "request_id": id, "error": "not supported"});
    Act::write(&json!({"type": "control_response", "response": response}))
}

fn failed(code: Code, words: impl Into<String>) -> Vec<Act> {
    vec![Act::Done(Err(EngineFailure::new(code, words)))]
}

/// A block as it would have streamed.
fn live(block: &Block) -> Option<Act> {
    match block {
        Block::Text { text } => Some(Act::Text(text.clone())),
        Block::Thinking { text, .. } => Some(Act::Thinking(text.clone())),
        Block::Call(_) => None,
    }
}

fn plain(tool: &str) -> Option<&str> {
    tool.strip_prefix(PREFIX)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    items(list).filter_map(Value::as_str)
}

/// The text of a tool result.
fn said(part: &Value) -> String {
    part["content"].as_str().map_or_else(|| part["content"].to_string(), str::to_owned)
}
