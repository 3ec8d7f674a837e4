//! The two wire formats, written down from the vendors' documents and not from our readers.

use serde_json::{Value, json};

use super::{Part, Vendor};

/// The figures that every complete answer reports.
const INPUT: u64 = 11;
const OUTPUT: u64 = 7;

/// How many tokens of a request were read, and how many of them were kept from before.
#[derive(Clone, Copy)]
pub(super) struct Tokens {
    pub(super) read: u64,
    pub(super) cached: u64,
}

impl Tokens {
    /// For whoever does not count.
    pub(super) const ALWAYS: Self = Self { read: INPUT, cached: 0 };
}

/// A complete streamed answer.
pub(super) fn answer(
    vendor: Vendor,
    parts: &[Part],
    reason: Option<&str>,
    input: Tokens,
) -> Vec<String> {
    match vendor {
        Vendor::Anthropic => {
            let calls = parts.iter().any(|part| matches!(part, Part::Call(..)));
            let reason = reason.unwrap_or(if calls { "tool_use" } else { "end_turn" });
            let mut events = vec![message_start(input)];
            for (index, part) in parts.iter().enumerate() {
                events.extend(anthropic_block(index, part));
            }
            events.push(json!({
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": OUTPUT},
            }));
            events.push(json!({"type": "message_stop"}));
            events.iter().map(anthropic_event).collect()
        }
        Vendor::OpenAi => {
            let calls = parts.iter().any(|part| matches!(part, Part::Call(..)));
            let reason = reason.unwrap_or(if calls { "tool_calls" } else { "stop" });
            let mut chunks = vec![openai_chunk(json!({"role": "assistant", "content": ""}), None)];
            chunks.extend(openai_parts(parts));
            chunks.push(openai_chunk(json!({}), Some(reason)));
            let mut usage = openai_chunk(json!({}), None);
            usage["choices"] = json!([]);
            usage["usage"] = json!({
                "prompt_tokens": input.read,
                "completion_tokens": OUTPUT,
                "total_tokens": input.read + OUTPUT,
                "prompt_tokens_details": {"cached_tokens": input.cached},
            });
            chunks.push(usage);
            let mut wire: Vec<String> =
                chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
            wire.push("data: [DONE]\n\n".to_owned());
            wire
        }
    }
}

/// The beginning of an answer, up to a text.
pub(super) fn beginning(vendor: Vendor, text: &str) -> Vec<String> {
    let parts = [Part::Text(text.to_owned())];
    match vendor {
        Vendor::Anthropic => {
            let mut events = vec![message_start(Tokens::ALWAYS)];
            events.extend(anthropic_block(0, &parts[0]));
            events.pop();
            events.iter().map(anthropic_event).collect()
        }
        Vendor::OpenAi => {
            openai_parts(&parts).iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
        }
    }
}

/// An answer in one body.
pub(super) fn whole(vendor: Vendor, text: &str) -> Value {
    match vendor {
        Vendor::Anthropic => json!({
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": INPUT, "output_tokens": OUTPUT},
        }),
        Vendor::OpenAi => json!({
            "object": "chat.completion",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }],
            "usage": {"prompt_tokens": INPUT, "completion_tokens": OUTPUT},
        }),
    }
}

/// An error body.
pub(super) fn error(vendor: Vendor, kind: &str, message: &str) -> Value {
    match vendor {
        Vendor::Anthropic => json!({
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_1",
        }),
        Vendor::OpenAi => json!({
            "error": {"message": message, "type": kind, "param": null, "code": null},
        }),
    }
}

/// An error in a stream that has begun.
pub(super) fn error_event(vendor: Vendor, kind: &str, message: &str) -> String {
    let body = error(vendor, kind, message);
    match vendor {
        Vendor::Anthropic => anthropic_event(&body),
        Vendor::OpenAi => format!("data: {body}\n\n"),
    }
}

fn anthropic_event(event: &Value) -> String {
    let name = event["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {event}\n\n")
}

fn message_start(input: Tokens) -> Value {
    json!({
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "usage": {
                "input_tokens": input.read - input.cached,
                "cache_read_input_tokens": input.cached,
                "output_tokens": 1,
            },
        },
    })
}

fn anthropic_block(index: usize, part: &Part) -> Vec<Value> {
    let (block, deltas) = match part {
        Part::Text(text) => (
            json!({"type": "text", "text": ""}),
            words(text).map(|word| json!({"type": "text_delta", "text": word})).collect::<Vec<_>>(),
        ),
        Part::Thinking(text) => {
            let mut deltas: Vec<Value> = words(text)
                .map(|word| json!({"type": "thinking_delta", "thinking": word}))
                .collect();
            deltas.push(json!({"type": "signature_delta", "signature": "c2lnbmVk"}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Part::Call(id, tool, args) => (
            json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
            words(args)
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect(),
        ),
    };
    let mut events =
        vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    events.extend(
        deltas
            .into_iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn openai_chunk(delta: Value, reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    })
}

fn openai_parts(parts: &[Part]) -> Vec<Value> {
    let mut chunks = Vec::new();
    let mut calls = 0;
    for part in parts {
        match part {
            Part::Text(text) => {
                chunks.extend(words(text).map(|word| openai_chunk(json!({"content": word}), None)))
            }
            Part::Thinking(text) => chunks.extend(
                words(text).map(|word| openai_chunk(json!({"reasoning_content": word}), None)),
            ),
            Part::Call(id, tool, args) => {
                let call = |call: Value| openai_chunk(json!({"tool_calls": [call]}), None);
                chunks.push(call(json!({
                    "index": calls,
                    "id": id,
                    "type": "function",
                    "function": {"name": tool, "arguments": ""},
                })));
                chunks.extend(
                    words(args).map(|piece| {
                        call(json!({"index": calls, "function": {"arguments": piece}}))
                    }),
                );
                calls += 1;
            }
        }
    }
    chunks
}

/// Words, and pieces of long ones: what belongs together arrives apart.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_inclusive(' ').flat_map(|word| {
        let letters: Vec<char> = word.chars().collect();
        let pieces: Vec<String> = letters.chunks(8).map(String::from_iter).collect();
        pieces
    })
}
