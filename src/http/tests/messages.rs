//! Words that come over REST: on whose channel, and what becomes of them.

use hivewright_actors::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    queue::Enqueue,
    router::topics::Topic,
    store::records::Writes,
    task::{Lane, Task},
};
use serde_json::json;

use super::*;

const MESSAGES: &str = "/api/v1/messages";

impl Bench {
    async fn say(&self, token: &str, more: Value) -> Answer {
        let mut body = json!({"content": "hello there", "topic": "billing"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.post(MESSAGES, token, body).await
    }

    /// Revokes a token and makes another of the same name.
    async fn replaced(&self, name: &str) -> String {
        let operator = self.auth().token(&self.operator()).unwrap();
        self.auth().revoke(name, false, &operator).await.unwrap();
        self.clock.advance(Duration::from_secs(60));
        self.token(name, talks()).await
    }

    /// A channel as a former version left it, with a topic.
    async fn former_channel(&self, id: &str, principal: &str, topic: &str) {
        let now = self.auth().now();
        let row = ChannelRow {
            principal: principal.into(),
            grant: None,
            last_seen: now,
            channel_type: Default::default(),
            begins_anew: false,
            begins_anew_in: None,
        };
        let topic = Topic::new(topic.into(), "billing".to_owned(), now);
        let writes = Writes::new().put_at(&id.into(), &row).put_at(&topic.key(&id.into()), &topic);
        self.state.spine.store.commit(writes).await.unwrap();
    }
}

fn talks() -> Scopes {
    [Scope::Chat, Scope::Read].into_iter().collect()
}

fn data(answer: &Answer, name: &str) -> String {
    let json = answer.json();
    let value = json["data"][name].as_str();
    value.unwrap_or_else(|| panic!("no `{name}`: {}", answer.body)).to_owned()
}

/// OP-33, SC-14: no id reaches into the channel of another.
#[actix::test]
async fn an_id_with_a_control_character_is_refused() {
    let bench = Bench::new().await;
    let eve = bench.token("eve", talks()).await;
    let before = bench.say(&bench.operator(), json!({})).await;

    for id in ["api:operator\0x", "a\nb", "", &"x".repeat(129)] {
        let refused = bench.say(&eve, json!({"channel_id": id})).await;
        assert_eq!(refused.refusal(), (400, "invalid_input".to_owned()));
        assert_eq!(refused.field(), "channel_id");
    }

    let after = bench.say(&bench.operator(), json!({})).await;
    assert_eq!(data(&before, "topic_id"), data(&after, "topic_id"));
    assert!(!bench.stored().contains("operator\0x"));
    let path = format!("{MESSAGES}/m-1?channel=a%00b");
    let looked = bench.get(&path, &eve).await;
    assert_eq!((looked.status, looked.field()), (400, "channel".to_owned()));
}

/// OP-33: only the caller's own channel is ever made.
#[actix::test]
async fn nobody_takes_the_channel_of_another() {
    let bench = Bench::new().await;
    let eve = bench.token("eve", talks()).await;
    let bob = bench.token("bob", talks()).await;
    let own = data(&bench.say(&bob, json!({})).await, "channel_id");

    for id in ["api:operator", "cli", "api:nobody", "ws:1", &own] {
        let refused = bench.say(&eve, json!({"channel_id": id})).await;
        assert_eq!(refused.refusal(), (404, "not_found".to_owned()), "{id}");
        assert_eq!(refused.field(), "channel_id");
    }

    let operator = bench.say(&bench.operator(), json!({})).await;
    assert_eq!(data(&operator, "channel_id"), "api:operator");
    let named = bench.say(&bob, json!({"channel_id": own})).await;
    assert_eq!(named.status, 202, "{}", named.body);
}

/// OP-33, CH-88
#[actix::test]
async fn a_later_token_of_the_same_name_inherits_no_channel() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", talks()).await;
    let grant = bench.auth().token(&bob).unwrap().grant.to_string();
    let first = bench.say(&bob, json!({})).await;
    let path = format!("{MESSAGES}/{}", data(&first, "message_id"));
    let seen = bench.get(&path, &bob).await;

    let other = bench.replaced("bob").await;
    let second = bench.say(&other, json!({})).await;
    let inherited = bench.get(&path, &other).await;
    let channel = data(&first, "channel_id");
    let taken = bench.say(&other, json!({"channel_id": channel})).await;

    assert_eq!(channel, format!("api:{grant}"));
    assert_eq!(seen.status, 200, "{}", seen.body);
    assert_ne!(channel, data(&second, "channel_id"));
    assert_ne!(data(&first, "topic_id"), data(&second, "topic_id"));
    assert_eq!(inherited.status, 404);
    assert_eq!((taken.status, taken.field()), (404, "channel_id".to_owned()));
}

/// OP-33, CH-88: the operator stays the same, whatever the token is replaced by.
#[actix::test]
async fn the_operator_keeps_the_channel_after_a_rotation() {
    let bench = Bench::new().await;
    let first = bench.say(&bench.operator(), json!({})).await;
    let operator = bench.auth().token(&bench.operator()).unwrap();
    bench.auth().rotate_operator(&operator).await.unwrap();

    let second = bench.say(&bench.operator(), json!({})).await;

    assert_eq!(data(&first, "topic_id"), data(&second, "topic_id"));
}

/// OP-33, OP-91: a former version named the channel after the token's name.
#[actix::test]
async fn a_channel_of_a_former_version_stays_with_its_token() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", talks()).await;
    bench.token("eve", talks()).await;
    bench.clock.advance(Duration::from_secs(60));
    bench.former_channel("api:bob", "bob", "t-00000000000000b0").await;
    bench.former_channel("api:eve", "eve", "t-00000000000000e0").await;
    let eve = bench.replaced("eve").await;

