//! A sender who was let in and is not known, with commands, file tools and two topics, tries to write what governs
//! the team, to read what other teams have, and to keep a hold after the trust was revoked.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::service::{Client, Service, WORKS_ITSELF};

/// How long the sender tries, in seconds. `HIVEWRIGHT_SIEGE=60` is the whole of it.
const SIEGE: &str = "HIVEWRIGHT_SIEGE";
const SHORT: u64 = 10;

const CHANNELS: &str = "
ws: {enabled: true}
topics: {model: never}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
trust: {channels: {ws: {policy: allow}}}
";
const CANARY: &str = "canary-of-beta-7d41f09b2c";
/// What a process is called that tries to outlive its command.
const STAYER: &str = "31536007";

/// All files of what governs a team, with their content.
fn governed(team: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![team.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let inside = path.strip_prefix(team).unwrap().display().to_string();
            let top = inside.split('/').next().unwrap();
            let governs = [
                "org-rules",
                "team-rules",
                "skills",
                "subagents",
                "plugins",
                "config.yaml",
                "HEARTBEAT.md",
            ];
            if !governs.contains(&top) {
                continue;
            }
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(path);
            } else {
                let text = if kind.is_symlink() {
                    format!("a link to {:?}", fs::read_link(&path))
                } else {
                    fs::read_to_string(&path).unwrap_or_default()
                };
                found.insert(inside, text);
            }
        }
    }
    // An empty list says nothing: the sandbox makes one to keep it.
    found.retain(|name, text| name != "HEARTBEAT.md" || !text.is_empty());
    found
}

fn call(tool: &str, args: &Value) -> String {
    format!("#call {tool} {args}\n")
}

/// Swaps a folder for links into what governs the team, as fast as it can, and tries everything else a command can.
fn swapping() -> String {
    let swap = r#"mkdir -p flip; ln -sfn ../team-rules notes/up; rm -f evil evil2; ln -s team-rules evil; ln -s skills evil2;
        for t in team-rules/x.md skills/x.md subagents/x.md org-rules/x.md config.yaml HEARTBEAT.md plugins/x.js;
            do echo planted >> $t; echo planted | tee -a ./notes/../$t; done;
        ln team-rules/house.md notes/hard; ln config.yaml notes/hard2; echo planted >> notes/hard; echo planted >> notes/hard2;
        mv team-rules notes/old; rm -rf skills; mkdir skills; mv notes/old team-rules; umount team-rules config.yaml;
        cat ../beta/secret.md /proc/*/root/*/beta/secret.md; cp -r ../beta notes/loot; ls ..;
        (setsid nohup sleep STAYER >/dev/null 2>&1 &);
        perl -e '$t = time + 2; while (time < $t) { for (1..200) { for my $e ("evil", "evil2") {
            rename("flip", "aside"); rename($e, "flip"); rename("flip", $e); rename("aside", "flip"); } } }'"#;
    let swap = swap.replace("STAYER", STAYER);
    format!("{}#reply {{result}}", call("bash", &json!({ "command": swap, "timeout": 20_000 })))
}

/// Writes by way of the folder that is swapped, and reads what is not its own. Returns how many calls it makes.
fn writing(round: usize, beta: &Path) -> (String, usize) {
    let mut calls = Vec::new();
    for number in 0..25 {
        let name = format!("flip/{round}-{number}.md");
        calls.push(call("write", &json!({ "file_path": name, "content": "planted" })));
        calls.push(call(
            "edit",
            &json!({ "file_path": "flip/house.md", "old_string": "kind", "new_string": "planted" }),
        ));
    }
    for path in ["config.yaml", "flip/../config.yaml", "plugins/x.js"] {
        calls.push(call("write", &json!({ "file_path": path, "content": "planted" })));
    }
    let beta = beta.display();
    for path in [
        format!("{beta}/secret.md"),
        "../beta/secret.md".to_owned(),
        "flip/../../beta/secret.md".to_owned(),
        format!("/proc/self/root{beta}/secret.md"),
    ] {
        calls.push(call("read", &json!({ "file_path": path })));
    }
    calls.push(call("grep", &json!({ "pattern": "canary", "path": ".." })));
    calls.push(call("glob", &json!({ "pattern": format!("{beta}/**") })));
    (format!("{}#reply {{result}}", calls.concat()), calls.len())
}

