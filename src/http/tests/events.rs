//! Live events, and the snapshot that a watcher begins with.

use std::{future::poll_fn, pin::Pin};

use actix_web::body::BoxBody;
use hivewright_actors::{
    live::event::{Event, Kind as Told},
    notice::{Notice, NoticeKind},
    store::records::Writes,
    task::Kind,
};
use serde_json::json;

use super::*;

/// An open stream, read as a client does.
struct Listening {
    body: Pin<Box<BoxBody>>,
    text: String,
}

/// One event of a stream.
#[derive(Debug, PartialEq)]
struct Heard {
    id: String,
    kind: String,
    data: Value,
}

impl Listening {
    /// The next event, or nothing if the stream ends.
    async fn next(&mut self) -> Option<Heard> {
        tokio::time::timeout(Duration::from_secs(10), self.read()).await.unwrap()
    }

    async fn read(&mut self) -> Option<Heard> {
        loop {
            if let Some((whole, rest)) = self.text.split_once("\n\n") {
                let heard = parse(whole);
                self.text = rest.to_owned();
                match heard {
                    Some(heard) => return Some(heard),
                    None => continue,
                }
            }
            let chunk = poll_fn(|cx| self.body.as_mut().poll_next(cx)).await?;
            self.text.push_str(&String::from_utf8_lossy(&chunk.unwrap()));
        }
    }
}

/// Comments are no events.
fn parse(text: &str) -> Option<Heard> {
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line[name.len()..].trim().to_owned())
    };
    Some(Heard {
        id: field("id:")?,
        kind: field("event:")?,
        data: serde_json::from_str(&field("data:")?).unwrap(),
    })
}

impl Bench {
    async fn listen(&self, query: &str, last: Option<&str>) -> Listening {
        let app = App::new().configure(configure(self.state.clone(), others));
        let app = test::init_service(app).await;
        let mut request = request(Method::GET, &format!("/api/v1/events?{query}"))
            .insert_header(bearer(&self.operator()))
            .peer_addr("127.0.0.1:9".parse().unwrap());
        if let Some(last) = last {
            request = request.insert_header(("Last-Event-ID", last));
        }
        let response = test::call_service(&app, request.to_request()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers().get("content-type").unwrap(), "text/event-stream");
        Listening { body: Box::pin(response.into_body().boxed()), text: String::new() }
    }

    async fn notify(&self, id: &str) {
        let writes = Writes::new().put(&notice(id));
        self.state.spine.store.commit(writes).await.unwrap();
    }
}

fn notice(id: &str) -> Notice {
    Notice {
        id: id.into(),
        kind: NoticeKind::Report,
        team: Some("main".into()),
        text: format!("about {id}"),
        refs: Vec::new(),
        at: Timestamp(1),
        read: false,
    }
}

/// OP-41
#[actix::test]
async fn what_becomes_durable_is_told() {
    let bench = Bench::new().await;
    let mut all = bench.listen("types=inbox.changed,task.changed", None).await;
    let mut of_task = bench.listen("task=task-1", None).await;

    bench.notify("n-1").await;
    let task = bench.task("task-1", "main", Kind::Message, "hello");
    bench.ended(task, hivewright_actors::task::outcome::Ending::Done, "hi").await;

    let notice = all.next().await.unwrap();
    let ended = all.next().await.unwrap();
    assert_eq!(notice.kind, "inbox.changed");
    assert_eq!(notice.id, format!("3-{}", notice.data["seq"]));
    assert_eq!(notice.data["at"], "2023-11-14T22:13:20.000Z");
    assert_eq!((&notice.data["team"], &notice.data["text"]), (&json!("main"), &json!("about n-1")));
    assert_eq!(
        (&ended.data["task_id"], &ended.data["state"], &ended.data["type"]),
        (&json!("task-1"), &json!("done"), &json!("message"))
    );
    assert_eq!(of_task.next().await.unwrap(), ended);
}

/// OP-42
#[actix::test]
async fn one_who_comes_back_goes_on_where_it_left_off() {
    let bench = Bench::new().await;
    let mut first = bench.listen("types=inbox.changed", None).await;
    bench.notify("n-1").await;
    let seen = first.next().await.unwrap();
    drop(first);
    bench.notify("n-2").await;

    let mut by_header = bench.listen("types=inbox.changed", Some(&seen.id)).await;
    let query = format!("types=inbox.changed&since={}", seen.id);
    let mut by_query = bench.listen(&query, None).await;
    let mut of_other_boot = bench.listen("", Some("2-1")).await;

    for listening in [&mut by_header, &mut by_query] {
        assert_eq!(listening.next().await.unwrap().data["id"], "n-2");
    }
    let gap = of_other_boot.next().await.unwrap();
    assert_eq!((gap.kind.as_str(), &gap.data["reason"]), ("gap", &json!("restart")));
    assert_eq!(gap.id, format!("3-{}", gap.data["to"]));
}

