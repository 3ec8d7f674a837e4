//! Turns of command-line agents, as whoever watches sees them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::{
    engines::{ENGINES, agents, home},
    events::Events,
    service::{Client, PATIENCE},
};

/// Speaks as Claude Code does: it asks the model again, remarks something, and answers; or it breaks off.
const AGENT: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo "2.1.325 (Claude Code)" && exit
read -r _
echo '{"type":"control_response","response":{"subtype":"success","request_id":"initialize"}}'
read -r told
case "$told" in *"break off"*)
  echo "the password is vault-value-0123456789abcdef" >&2
  echo "fatal: no more" >&2
  exit 3
esac
echo '{"type":"user","isReplay":true,"message":{"content":[{"type":"text","text":""}]}}'
echo '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":3,"error":"overloaded","error_status":529}'
echo 'proxy: vault-value-0123456789abcdef'
echo '{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"Hello."}],"stop_reason":"end_turn"}}'
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Hello."}'
read -r _
"#;
const SECRET: &str = "vault-value-0123456789abcdef";

/// The moments of the next turn, to its end or until it is set aside.
async fn moments(events: &mut Events) -> Vec<Value> {
    let mut moments = Vec::new();
    let gathering = async {
        loop {
            let (_, kind, data) = events.next().await.expect("the stream goes on");
            if kind == "turn" {
                let over = data["kind"] == "turn_end" || data["state"] == "stopped";
                moments.push(data);
                if over {
                    break;
                }
            }
        }
    };
    let gathered = tokio::time::timeout(PATIENCE, gathering).await;
    assert!(gathered.is_ok(), "it does not end: {moments:?}");
    moments
}

fn notes(moments: &[Value]) -> Vec<&str> {
    let notes = moments.iter().filter(|moment| moment["kind"] == "note");
    notes.filter_map(|note| note["text"].as_str()).collect()
}

/// All frames up to one with these words.
async fn frames_to(client: &mut Client, words: &str) -> Vec<String> {
    let mut frames = Vec::new();
    while !frames.last().is_some_and(|frame: &String| frame.contains(words)) {
        frames.push(client.frame().await.to_string());
    }
    frames
}

/// EN-62, EN-63, EN-66, EN-76, EN-120: remarks go to whoever watches, new tries also to the person, and the last words of
/// an agent that breaks off are part of the error; none of it shows a secret.
#[actix::test]
async fn what_an_agent_says_beside_its_answer_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = folder.path().join("claude");
    fs::write(&agent, AGENT).expect("a program");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a mode");
    let service = home(folder.path(), "claude", "").started().await;
    let done = service.run(&["vault", "set", "PASSWORD", "--team", "main"], SECRET).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut events = Events::open(&service, None).await;
    let mut client = service.connect().await;

    client.say("m1", "hello").await;
    let frames = frames_to(&mut client, "\"type\":\"response\"").await;
    let answered = moments(&mut events).await;
    client.say("m2", "break off").await;
    let broken = frames_to(&mut client, "Trying again").await;
    let broke_off = moments(&mut events).await;

    let again = "claude asks the model again, attempt 1 of 3: overloaded (529)";
    let remark = "proxy: ${vault:PASSWORD}";
    let mut told = notes(&answered);
    // A new try is told once it is durable.
    told.sort_unstable();
    assert_eq!(told, [again, remark], "{answered:?}");
    assert!(frames.iter().any(|frame| frame.contains(again)), "{frames:?}");
    assert!(!frames.iter().any(|frame| frame.contains("proxy")), "{frames:?}");
    let told = notes(&broke_off);
    assert_eq!(told[..2], ["the password is ${vault:PASSWORD}", "fatal: no more"], "{told:?}");
    let error = broken.last().expect("an error");
    assert!(error.contains("claude stopped before the turn was over"), "{error}");
    assert!(error.contains("fatal: no more"), "{error}");
    let all = json!([frames, broken, answered, broke_off]).to_string();
    assert!(!all.contains(SECRET), "{all}");
}

/// What is alike of the moments of a turn whatever runs it. Pieces of one text are one.
fn shape(moments: &[Value], sdk: &str) -> Vec<String> {
    let mut shape: Vec<String> = Vec::new();
    for moment in moments {
        let value = &moment["value"];
        let one = match moment["kind"].as_str().expect("a kind") {
            "turn_start" => {
                assert_eq!(moment["sdk"], sdk, "{moment}");
                format!("turn_start of {} {}", moment["provider"], moment["model"])
            }
            "stream" => {
                let tool = value["name"].as_str().or(value["toolName"].as_str());
                format!("{} {}", value["type"].as_str().expect("a type"), tool.unwrap_or(""))
            }
            "state" => {
                let usage = &moment["usage"];
                assert!(usage["input"].as_u64().is_some_and(|tokens| tokens > 0), "{moment}");
                format!("{} {}", moment["state"], moment["step"])
            }
            "turn_end" => {
                assert!(moment["usage"]["output"].as_u64().is_some_and(|n| n > 0), "{moment}");
                format!("turn_end {} {}", moment["outcome"], moment["steps"])
            }
            // What an agent has to say of itself.
            "note" => continue,
            other => panic!("{other}: {moment}"),
        };
        if shape.last() != Some(&one) {
            shape.push(one);
        }
    }
    shape
}

/// EN-118, EN-119, EN-121, EN-124: a turn is told in the same way whatever runs it.
#[actix::test]
async fn a_turn_is_told_alike_on_every_engine() {
    let Some(agents) = agents() else { return };
    let script = "#think Let me see.\n#say I look.\n\
                  #call read {\"file_path\": \"missing.txt\"}\n#then\n#reply It is not there.";
    let mut ours = Vec::new();
    for (sdk, settings) in ENGINES {
        let service = home(&agents as &Path, sdk, settings).started().await;
        let mut events = Events::open(&service, None).await;
        let mut client = service.connect().await;

        client.say("m1", script).await;
        client.end_of("m1").await;
        let moments = moments(&mut events).await;

        let shape = shape(&moments, sdk);
        println!("{sdk} {settings} remarks {:?}", notes(&moments));
        if ours.is_empty() {
            ours = shape;
        } else {
            assert_eq!(shape, ours, "{sdk} {settings}");
        }
    }
}
