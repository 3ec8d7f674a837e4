//! Run it with: cargo test

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

#[test]
fn somebody_is_greeted_as_the_team_wants_it() {
    let calls = [
        ("initialize", json!({"protocolVersion": "2025-11-25"})),
        ("plugin/start", json!({"config": {"tools": {"greeting": "Good morning"}}, "state": {}})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "greet", "arguments": {"name": "Ada"}})),
        ("plugin/stop", json!({"reason": "test", "deadline_ms": 1000})),
    ];
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_{key}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let mut input = plugin.stdin.take().unwrap();
    for (id, (method, params)) in calls.into_iter().enumerate() {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(input, "{call}").unwrap();
    }
    drop(input);
    let ended = plugin.wait_with_output().unwrap();

    let lines = String::from_utf8(ended.stdout).unwrap();
    let answers: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[2]["result"]["tools"][0]["name"], "greet");
    assert_eq!(answers[3]["result"]["content"][0]["text"], "Good morning, Ada!");
}