/// OP-41
#[actix::test]
async fn a_wish_that_makes_no_sense_is_refused() {
    let bench = Bench::new().await;
    let get = async |path: &str| bench.get(path, &bench.operator()).await;

    let kind = get("/api/v1/events?types=turn,tasks").await;
    let place = get("/api/v1/events?since=yesterday").await;
    let field = get("/api/v1/events?teem=main").await;

    assert_eq!((kind.status, kind.field()), (400, "types".to_owned()));
    assert_eq!((place.status, place.field()), (400, "since".to_owned()));
    assert!(field.body.contains("did you mean `team`?"));
}

/// OP-12, OP-93
#[actix::test]
async fn a_stream_ends_with_its_credential() {
    let bench = Bench::new().await;
    let token = bench.token("watcher", only(Scope::Read)).await;
    let app = App::new().configure(configure(bench.state.clone(), others));
    let app = test::init_service(app).await;
    let request = request(Method::GET, "/api/v1/events").insert_header(bearer(&token));
    let response = test::call_service(&app, request.to_request()).await;
    let mut listening =
        Listening { body: Box::pin(response.into_body().boxed()), text: String::new() };
    bench.notify("n-1").await;
    assert!(listening.next().await.is_some());

    let operator = bench.auth().token(&bench.operator()).unwrap();
    bench.auth().revoke("watcher", false, &operator).await.unwrap();

    while let Some(heard) = listening.next().await {
        assert_ne!(heard.kind, "turn");
    }
}

/// OP-16, OP-92
#[actix::test]
async fn pages_of_others_hear_nothing() {
    let bench = Bench::new().await;
    let request = request(Method::GET, "/api/v1/events")
        .insert_header(bearer(&bench.operator()))
        .insert_header(("Origin", "https://elsewhere.example"));

    let answer = bench.call(request).await;

    assert_eq!(answer.refusal(), (403, "origin".to_owned()));
}

/// OP-41: no event shows a secret value.
#[actix::test]
async fn a_secret_is_not_told() {
    let bench = Bench::new().await;
    bench.state.secrets.learn(["hunter2-hunter2".to_owned()]);
    let mut listening = bench.listen("types=log", None).await;

    let data = json!({ "message": "the key is hunter2-hunter2" });
    bench.state.spine.live.publish(Event::new(Told::Log, data));

    let heard = listening.next().await.unwrap();
    assert!(!heard.data.to_string().contains("hunter2"), "{heard:?}");
    assert!(heard.data["message"].as_str().unwrap().starts_with("the key is "));
}

/// OP-46, MV-34: that something is remembered or kept secret is told, not what.
#[actix::test]
async fn memory_and_vault_tell_that_they_changed() {
    let bench = Bench::new().await;
    let mut listening = bench.listen("types=memory.changed,vault.changed", None).await;
    let memory = json!({
        "team": "main", "key": "colour", "content": "blue as the sky", "type": "context",
    });
    let secret = request(Method::PUT, "/api/v1/vault/system/KEY")
        .insert_header(bearer(&bench.operator()))
        .set_json(json!({ "value": "hunter2-hunter2" }));

    let saved = bench.post("/api/v1/memories", &bench.operator(), memory).await;
    let set = bench.call(secret).await;

    assert!(saved.status < 300 && set.status < 300, "{} {}", saved.body, set.body);
    let (remembered, kept) = (listening.next().await.unwrap(), listening.next().await.unwrap());
    assert_eq!(remembered.kind, "memory.changed");
    assert_eq!(
        (&remembered.data["key"], &remembered.data["team"]),
        (&json!("colour"), &json!("main"))
    );
    assert_eq!(kept.kind, "vault.changed");
    assert_eq!((&kept.data["scope"], &kept.data["key"]), (&json!("system"), &json!("KEY")));
    for told in [remembered, kept] {
        let text = told.data.to_string();
        assert!(!text.contains("blue") && !text.contains("hunter2"), "{text}");
    }
}

