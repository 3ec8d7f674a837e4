//! The answer, from the chunks of a stream or from one piece.

use std::collections::HashSet;

use hivewright_actors::{
    engine::{Block, EngineEvent, Message, is_output_limit},
    tool::ToolCall,
    usage::Usage,
};
use serde::Deserialize;
use serde_json::Value;

use crate::providers::{
    Answer, Ask, LONGEST_CALL, Listener, Reader, arguments, call_ids, fault::Fault,
    http::error_text, parts, sent_arguments, sse, tokens::Tokens,
};

/// A chunk of a stream, or a whole answer. Proxies leave out or null whatever they like.
#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Reported>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(alias = "message")]
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Reported {
    prompt_tokens: Option<Tokens>,
    completion_tokens: Option<Tokens>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<Tokens>,
}

#[derive(Default)]
struct Call {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
}

/// Puts the answer together.
pub(in crate::providers) struct Reading<'a> {
    /// What was asked, for a provider that tells no figures.
    ask: &'a Ask<'a>,
    taken_ids: HashSet<String>,
    text: String,
    thinking: String,
    refusal: String,
    calls: Vec<Call>,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    complete: bool,
}

impl<'a> Reading<'a> {
    pub(in crate::providers) fn new(ask: &'a Ask<'a>) -> Self {
        Self {
            ask,
            taken_ids: call_ids(ask.messages.iter()),
            text: String::new(),
            thinking: String::new(),
            refusal: String::new(),
            calls: Vec::new(),
            usage: None,
            finish_reason: None,
            complete: false,
        }
    }

