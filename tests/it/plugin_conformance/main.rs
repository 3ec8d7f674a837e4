//! The plugin of the conformance run in Rust: main.js and main.py do the same.

use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// Held while it is noted that a message was sent.
static NOTING: Mutex<()> = Mutex::new(());

fn send(message: &Value) {
    let mut output = io::stdout().lock();
    writeln!(output, "{message}").and_then(|()| output.flush()).unwrap();
}

/// The service, as the plugin sees it: answers to requests of ours, by id.
#[derive(Clone, Default)]
struct Host(Arc<Mutex<HashMap<String, Sender<Value>>>>);

impl Host {
    fn ask(&self, method: &str, params: Value) -> Value {
        let (answer, answered) = channel();
        let id = {
            let mut waiting = self.0.lock().unwrap();
            let id = format!("p-{}", waiting.len());
            waiting.insert(id.clone(), answer);
            id
        };
        send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        answered.recv().unwrap()
    }

    fn get(&self, key: &str) -> Value {
        self.ask("state/get", json!({"key": key}))["value"].take()
    }

    fn set(&self, key: &str, value: Value) {
        self.ask("state/set", json!({"key": key, "value": value}));
    }

    fn show(&self, state: Value) {
        send(&json!({"jsonrpc": "2.0", "method": "plugin/state", "params": state}));
    }

    /// Words that begin so are held up the first time, until whoever waits for them is killed.
    fn hold(&self, words: &str) {
        if words.starts_with("hold ") && self.get(words).is_null() {
            self.set(words, true.into());
            self.show(json!({"holding": words}));
            thread::sleep(Duration::from_secs(50));
        }
    }
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

fn call(name: &str, args: &Value, config: &Value, host: &Host) -> Value {
    let words = args["words"].as_str().unwrap_or("-");
    match name {
        "echo" | "act" => {
            host.hold(words);
            thread::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0)));
            let word = config["tools"]["word"].as_str().unwrap_or("-");
            text(&format!("echo {words} with {word}"))
        }
        "keep" => {
            host.set("kept", words.into());
            text("kept")
        }
        "kept" => text(&format!("kept: {}", host.get("kept").as_str().unwrap_or("-"))),
        "image" => {
            json!({"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]})
        }
        _ => {
            let mut failed = text("it failed on purpose");
            failed["isError"] = true.into();
            failed
        }
    }
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

fn hook(event: &str, payload: &Value, config: &Value, host: &Host) -> Value {
    let words = payload["text"].as_str().unwrap_or_default();
    match event {
        "message.inbound" => return reword(words, "loudly", "quietly"),
        "message.outbound" => return reword(words, "quietly", "softly"),
        _ => host.hold(payload["args"]["content"].as_str().unwrap_or_default()),
    }
    match config["hooks"]["mode"].as_str().unwrap_or("pass") {
        "deny" => json!({"decision": "deny", "reason": "not on a Tuesday"}),
        "rewrite" => {
            let mut args = payload["args"].clone();
            args["content"] = "rewritten".into();
            json!({"decision": "rewrite", "payload": {"args": args}})
        }
        mode => json!({"decision": mode}),
    }
}

fn deliver(content: &str, host: &Host) -> Value {
    host.hold(content);
    let _one_after_the_other = NOTING.lock().unwrap();
    let kept = host.get("sent");
    let mut sent: Vec<&str> = kept.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    sent.push(content);
    sent.sort_unstable();
    host.set("sent", json!(sent));
    host.show(json!({"sent": sent}));
    json!({"status": "delivered"})
}

/// Bytes in base64, as far as a test needs it.
fn decoded(text: &str) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = letters.iter().position(|known| *known == letter).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

fn webhook(body: &str, host: &Host) -> Value {
    let told: Value = serde_json::from_slice(&decoded(body)).unwrap();
    let name = &told["event_id"];
    let message = json!({
        "event_id": name, "conversation": name, "sender": {"id": "ann"}, "text": told["text"],
    });
    json!({"status": 200, "body": host.ask("channel/inbound", message).to_string()})
}

fn answer(method: &str, params: &Value, config: &Value, host: &Host) -> Value {
    let part = |name: &str| params[name].as_str().unwrap_or_default();
    match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "tools": {},
                "experimental": {
                    "hivewright": {"version": 1, "provides": ["tools", "hooks", "channel"]},
                },
            },
            "serverInfo": {"name": "conformance", "version": "1"},
        }),
        "tools/list" => {
            let schema = json!({
                "type": "object",
                "properties": {"words": {"type": "string"}, "ms": {"type": "integer"}},
                "additionalProperties": false,
            });
            let names = ["echo", "act", "keep", "kept", "fail", "image"];
            let tool = |name| json!({"name": name, "description": "Does it.", "inputSchema": schema});
            json!({"tools": names.map(tool)})
        }
        "tools/call" => call(part("name"), &params["arguments"], config, host),
        "hook/fire" => hook(part("event"), &params["payload"], config, host),
        "channel/send" => deliver(part("content"), host),
        "channel/webhook" => webhook(part("body_base64"), host),
        "setup/begin" => {
            let fields = json!([{"key": "secret", "label": "Secret", "type": "password"}]);
            json!({"state": {"kind": "awaiting_user_input", "fields": fields}})
        }
        "setup/submit" => {
            let config = json!({"secret": params["values"]["secret"]});
            json!({"state": {"kind": "done", "config": config}})
        }
        _ => json!({}),
    }
}

fn main() {
    let (mut config, host) = (Arc::new(Value::Null), Host::default());
    for line in io::stdin().lock().lines() {
        let told: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(method) = told["method"].as_str().map(str::to_owned) else {
            let asked = host.0.lock().unwrap().get(told["id"].as_str().unwrap()).cloned();
            asked.unwrap().send(told["result"].clone()).unwrap();
            continue;
        };
        if method == "plugin/start" {
            config = Arc::new(told["params"]["config"].clone());
        }
        let (config, host) = (Arc::clone(&config), host.clone());
        thread::spawn(move || {
            let result = answer(&method, &told["params"], &config, &host);
            if let Some(id) = told.get("id") {
                send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
        });
    }
}