/// OP-43: one who does not read keeps nobody waiting: another hears everything, in order.
#[actix::test]
async fn one_who_does_not_read_delays_nobody() {
    let bench = Bench::new().await;
    let mut deaf = bench.listen("types=inbox.changed", None).await;
    let mut keen = bench.listen("types=inbox.changed", None).await;

    let mut heard = Vec::new();
    for number in 0..1_000 {
        bench.notify(&format!("n-{number}")).await;
        heard.push(keen.next().await.unwrap());
    }

    let names = heard.iter().map(|event| event.data["id"].clone());
    let expected = (0..1_000).map(|number| json!(format!("n-{number}")));
    assert!(names.eq(expected), "{heard:?}");
    // The other one learns that it has missed something once it reads.
    let mut kinds = Vec::new();
    while kinds.last().map(String::as_str) != Some("gap") {
        kinds.push(deaf.next().await.unwrap().kind);
    }
    assert!(kinds.len() <= 257, "{}", kinds.len());
}

/// OP-08: a stream has a place of its own among those of its token, and gives it back.
#[actix::test]
async fn a_token_has_64_open_streams() {
    let bench = Bench::new().await;
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(bench.listen("", None).await);
    }

    let operator = bench.operator();
    let ask = || bench.get("/api/v1/events", &operator);
    let refused = ask().await;
    let other = bench.get("/api/v1/session", &bench.operator()).await;
    open.pop();
    let again = ask().await;

    assert_eq!(refused.refusal(), (429, "rate_limited".to_owned()));
    assert_eq!(other.status, 200);
    assert_eq!(again.status, 200);
}

/// OP-44: a snapshot that is taken while others write has all up to its place, and whoever goes on
/// from there hears the rest once. One that never gets a quiet moment has more; none has less.
#[actix::test]
async fn a_snapshot_among_writers_loses_nothing() {
    let bench = Bench::new().await;
    let began = bench.state.spine.live.mark();
    let stop = Arc::new(AtomicBool::new(false));
    let (store, told) = (bench.state.spine.store.clone(), stop.clone());
    let writer = actix::spawn(async move {
        let mut written = 0;
        // No more than are kept.
        while !told.load(Ordering::SeqCst) && written < 1_500 {
            let id = format!("n-{written}");
            let writes = Writes::new().put(&notice(&id));
            store.commit(writes).await.unwrap();
            written += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        written
    });

    let mut taken = Vec::new();
    for _ in 0..5 {
        let answer = bench.get("/api/v1/snapshot", &bench.operator()).await;
        let data = answer.json()["data"].clone();
        let number = |name: &str| data[name].as_u64().unwrap();
        taken.push((number("seq"), number("inbox_unread")));
    }
    stop.store(true, Ordering::SeqCst);
    let written: u64 = writer.await.unwrap();

    let from = |seq: u64| format!("{}-{seq}", began.boot);
    for (seq, unread) in taken {
        let start = from(began.seq);
        let mut all = bench.listen("types=inbox.changed", Some(&start)).await;
        let mut before = 0;
        let mut after = Vec::new();
        for number in 0..written {
            let heard = all.next().await.unwrap();
            assert_eq!(heard.data["id"], format!("n-{number}"));
            if heard.data["seq"].as_u64().unwrap() <= seq {
                before += 1
            } else {
                after.push(heard.data)
            }
        }
        assert!(unread >= before, "{unread} of {before} at {seq}");
        // Going on from the snapshot tells exactly what its place leaves out.
        let mut rest = bench.listen("types=inbox.changed", Some(&from(seq))).await;
        for expected in after {
            assert_eq!(rest.next().await.unwrap().data, expected);
        }
    }
    assert!(written > 0, "nothing changed meanwhile");
}

/// OP-44
#[actix::test]
async fn a_snapshot_has_a_place_and_all_that_is_before_it() {
    let bench = Bench::new().await;
    bench.notify("n-1").await;
    let before = bench.state.spine.live.mark();

    let answer = bench.get("/api/v1/snapshot", &bench.operator()).await;
    let data = answer.json()["data"].clone();
    let place = format!("{}-{}", data["boot"], data["seq"]);
    bench.notify("n-2").await;
    let mut after = bench.listen("types=inbox.changed", Some(&place)).await;

    assert_eq!(answer.status, 200);
    assert_eq!(data["boot"], 3);
    assert!(data["seq"].as_u64().unwrap() >= before.seq);
    assert_eq!(data["inbox_unread"], 1);
    assert_eq!(data["org"]["name"], "main");
    assert_eq!(data["overview"]["inbox_unread"], 1);
    for list in ["running", "approvals", "questions", "topics", "jobs"] {
        assert_eq!(data[list], json!([]), "{list}");
    }
    assert_eq!(data["channels"][0]["type"], "ws");
    assert_eq!(after.next().await.unwrap().data["id"], "n-2");
}