    let kept = bench.say(&bob, json!({})).await;
    let fresh = bench.say(&eve, json!({})).await;
    let later = bench.replaced("bob").await;
    let other = bench.say(&later, json!({})).await;

    assert_eq!(data(&kept, "channel_id"), "api:bob");
    assert_eq!(data(&kept, "topic_id"), "t-00000000000000b0");
    assert_ne!(data(&fresh, "channel_id"), "api:eve");
    assert_ne!(data(&other, "channel_id"), "api:bob");
}

/// OP-33, EN-20, EN-25
#[actix::test]
async fn an_answer_says_where_a_message_stands() {
    let bench = Bench::new().await;
    let operator = bench.operator();

    let started = bench.say(&operator, json!({})).await;
    let pause = "/api/v1/teams/main/pause";
    let paused = bench.post(pause, &operator, json!({})).await;
    let waiting = bench.say(&operator, json!({})).await;
    let path = format!("{MESSAGES}/{}", data(&waiting, "message_id"));
    let shown = bench.get(&path, &operator).await;

    assert_eq!(data(&started, "placement"), "started");
    assert_eq!(paused.status, 200, "{}", paused.body);
    for answer in [waiting, shown] {
        assert_eq!(data(&answer, "placement"), "waiting");
        assert_eq!(data(&answer, "wait_reason"), "paused");
    }
}

/// OP-04, OP-33: a full queue refuses at once, and so that it may be asked again.
#[actix::test]
async fn a_full_queue_is_a_refusal() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    bench.post("/api/v1/teams/main/pause", &operator, json!({})).await;
    let first = bench.say(&operator, json!({})).await;
    let lane = Lane { team: "main".into(), topic: Some(data(&first, "topic_id").into()) };
    for number in 1..Limits::default().waiting_in_topic {
        let id = format!("task-{number}");
        let task = Task::new(id.into(), lane.clone(), "x".into(), "y".into(), bench.auth().now());
        let writes = Writes::new();
        bench.state.spine.queue.do_send(Enqueue { task, writes });
    }
    let send = async || {
        let request = request(Method::POST, MESSAGES)
            .insert_header(bearer(&operator))
            .insert_header(("Idempotency-Key", "k"));
        let body = json!({"content": "one more", "topic": "billing"});
        bench.call(request.set_json(body)).await
    };

    let full = send().await;
    let again = send().await;

    for refused in [full, again] {
        assert_eq!(refused.refusal(), (503, "queue_full".to_owned()));
        assert!(refused.header("retry-after").is_some());
    }
}

/// CH-01, CH-107: the type of a channel is stored with it; its id tells nothing.
#[actix::test]
async fn a_topic_is_shown_under_the_stored_type_of_its_channel() {
    let bench = Bench::new().await;
    bench.former_channel("ws:1", "operator", "t-1").await;
    let row = ChannelRow {
        principal: "operator".into(),
        grant: None,
        last_seen: bench.auth().now(),
        channel_type: ChannelType::Cli,
        begins_anew: false,
        begins_anew_in: None,
    };
    let writes = Writes::new().put_at(&"ws:1".into(), &row);
    bench.state.spine.store.commit(writes).await.unwrap();
    bench.former_channel("ws:2", "operator", "t-2").await;

    let all = bench.get("/api/v1/topics?sort=name", &bench.operator()).await.json();
    let column = |answer: &Value, name: &str| -> Vec<String> {
        let rows = answer["data"].as_array().unwrap().iter();
        rows.map(|row| row[name].as_str().unwrap().to_owned()).collect()
    };
    let of = async |channel: &str| {
        let path = format!("/api/v1/topics?channel={channel}");
        column(&bench.get(&path, &bench.operator()).await.json(), "id")
    };
    let (cli, ws) = (of("cli").await, of("ws").await);
    let one = bench.get("/api/v1/topics/t-1", &bench.operator()).await.json();

    let mut types: Vec<_> =
        column(&all, "id").into_iter().zip(column(&all, "channel_type")).collect();
    types.sort();
    let expected = [("t-1", "cli"), ("t-2", "ws")];
    assert_eq!(types, expected.map(|(id, of)| (id.to_owned(), of.to_owned())));
    assert_eq!((cli, ws), (vec!["t-1".to_owned()], vec!["t-2".to_owned()]));
    assert_eq!(one["data"]["channel_type"], "cli");
}