    fn take(&mut self, chunk: Chunk, listener: &mut Listener<'_>) -> Result<(), Fault> {
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(failure(&error));
        }
        if let Some(reported) = chunk.usage {
            self.usage = Some(figures(&reported));
        }
        // Only one choice was asked for.
        let Some(choice) = chunk.choices.into_iter().flatten().next() else {
            return Ok(());
        };
        self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        let Some(delta) = choice.delta else {
            return Ok(());
        };
        let thinking = delta.reasoning_content.or(delta.reasoning).unwrap_or_default();
        if !thinking.is_empty() {
            self.thinking.push_str(&thinking);
            listener(EngineEvent::Thinking(thinking));
        }
        let text = delta.content.map(words).unwrap_or_default();
        if !text.is_empty() {
            self.text.push_str(&text);
            listener(EngineEvent::Text(text));
        }
        self.refusal.push_str(&delta.refusal.unwrap_or_default());
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call)?;
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let known = match delta.index {
            Some(index) => self.calls.iter().rposition(|call| call.index == Some(index)),
            // Without an index, a piece without an id belongs to the last call.
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        };
        // Some proxies give all calls the same index, but each its id.
        let known = known.filter(|at| {
            let call = &self.calls[*at];
            id.is_empty() || call.id.is_empty() || call.id == id
        });
        let at = known.unwrap_or_else(|| {
            self.calls.push(Call { index: delta.index, ..Call::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        let Some(function) = delta.function else {
            return Ok(());
        };
        if call.name.is_empty() {
            call.name = function.name.unwrap_or_default();
        }
        match function.arguments {
            Some(Value::String(piece)) => call.arguments.push_str(&piece),
            Some(Value::Null) | None => {}
            Some(whole) => call.arguments = whole.to_string(),
        }
        if call.arguments.len() > LONGEST_CALL {
            return Err(Fault::too_large("a tool call", LONGEST_CALL));
        }
        Ok(())
    }

    /// An id that no other call of the turn has.
    fn unique_id(&mut self, id: String, position: usize) -> String {
        let id = if id.is_empty() || self.taken_ids.contains(&id) {
            format!("call_{}_{position}", self.ask.step)
        } else {
            id
        };
        self.taken_ids.insert(id.clone());
        id
    }

    fn estimate(&self) -> Usage {
        let said = self.text.chars().count()
            + self.thinking.chars().count()
            + self
                .calls
                .iter()
                .map(|call| call.name.chars().count() + call.arguments.chars().count())
                .sum::<usize>();
        Usage {
            input: (asked_chars(self.ask) / 4) as u64,
            output: said.div_ceil(4) as u64,
            estimated: true,
            ..Usage::default()
        }
    }
}

impl Reader for Reading<'_> {
    fn on(&mut self, event: &sse::Event, listener: &mut Listener<'_>) -> Result<(), Fault> {
        if event.data.trim() == "[DONE]" {
            self.complete = true;
            return Ok(());
        }
        let chunk = serde_json::from_str(&event.data).map_err(|error| Fault::unreadable(&error))?;
        self.take(chunk, listener)
    }

    fn whole(&mut self, body: &[u8], listener: &mut Listener<'_>) -> Result<(), Fault> {
        let chunk: Chunk =
            serde_json::from_slice(body).map_err(|error| Fault::unreadable(&error))?;
        self.complete = chunk.choices.is_some();
        self.take(chunk, listener)
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn finish(&mut self, listener: &mut Listener<'_>) -> Result<Answer, Fault> {
        // Some proxies just close the connection after the last chunk.
        if !self.complete && self.finish_reason.is_none() {
            return Err(Fault::network("the answer broke off"));
        }
        let usage = self.usage.unwrap_or_else(|| self.estimate());
        let reason = self.finish_reason.take().unwrap_or_default();
        if self.calls.is_empty() {
            if reason == "content_filter" {
                return Err(Fault::refused(&format!("{} {}", self.text, self.refusal)));
            }
            if !self.refusal.is_empty() {
                return Err(Fault::refused(&self.refusal));
            }
        }
        let mut blocks = Vec::new();
        if !self.thinking.is_empty() {
            blocks.push(Block::Thinking { text: std::mem::take(&mut self.thinking), block: None });
        }
        if !self.text.is_empty() {
            listener(EngineEvent::TextEnd);
            blocks.push(Block::Text { text: std::mem::take(&mut self.text) });
        }
        let truncated = is_output_limit(&reason);
        let stop_reason =
            if self.calls.is_empty() || truncated { reason } else { "tool_calls".to_owned() };
        for (position, call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            blocks.push(Block::Call(ToolCall {
                id: self.unique_id(call.id, position).into(),
                name: call.name,
                args: arguments(call.arguments),
            }));
        }
        Ok(Answer { blocks, usage, stop_reason, truncated, paused: false })
    }

    fn reported(&self) -> Usage {
        self.usage.unwrap_or_default()
    }
}

/// Text, or a list of parts with text.
fn words(content: Value) -> String {
    match content {
        Value::String(text) => text,
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn figures(reported: &Reported) -> Usage {
    let told = |figure: Option<Tokens>| figure.map_or(0, |tokens| tokens.0);
    let prompt = told(reported.prompt_tokens);
    let details = reported.prompt_tokens_details.as_ref();
    let cached = told(details.and_then(|details| details.cached_tokens)).min(prompt);
    Usage {
        input: prompt - cached,
        output: told(reported.completion_tokens),
        cache_read: cached,
        ..Usage::default()
    }
}

fn sent_chars(block: &Block) -> usize {
    match block {
        Block::Text { text } => text.chars().count(),
        Block::Thinking { .. } => 0,
        Block::Call(call) => {
            call.name.chars().count() + sent_arguments(&call.args).to_string().chars().count()
        }
    }
}

fn asked_chars(ask: &Ask<'_>) -> usize {
    let tools = ask.tools.iter().map(|spec| {
        spec.name.chars().count()
            + spec.description.chars().count()
            + spec.schema.to_string().chars().count()
    });
    let messages = ask.messages.iter().map(|message| match message {
        // Reasoning is not sent.
        Message::Assistant(blocks) => blocks.iter().map(sent_chars).sum(),
        other => other.characters(),
    });
    let earlier = ask.earlier.iter().map(|turn| turn.characters());
    let messages = earlier.chain(messages);
    parts(ask.system).map(|part| part.chars().count()).chain(tools).chain(messages).sum()
}

/// An error in the stream stands for the status that the response could not have any more.
pub(in crate::providers) fn failure(error: &Value) -> Fault {
    let word = |key: &str| error[key].as_str().unwrap_or_default();
    let number = error["code"].as_u64().or_else(|| word("code").parse().ok());
    let status = match (number, word("code"), word("type")) {
        (Some(status @ 400..=599), _, _) => u16::try_from(status).unwrap_or(500),
        (_, "invalid_api_key", _) | (_, _, "authentication_error") => 401,
        (_, "rate_limit_exceeded" | "insufficient_quota", _)
        | (_, _, "rate_limit_error" | "tokens" | "requests" | "insufficient_quota") => 429,
        (_, "context_length_exceeded", _) | (_, _, "invalid_request_error") => 400,
        _ => 500,
    };
    Fault::status(status, &error_text(error).unwrap_or_default(), None)
}

#[cfg(test)]
mod tests;
