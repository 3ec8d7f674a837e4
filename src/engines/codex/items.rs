//! Items of a thread: what both modes of Codex report of the model's work.

use hivewright_actors::{
    engine::{Block, EngineFailure},
    task::outcome::Code,
    tool::{Args, ToolCall},
};
use serde_json::Value;

use super::NAME;
use crate::engines::harness::program::{Act, Order, Speech};

/// Tools that cannot be switched off. They ask our server for resources, which it has none of.
const RESOURCES: &[&str] =
    &["list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"];

/// The items of a turn.
#[derive(Debug)]
pub(super) struct Items {
    tools: Vec<String>,
    /// Words of items that are not complete, by their ids.
    unfinished: Vec<(String, Speech, String)>,
    /// The model's message has parts and has not ended.
    has_begun: bool,
}

impl Items {
    pub(super) fn new(order: &Order) -> Self {
        Self { tools: order.tools.clone(), unfinished: Vec::new(), has_begun: false }
    }

    /// The next piece of an item's words.
    pub(super) fn piece(&mut self, id: &str, speech: Speech, piece: &str) -> Vec<Act> {
        match self.unfinished.iter_mut().find(|(known, ..)| known == id) {
            Some((_, _, said)) => said.push_str(piece),
            None => self.unfinished.push((id.to_owned(), speech, piece.to_owned())),
        }
        vec![speech.piece(piece.to_owned())]
    }

    /// An item begins: a tool is about to be used.
    pub(super) fn started(&mut self, item: &Value) -> Vec<Act> {
        match kind(item) {
            "mcpToolCall" | "mcp_tool_call" => self.call(item),
            kind if is_tool(kind, item) => breach(kind),
            _ => Vec::new(),
        }
    }

    pub(super) fn completed(&mut self, item: &Value) -> Vec<Act> {
        match kind(item) {
            "agentMessage" | "agent_message" => self.said(item, Speech::Text),
            "reasoning" => self.said(item, Speech::Thinking),
            // The host has recorded the result.
            "mcpToolCall" | "mcp_tool_call" => Vec::new(),
            "contextCompaction" => {
                vec![Act::Note("Codex has shortened its conversation by itself".to_owned())]
            }
            "error" => vec![Act::Note(text(item, "message").to_owned())],
            kind if is_tool(kind, item) => breach(kind),
            _ => Vec::new(),
        }
    }

    /// The model's message is over, if it had begun.
    pub(super) fn message_end(&mut self) -> Vec<Act> {
        if std::mem::take(&mut self.has_begun) { vec![Act::MessageEnd(None)] } else { Vec::new() }
    }

    /// The model is asked again, for what follows its last whole item: what it was saying since is void.
    pub(super) fn asked_again(&mut self) -> Vec<Act> {
        let unfinished = std::mem::take(&mut self.unfinished);
        if unfinished.is_empty() || self.has_begun { Vec::new() } else { vec![Act::Reset] }
    }

    /// The turn breaks off: what the model was saying is kept as far as it came.
    pub(super) fn broke_off(&mut self) -> Vec<Act> {
        let unfinished = std::mem::take(&mut self.unfinished);
        self.has_begun = false;
        unfinished.into_iter().map(|(_, speech, said)| Act::Block(speech.block(said))).collect()
    }

    fn said(&mut self, item: &Value, speech: Speech) -> Vec<Act> {
        let place = self.unfinished.iter().position(|(id, ..)| id == text(item, "id"));
        let streamed = place.map(|place| self.unfinished.remove(place).2).unwrap_or_default();
        let whole = words(item);
        if whole.is_empty() {
            return Vec::new();
        }
        self.has_begun = true;
        let rest = whole.strip_prefix(&streamed).filter(|rest| !rest.is_empty());
        let rest = rest.map(|rest| speech.piece(rest.to_owned()));
        rest.into_iter().chain([Act::Block(speech.block(whole))]).collect()
    }

    fn call(&mut self, item: &Value) -> Vec<Act> {
        let (server, tool) = (text(item, "server"), text(item, "tool"));
        if server == NAME && self.tools.iter().any(|ours| ours == tool) {
            let call = ToolCall {
                id: text(item, "id").into(),
                name: tool.to_owned(),
                args: Args::Json(item["arguments"].clone()),
            };
            // It makes a call while the model may still be writing. As the next one waits for this one, it belongs to
            // the next step, and the message ends here.
            self.has_begun = false;
            return vec![Act::Block(Block::Call(call)), Act::MessageEnd(None)];
        }
        if [NAME, "codex"].contains(&server) && RESOURCES.contains(&tool) {
            return vec![Act::Note(format!("Codex has looked for resources with `{tool}`"))];
        }
        breach(&format!("{server}/{tool}"))
    }
}

fn breach(tool: &str) -> Vec<Act> {
    let message = format!("Codex has used a tool of its own, which it was not given: `{tool}`");
    vec![Act::Done(Err(EngineFailure::new(Code::ProviderError, message)))]
}

/// Whether an item is the use of a tool. One of a kind that is not known yet shows it by its status.
fn is_tool(kind: &str, item: &Value) -> bool {
    let known = [
        "webSearch",
        "web_search",
        "imageView",
        "imageGeneration",
        "sleep",
        "subAgentActivity",
        "collabAgentToolCall",
    ];
    known.contains(&kind) || item.get("status").is_some()
}

/// All words of an item. The app server has those of reasoning in parts.
fn words(item: &Value) -> String {
    let parts = ["summary", "content"].map(|field| item[field].as_array());
    let parts = parts.into_iter().flatten().flatten().filter_map(Value::as_str);
    let parts: Vec<&str> = std::iter::once(text(item, "text")).chain(parts).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

fn kind(item: &Value) -> &str {
    text(item, "type")
}

pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of[field].as_str().unwrap_or_default()
}
