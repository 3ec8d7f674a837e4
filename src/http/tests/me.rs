//! The caller's own conversations.

use std::sync::Mutex;

use hivewright_actors::{
    admission::{Admission, Reason},
    channel::records::{ChannelRow, OutboxWrites},
    channel_type::ChannelType,
    conversation_log::ConversationEntry,
    doubles::disk::Disk,
    frame::{Body, Frame, Notification, NotificationKind},
    identities::Owner,
    ids::{ChannelId, TopicId},
    router::{
        records::{HomeChannel, ReadMark, TopicChannel},
        topics::Topic,
    },
    storage::{Batch, Order, Storage, StorageError, Visit},
    store::records::Record,
    task::{
        Lane, Source, Task, TopicRef,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
};
use serde_json::json;

use super::*;
use crate::{
    api::{me::ConversationItem, page::Sort},
    http::{kit::query::Page, routes::me},
    transcript::conversation::Depth,
};

const NOW: u64 = 1_700_000_000_000;

fn at(second: u64) -> Timestamp {
    Timestamp(NOW - 100_000 + second * 1_000)
}

fn topic_ref(id: &str) -> TopicRef {
    TopicRef { id: id.into(), name: format!("about {id}") }
}

/// A message that was answered a second after it was accepted.
fn answered(channel: &str, topic: &str, number: u64) -> Task {
    let lane = Lane { team: "main".into(), topic: Some(topic.into()) };
    let (id, body) = (format!("task-{topic}-{number}"), format!("question {number}"));
    Task {
        source: Some(Source {
            channel: channel.into(),
            message: Some(format!("m-{number}").into()),
            topic: Some(topic_ref(topic)),
            notify: None,
        }),
        outcome: Some(Outcome {
            text: format!("answer {number}"),
            ..Outcome::new(Ending::Done, at(number + 1))
        }),
        ..Task::new(id.into(), lane, body, "ann".to_owned(), at(number))
    }
}

fn told(topic: Option<&str>, second: u64, text: &str) -> Frame {
    let told = Notification::new(NotificationKind::Task, "ops".into(), text.to_owned(), "");
    Frame { topic: topic.map(topic_ref), ts: at(second), body: Body::Notification(told) }
}

impl Bench {
    /// A channel of a token, with a topic in which so many messages were answered.
    async fn conversation(&self, token: &str, channel: &str, topic: &str, messages: u64) {
        let owner = self.auth().token(token).unwrap().owner();
        let row = ChannelRow::new(owner, Timestamp(NOW), Default::default());
        let stored = Topic::new(topic.into(), format!("about {topic}"), at(1));
        let id = channel.into();
        let mut writes = Writes::new().put_at(&id, &row).put_at(&stored.key(&id), &stored);
        for number in 1..=messages {
            let task = answered(channel, topic, number);
            let key = ConversationEntry::key_of(&task).unwrap();
            writes = writes.put(&FinishedTask::of(&task)).put_at(&key, &ConversationEntry::Message);
        }
        self.state.spine.store.commit(writes).await.unwrap();
    }

    async fn write(&self, writes: Writes) {
        self.state.spine.store.commit(writes).await.unwrap();
    }
}

fn texts(answer: &Answer) -> Vec<String> {
    let rows = answer.json()["data"].as_array().unwrap().clone();
    let text = |row: &Value| row["text"].as_str().or(row["content"].as_str()).unwrap().to_owned();
    rows.iter().map(text).collect()
}

/// CH-160: channels with their topics, what is new there, and where to go on.
#[actix::test]
async fn the_channels_of_the_caller_are_listed_with_what_is_unread() {
    let bench = Bench::new().await;
    let ann = bench.token("ann", only(Scope::Chat)).await;
    bench.conversation(&ann, "ws:1", "t-1", 3).await;
    bench.conversation(&ann, "ws:2", "t-2", 1).await;
    bench.conversation(&bench.operator(), "ws:3", "t-3", 1).await;
    let mark = |channel: &str, topic: &str, until| {
        Writes::new().put_at(&(channel.into(), topic.to_owned()), &ReadMark(until))
    };
    bench.write(mark("ws:1", "t-1", at(2))).await;
    bench.write(Writes::new().frame(&"ws:1".into(), told(Some("t-1"), 50, "[ops] So."))).await;
    let grant = bench.auth().token(&ann).unwrap().owner().grant.to_string();
    bench.write(Writes::new().put_at(&grant, &HomeChannel("ws:1".into()))).await;

    let all = bench.get("/api/v1/me/channels", &ann).await.json();
    let home = bench.get("/api/v1/me/channels?home=true", &ann).await.json();

    let ids: Vec<_> = all["data"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["ws:1", "ws:2"]);
    // The second and third answer, and what a team told; a topic without a mark counts as read.
    assert_eq!(all["data"][1]["unread"], 0);
    assert_eq!(
        home["data"],
        json!([{
            "id": "ws:1",
            "type": "ws",
            "home": true,
            "last_activity": at(50).date(),
            "unread": 3,
            "seq": 1 << 20,
            "topics": [{
                "id": "t-1",
                "name": "about t-1",
                "state": "active",
                "pinned": false,
                "last_activity": at(50).date(),
                "queued": 0,
                "running": false,
                "unread": 3,
            }],
        }])
    );
}

/// CH-160, OP-02: newest first, by cursors, in the order in which it was said.
#[actix::test]
async fn what_was_said_is_paged_from_the_newest() {
    let bench = Bench::new().await;
    let ann = bench.token("ann", only(Scope::Chat)).await;
    bench.conversation(&ann, "ws:1", "t-1", 5).await;
    bench.write(Writes::new().frame(&"ws:1".into(), told(Some("t-1"), 4, "[ops] So."))).await;
    let path = "/api/v1/me/topics/t-1/messages";

    let first = bench.get(&format!("{path}?limit=3"), &ann).await;
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let second = bench.get(&format!("{path}?limit=3&cursor={cursor}"), &ann).await;
    let rising = bench.get(&format!("{path}?sort=at&limit=2"), &ann).await;

    assert_eq!(texts(&first), ["question 5", "question 4", "[ops] So."]);
    assert_eq!(texts(&second), ["question 3", "question 2", "question 1"]);
    assert_eq!(second.json().get("next_cursor"), None);
    assert_eq!(first.json()["total"], 6);
    assert_eq!(texts(&rising), ["question 1", "question 2"]);
    let message = first.json()["data"][0].clone();
    assert_eq!(
        message,
        json!({
            "type": "message",
            "message_id": "m-5",
            "task_id": "task-t-1-5",
            "at": at(5).0,
            "seq": 1 << 20,
            "from": "ann",
            "text": "question 5",
            "state": "done",
            "blocks": [{"type": "text", "text": "answer 5"}],
            "end": {"at": at(6).0, "usage": {"input": 0, "output": 0, "cost_usd": null}},
        })
    );
}

/// CH-160: also what an owner had from a former version, in the channel that their connections share.
#[actix::test]
async fn a_topic_is_found_by_its_channel() {
    let bench = Bench::new().await;
    let (ann, bob) =
        (bench.token("ann", only(Scope::Chat)).await, bench.token("bob", Scopes::all()).await);
    bench.conversation(&ann, "ws:1", "t-1", 1).await;
    let path = "/api/v1/me/topics/t-1/messages";
    let home = |token: &str| {
        let grant = bench.auth().token(token).unwrap().owner().grant.to_string();
        Writes::new().put_at(&grant, &HomeChannel("ws:1".into()))
    };

    let found = bench.get(path, &ann).await;
    bench.write(Writes::new().delete::<TopicChannel>(&TopicId::from("t-1"))).await;
    let unknown = bench.get(path, &ann).await;
    bench.write(home(&ann).and(home(&bob))).await;

    assert_eq!(texts(&found), ["question 1"]);
    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
    assert_eq!(texts(&bench.get(path, &ann).await), ["question 1"]);
    assert_eq!(bench.get(path, &bob).await.refusal(), (404, "not_found".to_owned()));
}

/// CH-88, CH-160, SC-14: whether others have such a conversation is nobody's business.
#[actix::test]
async fn nobody_sees_the_conversation_of_another() {
    let bench = Bench::new().await;
    let ann = bench.token("ann", only(Scope::Chat)).await;
    let bob = bench.token("bob", Scopes::all()).await;
    bench.conversation(&ann, "ws:1", "t-1", 1).await;

    for path in ["topics/t-1", "topics/t-9", "channels/ws:1", "channels/ws:9"] {
        let path = format!("/api/v1/me/{path}/messages");
        for token in [&bob, &bench.operator()] {
            let refused = bench.get(&path, token).await;
            assert_eq!(refused.refusal(), (404, "not_found".to_owned()), "{path}");
            assert!(refused.body.contains("you have no"), "{}", refused.body);
        }
    }
    assert_eq!(bench.get("/api/v1/me/channels", &bob).await.json()["data"], json!([]));
}

/// CH-160: messages to a team are whole, in the order of the others, and nobody else's.
#[actix::test]
async fn what_was_said_to_a_team_is_listed_whole() {
    let bench = Bench::new().await;
    let ann = bench.token("ann", only(Scope::Chat)).await;
    let bob = bench.token("bob", Scopes::all()).await;
    bench.conversation(&ann, "ws:1", "t-1", 1).await;
    bench.conversation(&bob, "ws:2", "t-2", 1).await;
    let long = "word ".repeat(500);
    for (channel, number) in [("ws:1", 2), ("ws:1", 3), ("ws:2", 4), ("ws:9", 5)] {
        let said = answered(channel, "t-1", number);
        let source = said.source.map(|source| Source { topic: None, ..source });
        let lane = Lane { team: "ops".into(), topic: None };
        let admission = Some(Admission {
            channel_type: ChannelType::Api,
            reason: Reason::NoTrustConfig,
            asserted_by: None,
            listener: None,
        });
        let task = Task { source, lane, body: long.clone(), admission, ..said };
        bench.write(Writes::new().put(&FinishedTask::of(&task))).await;
    }
    let path = "/api/v1/me/teams/ops/messages";

    let first = bench.get(&format!("{path}?limit=3"), &ann).await;
    let none = bench.get("/api/v1/me/teams/other/messages", &ann).await;
    let others = bench.get(path, &bob).await;

    let ids = |answer: &Answer| -> Vec<String> {
        let rows = answer.json()["data"].as_array().unwrap().clone();
        rows.iter().map(|row| row["message_id"].as_str().unwrap().to_owned()).collect()
    };
    // The third is of a channel that ann does not have.
    assert_eq!(ids(&first), ["m-3"]);
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let second = bench.get(&format!("{path}?limit=3&cursor={cursor}"), &ann).await;
    assert_eq!((ids(&second), texts(&second)), (vec!["m-2".to_owned()], vec![long.clone()]));
    assert_eq!(first.json()["data"][0]["blocks"], json!([{"type": "text", "text": "answer 3"}]));
    // One that is gone is known to whom it answered.
    for answer in [none, others] {
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    }
    let main = bench.get("/api/v1/me/teams/main/messages", &bob).await;
    assert_eq!(ids(&main), Vec::<String>::new());
}

/// Commits something whenever the log of a conversation is read: as the spine does meanwhile.
struct Busy {
    disk: Arc<MemoryStorage>,
    meanwhile: Mutex<Vec<Batch>>,
}

impl Storage for Busy {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        self.disk.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.disk.get(key)
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: Order,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        let is_log = start.starts_with(ConversationEntry::KIND.as_bytes());
        let batch = if is_log { self.meanwhile.lock().unwrap().pop() } else { None };
        batch.map_or(Ok(()), |batch| self.disk.commit(&batch))?;
        self.disk.scan(start, end, order, visit)
    }
}

