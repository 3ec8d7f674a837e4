//! A plugin: JSON-RPC on its standard streams, one object a line. What it prints on stderr is logged.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn tools() -> Value {
    json!([{
        "name": "greet",
        "description": "Greets somebody by name.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "Who is greeted."}},
            "required": ["name"],
            "additionalProperties": false,
        },
    }])
}

fn greet(config: &Value, arguments: &Value) -> Option<String> {
    let greeting = config["tools"]["greeting"].as_str().unwrap_or("Hello");
    Some(format!("{greeting}, {}!", arguments["name"].as_str()?))
}

/// The result of a request; none if the method or the tool is not known.
fn answer(method: &str, params: &Value, config: &mut Value) -> Option<Value> {
    Some(match method {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"].as_str().unwrap_or("2025-11-25"),
            "capabilities": {
                "tools": {},
                "experimental": {"hivewright": {"version": 1, "provides": ["tools"]}},
            },
            "serverInfo": {"name": "{key}", "version": env!("CARGO_PKG_VERSION")},
        }),
        // The settings of the team, with the values of its secrets: they come only here.
        "plugin/start" => {
            *config = params["config"].clone();
            json!({})
        }
        "plugin/stop" | "ping" => json!({}),
        "tools/list" => json!({"tools": tools()}),
        "tools/call" if params["name"] == "greet" => {
            let text = greet(config, &params["arguments"])?;
            json!({"content": [{"type": "text", "text": text}]})
        }
        _ => return None,
    })
}

fn main() -> io::Result<()> {
    let (mut config, mut output) = (Value::Null, io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
            continue;
        };
        let reply = match answer(method, &message["params"], &mut config) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                let error = json!({"code": -32601, "message": "unknown method or tool"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        writeln!(output, "{reply}")?;
        output.flush()?;
        if method == "plugin/stop" {
            break;
        }
    }
    Ok(())
}
