//! Files in the conversation: handed to a team, sent back by it, and nobody else's.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    engines,
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service, WORKS_ITSELF, http, until},
};

/// One pixel.
const PIXEL: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

/// Gives the service a file, with a token.
async fn upload_as(service: &Service, token: &str, name: &str, content: &[u8]) -> (u16, Value) {
    let url = format!("{}/api/v1/files", service.url());
    let url = reqwest::Url::parse_with_params(&url, &[("name", name)]).unwrap();
    let response = http().post(url).bearer_auth(token).body(content.to_vec()).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The same as the operator: the file.
async fn upload(service: &Service, name: &str, content: &[u8]) -> Value {
    let (status, mut answer) = upload_as(service, &service.token(), name, content).await;
    assert_eq!(status, 201, "{answer}");
    answer["data"].take()
}

/// A file as somebody gets it: the status, header fields and what is in it.
async fn download(
    service: &Service,
    token: &str,
    id: &Value,
) -> (u16, reqwest::header::HeaderMap, Vec<u8>) {
    let url = format!("{}/api/v1/files/{}", service.url(), id.as_str().unwrap());
    let response = http().get(url).bearer_auth(token).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.bytes().await.unwrap().to_vec())
}

async fn say(service: &Service, content: &str, files: &[&Value]) -> Value {
    let body = json!({ "content": content, "files": files, "wait_s": 30 });
    let (status, mut answer) = service.api("POST", "/api/v1/messages", Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer["data"].take()
}

async fn token(service: &Service, name: &str, scopes: &[&str]) -> String {
    let wish = json!({ "name": name, "scopes": scopes });
    let (status, answer) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    assert_eq!(status, 201, "{answer}");
    answer["data"]["token"].as_str().unwrap().to_owned()
}

/// CH-12, SC-66: a file is known by its bytes, found by the team in its workspace, and comes back as a download.
#[actix::test]
async fn a_file_that_is_attached_is_found_in_the_workspace() {
    let service = Service::start_working().await;
    let file = upload(&service, "notes.txt", b"plums and pears").await;

    let said = say(
        &service,
        "#call read {\"file_path\":\"inbox/notes.txt\"}\n#reply {result}",
        &[&file["id"]],
    )
    .await;
    let (status, headers, content) = download(&service, &service.token(), &file["id"]).await;

    assert_eq!((&file["name"], &file["mime"]), (&json!("notes.txt"), &json!("text/plain")));
    assert!(said["reply"]["text"].as_str().unwrap().contains("plums and pears"), "{said}");
    let kept = service.path("run/teams/main/inbox/notes.txt");
    assert_eq!(fs::read(kept).unwrap(), b"plums and pears");
    assert_eq!((status, content.as_slice()), (200, &b"plums and pears"[..]));
    let header = |name: &str| headers[name].to_str().unwrap();
    assert_eq!(header("content-type"), "text/plain; charset=utf-8");
    assert!(header("content-disposition").starts_with("attachment; filename=\"notes.txt\""));
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("content-security-policy"), "default-src 'none'; sandbox");
}

/// Another file of the same name gets a name of its own, and the same file the place that it has.
#[actix::test]
async fn no_file_in_the_workspace_is_overwritten() {
    let service = Service::start_working().await;
    service.write("run/teams/main/inbox/a.txt", "ours");
    let one = upload(&service, "a.txt", b"one").await;
    let two = upload(&service, "a.txt", b"two").await;

    say(&service, "#reply ok", &[&one["id"], &two["id"]]).await;
    say(&service, "#reply ok", &[&two["id"]]).await;

    let read = |name: &str| fs::read_to_string(service.path("run/teams/main/inbox").join(name));
    assert_eq!(read("a.txt").unwrap(), "ours");
    assert_eq!(read("a-2.txt").unwrap(), "one");
    assert_eq!(read("a-3.txt").unwrap(), "two");
    assert!(read("a-4.txt").is_err());
}