/// A channel whose messages are answered while it is read: each with the frame that tells of it. Returns what was read, and
/// how many answers came too late for it.
fn read_meanwhile(answers: u64) -> (Vec<(String, u64)>, usize) {
    let owner = Owner { principal: "ann".into(), grant: "g-1".into(), since: Timestamp(0) };
    let channel = ChannelId::from("ws:1");
    let disk = Disk::default().mount(None);
    let row = ChannelRow::new(owner.clone(), Timestamp(NOW), Default::default());
    disk.commit(&Writes::new().put_at(&channel, &row).batch().unwrap()).unwrap();
    let batch = |number: u64| {
        let task = answered("ws:1", "t-1", number);
        let key = ConversationEntry::key_of(&task).unwrap();
        let frame = told(Some("t-1"), number, "so");
        let writes = Writes::new()
            .put(&FinishedTask::of(&task))
            .put_at(&key, &ConversationEntry::Message)
            .put_json(key_of("out", &(channel.clone(), number)), &frame);
        writes.batch().unwrap()
    };
    let meanwhile = Mutex::new((1..=answers).rev().map(batch).collect());
    let busy = Busy { disk, meanwhile };
    let page = Page {
        list: String::new(),
        limit: 10,
        offset: 0,
        sort: Sort { field: "at", falling: false },
        after: None,
    };

    let topic = Some(&TopicId::from("t-1"));
    let rows =
        me::said(&busy, &owner, &channel, topic, None, &page, Depth::Frames).unwrap().unwrap();

    let seen = rows.data.into_iter().map(|item| match item {
        ConversationItem::Message(said) => (said.message_id.to_string(), said.seq),
        ConversationItem::Notification(told) => (told.content, 0),
    });
    (seen.collect(), busy.meanwhile.into_inner().unwrap().len())
}

