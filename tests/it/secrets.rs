//! Secrets: a key that a model is reached with is nowhere but in the file or variable it came from.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, Reply},
    service::{Client, Service},
};

/// A key that looks like nothing in particular, so that only knowing it can hide it.
const LITERAL: &str = "canary0literal7f3a9e51c2d8b640";
const VARIABLE: &str = "canary0variable92be07d4415fa3c8";

/// Files below a folder that hold one of the keys, but for the settings file.
fn leaks(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            leaks(&path, found);
        } else if !path.ends_with("data/config/providers.yaml") {
            let bytes = fs::read(&path).unwrap_or_default();
            if let Some(key) = contained(&bytes) {
                found.push(format!("{} in {}", key, path.display()));
            }
        }
    }
}

fn contained(bytes: &[u8]) -> Option<&'static str> {
    [LITERAL, VARIABLE]
        .into_iter()
        .find(|key| bytes.windows(key.len()).any(|part| part == key.as_bytes()))
}

/// Says something and hears the end of it; no frame holds a key.
async fn safely(client: &mut Client, content: &str) -> String {
    client.send(json!({ "content": content })).await;
    let frames = client.exchange().await;
    for frame in &frames {
        assert_eq!(contained(frame.to_string().as_bytes()), None, "{frame}");
    }
    frames[frames.len() - 1].to_string()
}

/// That the probes were made, or were refused for what they reach for.
fn probes_were_made(calls: &Value) {
    let calls = calls["data"].as_array().unwrap().iter().rev();
    let calls: Vec<_> = calls
        .map(|row| {
            let call = &row["call"];
            let told = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
            (told("tool"), told("decision"), told("rule"))
        })
        .collect();
    let of = |tool: &str, decision: &str, rule: &str| {
        (tool.to_owned(), decision.to_owned(), rule.to_owned())
    };
    assert_eq!(
        calls,
        [
            of("bash", "allow", ""),
            of("bash", "allow", ""),
            of("bash", "allow", ""),
            of("read", "refuse", "outside_workspace"),
        ]
    );
}

/// SC-05, SC-138, SE-136
#[actix::test]
async fn a_key_is_nowhere_but_where_it_was_written_down() {
    let model = FakeModel::start();
    // The fake model does not know these keys, so each answer of its is the refusal of one.
    let providers = format!(
        "profiles:\n  default: {{provider: openai, api_url: \"{0}/v1\", api_key: \"${{env:MODEL_KEY}}\", model: m, fallbacks: [second]}}\n  \
         second: {{provider: anthropic, api_url: \"{0}\", api_key: {LITERAL}, model: m}}\n",
        model.url()
    );
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("data/config/config.yaml", "log: {level: trace}\n")
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\", \"@shell\"]\n")
        .with_variable("MODEL_KEY", VARIABLE)
        .started()
        .await;
    model.accept(VARIABLE);
    let mut client = service.connect().await;

    // The model and the provider repeat the key, in every place there is.
    model.say([Reply::status(400, &format!("invalid key {VARIABLE} or {LITERAL}"))]);
    let error = safely(&mut client, "tulips in the garden").await;
    model.say([
        Reply::status(500, &format!("cannot serve {VARIABLE}")),
        Reply::text(&format!("Your keys are {VARIABLE} and {LITERAL}.")),
    ]);
    let text = safely(&mut client, "tulips in the garden").await;
    model.say([
        Reply::call("bash", json!({ "command": format!("echo {VARIABLE}") })),
        Reply::call("bash", json!({ "command": "env; tr '\\0' '\\n' < /proc/self/environ; true" })),
        Reply::call(
            "bash",
            json!({ "command": "tr '\\0' '\\n' < /proc/*/environ; cat /proc/*/cmdline; true" }),
        ),
        Reply::call("read", json!({ "file_path": service.path("data/config/providers.yaml") })),
        Reply::text("Looked everywhere."),
    ]);
    let looked = safely(&mut client, "tulips in the garden").await;
    let (_, calls) = service.api("GET", "/api/v1/audit?action=tool", None).await;
    // All keys refused, with the vendor's words.
    model.accept("none");
    client.send(json!({ "content": "tulips in the garden" })).await;
    let waits = |frame: &Value| frame["content"].to_string().contains("Waiting for a key");
    let refused = client.until(waits).await.to_string();
    let commands = [
        &["doctor"][..],
        &["doctor", "--json"],
        &["status"],
        &["status", "--json"],
        &["token", "list"],
    ];
    let paths = ["/metrics", "/api/v1/overview", "/health", "/api/v1/inbox"];
    let shown = service.shown(&commands, &paths).await;
    let command_line = fs::read(format!("/proc/{}/cmdline", service.pid())).unwrap();
    let backup = service.path("backup.tar.zst");
    let made = service.run(&["backup", backup.to_str().unwrap()], "").await;

    assert!(error.contains("provider_error"), "{error}");
    assert!(text.contains("Your keys are"), "{text}");
    assert!(looked.contains("Looked everywhere."), "{looked}");
    probes_were_made(&calls);
    assert!(refused.contains("does not take the key"), "{refused}");
    assert_eq!(contained(refused.as_bytes()), None, "{refused}");
    assert_eq!(contained(shown.as_bytes()), None, "{shown}");
    assert_eq!(contained(&command_line), None);
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut found = Vec::new();
    leaks(service.home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    // The model was really given its key, or all of this would prove nothing.
    let bearer = format!("Bearer {VARIABLE}");
    assert!(
        model.requests().iter().any(|request| request.header("authorization") == Some(&bearer))
    );
    let given = model.requests();
    let bodies: Vec<_> =
        given.iter().filter(|request| contained(&request.bytes).is_some()).collect();
    assert_eq!(bodies.len(), 0, "a key went into a prompt");
}