/// A name is never a path, hides nothing, and cannot be made longer than names are.
#[actix::test]
async fn hostile_names_become_harmless() {
    let service = Service::start_working().await;
    let long = "x".repeat(4_000) + ".txt";
    let short = "x".repeat(116) + ".txt";
    let cases = [
        ("../../../etc/passwd", "passwd"),
        ("..", "file"),
        ("a\0b.txt", "ab.txt"),
        ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
        (".env", "env"),
        ("a\r\nSet-Cookie: x=1.txt", "aSet-Cookie_ x_1.txt"),
        ("</script>.html", "script_.html"),
        (long.as_str(), short.as_str()),
    ];

    for (given, name) in cases {
        let file = upload(&service, given, b"x").await;
        assert_eq!(file["name"], name, "{given:?}");
        say(&service, "#reply ok", &[&file["id"]]).await;
        assert!(service.path("run/teams/main/inbox").join(name).is_file(), "{given:?}");
    }
    let inbox = fs::read_dir(service.path("run/teams/main/inbox")).unwrap();
    assert_eq!(inbox.count(), cases.len());
    let (status, refused) = upload_as(&service, &service.token(), &"x".repeat(10_000), b"x").await;
    assert_eq!((status, &refused["error"]["field"]), (400, &json!("name")));
}

/// SC-66: whatever a file says it is, a browser is told of nothing that it could run.
#[actix::test]
async fn nothing_is_served_that_a_browser_could_run() {
    let service = Service::start_working().await;
    let svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>";
    let cases: [(&str, &[u8], &str); 5] = [
        ("a.svg", svg, "text/plain; charset=utf-8"),
        ("a.png", b"<html><script>alert(1)</script>", "text/plain; charset=utf-8"),
        ("a.html", b"\x7fELF", "application/octet-stream"),
        ("a.pdf", b"%PDF-1.7", "application/octet-stream"),
        ("a.txt", PIXEL, "image/png"),
    ];

    for (name, content, kind) in cases {
        let file = upload(&service, name, content).await;
        let (_, headers, _) = download(&service, &service.token(), &file["id"]).await;

        assert_eq!(headers["content-type"], kind, "{name}");
        let disposition = headers["content-disposition"].to_str().unwrap();
        assert!(disposition.starts_with("attachment;"), "{name}");
    }
}

