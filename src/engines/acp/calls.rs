//! Calls of a message, from their announcement until the message is known to be complete.
//!
//! The protocol does not say when a message of the model ends. What tells is that the agent counts what the message
//! has cost, or begins with a call.

use std::collections::HashSet;

use agent_client_protocol_schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    SelectedPermissionOutcome, ToolCall as Announced, ToolCallStatus, ToolCallUpdate, ToolKind,
};
use hivewright_actors::{
    engine::Block,
    tool::{Args, ToolCall},
};
use serde_json::{Value, json};

use super::SERVER;
use crate::engines::harness::program::Act;

#[derive(Debug)]
pub(super) struct Calls {
    /// Our tools, by their plain names.
    tools: Vec<String>,
    /// Calls of ours that have not begun.
    held: Vec<ToolCall>,
    /// All calls of ours, by what the agent calls them.
    ours: HashSet<String>,
}

impl Calls {
    pub(super) fn new(tools: &[String]) -> Self {
        Self { tools: tools.to_vec(), held: Vec::new(), ours: HashSet::new() }
    }

    /// The agent tells of a call. `raw` is the same with what newer versions of the protocol say of it.
    pub(super) fn announced(&mut self, call: Announced, raw: &Value) -> Vec<Act> {
        let id = call.tool_call_id.to_string();
        let Some(name) = self.plain_name(raw, call.kind) else {
            let kind = kind(call.kind);
            return vec![Act::Note(format!(
                "the agent uses a tool of its own ({kind}), in its box"
            ))];
        };
        let args = Args::Json(call.raw_input.map_or_else(|| json!({}), arguments));
        self.ours.insert(id.clone());
        let told = ToolCall { id: id.into(), name, args };
        if call.status == ToolCallStatus::InProgress {
            return tell([told]);
        }
        self.held.push(told);
        Vec::new()
    }

    pub(super) fn updated(&mut self, update: ToolCallUpdate) -> Vec<Act> {
        let id = update.tool_call_id.to_string();
        let Some(place) = self.held.iter().position(|call| call.id.as_str() == id) else {
            return Vec::new();
        };
        if let Some(input) = update.fields.raw_input {
            self.held[place].args = Args::Json(arguments(input));
        }
        match update.fields.status {
            // Others of its message may not be complete.
            Some(ToolCallStatus::InProgress) => tell([self.held.remove(place)]),
            // It was made before its message was known to end, or never.
            Some(ToolCallStatus::Completed | ToolCallStatus::Failed) => {
                self.held.remove(place);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The message is complete: its calls are told of, if it has any.
    pub(super) fn message_ended(&mut self) -> Vec<Act> {
        if self.held.is_empty() { Vec::new() } else { tell(self.held.drain(..)) }
    }

    /// The answer to whether it may make a call: for our tools yes, this time. They are judged when they are called.
    pub(super) fn permit(
        &self,
        request: &RequestPermissionRequest,
        raw: &Value,
    ) -> (RequestPermissionOutcome, Option<Act>) {
        let kind_of_call = request.tool_call.fields.kind.unwrap_or_default();
        let id = request.tool_call.tool_call_id.to_string();
        let is_ours = self.ours.contains(&id) || self.plain_name(raw, kind_of_call).is_some();
        let choose = |wanted| choice(&request.options, wanted);
        if is_ours {
            return (choose(PermissionOptionKind::AllowOnce), None);
        }
        let kind = kind(kind_of_call);
        let note = format!("the agent wanted to use a tool of its own ({kind}), and was refused");
        (choose(PermissionOptionKind::RejectOnce), Some(Act::Note(note)))
    }

    /// The tool of ours that a call is of. Agents have different words for one of an MCP server.
    fn plain_name(&self, call: &Value, kind: ToolKind) -> Option<String> {
        // The titles of these have words in them that a model chose.
        let own = [ToolKind::Edit, ToolKind::Delete, ToolKind::Move, ToolKind::Execute];
        let names = [&call["name"], &call["_meta"]["claudeCode"]["toolName"], &call["title"]];
        let mut names = names.into_iter().filter_map(Value::as_str);
        if own.contains(&kind) {
            return None;
        }
        // The first that there is counts, so that a title cannot make another tool of it.
        let name = names.next()?;
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        let words: Vec<&str> = name.split(|letter| !is_word(letter)).collect();
        let names_server = words.contains(&SERVER);
        let tool = words.iter().find_map(|word| {
            let prefixes = [format!("mcp__{SERVER}__"), format!("{SERVER}__")];
            let plain = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix.as_str()));
            let plain = plain.or(names_server.then_some(*word))?;
            self.tools.iter().find(|tool| *tool == plain)
        });
        tool.cloned()
    }
}

/// Tells of calls that are complete.
fn tell(calls: impl IntoIterator<Item = ToolCall>) -> Vec<Act> {
    let calls = calls.into_iter().map(|call| Act::Block(Block::Call(call)));
    calls.chain([Act::MessageEnd(Some("tool_use".to_owned()))]).collect()
}

/// The arguments in what an agent shows of a call: some put the name of the server and of the tool beside them.
fn arguments(mut input: Value) -> Value {
    if input["server"] == SERVER && input["arguments"].is_object() {
        input["arguments"].take()
    } else {
        input
    }
}

fn choice(options: &[PermissionOption], wanted: PermissionOptionKind) -> RequestPermissionOutcome {
    let option = options.iter().find(|option| option.kind == wanted);
    option.map_or(RequestPermissionOutcome::Cancelled, |option| {
        let chosen = SelectedPermissionOutcome::new(option.option_id.clone());
        RequestPermissionOutcome::Selected(chosen)
    })
}

/// The word of the protocol for a kind of tool.
fn kind(kind: ToolKind) -> String {
    json!(kind).as_str().unwrap_or_default().to_owned()
}
