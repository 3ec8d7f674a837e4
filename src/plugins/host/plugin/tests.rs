//! What the service sees of a plugin in its host, line by line.

use std::{collections::BTreeMap, sync::mpsc};

use super::*;

/// How long a test waits for a line.
const SOON: Duration = Duration::from_secs(20);

/// Hands whole lines on to a test.
struct Lines(Mutex<mpsc::Sender<Value>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let message = serde_json::from_slice(bytes).unwrap();
        let _ = self.0.lock().send(message);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A plugin in its host.
struct Plugin {
    input: mpsc::Sender<io::Result<String>>,
    output: mpsc::Receiver<Value>,
    next: Cell<u64>,
    /// What came before it was asked for.
    early: RefCell<Vec<Value>>,
}

impl Plugin {
    fn start(sources: &[(&str, &str)]) -> Self {
        let (input, lines) = channel();
        let (said, output) = channel();
        let opening = PluginOpening {
            key: "probe".to_owned(),
            version: "1.0.0".to_owned(),
            entry: "main.js".to_owned(),
            sources: sources
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            memory: 32 << 20,
            call_timeout_ms: 10_000,
        };
        let output_lines = Output::new(Lines(Mutex::new(said)));
        std::thread::spawn(move || serve(opening, lines.into_iter(), &output_lines));
        Self { input, output, next: Cell::new(1), early: RefCell::default() }
    }

    fn write(&self, message: &Value) {
        self.input.send(Ok(message.to_string())).unwrap();
    }

    fn send(&self, method: &str, params: Value) -> u64 {
        let id = self.next.get();
        self.next.set(id + 1);
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The next message that fits.
    fn until(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut early = self.early.borrow_mut();
        if let Some(at) = early.iter().position(&fits) {
            return early.remove(at);
        }
        loop {
            let message = self.output.recv_timeout(SOON).unwrap();
            if fits(&message) {
                return message;
            }
            early.push(message);
        }
    }

    fn answer_to(&self, id: u64) -> Value {
        self.until(|message| message["id"] == id)
    }

    fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer_to(id)
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))["result"].take()
    }

    fn started(sources: &[(&str, &str)], config: Value) -> Self {
        let plugin = Self::start(sources);
        plugin.ask("initialize", json!({ "protocolVersion": "2025-11-25" }));
        plugin.ask("plugin/start", json!({ "config": config, "state": {} }));
        plugin
    }
}

fn shipped(name: &str) -> &'static str {
    match name {
        "http" => include_str!("../../../../config/plugins/http/main.js"),
        "guard" => include_str!("../../../../config/plugins/guard/main.js"),
        _ => include_str!("../../../../config/plugins/echo-channel/main.js"),
    }
}

/// PL-33, PL-44, PL-45: tools of several modules, settings, state, digests, and nothing else to import.
#[test]
fn a_plugin_has_its_modules_and_the_host() {
    let main = "import { config, digest, error, log, state, tool, uuid } from 'hive:host';
        import { twice } from './tools/twice.js';
        tool({ name: 'double', description: 'Doubles.', input: { type: 'object' },
               run: ({ n }) => ({ n: twice(n), by: config.tools.by }) });
        tool({ name: 'keep', description: 'Keeps.', run: async ({ v }) => { await state.set('v', v); return state.get('v') } });
        tool({ name: 'hash', description: 'Hashes.', run: () =>
               Array.from(digest('sha-256', 'abc').slice(0, 4), (byte) => byte.toString(16)).join('') + uuid().length });
        tool({ name: 'fail', description: 'Fails.', run: () => { error('sick'); log('warning', 'hm'); throw new Error('no') } });";
    let sources = [("main.js", main), ("tools/twice.js", "export const twice = (n) => n * 2;")];
    let plugin = Plugin::start(&sources);

    let met = plugin.ask("initialize", json!({ "protocolVersion": "2025-11-25" }));
    plugin.ask("plugin/start", json!({ "config": { "tools": { "by": "me" } } }));
    let listed = plugin.ask("tools/list", json!({}));
    let doubled = plugin.call("double", json!({ "n": 21 }));
    let kept = plugin.send("tools/call", json!({ "name": "keep", "arguments": { "v": 7 } }));
    let set = plugin.until(|message| message["method"] == "state/set");
    plugin.write(&json!({ "jsonrpc": "2.0", "id": set["id"], "result": {} }));
    let get = plugin.until(|message| message["method"] == "state/get");
    plugin.write(&json!({ "jsonrpc": "2.0", "id": get["id"], "result": { "value": 7 } }));
    let kept = plugin.answer_to(kept);
    let hashed = plugin.call("hash", json!({}));
    let failing = plugin.send("tools/call", json!({ "name": "fail", "arguments": {} }));
    let sick = plugin.until(|message| message["method"] == "plugin/error");
    let failed = plugin.answer_to(failing);
    let unknown = plugin.ask("sampling/createMessage", json!({}));

    assert_eq!(
        met["result"]["capabilities"]["experimental"]["hivewright"]["provides"],
        json!(["tools"])
    );
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 4);
    assert_eq!(doubled["structuredContent"], json!({ "n": 42, "by": "me" }));
    assert_eq!(set["params"], json!({ "key": "v", "value": 7 }));
    assert_eq!(kept["result"]["content"][0]["text"], "7");
    assert_eq!(hashed["content"][0]["text"], "ba7816bf36");
    assert_eq!(sick["params"]["message"], "sick");
    assert_eq!(
        (&failed["result"]["isError"], &failed["result"]["content"][0]["text"]),
        (&json!(true), &json!("Error: no"))
    );
    assert_eq!(unknown["error"]["code"], -32601);
}

