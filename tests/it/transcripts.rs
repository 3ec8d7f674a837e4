//! Transcripts in files, as they are written and as they come back.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    engines::provider,
    fake_model::{FakeModel, Reply},
    service::{PATIENCE, Service, WORKS_ITSELF, until},
};

/// The only transcript that there is.
fn file_of(service: &Service) -> Option<PathBuf> {
    let entries = fs::read_dir(service.path("run/history")).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.next().filter(|_| files.next().is_none())
}

fn text_of(service: &Service) -> String {
    file_of(service).and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default()
}

async fn export(service: &Service) -> String {
    let export = service.run(&["history", "export"], "").await;
    assert_eq!(export.code, Some(0), "{export:?}");
    export.stdout
}

async fn ask(service: &Service, words: &str) {
    let said = service.run(&["send", words], "").await;
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// Waits until the file is what an export is.
async fn until_complete(service: &Service) -> String {
    let whole = export(service).await;
    until("the transcript is complete", async || text_of(service) == whole).await;
    whole
}

/// EN-48: also a service that is killed at once, again and again, leaves no turn out and none twice.
#[actix::test]
async fn transcripts_go_on_with_each_turn_and_over_kills() {
    let mut service = Service::start_working().await;
    ask(&service, "#call bash {\"command\": \"echo found\"}\n#reply it is here").await;
    until_complete(&service).await;

    for round in 0..4 {
        ask(&service, &format!("#reply round {round}")).await;
        service.kill();
        service.launch().await;
    }
    until_all_complete(&service).await;

    let files = fs::read_dir(service.path("run/history")).expect("a folder");
    let files: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
    let texts = files.iter().map(|path| fs::read_to_string(path).expect("text"));
    let turns: usize = texts.map(|text| text.matches("\"key\":\"turn\"").count()).sum();
    assert_eq!(turns, 5, "{files:?}");
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    assert_eq!(mode(&service.path("run/history")), 0o700);
}

/// EN-48: a value that becomes a secret goes from the file as well.
#[actix::test]
async fn a_value_that_becomes_a_secret_goes_from_the_transcript() {
    let service = Service::start_working().await;
    ask(&service, "#reply the word is hunter2-hunter2").await;
    let before = until_complete(&service).await;
    assert!(before.contains("hunter2-hunter2"), "{before}");

    let set = service.run(&["vault", "set", "WORD", "--team", "main"], "hunter2-hunter2").await;
    assert_eq!(set.code, Some(0), "{set:?}");

    until("the value is gone", async || !text_of(&service).contains("hunter2")).await;
    let whole = until_complete(&service).await;
    assert_eq!(whole.lines().count(), before.lines().count());
}

/// EN-48: where files cannot be written, turns go on, one line says so, and later nothing is missing.
#[actix::test]
async fn transcripts_that_cannot_be_written_are_written_later() {
    let service = Service::start_working().await;
    ask(&service, "#reply one").await;
    until_complete(&service).await;
    let (folder, aside) = (service.path("run/history"), service.path("run/aside"));
    fs::rename(&folder, &aside).expect("renamed");
    fs::write(&folder, "").expect("written");

    ask(&service, "#reply two").await;
    service.until_logged("fall behind").await;
    ask(&service, "#reply three").await;
    fs::remove_file(&folder).expect("removed");
    fs::rename(&aside, &folder).expect("renamed");
    ask(&service, "#reply four").await;

    until_all_complete(&service).await;
    assert_eq!(service.log().matches("fall behind").count(), 1, "{}", service.log());
}

/// Waits until each session's file is what its export is: work that nobody waits for may still end.
pub(crate) async fn until_all_complete(service: &Service) {
    let (_, sessions) = service.api("GET", "/api/v1/sessions?limit=200", None).await;
    assert_eq!(sessions["next_cursor"], Value::Null);
    for session in sessions["data"].as_array().expect("rows") {
        let id = session["id"].as_str().expect("an id");
        let file = service.path("run/history").join(format!("main-{}.jsonl", id.replace(':', "-")));
        let began = Instant::now();
        loop {
            let export = service.run(&["history", "export", id], "").await;
            assert_eq!(export.code, Some(0), "{export:?}");
            let written = fs::read_to_string(&file).unwrap_or_default();
            if written == export.stdout {
                break;
            }
            let differs = first_difference(&written, &export.stdout);
            assert!(began.elapsed() < PATIENCE, "{}: {differs}", file.display());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// The first line that a file does not have as it is exported.
fn first_difference(written: &str, exported: &str) -> String {
    let (written, exported): (Vec<_>, Vec<_>) =
        (written.lines().collect(), exported.lines().collect());
    let (lines, all) = (written.len(), exported.len());
    let differs = |place: &usize| written.get(*place) != exported.get(*place);
    let place = (0..lines.max(all)).find(differs).unwrap_or(all);
    let (of_file, of_export) = (written.get(place), exported.get(place));
    format!("line {place} of {lines} and {all}: {of_file:?} instead of {of_export:?}")
}

/// EN-51: what was exported comes back as a session of its own, once, and is the same when it is exported again.
#[actix::test]
async fn a_transcript_is_imported_once() {
    let mut service = Service::start_working().await;
    ask(&service, "#call bash {\"command\": \"echo found\"}\n#reply it is here").await;
    let whole = export(&service).await;
    service.write("old.jsonl", &format!("{whole}not a line\n"));
    let file = service.path("old.jsonl").display().to_string();
    let import = ["history", "import", "--team", "main", &file];

    let busy = service.run(&import, "").await;
    service.signal("TERM");
    service.ended().await;
    let nobody = service.run(&["history", "import", "--team", "nobody", &file], "").await;
    let first = service.run(&import, "").await;
    let second = service.run(&import, "").await;
    let nothing = service.run(&["history", "import", "--team", "main", "nothing.jsonl"], "").await;
    service.launch().await;
    let (_, sessions) = service.api("GET", "/api/v1/sessions", None).await;
    let rows = sessions["data"].as_array().expect("rows");

    assert_eq!((busy.code, nobody.code, nothing.code), (Some(6), Some(5), Some(5)), "{busy:?}");
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    assert!(first.stdout.contains("4 messages became session main:t-"), "{first:?}");
    assert!(first.stdout.contains("1 line left out"), "{first:?}");
    assert!(second.stdout.contains("was taken before"), "{second:?}");
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    let new = ids.iter().find(|id| first.stdout.contains(**id)).expect("listed");
    let old = ids.iter().find(|id| id != &new).expect("listed");
    let again = service.run(&["history", "export", new], "").await;
    assert_eq!(again.stdout.replace(new, old), whole);
    until_all_complete(&service).await;
}

/// SC-112, EN-48: what ended after the backup is in the history again, is shown to the model, and is not done again.
#[actix::test]
async fn turns_after_the_backup_come_back_from_the_transcripts() {
    let model = FakeModel::start();
    let write = json!({"file_path": "a.txt", "content": "x"});
    let texts = ["oak it is", "it is written", "elm it is", "gone on"].map(Reply::text);
    let [oak, written, elm, on] = texts;
    model.say([oak, Reply::call("write", write), written, elm, on]);
    let rule = "policy:\n  - {id: ask, effect: require_approval, resource: \"tool:write\"}\n";
    let mut service = Service::prepare()
        .with_file("data/config/config.yaml", rule)
        .with_file("data/config/providers.yaml", &provider(&model, "claude", ""))
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .started()
        .await;
    let mut client = service.connect().await;
    let first = client.ask("which tree?").await;
    let [topic, channel] =
        ["topic_id", "channel_id"].map(|name| first[name].as_str().expect("a name").to_owned());
    client.say_in(&topic, "m1", "write it down").await;
    let one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    let held = service.until("/api/v1/approvals?status=pending", one).await[0].take();
    let made = service.run(&["backup"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let path = format!("/api/v1/approvals/{}", held["id"].as_str().expect("an id"));
    let word = json!({"decision": "approve", "digest": held["digest"]});
    service.api("POST", &path, Some(word)).await;
    client.end_of("m1").await;
    client.say_in(&topic, "m2", "which other?").await;
    client.end_of("m2").await;
    until_all_complete(&service).await;
    let before = export(&service).await;
    service.kill();

    let restored = service.run(&["restore", "--newest", "--json"], "").await;
    service.launch().await;
    let after = export(&service).await;
    let (_, tasks) = service.api("GET", "/api/v1/tasks", None).await;
    let mut client = service.connect().await;
    client.resume(&channel, 0).await;
    client.say_in(&topic, "m3", "go on").await;
    let more = client.end_of("m3").await;

    let restored: Value = serde_json::from_str(&restored.stdout).expect("JSON");
    let recovered = json!({"turns": 2, "tasks": 1, "unread": []});
    assert_eq!(restored["data"]["recovered"], recovered, "{restored}");
    assert_eq!(after, before);
    let rows = tasks["data"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["state"] == "done"), "{tasks}");
    assert_eq!(more["content"], "gone on", "{more}");
    let asked = model.requests().last().expect("a request").body.to_string();
    for words in ["oak it is", "it is written", "which other?", "elm it is"] {
        assert_eq!(asked.matches(words).count(), 1, "{words}: {asked}");
    }
}

/// SC-112: nor is a message done again that joined a turn which ended after the backup.
#[actix::test]
async fn a_message_that_joined_a_turn_after_the_backup_is_not_done_again() {
    let mut service = Service::start_working().await;
    let mut client = service.connect().await;
    let wait = json!({"command": "while [ ! -e go ]; do sleep 0.05; done"});
    client.say("m1", &format!("#call bash {wait}")).await;
    let call = client.until(|frame| frame["kind"] == "tool_call").await;
    client.say_in(call["topic_id"].as_str().expect("a topic"), "m2", "/steer #reply both").await;
    let two = |list: &Value| list.as_array().is_some_and(|list| list.len() == 2);
    service.until("/api/v1/tasks?state=running", two).await;
    let made = service.run(&["backup"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    service.write("run/teams/main/go", "");
    service.until("/api/v1/tasks?state=done", two).await;
    let before = until_complete(&service).await;
    service.kill();

    let restored = service.run(&["restore", "--newest", "--json"], "").await;
    service.launch().await;

    let restored: Value = serde_json::from_str(&restored.stdout).expect("JSON");
    let recovered = json!({"turns": 1, "tasks": 2, "unread": []});
    assert_eq!(restored["data"]["recovered"], recovered, "{restored}");
    assert_eq!(export(&service).await, before);
    let (_, tasks) = service.api("GET", "/api/v1/tasks?state=done", None).await;
    let results = tasks["data"].as_array().expect("rows").iter();
    let results: Vec<&Value> = results.map(|row| &row["outcome"]["result"]).collect();
    assert_eq!(results, ["both", "both"], "{tasks}");
}
