//! Sessions, their history and its export.

use hivewright_actors::{
    history::{Fact, HistoryEvent, Meta, Origin},
    live::event::{Event, Moment},
    store::records::Writes,
    task::{Kind, Label, Lane, Task, outcome::Ending},
    tool::Effect,
    usage::Usage,
};
use serde_json::json;

use super::*;

fn lane(topic: &str) -> Lane {
    Lane { team: "main".into(), topic: Some(topic.into()) }
}

fn facts(number: u64) -> Vec<Fact> {
    let usage = Usage { input: 10, output: 2, ..Usage::default() };
    vec![
        Fact::TurnStart {
            task_ids: vec![format!("task-{number}").into()],
            team: "main".into(),
            topic: None,
            source_channel: None,
            attempt: 1,
            redelivered: false,
            sdk: "native".to_owned(),
            provider: "offline".to_owned(),
            model: "m".to_owned(),
            prompt_hash: String::new(),
            toolset_hash: String::new(),
            cause: None,
            root: None,
            idle: None,
        },
        Fact::User {
            text: format!("question {number}"),
            from: "ann".to_owned(),
            origin: Origin::Person,
            label: Label::Trusted,
            task_id: format!("task-{number}").into(),
            files: Vec::new(),
        },
        Fact::AssistantText { text: format!("let me see {number}"), step: 1 },
        Fact::Meta(Meta::Usage {
            step: 1,
            profile: "default".to_owned(),
            model: "m".to_owned(),
            usage,
            stop_reason: "tool_use".to_owned(),
        }),
        Fact::ToolCall {
            id: "c1".into(),
            name: "read".to_owned(),
            args: json!({"path": "a"}),
            step: 1,
            effect: Effect::Pure,
            idempotency_key: String::new(),
        },
        Fact::ToolResult {
            id: "c1".into(),
            name: "read".to_owned(),
            content: "the file".to_owned(),
            fault: None,
            duration_ms: 1,
            truncated: false,
            taints: false,
            rule: None,
            approved: false,
            files: Vec::new(),
            pictures: Vec::new(),
        },
        Fact::AssistantText { text: format!("answer {number}"), step: 2 },
        Fact::TurnEnd {
            outcome: Ending::Done,
            code: None,
            message: None,
            text: String::new(),
            steps: 2,
            usage,
            duration_ms: 4,
        },
    ]
}

impl Bench {
    /// A journal of so many turns, each stored in three pieces.
    pub(super) async fn turns(&self, topic: &str, count: u64) {
        let mut seq = 0;
        for number in 1..=count {
            let mut facts = facts(number).into_iter();
            for size in [2, 3, 3] {
                let events: Vec<HistoryEvent> = facts
                    .by_ref()
                    .take(size)
                    .map(|fact| {
                        seq += 1;
                        HistoryEvent {
                            seq,
                            turn: format!("turn-{number}").into(),
                            timestamp: Timestamp(1_700_000_000_000 + seq),
                            fact,
                            redacted: false,
                        }
                    })
                    .collect();
                let writes = Writes::new().events(&lane(topic), 1, &events);
                self.state.spine.store.commit(writes).await.unwrap();
            }
        }
    }

    async fn history(&self, query: &str) -> Value {
        let path = format!("/api/v1/sessions/main:t-1/history?{query}");
        self.get(&path, &self.operator()).await.json()
    }
}

fn texts(answer: &Value) -> Vec<String> {
    let rows = answer["data"].as_array().unwrap().iter();
    rows.map(|row| {
        let text = row["content"][0]["text"].as_str().unwrap_or_default();
        text.to_owned()
    })
    .collect()
}