/// PL-46: what is stopped fails alone; a new engine with the same settings takes its place.
#[test]
fn an_engine_that_was_stopped_is_replaced() {
    let main = "import { config, tool } from 'hive:host';
        let calls = 0;
        tool({ name: 'count', description: 'Counts.', run: () => `${++calls} ${config.tools.by}` });
        tool({ name: 'loop', description: 'Loops.', run: () => { for (;;) {} } });
        tool({ name: 'eat', description: 'Eats.', run: () => { const all = []; for (;;) all.push(new Array(1000).fill(0)) } });
        tool({ name: 'wait', description: 'Waits.', run: () => new Promise((done) => setTimeout(done, 700, 'waited')) });";
    let plugin = Plugin::started(&[("main.js", main)], json!({ "tools": { "by": "me" } }));
    let counted = |plugin: &Plugin| plugin.call("count", json!({}))["content"][0]["text"].take();

    let before = [counted(&plugin), counted(&plugin)];
    let waiting = plugin.send("tools/call", json!({ "name": "wait" }));
    let looping =
        plugin.send("tools/call", json!({ "name": "loop", "_meta": { "deadline_ms": 300 } }));
    let looped = plugin.answer_to(looping);
    let after = counted(&plugin);
    let waited = plugin.until(|message| message["id"] == waiting);
    let eaten = plugin.call("eat", json!({}));
    let anew = counted(&plugin);

    assert_eq!(before, ["1 me", "2 me"]);
    assert_eq!(looped["error"]["message"], "its time was over");
    assert_eq!(after, "1 me");
    assert_eq!(waited["result"]["content"][0]["text"], "waited");
    assert!(eaten["content"][0]["text"].as_str().unwrap().contains("out of memory"), "{eaten}");
    assert_eq!(anew, "1 me");
}

/// PL-46: calls behind one that is stopped go on in the engine that takes its place.
#[test]
fn calls_behind_one_that_is_stopped_are_made() {
    let main = "import { tool } from 'hive:host';
        tool({ name: 'loop', description: 'Loops.', run: () => { for (;;) {} } });
        tool({ name: 'say', description: 'Says.', run: ({ text }) => text });";
    let plugin = Plugin::started(&[("main.js", main)], json!({}));
    let say = |text: &str| {
        plugin.send("tools/call", json!({ "name": "say", "arguments": { "text": text } }))
    };

    plugin.send("tools/call", json!({ "name": "loop", "_meta": { "deadline_ms": 300 } }));
    let behind = ["one", "two"].map(say);
    let said = behind.map(|id| plugin.answer_to(id)["result"]["content"][0]["text"].take());

    assert_eq!(said, ["one", "two"]);
}

/// PL-46: an engine is replaced because it has no memory left, not because a tool speaks of memory.
#[test]
fn words_about_memory_end_no_engine() {
    let main = "import { tool } from 'hive:host';
        let calls = 0;
        tool({ name: 'log', description: 'Reads.', run: () => `${++calls}: worker 3 is out of memory` });";
    let plugin = Plugin::started(&[("main.js", main)], json!({}));
    let read = || plugin.call("log", json!({}))["content"][0]["text"].take();

    assert_eq!([read(), read()], ["1: worker 3 is out of memory", "2: worker 3 is out of memory"]);
}

#[test]
fn a_plugin_that_does_not_load_says_why() {
    for (source, expected) in [
        ("import fs from 'fs';", "fs"),
        ("import './other.js';", "other.js"),
        ("let a = ;", "line 1"),
        ("throw new Error('early')", "Error: early"),
        (
            "await new Promise((done) => setTimeout(done, 50)); throw new Error('late')",
            "Error: late",
        ),
    ] {
        let answer = Plugin::start(&[("main.js", source)]).ask("initialize", json!({}));
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(expected), "{source}: {answer}");
    }
}

