//! OpenAI's Chat Completions API.

use hivewright_actors::{
    engine::{Block, Message},
    usage::Usage,
};
use serde_json::{Value, json};

use super::{Format, Offered, Said, Spoken, add_result, add_words, call_block};

pub(super) struct Chat;

impl Format for Chat {
    fn conversation(&self, body: &Value) -> Vec<Message> {
        let mut messages = Vec::new();
        for message in body["messages"].as_array().into_iter().flatten() {
            match message["role"].as_str() {
                Some("user") => add_words(&mut messages, &message["content"]),
                Some("assistant") => {
                    let calls = message["tool_calls"].as_array().into_iter().flatten();
                    let calls =
                        calls.map(|call| call_block(&call["id"], &call["function"]["name"]));
                    let text = Block::Text { text: String::new() };
                    messages.push(Message::Assistant([text].into_iter().chain(calls).collect()));
                }
                Some("tool") => {
                    add_result(&mut messages, &message["tool_call_id"], &message["content"], false);
                }
                _ => {}
            }
        }
        messages
    }

    fn tools(&self, body: &Value) -> Vec<Offered> {
        let tools = body["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| Offered::new(&tool["function"]["name"], None)).collect()
    }

    fn begin(&self, spoken: &Spoken) -> Vec<Value> {
        vec![chunk(spoken, json!({ "role": "assistant", "content": "" }), Value::Null)]
    }

    fn open(&self, at: usize, said: &Said, spoken: &Spoken) -> Vec<Value> {
        match said {
            Said::Call { id, name, .. } => {
                let call = json!({
                    "index": call_index(at, spoken), "id": id, "type": "function",
                    "function": { "name": name, "arguments": "" },
                });
                vec![chunk(spoken, json!({ "tool_calls": [call] }), Value::Null)]
            }
            _ => Vec::new(),
        }
    }

    fn piece(&self, at: usize, said: &Said, piece: &str, spoken: &Spoken) -> Vec<Value> {
        let delta = match said {
            Said::Text(_) => json!({ "content": piece }),
            Said::Thinking(_) => json!({ "reasoning_content": piece }),
            Said::Call { .. } => {
                let function = json!({ "arguments": piece });
                json!({ "tool_calls": [{ "index": call_index(at, spoken), "function": function }] })
            }
        };
        vec![chunk(spoken, delta, Value::Null)]
    }

    fn close(&self, _: usize, _: &Said, _: &Spoken) -> Vec<Value> {
        Vec::new()
    }

    fn end(&self, spoken: &Spoken, usage: &Usage) -> Vec<Value> {
        let mut chunks = vec![chunk(spoken, json!({}), finish_reason(spoken).into())];
        if spoken.tells_usage {
            let mut last = chunk(spoken, json!({}), Value::Null);
            last["choices"] = json!([]);
            last["usage"] = figures(usage);
            chunks.push(last);
        }
        chunks
    }

    fn whole(&self, spoken: &Spoken, usage: &Usage) -> Value {
        let texts = spoken.said.iter().filter_map(|said| match said {
            Said::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        let calls = spoken.said.iter().filter_map(|said| match said {
            Said::Call { id, name, arguments, .. } => Some(json!({
                "id": id, "type": "function",
                "function": { "name": name, "arguments": arguments },
            })),
            _ => None,
        });
        let calls: Vec<Value> = calls.collect();
        let mut message = json!({ "role": "assistant", "content": null });
        if !texts.is_empty() {
            message["content"] = texts.join("\n\n").into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let reason = finish_reason(spoken);
        json!({
            "id": format!("chatcmpl-{}", spoken.id),
            "object": "chat.completion",
            "created": 0,
            "model": spoken.model,
            "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
            "usage": figures(usage),
        })
    }

    fn frame(&self, event: &Value) -> String {
        format!("data: {event}\n\n")
    }

    fn last_frame(&self) -> &'static str {
        "data: [DONE]\n\n"
    }
}

fn chunk(spoken: &Spoken, delta: Value, finish_reason: Value) -> Value {
    json!({
        "id": format!("chatcmpl-{}", spoken.id),
        "object": "chat.completion.chunk",
        "created": 0,
        "model": spoken.model,
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
    })
}

/// Calls are counted without what was said before them.
fn call_index(at: usize, spoken: &Spoken) -> usize {
    let before = spoken.said.iter().take(at);
    before.filter(|said| matches!(said, Said::Call { .. })).count()
}

fn finish_reason(spoken: &Spoken) -> &'static str {
    if spoken.has_calls() { "tool_calls" } else { "stop" }
}

fn figures(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.tokens(),
    })
}