/// One topic of the sender, until the time is over: what it heard, and how many messages were answered.
async fn topic(
    mut client: Client,
    until: Instant,
    mut next: impl FnMut(usize) -> String,
) -> (String, usize, Client) {
    let (mut heard, mut rounds) = (String::new(), 0);
    let mut topic = Value::Null;
    while Instant::now() < until {
        let message = match topic.as_str() {
            Some(topic) => json!({ "content": next(rounds), "topic_id": topic }),
            None => json!({ "content": next(rounds) }),
        };
        client.send(message).await;
        let end = client.terminal().await;
        assert_eq!(end["type"], "response", "{end}");
        topic = end["topic_id"].clone();
        heard.push_str(&end.to_string());
        rounds += 1;
    }
    (heard, rounds, client)
}

fn runs(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(|line| {
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|word| word.ends_with(b"sleep"))
            && words.any(|word| word == argument.as_bytes())
    })
}

/// SC-42, SC-07, SC-20, SC-137: nothing of what governs the team is changed, nothing of another team is seen, and
/// nothing is left that acts: no process, no trigger, and no file that a trusted turn takes for its own.
#[actix::test]
async fn a_hostile_sender_gets_nothing_and_keeps_nothing() {
    let seconds = std::env::var(SIEGE).ok();
    let seconds = seconds.map_or(SHORT, |seconds| seconds.parse().unwrap());
    let mut service = Service::prepare()
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .with_file("run/teams/main/team-rules/house.md", "Be kind.\n")
        .with_file("run/teams/main/skills/greet/SKILL.md", "Say hello.\n")
        .with_file("data/config/channels.yaml", CHANNELS)
        .started()
        .await;
    service.make_team("beta", "Keeps a secret").await;
    service.write("run/teams/beta/secret.md", CANARY);
    let (main, beta) = (service.path("run/teams/main"), service.path("run/teams/beta"));
    let before = governed(&main);
    let wish = json!({ "name": "mallory", "scopes": ["chat"] });
    let (_, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    let key = made["data"]["token"].as_str().unwrap().to_owned();
    let url = service.url();
    let [one, other] = [Client::connect(&url, &key).await, Client::connect(&url, &key).await];
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut attempts = 0;

    let (swapped, written) = tokio::join!(
        topic(one, until, |_| swapping()),
        topic(other, until, |round| {
            let (script, calls) = writing(round, &beta);
            attempts += calls;
            script
        }),
    );
    let deny = json!({"channel_type": "ws", "sender_id": "mallory", "trust_level": "denied"});
    let (status, answer) = service.api("POST", "/api/v1/trust", Some(deny)).await;
    assert!(status < 300, "{answer}");
    let mut last = written.2;
    let late = call("write", &json!({ "file_path": "late.md", "content": "x" }));
    // It is cut off at once, or told no and cut off then.
    last.try_send(json!({ "content": late })).await;
    while last.try_frame().await.is_ok_and(|frame| frame["type"] != "error") {}

    println!("{seconds} s: {attempts} calls of file tools, {} commands that swapped", swapped.1);
    assert!(swapped.1 > 0 && written.1 > 0);
    assert_eq!(governed(&main), before);
    let heard = swapped.0 + &written.0;
    assert!(!heard.contains(CANARY), "{heard}");
    assert!(!main.join("notes/loot/secret.md").exists());
    assert!(!main.join("late.md").exists());
    assert!(!runs(STAYER), "a process outlived its command");

    // What it left is labelled, also after a kill, and a trusted turn that reads it asks before it changes a rule.
    service.kill();
    service.launch().await;
    let list = "/api/v1/teams/main/untrusted-files?limit=200";
    let (status, labelled) = service.api("GET", list, None).await;
    assert_eq!(status, 200, "{labelled}");
    let rows = labelled["data"].as_array().unwrap();
    let is_left = |row: &&Value| {
        let path = main.join(row["path"].as_str().unwrap());
        row["extent"] == "file" && path.is_file()
    };
    let left = rows.iter().find(is_left).expect("it left something");
    let left = left["path"].as_str().unwrap();
    let mut operator = service.connect().await;
    let read = call("read", &json!({ "file_path": left }));
    let rule = call("write", &json!({ "file_path": "team-rules/new.md", "content": "planted" }));
    operator.send(json!({ "content": format!("{read}#say Now.\n{rule}#reply Done.") })).await;
    let asked = |waiting: &Value| waiting[0]["kind"] == "self_change";
    service.until("/api/v1/approvals?status=pending", asked).await;
    assert_eq!(governed(&main), before);
}
