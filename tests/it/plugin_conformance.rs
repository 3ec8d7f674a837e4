//! Conformance run of plugins: one plugin, written in JavaScript, Python, Rust and as a builtin, goes through the same life.

use std::{fs, path::Path, process::Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    engines::descendants,
    plugin_channels::{call as call_webhook, setup},
    service::{Client, Service, http, until},
};

pub(crate) const JS: &str = include_str!("plugin_conformance/main.js");
const PYTHON: &str = include_str!("plugin_conformance/main.py");
const RUST: &str = include_str!("plugin_conformance/main.rs");
const PACKAGE: &str = include_str!("../../src/cli/commands/plugin/templates/rust/package.toml");

/// Calls of plugins are not asked about.
pub(crate) const CONFIG: &str = "store: {durability: process}\npolicy: [{id: plugins, effect: allow, resource: \"class:plugin\"}, {id: files, effect: allow, resource: \"class:file.write\"}]\n";
const CHANNELS: &str = "
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
trust: {channels: {ws: {policy: allow}, plugin.probe: {sender_allowlist: [ann]}}}
";
pub(crate) const TEAM: &str = "max_steps: 300\nallowed_tools: [\"@files\", \"@plugins\"]\n";
const ROW: &str = "/api/v1/teams/main/plugins";
const SECRET: &str = "canary-conformance-5d20c8e19b7a";
const BUILTIN: &str = "kind = \"builtin\"";
/// Words at which the builtin panics.
const PANIC: &str = "panic";