/// CH-160: an answer that is stored between two reads is in the page with the number of its frame, so that the frame, which
/// comes too, changes nothing. A channel in which something is told all the time is shown all the same.
#[test]
fn what_is_shown_holds_no_more_than_its_number_says() {
    let (settled, late) = read_meanwhile(2);
    assert_eq!(settled, [("m-1".to_owned(), 2 << 20), ("m-2".to_owned(), 2 << 20)]);
    assert_eq!(late, 0);

    let (unsettled, late) = read_meanwhile(50);
    assert!(!unsettled.is_empty() && late > 0, "{unsettled:?}, {late} late");
}

/// CH-152, CH-160: what was told while nobody was there, and belongs to no topic, is found by its channel.
#[actix::test]
async fn what_belongs_to_no_topic_is_listed_by_its_channel() {
    let bench = Bench::new().await;
    let ann = bench.token("ann", only(Scope::Chat)).await;
    bench.conversation(&ann, "ws:1", "t-1", 1).await;
    bench.write(Writes::new().frame(&"ws:1".into(), told(None, 9, "[ops] Alone."))).await;

    let listed = bench.get("/api/v1/me/channels/ws:1/messages", &ann).await;
    let channels = bench.get("/api/v1/me/channels", &ann).await.json();

    assert_eq!(texts(&listed), ["[ops] Alone."]);
    assert_eq!(listed.json()["data"][0]["kind"], "task");
    assert_eq!(channels["data"][0]["unread"], 1);
}
