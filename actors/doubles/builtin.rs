//! Builtin plugin of the conformance run: it does what those of `tests/it/plugin_conformance/` do as processes.
//!
//! What kills a process is a panic here: it comes with a webhook call, or with what is filled in while it is set up.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::plugin::builtin::{Builtin, BuiltinHost};

/// Words that end the child.
const PANIC: &str = "panic";
/// Words after which its setup waits for something outside.
const WAIT: &str = "wait";

/// The code of one child.
#[derive(Default)]
pub struct Probe {
    config: Mutex<Value>,
    /// Held while it is noted that a message was sent.
    noting: tokio::sync::Mutex<()>,
}

type Host = Arc<dyn BuiltinHost>;

impl Builtin for Probe {
    fn take(
        self: Arc<Self>,
        method: String,
        params: Value,
        host: Host,
    ) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(async move { self.answer(&method, &params, &host).await })
    }
}

impl Probe {
    /// For one child.
    pub fn make() -> Arc<dyn Builtin> {
        Arc::<Self>::default()
    }

    fn setting(&self, pointer: &str) -> Option<String> {
        let config = self.config.lock();
        config.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
    }

    async fn answer(&self, method: &str, params: &Value, host: &Host) -> Result<Value, String> {
        let part = |name: &str| params[name].as_str().unwrap_or_default();
        match method {
            "plugin/start" => {
                *self.config.lock() = params["config"].clone();
                Ok(json!({}))
            }
            "tools/list" => Ok(tools()),
            "tools/call" => self.call(part("name"), &params["arguments"], host).await,
            "hook/fire" => self.hook(part("event"), &params["payload"], host).await,
            "channel/send" => self.deliver(part("content"), host).await,
            "channel/webhook" => webhook(part("body_base64"), host).await,
            "setup/begin" => {
                let fields = json!([{"key": "secret", "label": "Secret", "type": "password"}]);
                Ok(json!({"state": {"kind": "awaiting_user_input", "fields": fields}}))
            }
            "setup/submit" if params["values"]["secret"] != WAIT => {
                let secret = &params["values"]["secret"];
                panics(secret.as_str().unwrap_or_default());
                Ok(json!({"state": {"kind": "done", "config": {"secret": secret}}}))
            }
            "setup/submit" | "setup/poll" => Ok(json!({"state": {
                "kind": "awaiting_external", "instructions": "Wait.", "poll_interval_ms": 1000,
            }})),
            _ => Ok(json!({})),
        }
    }

    async fn call(&self, name: &str, args: &Value, host: &Host) -> Result<Value, String> {
        let words = args["words"].as_str().unwrap_or("-");
        match name {
            "echo" | "act" => {
                hold(words, host).await?;
                let ms = args["ms"].as_u64().unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(ms)).await;
                let word = self.setting("/tools/word").unwrap_or_else(|| "-".to_owned());
                Ok(text(&format!("echo {words} with {word}")))
            }
            "keep" => {
                host.ask("state/set", json!({"key": "kept", "value": words})).await?;
                Ok(text("kept"))
            }
            "kept" => {
                let kept = get("kept", host).await?;
                Ok(text(&format!("kept: {}", kept.as_str().unwrap_or("-"))))
            }
            "image" => {
                let image =
                    json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
                Ok(json!({"content": [image]}))
            }
            _ => Err("it failed on purpose".to_owned()),
        }
    }

    async fn hook(&self, event: &str, payload: &Value, host: &Host) -> Result<Value, String> {
        let words = payload["text"].as_str().unwrap_or_default();
        match event {
            "message.inbound" => return Ok(reword(words, "loudly", "quietly")),
            "message.outbound" => return Ok(reword(words, "quietly", "softly")),
            _ => hold(payload["args"]["content"].as_str().unwrap_or_default(), host).await?,
        }
        match self.setting("/hooks/mode").as_deref().unwrap_or("pass") {
            "deny" => Ok(json!({"decision": "deny", "reason": "not on a Tuesday"})),
            "rewrite" => {
                let mut args = payload["args"].clone();
                args["content"] = "rewritten".into();
                Ok(json!({"decision": "rewrite", "payload": {"args": args}}))
            }
            mode => Ok(json!({"decision": mode})),
        }
    }

    async fn deliver(&self, content: &str, host: &Host) -> Result<Value, String> {
        hold(content, host).await?;
        let _one_after_the_other = self.noting.lock().await;
        let kept = get("sent", host).await?;
        let mut sent: Vec<&str> =
            kept.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        sent.push(content);
        sent.sort_unstable();
        host.ask("state/set", json!({"key": "sent", "value": sent})).await?;
        host.tell("plugin/state", json!({"sent": sent}));
        Ok(json!({"status": "delivered"}))
    }
}

fn tools() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"words": {"type": "string"}, "ms": {"type": "integer"}},
        "additionalProperties": false,
    });
    let names = ["echo", "act", "keep", "kept", "fail", "image"];
    let tool = |name| json!({"name": name, "description": "Does it.", "inputSchema": schema});
    json!({"tools": names.map(tool)})
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

fn reword(words: &str, old: &str, new: &str) -> Value {
    if words.contains("rudely") {
        return json!({"decision": "deny", "reason": "not so"});
    }
    if words.contains(old) {
        return json!({"decision": "rewrite", "payload": {"text": words.replace(old, new)}});
    }
    json!({"decision": "pass"})
}

async fn get(key: &str, host: &Host) -> Result<Value, String> {
    Ok(host.ask("state/get", json!({"key": key})).await?["value"].take())
}

/// Words that begin so are held up the first time, until whoever waits for them is killed.
async fn hold(words: &str, host: &Host) -> Result<(), String> {
    if words.starts_with("hold ") && get(words, host).await?.is_null() {
        host.ask("state/set", json!({"key": words, "value": true})).await?;
        host.tell("plugin/state", json!({"holding": words}));
        tokio::time::sleep(Duration::from_secs(50)).await;
    }
    Ok(())
}

/// Without the noise of a panic that nobody expects.
fn panics(words: &str) {
    if words == PANIC {
        resume_unwind(Box::new("as it was told"));
    }
}

async fn webhook(body: &str, host: &Host) -> Result<Value, String> {
    let told: Value = serde_json::from_slice(&decoded(body)).map_err(|error| error.to_string())?;
    panics(told["text"].as_str().unwrap_or_default());
    let name = &told["event_id"];
    let message = json!({
        "event_id": name, "conversation": name, "sender": {"id": "ann"}, "text": told["text"],
    });
    let taken = host.ask("channel/inbound", message).await?;
    Ok(json!({"status": 200, "body": taken.to_string()}))
}

/// Bytes in base64, as far as a test needs it.
fn decoded(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    let values = text.bytes().filter_map(|byte| letters.iter().position(|known| *known == byte));
    for value in values {
        bits = bits << 6 | u32::try_from(value).unwrap_or(0);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}
