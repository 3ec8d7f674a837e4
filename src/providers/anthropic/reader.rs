//! The answer, from the events of a stream.

use hivewright_actors::{
    engine::{Block, EngineEvent, is_output_limit},
    tool::ToolCall,
    usage::Usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::providers::{
    Answer, LONGEST_CALL, Listener, Reader, arguments, fault::Fault, http::error_text, sse,
    tokens::Tokens,
};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: usize,
        content_block: Value,
    },
    ContentBlockDelta {
        index: usize,
        delta: Delta,
    },
    ContentBlockStop {
        index: usize,
    },
    MessageDelta {
        delta: End,
        #[serde(default)]
        usage: Reported,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Reported,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct End {
    stop_reason: Option<String>,
}

/// The last figure told counts.
#[derive(Default, Deserialize)]
struct Reported {
    input_tokens: Option<Tokens>,
    output_tokens: Option<Tokens>,
    cache_read_input_tokens: Option<Tokens>,
    cache_creation_input_tokens: Option<Tokens>,
}

struct Part {
    index: usize,
    /// As the provider began it.
    block: Value,
    text: String,
    signature: String,
    json: String,
}

/// Puts the answer together.
#[derive(Default)]
pub(in crate::providers) struct Reading {
    parts: Vec<Part>,
    usage: Usage,
    stop_reason: Option<String>,
    complete: bool,
}

impl Reading {
    fn part(&mut self, index: usize) -> Result<&mut Part, Fault> {
        self.parts
            .iter_mut()
            .find(|part| part.index == index)
            .ok_or_else(|| Fault::network("the answer cannot be read: a piece of no block"))
    }

    fn count(&mut self, reported: &Reported) {
        let figures = [
            (&mut self.usage.input, reported.input_tokens),
            (&mut self.usage.output, reported.output_tokens),
            (&mut self.usage.cache_read, reported.cache_read_input_tokens),
            (&mut self.usage.cache_write, reported.cache_creation_input_tokens),
        ];
        for (known, told) in figures {
            *known = told.map_or(*known, |told| told.0);
        }
    }

    fn delta(
        &mut self,
        index: usize,
        delta: Delta,
        listener: &mut Listener<'_>,
    ) -> Result<(), Fault> {
        let part = self.part(index)?;
        match delta {
            Delta::Text { text } => {
                part.text.push_str(&text);
                listener(EngineEvent::Text(text));
            }
            Delta::Thinking { thinking } => {
                part.text.push_str(&thinking);
                listener(EngineEvent::Thinking(thinking));
            }
            Delta::Signature { signature } => part.signature.push_str(&signature),
            Delta::InputJson { partial_json } => {
                part.json.push_str(&partial_json);
                if part.json.len() > LONGEST_CALL {
                    return Err(Fault::too_large("a tool call", LONGEST_CALL));
                }
            }
            Delta::Other => {}
        }
        Ok(())
    }
}

impl Reader for Reading {
    fn on(&mut self, event: &sse::Event, listener: &mut Listener<'_>) -> Result<(), Fault> {
        match serde_json::from_str(&event.data).map_err(|error| Fault::unreadable(&error))? {
            Event::MessageStart { message } => self.count(&message.usage),
            Event::ContentBlockStart { index, content_block } => {
                let text = content_block["text"].as_str().unwrap_or_default().to_owned();
                if !text.is_empty() {
                    listener(EngineEvent::Text(text.clone()));
                }
                self.parts.push(Part {
                    index,
                    block: content_block,
                    text,
                    signature: String::new(),
                    json: String::new(),
                });
            }
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, listener)?,
            Event::ContentBlockStop { index } => {
                if self.part(index)?.block["type"] == "text" {
                    listener(EngineEvent::TextEnd);
                }
            }
            Event::MessageDelta { delta, usage } => {
                self.count(&usage);
                self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
            }
            Event::MessageStop => self.complete = true,
            Event::Error { error } => return Err(failure(&error)),
            Event::Other => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &[u8], _: &mut Listener<'_>) -> Result<(), Fault> {
        let json: Value =
            serde_json::from_slice(body).map_err(|error| Fault::unreadable(&error))?;
        Err(match json.get("error") {
            Some(error) => failure(error),
            None => Fault::network("the answer is not a stream"),
        })
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn finish(&mut self, _: &mut Listener<'_>) -> Result<Answer, Fault> {
        if !self.complete {
            return Err(Fault::network("the answer broke off"));
        }
        let stop_reason = self.stop_reason.take().unwrap_or_default();
        if stop_reason == "refusal" {
            let said: Vec<&str> = self
                .parts
                .iter()
                .filter(|part| part.block["type"] == "text")
                .map(|part| part.text.as_str())
                .collect();
            return Err(Fault::refused(&said.join(" ")));
        }
        if stop_reason == "model_context_window_exceeded" {
            return Err(Fault::window_exceeded().with_usage(self.usage));
        }
        Ok(Answer {
            blocks: self.parts.drain(..).map(finished).collect(),
            usage: self.usage,
            truncated: is_output_limit(&stop_reason),
            paused: stop_reason == "pause_turn",
            stop_reason,
        })
    }

    fn reported(&self) -> Usage {
        self.usage
    }
}

fn finished(part: Part) -> Block {
    let Part { mut block, text, signature, json, .. } = part;
    match block["type"].as_str() {
        Some("text") => Block::Text { text },
        Some("tool_use") => {
            let word = |key: &str| block[key].as_str().unwrap_or_default();
            // Without pieces, the block came with its input.
            let input = match (json.is_empty(), &block["input"]) {
                (true, input @ Value::Object(_)) => input.to_string(),
                _ => json,
            };
            Block::Call(ToolCall {
                id: word("id").into(),
                name: word("name").to_owned(),
                args: arguments(input),
            })
        }
        Some("thinking") => Block::Thinking {
            block: Some(json!({
                "type": "thinking",
                "thinking": text,
                "signature": signature,
            })),
            text,
        },
        // Hidden reasoning, and whatever else the provider wants to see again.
        _ => {
            if let Ok(input) = serde_json::from_str::<Value>(&json) {
                block["input"] = input;
            }
            Block::Thinking { text: String::new(), block: Some(block) }
        }
    }
}

/// An error event stands for the status that the response could not have any more.
pub(in crate::providers) fn failure(error: &Value) -> Fault {
    let status = match error["type"].as_str().unwrap_or_default() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "permission_error" | "billing_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    Fault::status(status, &error_text(error).unwrap_or_default(), None)
}

#[cfg(test)]
mod tests {

    use hivewright_actors::{task::outcome::Code, tool::Args};

    use super::*;

    fn read(events: &[Value]) -> (Result<Answer, Fault>, Vec<EngineEvent>) {
        let mut heard = Vec::new();
        let mut reading = Reading::default();
        let mut listener = |event| heard.push(event);
        let mut result = Ok(());
        for event in events {
            result = result.and_then(|()| {
                let event = sse::Event { data: event.to_string(), ..sse::Event::default() };
                reading.on(&event, &mut listener)
            });
        }
        let answer = result.and_then(|()| reading.finish(&mut listener));
        (answer, heard)
    }

    fn start(index: u32, block: Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u32, delta: Value) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    fn stop(index: u32) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }

    fn end(reason: &str) -> [Value; 2] {
        [
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ]
    }

    /// SE-115, SE-139
    #[test]
    fn a_stream_becomes_blocks_and_figures() {
        let mut events = vec![
            json!({"type": "message_start", "message": {"usage": {
                "input_tokens": 3, "output_tokens": 1,
                "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4,
            }}}),
            json!({"type": "ping"}),
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "signature_delta", "signature": "sig"})),
            stop(0),
            start(1, json!({"type": "redacted_thinking", "data": "xyz"})),
            stop(1),
            start(2, json!({"type": "text", "text": ""})),
            delta(2, json!({"type": "text_delta", "text": "I "})),
            delta(2, json!({"type": "text_delta", "text": "look"})),
            stop(2),
            start(3, json!({"type": "tool_use", "id": "a", "name": "read", "input": {}})),
            delta(3, json!({"type": "input_json_delta", "partial_json": "{\"path\""})),
            delta(3, json!({"type": "input_json_delta", "partial_json": ": \"x\"}"})),
            stop(3),
            start(4, json!({"type": "tool_use", "id": "b", "name": "list", "input": {}})),
            stop(4),
        ];
        events.extend(end("tool_use"));

        let (answer, heard) = read(&events);

        let call = |id: &str, name: &str, args| {
            Block::Call(ToolCall { id: id.into(), name: name.into(), args: Args::Json(args) })
        };
        assert_eq!(
            answer,
            Ok(Answer {
                blocks: vec![
                    Block::Thinking {
                        text: "hm".into(),
                        block: Some(
                            json!({"type": "thinking", "thinking": "hm", "signature": "sig"})
                        ),
                    },
                    Block::Thinking {
                        text: String::new(),
                        block: Some(json!({"type": "redacted_thinking", "data": "xyz"})),
                    },
                    Block::Text { text: "I look".into() },
                    call("a", "read", json!({"path": "x"})),
                    call("b", "list", json!({})),
                ],
                usage: Usage {
                    input: 3,
                    output: 9,
                    cache_read: 20,
                    cache_write: 4,
                    ..Usage::default()
                },
                stop_reason: "tool_use".into(),
                truncated: false,
                paused: false,
            })
        );
        assert_eq!(
            heard,
            [
                EngineEvent::Thinking("hm".into()),
                EngineEvent::Text("I ".into()),
                EngineEvent::Text("look".into()),
                EngineEvent::TextEnd,
            ]
        );
    }

    /// SE-115
    #[test]
    fn a_refusal_is_a_failure() {
        let fault = read(&end("refusal")).0.unwrap_err();

        assert_eq!(fault, Fault::refused(""));
    }

    /// SE-95
    #[test]
    fn a_window_that_is_full_is_an_overflow() {
        let fault = read(&end("model_context_window_exceeded")).0.unwrap_err();

        assert_eq!(fault.code, Code::ContextOverflow);
        assert_eq!(fault.usage.output, 9);
    }

    #[test]
    fn why_it_stopped_is_told() {
        assert!(read(&end("max_tokens")).0.unwrap().truncated);
        assert!(read(&end("pause_turn")).0.unwrap().paused);
    }

    /// SE-117
    #[test]
    fn an_error_event_counts_as_its_status() {
        let error =
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});

        assert_eq!(read(&[error]).0, Err(Fault::status(529, "busy", None)));
    }

    /// SE-125
    #[test]
    fn a_stream_without_an_end_is_broken() {
        assert_eq!(read(&end("end_turn")[..1]).0.unwrap_err().code, Code::Network);
    }

    /// SC-78
    #[test]
    fn a_call_of_more_than_four_mebibytes_is_refused() {
        let big = "x".repeat(LONGEST_CALL + 1);
        let events = [
            start(0, json!({"type": "tool_use", "id": "a", "name": "read", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": big})),
        ];

        assert_eq!(read(&events).0, Err(Fault::too_large("a tool call", LONGEST_CALL)));
    }
}