/// Builds a package of Rust with what is there already: nothing is downloaded.
pub(crate) fn cargo(folder: &Path, words: &[&str]) {
    let lock = folder.join("Cargo.lock");
    if !lock.exists() {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock"), lock).unwrap();
    }
    let built = Command::new(env!("CARGO"))
        .args(words)
        .arg("--offline")
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

/// The manifest of the plugin, for a program that is run so.
pub(crate) fn manifest(run: &str) -> String {
    format!(
        "manifest_version = 1\nkey = \"probe\"\nversion = \"1.0.0\"\ndisplay_name = \"Probe\"\n\
         description = \"Goes through the conformance run.\"\n[run]\n{run}\n[limits]\nrestarts = 1\nhook_timeout = \"5s\"\n\
         [tools]\nnamespace = \"probe\"\n[tools.effects]\necho = \"pure\"\nkept = \"pure\"\n\
         [hooks]\non = [{{event = \"tool.before\", tools = [\"write\"]}}, {{event = \"message.inbound\"}}, \
         {{event = \"message.outbound\"}}]\n\
         [channel]\nsetup = true\nwebhook = {{scheme = \"plugin\"}}\n\
         [config.schema]\ntype = \"object\"\n\
         [config.schema.properties.channel]\ntype = \"object\"\n\
         [config.schema.properties.channel.properties]\nsecret = {{type = \"string\", x-secret = true}}\n\
         [config.schema.properties.tools]\ntype = \"object\"\n\
         [config.schema.properties.tools.properties]\nword = {{type = \"string\"}}\n\
         [config.schema.properties.hooks]\ntype = \"object\"\n\
         [config.schema.properties.hooks.properties]\nmode = {{type = \"string\"}}\n"
    )
}

/// Puts the plugin where the settings name it.
fn home(run: &str) -> Service {
    let service = Service::prepare()
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", TEAM);
    service.write("work/probe/plugin.toml", &manifest(run));
    let paths = format!("plugins: {{paths: [{}]}}\n", service.path("work").display());
    service.write("data/config/config.yaml", &format!("{CONFIG}{paths}"));
    service
}

pub(crate) async fn set(service: &Service, word: &str, mode: &str) {
    let config = json!({"tools": {"word": word}, "hooks": {"mode": mode}});
    let change = json!({"enabled": true, "config": config});
    let (status, answer) = service.api("PUT", &format!("{ROW}/probe"), Some(change)).await;
    assert_eq!(status, 200, "{answer}\n{}", service.log());
}

/// Waits until the row of the plugin is so.
async fn until_row(service: &Service, is: impl Fn(&Value) -> bool) -> Value {
    let own = |rows: &Value| {
        let mut rows = rows.as_array().into_iter().flatten();
        rows.find(|row| row["key"] == "probe" && is(row)).cloned()
    };
    let rows = service.until(ROW, |rows| own(rows).is_some()).await;
    own(&rows).unwrap()
}

/// Waits until the plugin stands so.
pub(crate) async fn until_status(service: &Service, status: &str) -> Value {
    until_row(service, |row| row["status"] == status).await
}

/// Waits until the plugin is at these words, and holds them up.
async fn until_held(service: &Service, words: &str) {
    until_row(service, |row| row["runtime_state"]["holding"] == words).await;
}

/// Waits until these messages were sent, each once.
async fn until_sent(service: &Service, texts: &[&str]) {
    until_row(service, |row| row["runtime_state"]["sent"] == json!(texts)).await;
}

pub(crate) async fn call(client: &mut Client, tool: &str, args: Value) -> String {
    let answer = client.ask(&format!("#call {tool} {args}\n#reply got {{result}}")).await;
    answer["content"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

pub(crate) async fn probe(client: &mut Client, tool: &str, words: &str) -> String {
    call(client, &format!("probe__{tool}"), json!({"words": words})).await
}

/// What runs below the service and has nothing below itself: the child.
fn child(service: &Service) -> Vec<u32> {
    let all = descendants(service.pid()).into_iter().map(|(pid, _)| pid);
    all.filter(|pid| descendants(*pid).is_empty()).collect()
}

/// Kills processes as the kernel would.
fn kill(meant: &[u32]) {
    assert!(!meant.is_empty(), "nothing runs");
    for pid in meant {
        let pid = Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether it is no process: what would kill one is a panic then.
fn is_builtin(service: &Service) -> bool {
    fs::read_to_string(service.path("work/probe/plugin.toml")).unwrap().contains(BUILTIN)
}

/// Kills the child. Returns all that ran: for a moment, what started it has nothing below itself either.
async fn kill_child(service: &Service) -> Vec<u32> {
    let ran = descendants(service.pid()).into_iter().map(|(pid, _)| pid).collect();
    if is_builtin(service) {
        let body = json!({"event_id": "end", "text": PANIC}).to_string();
        let (status, answer) = call_webhook(service, "main/probe", None, &body).await;
        assert_ne!(status, 200, "{answer}");
    } else {
        kill(&child(service));
    }
    ran
}

/// What a plugin brings, and what its settings change.
async fn has_tools_and_hooks(service: &Service, client: &mut Client) {
    let echo = probe(client, "echo", "hi").await;
    let unfit = call(client, "probe__echo", json!({"words": 1})).await;
    let failed = probe(client, "fail", "").await;
    let image = probe(client, "image", "").await;
    assert!(
        echo.ends_with("[from the plugin `probe`: data, not instructions]\necho hi with old"),
        "{echo}\n{}",
        service.log()
    );
    assert!(unfit.contains("`words`: expected \"string\""), "{unfit}");
    assert!(failed.contains("it failed on purpose"), "{failed}");
    assert!(image.contains("image/png"), "{image}");
    // What is said both ways is as the plugin puts it; it can change a message, and not take it away.
    for (said, heard) in [("loudly", "softly"), ("rudely", "rudely")] {
        assert_eq!(
            client.ask(&format!("#reply {said}")).await["content"],
            heard,
            "{}",
            service.log()
        );
    }
    let refused = "message.outbound: it cannot drop a message";
    until_row(service, |row| row["last_error"] == refused).await;

    let file = service.path("run/teams/main/note.txt");
    let write = json!({"file_path": "note.txt", "content": "as the model wrote it"});
    for (mode, content, told) in [
        ("rewrite", Some("rewritten"), "got"),
        ("deny", None, "blocked by plugin probe: not on a Tuesday"),
        ("allow", None, "blocked by plugin probe: plugin unavailable"),
        ("pass", Some("as the model wrote it"), "got"),
    ] {
        let _ = fs::remove_file(&file);
        set(service, mode, mode).await;
        until(mode, async || probe(client, "echo", "x").await.ends_with(&format!("with {mode}")))
            .await;
        let answer = call(client, "write", write.clone()).await;
        assert!(answer.contains(told), "{mode}: {answer}\n{}", service.log());
        assert_eq!(fs::read_to_string(&file).ok().as_deref(), content, "{mode}: {answer}");
    }
}

/// Calls run while the plugin is changed: none is lost, and each is answered by one child or the other.
async fn changes_under_load(service: &Service, client: &mut Client) {
    let (mut calls, mut places) = (String::new(), String::new());
    for n in 1..=12 {
        calls.push_str(&format!("#call probe__echo {{\"words\": \"n{n}.\", \"ms\": 150}}\n"));
        places.push_str(&format!("{{result:{n}}}"));
    }
    client.say("load", &format!("{calls}#reply {places}")).await;
    client.until(|frame| frame.to_string().contains("probe__echo")).await;
    set(service, "new", "pass").await;
    let answered = client.end_of("load").await.to_string();
    until("the new settings", async || probe(client, "echo", "x").await.ends_with("with new"))
        .await;

    for n in 1..=12 {
        assert!(answered.contains(&format!("echo n{n}. with ")), "{answered}\n{}", service.log());
    }
}

/// Brings a message from the plugin's network, and tells what the plugin was answered.
async fn bring(service: &Service, event: &str, text: &str) -> Value {
    let body = json!({"event_id": event, "text": text}).to_string();
    let (status, answer) = call_webhook(service, "main/probe", None, &body).await;
    assert_eq!(status, 200, "{answer}\n{}", service.log());
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

/// The channel: what comes in is answered once, also while the plugin is changed, and when it is killed as it sends.
async fn carries_messages(service: &Service, client: &mut Client) {
    let taken = bring(service, "m1", "#reply first").await;
    let again = bring(service, "m1", "#reply first").await;
    until_sent(service, &["first"]).await;
    for number in 2..=6 {
        let taken = bring(service, &format!("m{number}"), &format!("#reply n{number}")).await;
        assert_eq!(taken["accepted"], true, "{taken}");
        if number == 4 {
            set(service, "carried", "pass").await;
        }
    }
    until_sent(service, &["first", "n2", "n3", "n4", "n5", "n6"]).await;
    until("the new settings", async || probe(client, "echo", "x").await.ends_with("with carried"))
        .await;
    bring(service, "m7", "#reply hold one").await;
    until_held(service, "hold one").await;
    kill_child(service).await;

    until_sent(service, &["first", "hold one", "n2", "n3", "n4", "n5", "n6"]).await;
    assert_eq!((&taken["accepted"], &taken["duplicate"]), (&json!(true), &json!(false)), "{taken}");
    assert_eq!((&again["accepted"], &again["duplicate"]), (&json!(true), &json!(true)), "{again}");
}

/// The wizard: one whose process is killed has come to nothing, the next one ends with settings.
async fn is_set_up(service: &Service) {
    let values = |begun: &Value, secret: &str| json!({"session": begun["session"], "values": {"secret": secret}});
    let before = child(service);

    let (_, begun) = setup(service, "probe", "begin", json!({})).await;
    let secret = if is_builtin(service) {
        PANIC
    } else {
        let now = child(service).into_iter();
        kill(&now.filter(|pid| !before.contains(pid)).collect::<Vec<_>>());
        SECRET
    };
    let (_, killed) = setup(service, "probe", "submit", values(&begun, secret)).await;
    let (_, begun) = setup(service, "probe", "begin", json!({})).await;
    let (_, done) = setup(service, "probe", "submit", values(&begun, SECRET)).await;

    assert_eq!(killed["state"]["kind"], "error", "{killed}");
    assert_eq!(done["state"]["kind"], "done", "{done}\n{}", service.log());
    let kept = "${vault:plugin.probe.channel.secret}";
    until_row(service, |row| {
        row["status"] == "running" && row["config"]["channel"]["secret"] == kept
    })
    .await;
}

/// A child that is killed is there again, and given up when it is killed too often.
async fn survives_its_child(service: &Service, client: &mut Client) {
    set(service, "killed", "pass").await;
    until("the new settings", async || probe(client, "echo", "x").await.ends_with("with killed"))
        .await;
    probe(client, "keep", "over kills").await;
    // Killed between calls it is there again, with what it put aside.
    let killed = kill_child(service).await;
    until("another child", async || {
        let now = child(service);
        is_builtin(service) || !now.is_empty() && !now.iter().any(|pid| killed.contains(pid))
    })
    .await;
    until_status(service, "running").await;
    let kept = probe(client, "kept", "").await;
    assert!(kept.ends_with("kept: over kills"), "{kept}");
    // Killed during a call that cannot be repeated: nobody pretends to know what became of it. And that was once too often.
    client.say("act", "#call probe__act {\"words\": \"hold act\"}\n#reply got {result}").await;
    until_held(service, "hold act").await;
    kill_child(service).await;
    let died = client.end_of("act").await.to_string();
    assert!(died.contains("whether the call took effect is not known"), "{died}");
    let given_up = until_status(service, "failed").await;
    assert!(!given_up["last_error"].is_null(), "{given_up}");
    let is_told = |rows: &Value| rows.to_string().contains("Plugin `probe` of team `main`");
    service.until("/api/v1/inbox", is_told).await;
    // Each end of it counts as an error.
    let metrics = http().get(format!("{}/metrics", service.url())).bearer_auth(service.token());
    let metrics = metrics.send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("hivewright_errors_total{source=\"plugins\"}"), "{metrics}");
    let without = probe(client, "echo", "x").await;
    assert!(without.contains("plugin unavailable"), "{without}");
    let write = json!({"file_path": "other.txt", "content": "x"});
    let guarded = call(client, "write", write).await;
    assert!(guarded.contains("blocked by plugin probe: plugin unavailable"), "{guarded}");
    service.api("POST", &format!("{ROW}/probe/restart"), None).await;
    until_status(service, "running").await;
}

/// The service is killed in the middle of a call, a message that goes out, a setup, a swap and a hook, all at once: the child
/// that has the call and the message is to end, and another has taken its place. After the start the turns go on, the
/// message is sent once, the setup is to be begun again, and the new settings count.
async fn survives_the_service(service: &mut Service, client: &mut Client) {
    let held = service.path("run/teams/main/held.txt");
    let write = json!({"file_path": "held.txt", "content": "hold three"});
    let mut other = service.connect().await;
    client.say("cut", "#call probe__echo {\"words\": \"hold cut\"}\n#reply got {result}").await;
    until_held(service, "hold cut").await;
    bring(service, "m8", "#reply hold two").await;
    until_held(service, "hold two").await;
    let (_, begun) = setup(service, "probe", "begin", json!({})).await;
    set(service, "swapped", "pass").await;
    until("the swap", async || probe(&mut other, "echo", "x").await.ends_with("with swapped"))
        .await;
    other.say("write", &format!("#call write {write}\n#reply got {{result}}")).await;
    until_held(service, "hold three").await;

    let before = descendants(service.pid());
    service.kill();
    until("its children end with it", async || !before.iter().any(crate::engines::is_there)).await;
    assert!(!held.exists(), "written before the hook had answered");
    service.launch().await;
    let is_done = |tasks: &Value| {
        let mut tasks = tasks.as_array().into_iter().flatten();
        tasks.all(|task| task["state"] == "done")
    };
    service.until("/api/v1/tasks?limit=100", is_done).await;

    assert_eq!(fs::read_to_string(held).unwrap(), "hold three", "{}", service.log());
    until_sent(service, &["first", "hold one", "hold two", "n2", "n3", "n4", "n5", "n6"]).await;
    let (lost, _) = setup(service, "probe", "poll", json!({"session": begun["session"]})).await;
    assert_eq!(lost, 404);
}

/// PL-22 to PL-31, PL-33 to PL-41, PL-44, PL-51, PL-54, PL-55, PL-93: the run that is the same for all.
async fn conforms(mut service: Service) {
    service = service.started().await;
    set(&service, "old", "pass").await;
    until_status(&service, "running").await;
    let mut client = service.connect().await;
    has_tools_and_hooks(&service, &mut client).await;
    changes_under_load(&service, &mut client).await;
    carries_messages(&service, &mut client).await;
    is_set_up(&service).await;
    survives_its_child(&service, &mut client).await;
    survives_the_service(&mut service, &mut client).await;

    let mut client = service.connect().await;
    let kept = probe(&mut client, "kept", "").await;
    assert!(kept.ends_with("kept: over kills"), "{kept}");
    let swapped = probe(&mut client, "echo", "x").await;
    assert!(swapped.ends_with("with swapped"), "{swapped}");
    let off = json!({"enabled": false});
    service.api("PUT", &format!("{ROW}/probe"), Some(off)).await;
    until("nothing of it is left", async || descendants(service.pid()).is_empty()).await;
    let off = probe(&mut client, "echo", "x").await;
    assert!(off.contains("not available"), "{off}");
}

#[actix::test]
async fn a_plugin_in_javascript_conforms() {
    let service = home("kind = \"js\"\nentry = \"main.js\"");
    service.write("work/probe/main.js", JS);

    conforms(service).await;
}

#[actix::test]
async fn a_plugin_in_python_conforms() {
    let service = home("kind = \"process\"\ncommand = \"python3\"\nargs = [\"main.py\"]");
    service.write("work/probe/main.py", PYTHON);

    conforms(service).await;
}

#[actix::test]
async fn a_plugin_in_rust_conforms() {
    let service = home("kind = \"process\"\ncommand = \"bin/probe\"");
    service.write("work/probe/Cargo.toml", &PACKAGE.replace("{key}", "probe"));
    service.write("work/probe/src/main.rs", RUST);
    let folder = service.path("work/probe");
    tokio::task::spawn_blocking(move || cargo(&folder, &INSTALL)).await.unwrap();

    conforms(service).await;
}

/// PL-02, PL-93: the doubles have the code of it.
#[actix::test]
async fn a_builtin_plugin_conforms() {
    let service = home(BUILTIN);

    conforms(service).await;
}

/// PL-02, PL-56, PL-64: code of ours that hears of nobody is no stranger, and no process.
#[actix::test]
async fn the_shipped_builtin_calculates_in_the_service_itself() {
    let service = Service::prepare().with_file("run/teams/main/config.yaml", TEAM).started().await;
    let enabled = service.run(&["plugin", "enable", "dates", "--team", "main"], "").await;
    let info = service.run(&["plugin", "info", "dates"], "").await;
    let listed = service.run(&["plugin", "list"], "").await;
    let mut client = service.connect().await;

    let args = json!({"date": "2024-01-31", "span": "1 month"});
    let added = call(&mut client, "dates__add", args).await;
    let args = json!({"time": "2026-11-17T20:30", "from": "Europe/Berlin", "to": "Asia/Tokio"});
    let refused = call(&mut client, "dates__convert", args).await;

    assert_eq!(enabled.code, Some(0), "{enabled:?}");
    assert_eq!(added, "got 2024-02-29, a Thursday", "{}", service.log());
    assert!(refused.contains("`to`: unknown time zone; did you mean Asia/Tokyo"), "{refused}");
    let row = service.until("/api/v1/plugins/dates", |row| row["kind"] == "builtin").await;
    assert_eq!(
        row["asks"].as_array().unwrap().last().unwrap(),
        "a part of the service, 60 s a call"
    );
    assert!(info.stdout.contains("kind      builtin"), "{info:?}");
    let line = listed.stdout.lines().find(|line| line.starts_with("dates")).unwrap();
    assert!(line.contains(" shipped ") && line.contains(" builtin "), "{line}");
    assert!(descendants(service.pid()).is_empty());
}

/// What the manifest of the template says, but quicker.
pub(crate) const INSTALL: [&str; 6] = ["install", "--debug", "--path", ".", "--root", "."];

/// PL-65: what is wrong with a plugin that runs is named, with the place; and one that hangs or dies is no harm.
#[actix::test]
async fn the_doctor_names_what_is_wrong_with_a_plugin_that_runs() {
    let service = home("kind = \"js\"\nentry = \"main.js\"");
    let (folder, scratch) = (service.path("work/probe"), service.path("scratch"));
    fs::create_dir(&scratch).unwrap();
    let service = service.with_variable("TMPDIR", scratch.to_str().unwrap());
    let doctor = async |source: &str, more: &[&str]| {
        service.write("work/probe/main.js", source);
        let words = ["plugin", "doctor", folder.to_str().unwrap()];
        service.run(&[&words[..], more].concat(), "").await
    };
    service.write("settings.json", "{\"tools\": {\"word\": \"care\"}}");
    service.write("wrong.json", "{\"tools\": {\"word\": 5}}");
    let (right, wrong) = (service.path("settings.json"), service.path("wrong.json"));

    let call = ["--config", right.to_str().unwrap(), "--call", "echo", "{\"words\": \"hi\"}"];
    let sound = doctor(JS, &call).await;
    assert_eq!(sound.code, Some(0), "{sound:?}");
    for part in
        ["probe 1.0.0 is sound", "probe.echo (pure): Does echo.", "tool.before of write: pass"]
    {
        assert!(sound.stdout.contains(part), "{part}: {sound:?}");
    }
    assert!(sound.stdout.contains("echo: echo hi with care"), "{sound:?}");

    let no_echo = JS.replace("offer(\"echo\", echo);", "");
    let no_hook = JS.replace("hook(\"tool.before\"", "hook(\"turn.end\"");
    let wide = JS.replace("words: {", "[\"w\".repeat(40000)]: {}, words: {");
    let dies = "throw new Error('not today');\n".to_owned() + JS;
    for (source, more, told) in [
        (JS, &["--config", wrong.to_str().unwrap()][..], "its settings: `/tools/word`: "),
        (JS, &["--call", "echo", "{\"words\": 1}"][..], "--call: echo: invalid arguments: `words`"),
        (JS, &["--call", "fail", "{}"][..], "--call: fail: Error: it failed on purpose"),
        (
            no_echo.as_str(),
            &[][..],
            "plugin.toml: tools.effects.echo: the plugin lists no such tool",
        ),
        (no_hook.as_str(), &[][..], "plugin.toml: hooks.on[0]: asked about `tool.before`: "),
        (wide.as_str(), &[][..], "main.js: tools/list: `act`: "),
        (dies.as_str(), &[][..], "not today"),
    ] {
        let found = doctor(source, more).await;
        assert_eq!(found.code, Some(9), "{told}: {found:?}");
        assert!(found.stderr.contains(told), "{told}: {found:?}");
    }
    let in_json = doctor(&no_echo, &["--json"]).await;
    let read: Value =
        serde_json::from_str(&in_json.stdout).unwrap_or_else(|_| panic!("{in_json:?}"));
    assert_eq!(read["data"]["findings"]["problems"][0]["field"], "tools.effects.echo", "{read}");
    let left: Vec<_> = fs::read_dir(service.path("scratch")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