/// A file above the limit is refused, whether or not its length is declared, and leaves nothing.
#[actix::test]
async fn what_is_too_large_is_refused_and_leaves_nothing() {
    let limits = "limits: {file: 1MiB, files: 1MiB}\n";
    let service = Service::prepare().with_file("data/config/config.yaml", limits).started().await;
    let large = vec![b'x'; (1 << 20) + 1];

    let declared = upload_as(&service, &service.token(), "a", &large).await;
    let pieces = large.chunks(64 * 1024).map(|piece| Ok::<_, std::io::Error>(piece.to_vec()));
    let stream = futures_util::stream::iter(pieces.collect::<Vec<_>>());
    let streamed = http()
        .post(format!("{}/api/v1/files?name=a", service.url()))
        .bearer_auth(service.token())
        .body(reqwest::Body::wrap_stream(stream))
        .send()
        .await;
    let some = upload(&service, "b", &vec![b'y'; 700_000]).await;
    let over = upload_as(&service, &service.token(), "c", &vec![b'z'; 700_000]).await;

    assert_eq!((declared.0, &declared.1["error"]["code"]), (413, &json!("too_large")));
    // It may be answered while it is still being sent.
    if let Ok(streamed) = streamed {
        assert_eq!(streamed.status(), 413);
    }
    assert_eq!((over.0, &over.1["error"]["code"]), (409, &json!("files_full")));
    let kept: Vec<_> = fs::read_dir(service.path("run/files"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "incoming")
        .collect();
    assert_eq!(kept, [some["digest"].as_str().unwrap()]);
    until("nothing is left of what was refused", async || {
        fs::read_dir(service.path("run/files/incoming")).unwrap().count() == 0
    })
    .await;
}

/// A disk without room takes in no file, and says so.
#[actix::test]
async fn a_full_disk_takes_in_no_file() {
    let limits = "limits: {free_space: 1024GiB}\n";
    let service = Service::prepare().with_file("data/config/config.yaml", limits).started().await;

    until("the disk is known to be full", async || {
        let (status, answer) = upload_as(&service, &service.token(), "a", b"x").await;
        status == 503 && answer["error"]["code"] == "disk_full"
    })
    .await;
}

/// Whoever did not bring a file, and was not in its conversation, can neither read nor name it.
#[actix::test]
async fn a_file_of_somebody_else_is_neither_read_nor_named() {
    let channels =
        "ws: {enabled: true}\ntrust: {channels: {ws: {policy: allow}, api: {policy: allow}}}\n";
    let service = Service::prepare()
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .with_file("data/config/channels.yaml", channels)
        .started()
        .await;
    let (ann, bob) =
        (token(&service, "ann", &["chat"]).await, token(&service, "bob", &["chat"]).await);
    let reader = token(&service, "reader", &["read"]).await;
    let (_, file) = upload_as(&service, &ann, "diary.txt", b"dear diary").await;
    let id = &file["data"]["id"];

    let own = download(&service, &ann, id).await;
    let others = download(&service, &bob, id).await;
    let unnamed = download(&service, &reader, id).await;
    let mut socket = Client::connect(&service.url(), &bob).await;
    socket.send(json!({ "content": "hi", "message_id": "m1", "files": [id] })).await;
    let refused = socket.end_of("m1").await;
    let named = http()
        .post(format!("{}/api/v1/messages", service.url()))
        .bearer_auth(&bob)
        .json(&json!({ "content": "hi", "files": [id] }))
        .send()
        .await
        .unwrap();
    let mut hers = Client::connect(&service.url(), &ann).await;
    hers.send(json!({ "content": "#reply ok", "message_id": "m2", "files": [id] })).await;
    let said = hers.end_of("m2").await;
    let read = download(&service, &reader, id).await;
    let still = download(&service, &bob, id).await;

    assert_eq!((own.0, own.2.as_slice()), (200, &b"dear diary"[..]));
    assert_eq!([others.0, unnamed.0, still.0], [404, 404, 404]);
    assert_eq!((&refused["type"], &refused["code"]), (&json!("error"), &json!("unknown_file")));
    assert_eq!(named.status(), 404);
    assert_eq!(said["type"], "response", "{said}");
    // Whoever may read the transcripts of the team reads what was said there.
    assert_eq!(read.0, 200);
}

/// CH-160: what another device of the same person is told of a message, and what the store tells of it, names its files.
#[actix::test]
async fn a_message_over_a_socket_brings_its_files() {
    let service = Service::start_working().await;
    let file = upload(&service, "a b.txt", b"words").await;
    let (mut one, mut two) = (service.connect().await, service.connect().await);
    for client in [&mut one, &mut two] {
        client.send(json!({ "type": "resume", "home": true, "last_seq": 0 })).await;
        client.send(json!({ "type": "topic_list_request" })).await;
        client.last_seq = 0;
        client.until(|frame| frame["type"] == "topic_list").await;
    }

    one.send(json!({ "message_id": "m1", "files": [file["id"], file["id"]] })).await;
    one.say("m2", "#reply second").await;
    // They are of two topics, and each may end first.
    let ends = [one.terminal().await, one.terminal().await];
    let end = ends.iter().find(|end| end["message_id"] == "m1").unwrap();
    let is_first = |frame: &Value| frame["message_id"] == "m1" && frame["kind"] == "user_message";
    let heard = two.until(is_first).await;
    let topic = end["topic_id"].as_str().unwrap();
    let (_, said) = service.api("GET", &format!("/api/v1/me/topics/{topic}/messages"), None).await;

    assert_eq!(heard["files"], json!([file]));
    assert_eq!(heard["content"], "a b.txt");
    let rows = said["data"].as_array().unwrap();
    let row = rows.iter().find(|row| row["message_id"] == "m1").unwrap();
    assert_eq!((&row["text"], &row["files"]), (&json!("a b.txt"), &json!([file])));
}

/// OP-33
#[actix::test]
async fn the_command_line_sends_files_with_its_words() {
    let service = Service::start_working().await;
    let path = service.path("list.csv");
    fs::write(&path, "a,b").unwrap();

    let script = "#call read {\"file_path\":\"inbox/list.csv\"}\n#reply {result}";
    let sent = service.run(&["send", script, "--file", path.to_str().unwrap()], "").await;
    let absent = service.run(&["send", "hello", "--file", "/nonexistent/x"], "").await;

    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.stdout.contains("a,b"), "{sent:?}");
    assert_ne!(absent.code, Some(0));
    assert!(absent.stderr.contains("`/nonexistent/x` cannot be read"), "{absent:?}");
}