/// OP-26
#[actix::test]
async fn sessions_are_listed_by_when_they_were_used() {
    let bench = Bench::new().await;
    bench.turns("t-1", 1).await;
    bench.turns("t-2", 3).await;
    let list = async |query: &str| {
        let path = format!("/api/v1/sessions?{query}");
        let answer = bench.get(&path, &bench.operator()).await.json();
        let rows = answer["data"].as_array().unwrap().clone();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    let answer = bench.get("/api/v1/sessions", &bench.operator()).await.json();
    assert_eq!(
        answer["data"][0],
        json!({
            "id": "main:t-2",
            "team": "main",
            "generation": 1,
            "topic_id": "t-2",
            "created_at": "2023-11-14T22:13:20.001Z",
            "updated_at": "2023-11-14T22:13:20.024Z",
            "events": 24,
        })
    );
    assert_eq!(list("").await, ["main:t-2", "main:t-1"]);
    assert_eq!(list("topic=t-1").await, ["main:t-1"]);
    assert_eq!(list("team=mai").await, [""; 0]);
    assert_eq!(list("since=1700000000009").await, ["main:t-2"]);
}

/// OP-40, EN-47
#[actix::test]
async fn a_history_is_read_in_views_and_layouts() {
    let bench = Bench::new().await;
    bench.turns("t-1", 1).await;

    let simple = bench.history("").await;
    let full = bench.history("view=full").await;
    let grouped = bench.history("view=full&layout=grouped").await;

    assert_eq!(texts(&simple), ["question 1", "let me see 1", "answer 1"]);
    assert_eq!(simple["data"][0]["role"], "user");
    assert_eq!(simple["data"][0]["task_id"], "task-1");
    assert_eq!(simple["session"]["id"], "main:t-1");
    let roles = |answer: &Value| -> Vec<String> {
        let rows = answer["data"].as_array().unwrap().iter();
        rows.map(|row| row["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&full), ["user", "assistant", "toolResult", "assistant"]);
    assert_eq!(
        full["data"][1]["content"][1],
        json!({"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}})
    );
    assert_eq!(full["data"][1]["meta"]["usage"]["totalTokens"], 12);
    assert_eq!(full["data"][2]["toolCallId"], "c1");
    assert_eq!(roles(&grouped), ["user", "assistant", "toolResult"]);
}

/// OP-40: every message once, forwards and backwards.
#[actix::test]
async fn a_history_is_paged_by_its_numbers() {
    let bench = Bench::new().await;
    bench.turns("t-1", 20).await;
    let all: Vec<String> = (1..=20)
        .flat_map(|number| {
            [
                format!("question {number}"),
                format!("let me see {number}"),
                format!("answer {number}"),
            ]
        })
        .collect();

    let (mut forward, mut after) = (Vec::new(), 0);
    loop {
        let page = bench.history(&format!("after={after}&limit=7")).await;
        if texts(&page).is_empty() {
            break;
        }
        forward.extend(texts(&page));
        after = page["next_after"].as_u64().unwrap();
    }
    let (mut backward, mut query) = (Vec::new(), "limit=7".to_owned());
    loop {
        let page = bench.history(&query).await;
        backward.splice(0..0, texts(&page));
        match page["prev_before"].as_u64() {
            Some(before) => query = format!("before={before}&limit=7"),
            None => break,
        }
    }

    assert_eq!(forward, all);
    assert_eq!(backward, all);
    assert_eq!(after, 160);
}

impl Bench {
    /// A turn begins in a topic: its task is leased, and nothing of it is in the journal yet.
    async fn begin_turn(&self, topic: &str, number: u64) -> Task {
        let id = format!("task-{number}").into();
        let body = format!("question {number}");
        let at = Timestamp(1_700_000_001_000);
        let task = Task::new(id, lane(topic), body.clone(), "ann".to_owned(), at);
        let task = Task { lease: Some("1".into()), ..task };
        self.state.spine.store.commit(Writes::new().put(&task)).await.unwrap();
        let start = Moment::TurnStart {
            session_id: lane(topic).session_id(1),
            from: "ann".to_owned(),
            body,
            sdk: "native".to_owned(),
            provider: "offline".to_owned(),
            model: "m".to_owned(),
            attempt: 1,
            redelivered: false,
        };
        let (topic, turn) = (topic.into(), format!("turn-{number}").into());
        let event = Event::turn(&"main".into(), Some(&topic), Some(&task.id), &turn, start);
        self.state.spine.live.publish(event);
        task
    }
}

/// OP-26, SE-144: the message of a turn that thinks is shown before it is in the journal, and each message once
/// to whoever pages through it, then and later.
#[actix::test]
async fn a_turn_that_has_only_begun_shows_its_message() {
    let bench = Bench::new().await;
    bench.turns("t-1", 2).await;
    bench.begin_turn("t-1", 3).await;

    let thinking = bench.history("").await;
    let [newest, last] = [bench.history("limit=1").await, bench.history("limit=5").await];
    let before = bench.history(&format!("limit=4&before={}", newest["prev_before"])).await;
    let behind = bench.history(&format!("after={}", thinking["next_after"])).await;
    let full = bench.history("after=8&limit=3").await;
    bench.turns("t-1", 3).await;
    let over = bench.history(&format!("after={}", thinking["next_after"])).await;

    let said =
        |number: u64| ["question", "let me see", "answer"].map(|words| format!("{words} {number}"));
    let stored = [said(1), said(2)].concat();
    assert_eq!(texts(&thinking), [&stored[..], &["question 3".to_owned()]].concat());
    let message = &thinking["data"][6];
    assert_eq!(
        [&message["pending"], &message["seq"], &message["turn"], &message["from"]],
        [&json!(true), &json!(18), &json!("turn-3"), &json!("ann")]
    );
    assert_eq!(thinking["data"][5].get("pending"), None);
    assert_eq!(thinking["next_after"], 16);
    assert_eq!(texts(&newest), ["question 3"]);
    assert_eq!(texts(&before), stored[2..]);
    assert_eq!(texts(&last), [&stored[2..], &["question 3".to_owned()]].concat());
    assert_eq!(texts(&behind), ["question 3"]);
    // A page that is full leaves it for the next.
    assert_eq!(texts(&full), said(2));
    assert_eq!(texts(&over), said(3));
    assert_eq!(over["data"][0]["seq"], 18);
    assert_eq!(over["data"][0].get("pending"), None);
}

/// OP-26: also if it is the first of its session; and not once the task is over.
#[actix::test]
async fn a_session_is_there_from_the_start_of_its_first_turn() {
    let bench = Bench::new().await;
    let task = bench.begin_turn("t-1", 1).await;

    let thinking = bench.history("").await;
    let of_team = bench.get("/api/v1/teams/main/history", &bench.operator()).await.json();
    let path = "/api/v1/sessions/main:t-1/reset";
    let reset = bench.post(path, &bench.operator(), json!({})).await;
    bench.state.spine.store.commit(Writes::new().delete::<Task>(&task.id)).await.unwrap();
    let over = bench.history("").await;

    assert_eq!(texts(&thinking), ["question 1"]);
    assert_eq!([&thinking["next_after"], &thinking["session"]["events"]], [&json!(0), &json!(0)]);
    assert_eq!(of_team["session"]["id"], "main:t-1");
    assert_eq!(reset.refusal().0, 409);
    assert_eq!(texts(&over), [""; 0]);
}

/// OP-40, EN-47
#[actix::test]
async fn what_is_not_there_or_not_known_is_refused() {
    let bench = Bench::new().await;
    bench.turns("t-1", 1).await;
    let get = async |path: &str| bench.get(path, &bench.operator()).await;

    assert_eq!(get("/api/v1/sessions/main:t-9/history").await.status, 404);
    assert_eq!(get("/api/v1/sessions/main/history").await.status, 404);
    assert_eq!(get("/api/v1/teams/nobody/history").await.status, 404);
    for query in ["view=all", "layout=x", "after=-1", "limit=0", "before=x"] {
        let answer = get(&format!("/api/v1/sessions/main:t-1/history?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
    }
    let newest = get("/api/v1/teams/main/history").await.json();
    let keyed = get("/api/v1/teams/main/history?session_key=topic:t-1").await.json();
    assert_eq!(newest["session"]["id"], "main:t-1");
    assert_eq!(keyed["data"], newest["data"]);
}

/// OP-24: a task says where its turn begins in its session, so that the steps can be read from there.
#[actix::test]
async fn a_task_names_the_first_event_of_its_turn() {
    let bench = Bench::new().await;
    bench.turns("t-1", 3).await;
    for (number, topic) in [(2, "t-1"), (9, "t-1"), (1, "t-2")] {
        let task = bench.task(&format!("task-{number}"), "main", Kind::Chat, "question");
        bench.ended(Task { lane: lane(topic), ..task }, Ending::Done, "answer").await;
    }
    let first = async |id: &str| {
        let path = format!("/api/v1/tasks/{id}");
        let task = bench.get(&path, &bench.operator()).await.json()["data"].clone();
        (task["session_id"].clone(), task["first_event"].clone())
    };

    // Each turn has eight events.
    assert_eq!(first("task-2").await, (json!("main:t-1"), json!(9)));
    assert_eq!(first("task-9").await, (json!("main:t-1"), Value::Null));
    assert_eq!(first("task-1").await, (json!("main:t-2"), Value::Null));
}

/// OP-40, EN-48, EN-50
#[actix::test]
async fn an_export_has_a_line_for_each_message_and_each_turn() {
    let bench = Bench::new().await;
    bench.turns("t-1", 60).await;
    let app = App::new().configure(configure(bench.state.clone(), others));
    let app = test::init_service(app).await;
    let request = request(Method::GET, "/api/v1/sessions/main:t-1/export")
        .insert_header(bearer(&bench.operator()));

    let response = test::call_service(&app, request.to_request()).await;
    let text = test::read_body(response).await;

    let text = String::from_utf8(text.to_vec()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 60 * 5);
    assert_eq!(lines[0]["role"], "user");
    assert_eq!(lines[0]["agentId"], "main");
    assert_eq!(lines[0]["sessionId"], "main:t-1");
    assert_eq!(lines[298]["content"][0]["text"], "answer 60");
    assert_eq!(
        (&lines[299]["key"], &lines[299]["value"]["task"]),
        (&json!("turn"), &json!("task-60"))
    );
}

/// OP-26: a session is reset if there is one, and nobody works in it.
#[actix::test]
async fn a_session_begins_anew() {
    let bench = Bench::new().await;
    bench.turns("t-1", 1).await;
    let post = async |id: &str| {
        let path = format!("/api/v1/sessions/{id}/reset");
        bench.post(&path, &bench.operator(), json!({})).await
    };

    let before = bench.history("").await["data"].clone();
    let reset = post("main:t-1").await;
    let unknown = post("main:t-9").await;

    assert_eq!(reset.status, 200, "{}", reset.body);
    assert_eq!(reset.json()["data"]["id"], "main:t-1");
    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
    assert_eq!(bench.history("").await["data"], before);
}
