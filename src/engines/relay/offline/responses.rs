//! OpenAI's Responses API, with tools in namespaces as Codex has them.

use hivewright_actors::{
    engine::{Block, Message},
    usage::Usage,
};
use serde_json::{Value, json};

use super::{Format, Offered, Said, Spoken, add_block, add_result, add_words, call_block, words};

pub(super) struct Responses;

impl Format for Responses {
    fn conversation(&self, body: &Value) -> Vec<Message> {
        let mut messages = Vec::new();
        let input = &body["input"];
        if input.is_string() {
            add_words(&mut messages, input);
        }
        for item in input.as_array().into_iter().flatten() {
            match (item["type"].as_str(), item["role"].as_str()) {
                (Some("message") | None, Some("user")) => {
                    add_words(&mut messages, &item["content"]);
                }
                (Some("message") | None, Some("assistant")) => {
                    add_block(&mut messages, Block::Text { text: String::new() });
                }
                (Some("function_call"), _) => {
                    add_block(&mut messages, call_block(&item["call_id"], &item["name"]));
                }
                (Some("function_call_output"), _) => {
                    add_result(&mut messages, &item["call_id"], &result(&item["output"]), false);
                }
                _ => {}
            }
        }
        messages
    }

    fn tools(&self, body: &Value) -> Vec<Offered> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let tools = list(&body["tools"]).into_iter().flat_map(|tool| match tool["type"].as_str() {
            Some("namespace") => {
                let inner = list(&tool["tools"]).into_iter();
                let inner = inner.map(|inner| Offered::new(&inner["name"], Some(&tool["name"])));
                inner.collect()
            }
            _ => vec![Offered::new(&tool["name"], None)],
        });
        tools.flatten().collect()
    }

    fn begin(&self, spoken: &Spoken) -> Vec<Value> {
        let mut response = self.whole(spoken, &Usage::default());
        response["status"] = "in_progress".into();
        response["usage"] = Value::Null;
        let event = |kind: &str| json!({ "type": kind, "response": response });
        vec![event("response.created"), event("response.in_progress")]
    }

    fn open(&self, at: usize, said: &Said, spoken: &Spoken) -> Vec<Value> {
        let id = item_id(at, said, spoken);
        let mut begun = item(at, said, spoken);
        begun["status"] = "in_progress".into();
        // A part of a message or of a summary is there before it has words.
        let part = match said {
            Said::Text(_) => ("response.content_part.added", "content"),
            Said::Thinking(_) => ("response.reasoning_summary_part.added", "summary"),
            Said::Call { .. } => return vec![item_event("response.output_item.added", at, begun)],
        };
        let first = begun[part.1].as_array_mut().and_then(Vec::pop).unwrap_or_default();
        vec![
            item_event("response.output_item.added", at, begun),
            event(part.0, at, &id, "part", first),
        ]
    }

    fn piece(&self, at: usize, said: &Said, piece: &str, spoken: &Spoken) -> Vec<Value> {
        let kind = match said {
            Said::Text(_) => "response.output_text.delta",
            Said::Thinking(_) => "response.reasoning_summary_text.delta",
            Said::Call { .. } => "response.function_call_arguments.delta",
        };
        vec![event(kind, at, &item_id(at, said, spoken), "delta", piece.into())]
    }

    fn close(&self, at: usize, said: &Said, spoken: &Spoken) -> Vec<Value> {
        let (id, item) = (item_id(at, said, spoken), item(at, said, spoken));
        let mut events = match said {
            Said::Text(text) => vec![
                event("response.output_text.done", at, &id, "text", text.as_str().into()),
                event("response.content_part.done", at, &id, "part", item["content"][0].clone()),
            ],
            Said::Thinking(text) => vec![
                event(
                    "response.reasoning_summary_text.done",
                    at,
                    &id,
                    "text",
                    text.as_str().into(),
                ),
                event(
                    "response.reasoning_summary_part.done",
                    at,
                    &id,
                    "part",
                    item["summary"][0].clone(),
                ),
            ],
            Said::Call { arguments, .. } => {
                let arguments = arguments.as_str().into();
                vec![event(
                    "response.function_call_arguments.done",
                    at,
                    &id,
                    "arguments",
                    arguments,
                )]
            }
        };
        events.push(item_event("response.output_item.done", at, item));
        events
    }

    fn end(&self, spoken: &Spoken, usage: &Usage) -> Vec<Value> {
        let response = self.whole(spoken, usage);
        vec![json!({ "type": "response.completed", "response": response })]
    }

    fn whole(&self, spoken: &Spoken, usage: &Usage) -> Value {
        let output = spoken.said.iter().enumerate().map(|(at, said)| item(at, said, spoken));
        json!({
            "id": format!("resp_{}", spoken.id),
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "error": null,
            "incomplete_details": null,
            "model": spoken.model,
            "output": output.collect::<Vec<_>>(),
            "usage": {
                "input_tokens": usage.input,
                "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": usage.output,
                "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": usage.tokens(),
            },
        })
    }
}

/// A result without the time that it took, which Codex puts before it.
fn result(output: &Value) -> Value {
    let text = words(output);
    let timed = text.strip_prefix("Wall time: ").and_then(|rest| rest.split_once("\nOutput:\n"));
    timed.map_or(&*text, |(_, result)| result.trim_start_matches('\n')).into()
}

/// An event about a part of an item; there is one part in each.
fn event(kind: &str, at: usize, id: &str, field: &str, value: Value) -> Value {
    let index = if kind.contains("summary") { "summary_index" } else { "content_index" };
    json!({ "type": kind, "item_id": id, "output_index": at, index: 0, field: value })
}

fn item_event(kind: &str, at: usize, item: Value) -> Value {
    json!({ "type": kind, "output_index": at, "item": item })
}

fn item_id(at: usize, said: &Said, spoken: &Spoken) -> String {
    let kind = match said {
        Said::Text(_) => "msg",
        Said::Thinking(_) => "rs",
        Said::Call { .. } => "fc",
    };
    format!("{kind}_{}_{at}", spoken.id)
}

fn item(at: usize, said: &Said, spoken: &Spoken) -> Value {
    let id = item_id(at, said, spoken);
    match said {
        Said::Text(text) => json!({
            "type": "message", "id": id, "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Said::Thinking(text) => json!({
            "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": text }],
        }),
        Said::Call { id: call_id, name, namespace, arguments } => {
            let mut item = json!({
                "type": "function_call", "id": id, "call_id": call_id, "name": name,
                "arguments": arguments, "status": "completed",
            });
            if let Some(namespace) = namespace {
                item["namespace"] = namespace.as_str().into();
            }
            item
        }
    }
}