/// An acknowledged file is there after a kill at any moment; a message with it is answered once, and the file is in the
/// workspace once.
#[actix::test]
async fn a_kill_loses_no_file_and_doubles_no_message() {
    let mut service = Service::start_working().await;
    let file = upload(&service, "kept.txt", b"kept").await;
    service.kill();
    service.launch().await;
    let (status, _, content) = download(&service, &service.token(), &file["id"]).await;
    assert_eq!((status, content.as_slice()), (200, &b"kept"[..]));

    let mut client = service.connect().await;
    let words = "#wait 1500\n#call read {\"file_path\":\"inbox/kept.txt\"}\n#reply {result}";
    client.send(json!({ "content": words, "message_id": "m1", "files": [file["id"]] })).await;
    let inbox = service.path("run/teams/main/inbox");
    until("the turn has begun", async || inbox.join("kept.txt").exists()).await;
    let (channel, seq) = (client.channel.clone().unwrap(), client.last_seq);
    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seq).await;
    // Sent again under its name, as a client does that is not sure.
    client.send(json!({ "content": words, "message_id": "m1", "files": [file["id"]] })).await;
    let end = client.end_of("m1").await;

    assert_eq!(end["type"], "response", "{end}");
    assert!(end["content"].as_str().unwrap().contains("kept"), "{end}");
    assert_eq!(fs::read_dir(&inbox).unwrap().count(), 1);
    let (_, tasks) = service.api("GET", "/api/v1/tasks?team=main", None).await;
    assert_eq!(tasks["total"], 1, "{tasks}");
}

