//! The wire formats, written down from the vendors' documents and not from our readers.

use serde_json::{Value, json};

use super::{Part, Wire};

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
    wire: Wire,
    parts: &[Part],
    reason: Option<&str>,
    input: Tokens,
) -> Vec<String> {
    match wire {
        Wire::Messages => {
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
            events.iter().map(named_event).collect()
        }
        Wire::Chat => {
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
            let mut lines: Vec<String> =
                chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
            lines.push("data: [DONE]\n\n".to_owned());
            lines
        }
        Wire::Responses => {
            let mut events = vec![response_event("response.created", "in_progress", json!([]))];
            events.extend(parts.iter().enumerate().flat_map(|(at, part)| response_item(at, part)));
            let items: Vec<Value> =
                parts.iter().enumerate().map(|(at, part)| whole_item(at, part)).collect();
            let mut end = match reason {
                None => response_event("response.completed", "completed", json!(items)),
                Some(reason) => {
                    let mut end = response_event("response.incomplete", "incomplete", json!(items));
                    end["response"]["incomplete_details"] = json!({ "reason": reason });
                    end
                }
            };
            end["response"]["usage"] = json!({
                "input_tokens": input.read,
                "input_tokens_details": {"cached_tokens": input.cached},
                "output_tokens": OUTPUT,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input.read + OUTPUT,
            });
            events.push(end);
            events.iter().map(named_event).collect()
        }
    }
}

/// How many events at the end of an answer say that it is over.
pub(super) fn ends(wire: Wire) -> usize {
    match wire {
        Wire::Messages => 2,
        Wire::Chat => 3,
        Wire::Responses => 1,
    }
}

/// The beginning of an answer, up to a text.
pub(super) fn beginning(wire: Wire, text: &str) -> Vec<String> {
    let parts = [Part::Text(text.to_owned())];
    match wire {
        Wire::Messages => {
            let mut events = vec![message_start(Tokens::ALWAYS)];
            events.extend(anthropic_block(0, &parts[0]));
            events.pop();
            events.iter().map(named_event).collect()
        }
        Wire::Chat => {
            openai_parts(&parts).iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
        }
        Wire::Responses => {
            let mut events = vec![response_event("response.created", "in_progress", json!([]))];
            events.extend(response_item(0, &parts[0]));
            events.pop();
            events.iter().map(named_event).collect()
        }
    }
}

/// An answer in one body.
pub(super) fn whole(wire: Wire, text: &str) -> Value {
    match wire {
        Wire::Messages => json!({
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": INPUT, "output_tokens": OUTPUT},
        }),
        Wire::Chat => json!({
            "object": "chat.completion",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }],
            "usage": {"prompt_tokens": INPUT, "completion_tokens": OUTPUT},
        }),
        Wire::Responses => {
            let items = json!([whole_item(0, &Part::Text(text.to_owned()))]);
            let mut body = response_event("", "completed", items)["response"].take();
            body["usage"] = json!({"input_tokens": INPUT, "output_tokens": OUTPUT});
            body
        }
    }
}

/// An error body.
pub(super) fn error(wire: Wire, kind: &str, message: &str) -> Value {
    match wire {
        Wire::Messages => json!({
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_1",
        }),
        Wire::Chat | Wire::Responses => json!({
            "error": {"message": message, "type": kind, "param": null, "code": null},
        }),
    }
}

/// An error in a stream that has begun.
pub(super) fn error_event(wire: Wire, kind: &str, message: &str) -> String {
    let body = error(wire, kind, message);
    match wire {
        Wire::Messages => named_event(&body),
        Wire::Chat => format!("data: {body}\n\n"),
        Wire::Responses => {
            let mut event = response_event("response.failed", "failed", json!([]));
            event["response"]["error"] = json!({"code": kind, "message": message});
            named_event(&event)
        }
    }
}

fn named_event(event: &Value) -> String {
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

fn response_event(kind: &str, status: &str, output: Value) -> Value {
    json!({
        "type": kind,
        "sequence_number": 0,
        "response": {
            "id": "resp_1", "object": "response", "created_at": 0, "model": "m", "status": status,
            "output": output, "error": null, "incomplete_details": null, "usage": null,
        },
    })
}

/// An item as it is when it is whole.
fn whole_item(at: usize, part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({
            "type": "message", "id": format!("msg_{at}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Part::Thinking(text) => json!({
            "type": "reasoning", "id": format!("rs_{at}"),
            "summary": [{"type": "summary_text", "text": text}],
        }),
        // A name with a namespace is told in two parts.
        Part::Call(id, tool, args) => {
            let ours = tool.strip_prefix("mcp__hivewright__").map(|name| ("mcp__hivewright", name));
            let (namespace, name) = ours.unwrap_or(("", tool));
            let mut item = json!({
                "type": "function_call", "id": format!("fc_{at}"), "call_id": id, "name": name,
                "arguments": args, "status": "completed",
            });
            if !namespace.is_empty() {
                item["namespace"] = namespace.into();
            }
            item
        }
    }
}

fn response_item(at: usize, part: &Part) -> Vec<Value> {
    let whole = whole_item(at, part);
    let mut begun = whole.clone();
    let (kind, text) = match part {
        Part::Text(text) => {
            begun["content"] = json!([]);
            ("response.output_text.delta", text)
        }
        Part::Thinking(text) => {
            begun["summary"] = json!([]);
            ("response.reasoning_summary_text.delta", text)
        }
        Part::Call(_, _, args) => {
            begun["arguments"] = "".into();
            ("response.function_call_arguments.delta", args)
        }
    };
    let event = |kind: &str| json!({"type": kind, "output_index": at, "item_id": whole["id"]});
    let mut events = vec![event("response.output_item.added")];
    events[0]["item"] = begun;
    events.extend(words(text).map(|word| {
        let mut delta = event(kind);
        delta["delta"] = word.into();
        // Where in the item it stands.
        delta["content_index"] = 0.into();
        delta["summary_index"] = 0.into();
        delta
    }));
    let mut done = event("response.output_item.done");
    done["item"] = whole.clone();
    events.push(done);
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
