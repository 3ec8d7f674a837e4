//! Anthropic's Messages API.

use hivewright_actors::{
    engine::{Block, Message},
    usage::Usage,
};
use serde_json::{Value, json};

use super::{Format, Offered, Said, Spoken, add_block, add_result, add_words, call_block};

pub(super) struct Messages;

impl Format for Messages {
    fn conversation(&self, body: &Value) -> Vec<Message> {
        let mut messages = Vec::new();
        for message in body["messages"].as_array().into_iter().flatten() {
            let content = &message["content"];
            let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
            match message["role"].as_str() {
                Some("user") => {
                    for block in blocks.iter().filter(|block| block["type"] == "tool_result") {
                        let failed = block["is_error"] == true;
                        add_result(&mut messages, &block["tool_use_id"], &block["content"], failed);
                    }
                    add_words(&mut messages, content);
                }
                Some("assistant") => {
                    for block in blocks {
                        let block = match block["type"].as_str() {
                            Some("tool_use") => call_block(&block["id"], &block["name"]),
                            _ => Block::Text { text: String::new() },
                        };
                        add_block(&mut messages, block);
                    }
                }
                _ => {}
            }
        }
        messages
    }

    fn tools(&self, body: &Value) -> Vec<Offered> {
        let tools = body["tools"].as_array().into_iter().flatten();
        tools.filter_map(|tool| Offered::new(&tool["name"], None)).collect()
    }

    fn begin(&self, spoken: &Spoken) -> Vec<Value> {
        let mut message = self.whole(spoken, &Usage::default());
        message["stop_reason"] = Value::Null;
        vec![json!({ "type": "message_start", "message": message })]
    }

    fn open(&self, at: usize, said: &Said, _: &Spoken) -> Vec<Value> {
        let block = match said {
            Said::Text(_) => json!({ "type": "text", "text": "" }),
            Said::Thinking(_) => json!({ "type": "thinking", "thinking": "", "signature": "" }),
            Said::Call { id, name, .. } => {
                json!({ "type": "tool_use", "id": id, "name": name, "input": {} })
            }
        };
        vec![json!({ "type": "content_block_start", "index": at, "content_block": block })]
    }

    fn piece(&self, at: usize, said: &Said, piece: &str, _: &Spoken) -> Vec<Value> {
        let delta = match said {
            Said::Text(_) => json!({ "type": "text_delta", "text": piece }),
            Said::Thinking(_) => json!({ "type": "thinking_delta", "thinking": piece }),
            Said::Call { .. } => json!({ "type": "input_json_delta", "partial_json": piece }),
        };
        vec![json!({ "type": "content_block_delta", "index": at, "delta": delta })]
    }

    fn close(&self, at: usize, said: &Said, _: &Spoken) -> Vec<Value> {
        let mut events = Vec::new();
        if matches!(said, Said::Thinking(_)) {
            let delta = json!({ "type": "signature_delta", "signature": "offline" });
            events.push(json!({ "type": "content_block_delta", "index": at, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": at }));
        events
    }

    fn end(&self, spoken: &Spoken, usage: &Usage) -> Vec<Value> {
        let delta = json!({ "stop_reason": stop_reason(spoken), "stop_sequence": null });
        vec![
            json!({ "type": "message_delta", "delta": delta, "usage": figures(usage) }),
            json!({ "type": "message_stop" }),
        ]
    }

    fn whole(&self, spoken: &Spoken, usage: &Usage) -> Value {
        let content = spoken.said.iter().map(|said| match said {
            Said::Text(text) => json!({ "type": "text", "text": text }),
            Said::Thinking(text) => {
                json!({ "type": "thinking", "thinking": text, "signature": "offline" })
            }
            Said::Call { id, name, arguments, .. } => {
                let input: Value = serde_json::from_str(arguments).unwrap_or_default();
                json!({ "type": "tool_use", "id": id, "name": name, "input": input })
            }
        });
        json!({
            "id": format!("msg_{}", spoken.id),
            "type": "message",
            "role": "assistant",
            "model": spoken.model,
            "content": content.collect::<Vec<_>>(),
            "stop_reason": stop_reason(spoken),
            "stop_sequence": null,
            "usage": figures(usage),
        })
    }
}

fn stop_reason(spoken: &Spoken) -> &'static str {
    if spoken.has_calls() { "tool_use" } else { "end_turn" }
}

fn figures(usage: &Usage) -> Value {
    json!({ "input_tokens": usage.input, "output_tokens": usage.output })
}
