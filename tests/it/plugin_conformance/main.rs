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

/// Answers to requests of ours, by id.
type Waiting = Arc<Mutex<HashMap<String, Sender<Value>>>>;

fn send(message: &Value) {
    let mut output = io::stdout().lock();
    writeln!(output, "{message}").and_then(|()| output.flush()).unwrap();
}

fn ask(waiting: &Waiting, method: &str, params: &Value) -> Value {
    let (answer, answered) = channel();
    let id = {
        let mut waiting = waiting.lock().unwrap();
        let id = format!("p-{}", waiting.len());
        waiting.insert(id.clone(), answer);
        id
    };
    send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    answered.recv().unwrap()
}

fn text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}]})
}

fn call(name: &str, args: &Value, config: &Value, waiting: &Waiting) -> Value {
    let words = args["words"].as_str().unwrap_or("-");
    match name {
        "echo" | "act" => {
            if name == "act" {
                let shown = json!({"acting": true});
                send(&json!({"jsonrpc": "2.0", "method": "plugin/state", "params": shown}));
            }
            thread::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0)));
            let word = config["tools"]["word"].as_str().unwrap_or("-");
            text(&format!("echo {words} with {word}"))
        }
        "keep" => {
            ask(waiting, "state/set", &json!({"key": "kept", "value": words}));
            text("kept")
        }
        "kept" => {
            let kept = ask(waiting, "state/get", &json!({"key": "kept"}));
            text(&format!("kept: {}", kept["value"].as_str().unwrap_or("-")))
        }
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

fn hook(payload: &Value, config: &Value) -> Value {
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

fn answer(method: &str, params: &Value, config: &Value, waiting: &Waiting) -> Value {
    match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "tools": {},
                "experimental": {"hivewright": {"version": 1, "provides": ["tools", "hooks"]}},
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
        "tools/call" => {
            let name = params["name"].as_str().unwrap_or_default();
            call(name, &params["arguments"], config, waiting)
        }
        "hook/fire" => hook(&params["payload"], config),
        _ => json!({}),
    }
}

fn main() {
    let (mut config, waiting) = (Arc::new(Value::Null), Waiting::default());
    for line in io::stdin().lock().lines() {
        let told: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let Some(method) = told["method"].as_str().map(str::to_owned) else {
            let asked = waiting.lock().unwrap().get(told["id"].as_str().unwrap()).cloned();
            asked.unwrap().send(told["result"].clone()).unwrap();
            continue;
        };
        if method == "plugin/start" {
            config = Arc::new(told["params"]["config"].clone());
        }
        let (config, waiting) = (Arc::clone(&config), Arc::clone(&waiting));
        thread::spawn(move || {
            let result = answer(&method, &told["params"], &config, &waiting);
            if let Some(id) = told.get("id") {
                send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
            }
        });
    }
}