/// PL-89
#[test]
fn the_http_plugin_reads_from_hosts_that_it_may() {
    let headers = json!([{ "host": "api.example.org", "name": "x-key", "value": "k" }]);
    let config =
        json!({ "tools": { "allow": ["api.example.org"], "max_bytes": 5, "headers": headers } });
    let plugin = Plugin::started(&[("main.js", shipped("http"))], config);

    let refused = plugin.call("http_get", json!({ "url": "https://evil.example/" }));
    let asked = plugin.send(
        "tools/call",
        json!({ "name": "http_get", "arguments": { "url": "https://api.example.org/a" } }),
    );
    let fetch = plugin.until(|message| message["method"] == "host/fetch");
    let answer = json!({ "status": 200, "headers": { "a": "b" }, "body_base64": "aGVsbG8gd29ybGQ=", "truncated": false });
    plugin.write(&json!({ "jsonrpc": "2.0", "id": fetch["id"], "result": answer }));
    let read = plugin.answer_to(asked);

    assert_eq!(refused["structuredContent"]["error"], "host_not_allowed");
    assert_eq!(fetch["params"]["headers"], json!({ "x-key": "k" }));
    assert_eq!(
        read["result"]["structuredContent"],
        json!({ "status": 200, "headers": { "a": "b" }, "body": "hello", "truncated": true })
    );
}

/// PL-90
#[test]
fn the_guard_denies_and_rewrites_by_the_first_rule_that_fits() {
    let rules = json!([
        { "tool": "bash", "pointer": "/command", "pattern": "rm -rf", "action": "deny", "reason": "too much" },
        { "tool": "web_*", "pointer": "/url", "pattern": "^http:", "action": "rewrite", "reason": "safer", "value": "https://a.org" },
    ]);
    let plugin =
        Plugin::started(&[("main.js", shipped("guard"))], json!({ "hooks": { "rules": rules } }));
    let fire = |tool: &str, args: Value| {
        let payload = json!({ "tool": tool, "args": args });
        plugin
            .ask("hook/fire", json!({ "event": "tool.before", "call_id": "c", "payload": payload }))
            ["result"]
            .take()
    };

    assert_eq!(fire("bash", json!({ "command": "ls" })), json!({ "decision": "pass" }));
    assert_eq!(fire("bash", json!({ "command": "rm -rf /" }))["decision"], "deny");
    let rewritten = fire("web_fetch", json!({ "url": "http://a.org", "n": 1 }));
    assert_eq!(rewritten["decision"], "rewrite");
    assert_eq!(rewritten["payload"]["args"], json!({ "url": "https://a.org", "n": 1 }));
}

/// PL-91
#[test]
fn the_echo_channel_takes_brings_and_is_set_up() {
    let plugin =
        Plugin::started(&[("main.js", shipped("echo"))], json!({ "channel": { "secret": "s" } }));

    let hook = plugin.send(
        "channel/webhook",
        json!({ "body_base64": "eyJldmVudF9pZCI6IjEiLCJmcm9tIjoiYW5uIiwidGV4dCI6ImjDpCJ9" }),
    );
    let inbound = plugin.until(|message| message["method"] == "channel/inbound");
    plugin.write(&json!({ "jsonrpc": "2.0", "id": inbound["id"], "result": { "accepted": true, "duplicate": false } }));
    let answered = plugin.answer_to(hook);
    let sending = plugin
        .send("channel/send", json!({ "delivery_id": "d1", "recipient": "ann", "content": "hi" }));
    for (method, result) in [("state/get", json!({ "value": null })), ("state/set", json!({}))] {
        let asked = plugin.until(|message| message["method"] == method);
        plugin.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
    }
    let sent = plugin.answer_to(sending);
    let begun = plugin.ask("setup/begin", json!({ "session": "s1" }));
    let done = plugin.ask(
        "setup/submit",
        json!({ "session": "s1", "values": { "secret": "0123456789abcdef01234567" } }),
    );

    assert_eq!(
        (&inbound["params"]["text"], &inbound["params"]["sender"]["id"]),
        (&json!("hä"), &json!("ann"))
    );
    assert_eq!(answered["result"]["status"], 200);
    assert_eq!(sent["result"]["status"], "delivered");
    assert_eq!(begun["result"]["state"]["kind"], "awaiting_user_input");
    assert_eq!(done["result"]["state"]["config"], json!({ "secret": "0123456789abcdef01234567" }));
}