/// EN-49, EN-119: what a team sends is told to the person, kept in the history, and theirs to download.
#[actix::test]
async fn a_team_sends_a_file_to_the_person() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;
    // What only looks like a secret is none.
    service.write("run/teams/main/out/report.md", "api_key: YOUR_KEY");
    let send = json!({ "file_path": "out/report.md" });

    client.say("m1", &format!("#call send_file {send}\n#reply There it is.")).await;
    let told =
        client.until(|frame| frame["kind"] == "tool_result" && frame["tool"] == "send_file").await;
    let end = client.end_of("m1").await;
    let file = &told["files"][0];
    let (status, headers, content) = download(&service, &service.token(), &file["id"]).await;
    let topic = end["topic_id"].as_str().unwrap();
    let (_, said) = service.api("GET", &format!("/api/v1/me/topics/{topic}/messages"), None).await;
    let session = format!("/api/v1/sessions/main:{topic}");
    let (_, simple) = service.api("GET", &format!("{session}/history?view=simple"), None).await;
    let export = http()
        .get(format!("{}{session}/export", service.url()))
        .bearer_auth(service.token())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();

    assert_eq!((&file["name"], told["ok"].as_bool()), (&json!("report.md"), Some(true)));
    assert_eq!((status, content.as_slice()), (200, &b"api_key: YOUR_KEY"[..]));
    assert!(headers["content-disposition"].to_str().unwrap().contains("report.md"));
    let blocks = said["data"][0]["blocks"].as_array().unwrap();
    let call = blocks.iter().find(|block| block["tool"] == "send_file").unwrap();
    assert_eq!(call["files"], json!([file]));
    let block = json!({
        "type": "file", "fileId": file["id"], "filename": "report.md", "mimeType": "text/plain",
        "size": 17, "direction": "out",
    });
    let last = simple["data"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"][1], block, "{simple:#}");
    assert!(export.contains(&block["fileId"].to_string()), "{export}");
}

/// Files outside of the workspace, of another kind, or with a secret in them are not sent.
#[actix::test]
async fn a_team_sends_nothing_that_is_not_its_own() {
    let service = Service::start_working().await;
    let (status, _) = service
        .api(
            "PUT",
            "/api/v1/vault/team:main/DB",
            Some(json!({ "value": "hunter2-hunter2-hunter2", "secret": true })),
        )
        .await;
    assert!(status < 300, "{status}");
    service.write("run/teams/main/leak.txt", "password: hunter2-hunter2-hunter2");
    let mut client = service.connect().await;

    for path in ["/etc/passwd", "../../store", "inbox", "nothing.txt", "leak.txt"] {
        let call = json!({ "file_path": path });
        client.say(path, &format!("#call send_file {call}\n#reply {{result}}")).await;
        let told = client
            .until(|frame| frame["kind"] == "tool_result" && frame["tool"] == "send_file")
            .await;
        client.end_of(path).await;

        assert_eq!((&told["ok"], &told["files"]), (&json!(false), &Value::Null), "{path}: {told}");
        assert!(!told.to_string().contains("hunter2"), "{told}");
    }
}

fn providers(provider: &str, url: &str, pictures: bool) -> String {
    format!(
        "profiles:\n  default: {{provider: {provider}, api_key: {KEY}, api_url: \"{url}\", model: m, pictures: {pictures}}}\n"
    )
}

/// CH-12: a model that sees is shown pictures in the words of its API, also in later turns; another is told where they are.
#[actix::test]
async fn a_model_that_sees_is_shown_pictures_on_both_wire_formats() {
    for (provider, sees) in
        [("anthropic", true), ("openai", true), ("anthropic", false), ("openai", false)]
    {
        let model = FakeModel::start();
        model.otherwise(Reply::text("A dot."));
        let service = Service::prepare()
            .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
            .with_file("data/config/providers.yaml", &providers(provider, model.url(), sees))
            .started()
            .await;
        let picture = upload(&service, "dot.png", PIXEL).await;
        let text = upload(&service, "dot.txt", b"a dot").await;

        let first = say(&service, "what is this?", &[&picture["id"], &text["id"]]).await;
        let later = json!({ "content": "and now?", "topic_id": first["topic_id"], "wait_s": 30 });
        service.api("POST", "/api/v1/messages", Some(later)).await;

        let data = "iVBORw0KGgoAAAANSUhEUg";
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{provider}");
        for request in &requests {
            let shown = request.body["messages"].to_string();
            assert!(shown.contains("[File: inbox/dot.png (image/png,"), "{shown}");
            assert!(shown.contains("[File: inbox/dot.txt (text/plain, 5 bytes)]"), "{shown}");
            assert_eq!(shown.matches(data).count(), usize::from(sees), "{provider}: {shown}");
        }
        let content = match provider {
            "anthropic" => requests[0].body["messages"][0]["content"].clone(),
            _ => requests[0].body["messages"][1]["content"].clone(),
        };
        if sees {
            let picture = &content[1];
            assert_eq!(content[0]["text"], "what is this?");
            match provider {
                "anthropic" => {
                    assert_eq!(picture["type"], "image");
                    assert_eq!(picture["source"]["media_type"], "image/png");
                    assert!(picture["source"]["data"].as_str().unwrap().starts_with(data));
                }
                _ => {
                    let url = picture["image_url"]["url"].as_str().unwrap();
                    assert!(url.starts_with(&format!("data:image/png;base64,{data}")), "{url}");
                }
            }
        }
    }
}

/// CH-12, EN-124: behind an agent too, a model that sees is shown what a person attached, also in later turns.
#[actix::test]
async fn a_model_behind_an_agent_is_shown_pictures() {
    let Some(agents) = engines::agents() else { return };
    for sdk in engines::AGENTS {
        let model = FakeModel::start();
        model.otherwise(Reply::text("A dot."));
        let provider = if sdk == "codex" { "openai" } else { "anthropic" };
        let service = engines::home(&agents, sdk, "")
            .with_file("data/config/providers.yaml", &providers(provider, model.url(), true))
            .started()
            .await;
        let picture = upload(&service, "dot.png", PIXEL).await;
        let mut client = service.connect().await;

        let first =
            json!({ "content": "what is this?", "message_id": "m1", "files": [picture["id"]] });
        client.send(first).await;
        let end = client.end_of("m1").await;
        client.say_in(end["topic_id"].as_str().unwrap(), "m2", "and now?").await;
        let later = client.end_of("m2").await;

        assert_eq!(
            (&end["content"], &later["content"]),
            (&json!("A dot."), &json!("A dot.")),
            "{sdk}"
        );
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{sdk}");
        for request in requests {
            let shown = request.body.to_string();
            assert!(shown.contains("[File: inbox/dot.png (image/png,"), "{sdk}: {shown}");
            assert_eq!(shown.matches("iVBORw0KGgoAAAANSUhEUg").count(), 1, "{sdk}: {shown}");
        }
    }
}

/// SC-20: what somebody unknown attaches is labelled where it lies, and whoever reads it is not believed any more.
#[actix::test]
async fn a_file_of_a_stranger_is_labelled() {
    let channels = "ws: {enabled: true}\ntrust: {channels: {ws: {policy: allow}}}\n";
    let service = Service::prepare()
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .with_file("data/config/channels.yaml", channels)
        .started()
        .await;
    let mallory = token(&service, "mallory", &["chat"]).await;
    let (_, file) = upload_as(&service, &mallory, "plan.txt", b"obey").await;
    let mut stranger = Client::connect(&service.url(), &mallory).await;

    stranger
        .send(json!({ "content": "#reply ok", "message_id": "m1", "files": [file["data"]["id"]] }))
        .await;
    let end = stranger.end_of("m1").await;
    let labels = service
        .until("/api/v1/teams/main/untrusted-files", |rows| {
            rows.as_array().is_some_and(|rows| !rows.is_empty())
        })
        .await;

    assert_eq!(end["type"], "response", "{end}");
    assert!(labels.to_string().contains("inbox/plan.txt"), "{labels}");
    let ours = upload(&service, "ours.txt", b"ours").await;
    let mut operator = service.connect().await;
    operator.send(json!({ "content": "#reply ok", "files": [ours["id"]] })).await;
    assert_eq!(operator.terminal().await["type"], "response");
    let (_, labels) = service.api("GET", "/api/v1/teams/main/untrusted-files", None).await;
    assert_eq!(labels["total"], 1, "{labels}");
}

/// OP-91: a backup holds the files, and a restore brings them back.
#[actix::test]
async fn a_backup_holds_the_files() {
    let mut service = Service::start_working().await;
    let file = upload(&service, "kept.txt", b"kept").await;
    say(&service, "#reply ok", &[&file["id"]]).await;
    let archive = service.path("all.tar.zst");
    let made = service.run(&["backup", archive.to_str().unwrap()], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    service.kill();
    fs::remove_dir_all(service.path("run/store")).unwrap();
    fs::remove_dir_all(service.path("run/files")).unwrap();

    let restored = service.run(&["restore", archive.to_str().unwrap(), "--force"], "").await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    service.launch().await;

    let (status, _, content) = download(&service, &service.token(), &file["id"]).await;
    assert_eq!((status, content.as_slice()), (200, &b"kept"[..]));
}

/// What a message came with goes along with the work that is given away for it.
#[actix::test]
async fn a_child_finds_the_files_of_the_task_that_it_is_given() {
    let service = Service::start_working().await;
    service.make_team("scouts", "They look at things.").await;
    let file = upload(&service, "map.txt", b"here be plums").await;
    let task = json!({
        "team": "scouts", "task": "#call read {\"file_path\":\"inbox/map.txt\"}\n#reply {result}",
    });

    say(&service, &format!("#call delegate_task {task}\n#reply begun"), &[&file["id"]]).await;
    let tasks = service
        .until("/api/v1/tasks?team=scouts&type=delegate", |tasks| tasks[0]["state"] == "done")
        .await;

    let id = tasks[0]["id"].as_str().unwrap();
    let (_, task) = service.api("GET", &format!("/api/v1/tasks/{id}"), None).await;
    assert!(task.to_string().contains("here be plums"), "{task}");
}

/// A file that comes slowly, or not to its end, leaves nothing.
#[actix::test]
async fn a_file_that_breaks_off_leaves_nothing() {
    let service = Service::start_working().await;
    let pieces = futures_util::stream::unfold(0, |sent| async move {
        if sent == 0 {
            return Some((Ok(vec![b'x'; 1000]), 1));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        Some((Err(std::io::Error::other("gone")), 2))
    });

    let broken = http()
        .post(format!("{}/api/v1/files?name=a", service.url()))
        .bearer_auth(service.token())
        .body(reqwest::Body::wrap_stream(pieces))
        .send()
        .await;

    assert!(broken.is_err());
    until("nothing is left", async || {
        fs::read_dir(service.path("run/files/incoming")).unwrap().count() == 0
    })
    .await;
    assert_eq!(fs::read_dir(service.path("run/files")).unwrap().count(), 1);
}
