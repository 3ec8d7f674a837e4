//! What was shown cut is read in full, by whoever may.

use std::borrow::Cow;

use hivewright_actors::{
    inbox::{InboxEvent, PartlyShown, ShownKey},
    task::{
        cause::Cause,
        records::{FinishedTask, LaneKey},
    },
};

use super::*;

impl super::Bench {
    /// A task that has ended with a text, made by somebody.
    async fn ended(&self, id: &str, team: &str, task: Task, text: &str) {
        self.ends(team, Ending::Done, text);
        let ended = Task {
            id: id.into(),
            outcome: self.work.ends.lock().unwrap().get(team).cloned(),
            ..task
        };
        self.store.commit(Writes::new().put(&FinishedTask::of(&ended))).await.unwrap();
    }

    fn work(&self, team: &str, from: &str) -> Task {
        let lane = Lane { team: team.into(), topic: None };
        Task {
            kind: Kind::Delegate,
            source: self.context("main").caller.source.clone(),
            ..Task::new("task".into(), lane, "Dig. ".repeat(10), from.to_owned(), self.clock.now())
        }
    }

    async fn read(&self, team: &str, args: Value) -> Value {
        self.call(team, "list_completed_tasks", args).await
    }
}

/// OR-67, OR-85: piece by piece, and nothing is missing in the end.
#[actix_web::test]
async fn a_long_result_is_read_in_pieces() {
    let bench = bench().await;
    let whole = "é".repeat(24_999) + "z";
    bench.ended("task-1", "scouts", bench.work("scouts", "ann"), &whole).await;

    let mut read = String::new();
    let mut offset = Some(json!(0));
    let mut pieces = 0;
    while let Some(from) = offset {
        let piece = bench.read("main", json!({"id": "task-1", "offset": from})).await;
        assert_eq!(piece["characters"], 25_000);
        read.push_str(piece["text"].as_str().unwrap());
        offset = piece.get("next_offset").cloned();
        pieces += 1;
    }
    let body = bench.read("main", json!({"id": "task-1", "part": "body", "offset": 45})).await;

    assert_eq!((read == whole, pieces), (true, 3));
    assert_eq!(body["text"], "Dig. ");
}

/// OR-67: a team reads what it and those below it did, and what it asked for; of people's words those of
/// its own conversation, and of their work that of the person it works for.
#[actix_web::test]
async fn a_team_reads_only_what_it_may() {
    let bench = bench().await;
    let work = |team: &str, from: &str| bench.work(team, from);
    bench.ended("task-own", "scouts", work("scouts", "ann"), "own").await;
    bench.ended("task-other", "smiths", work("smiths", "ann"), "other team").await;
    bench.ended("task-bob", "scouts", work("scouts", "bob"), "for bob").await;
    let timed = Task { cause: Some(Cause::System), source: None, ..work("scouts", "trigger") };
    bench.ended("task-timed", "scouts", timed, "timed").await;
    // A message elsewhere started it.
    let heard = Task { cause: Some(Cause::System), ..work("scouts", "trigger") };
    bench.ended("task-heard", "scouts", heard, "what bob said").await;
    let former = Task { generation: 2, ..work("scouts", "ann") };
    bench.ended("task-former", "scouts", former, "former life").await;
    let escalated = Task { reply_to: Some(work("scouts", "ann").lane), ..work("main", "ann") };
    bench.ended("task-asked", "main", escalated, "the answer").await;
    let chat = |topic: &str| Task {
        kind: Kind::Chat,
        lane: Lane { team: "main".into(), topic: Some(topic.into()) },
        ..work("main", "ann")
    };
    bench.ended("task-here", "main", chat("t-1"), "here").await;
    bench.ended("task-there", "main", chat("t-2"), "there").await;

    let mut seen = Vec::new();
    for (team, id) in [
        ("scouts", "task-own"),
        ("scouts", "task-timed"),
        ("scouts", "task-asked"),
        ("main", "task-own"),
        ("main", "task-here"),
    ] {
        let answer = bench.read(team, json!({"id": id})).await;
        seen.push(answer["text"].as_str().unwrap_or("nothing").to_owned());
    }
    assert_eq!(seen, ["own", "timed", "the answer", "own", "here"]);
    for (team, id) in [
        ("scouts", "task-other"),
        ("scouts", "task-bob"),
        ("scouts", "task-heard"),
        ("scouts", "task-former"),
        ("scouts", "task-here"),
        ("smiths", "task-asked"),
        ("main", "task-there"),
        ("main", "task-none"),
    ] {
        let answer = bench.read(team, json!({"id": id})).await;
        assert_eq!(code(&answer), "not_found", "{team} {id}");
    }
}

/// OR-67: a message that was shown in part, to the lane that it was for.
#[actix_web::test]
async fn a_message_that_was_shown_cut_is_read_by_its_team() {
    let bench = bench().await;
    let event = InboxEvent {
        id: "m-9".to_owned(),
        text: "a".repeat(8_000) + "the end",
        label: Label::Trusted,
        at: bench.clock.now(),
        audience: Some(bench.context("scouts").caller.audience()),
    };
    let lane = bench.work("scouts", "ann").lane;
    let key = ShownKey(LaneKey::new(&lane, 1), event.id.clone());
    let writes = Writes::new().put_at(&key, &PartlyShown(Cow::Owned(event)));
    bench.store.commit(writes).await.unwrap();

    let rest = json!({"id": "m-9", "offset": 8_000});
    assert_eq!(bench.read("scouts", rest.clone()).await["text"], "the end");
    assert_eq!(code(&bench.read("smiths", rest).await), "not_found");
}
