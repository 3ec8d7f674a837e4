//! Every list of something that there may be very many of: gone through by cursors.

use std::{collections::BTreeSet, time::Duration};

use hivewright_actors::{
    approvals::{
        question::{AnswerKind, QuestionStatus},
        record::{Approval, Status},
    },
    audit::Audit,
    budget::{
        Day, Tally,
        records::{DayKey, TaskCalls},
    },
    clock::Clock,
    history::{Fact, HistoryEvent, Meta},
    notice::{Notice, NoticeKind},
    router::topics::Topic,
    scheduler::trigger::{
        Trigger,
        config::{Config, Listen},
        definition::Definition,
    },
    store::records::Writes,
    task::{
        Kind, Lane, Task,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
    tool::Asking,
};

use serde_json::json;

use super::{
    approvals::{held, question},
    *,
};
use crate::vault::{audit::Actor, entry::Put, scope::Scope};

const ROWS: u64 = 1_500;
const PAGE: u64 = 200;

/// Entries of the vault, as many as the service and one team may have. They are sealed by the vault itself.
async fn fill_vault(bench: &Bench) {
    let by = Actor::System;
    for number in 0..ROWS {
        let scope = match number {
            0..1_000 => Scope::System,
            _ => Scope::Team(TeamKey::first("main")),
        };
        let (key, value) = (format!("key-{number:05}"), format!("value {number}"));
        let put = Put::public(value);
        bench.state.vault.set(&scope, &key, put, &by).await.unwrap();
    }
}

fn done(bench: &Bench, id: &str, at: Timestamp) -> Task {
    let mut task = bench.task(id, "main", Kind::Delegate, "Dig.");
    task.created_at = at;
    task.outcome = Some(Outcome::new(Ending::Done, at));
    task
}

/// Stores as many rows of each kind.
async fn fill(bench: &Bench) {
    let approval = held(bench, Asking::default()).await;
    let asked = question(bench, AnswerKind::Text);
    let ids = Ids::new(Arc::new(Randomness));
    let day = Day { number: 20_231_114, ends_at: Timestamp(u64::MAX) };
    let listen = Config::Keyword(Listen { pattern: "invoice".to_owned(), ..Listen::default() });
    for number in 0..ROWS {
        let at = Timestamp(1_700_000_000_000 + number * 7_919 % ROWS * 3_600_000);
        let task = done(bench, &format!("task-{number:05}"), at);
        let topic = Topic::new(format!("t-{number:016x}").into(), format!("topic {number}"), at);
        let lane = Lane { team: "main".into(), topic: Some(topic.id.clone()) };
        let event = HistoryEvent {
            seq: 1,
            turn: "turn-1".into(),
            timestamp: at,
            fact: Fact::Meta(Meta::Reset),
            redacted: false,
        };
        let tally = Tally { requests: 1, usd: number as f64, ..Tally::default() };
        let mut open = asked.clone();
        open.id = format!("qst-{number:05}").into();
        open.status = QuestionStatus::Cancelled;
        open.created_at = at;
        let waiting = Approval {
            id: format!("apo-{number:05}").into(),
            short_id: format!("o{number:05}"),
            team: TeamKey::first("ops"),
            status: Status::Pending,
            created_at: at,
            ..approval.clone()
        };
        let mut unanswered = asked.clone();
        unanswered.id = format!("qso-{number:05}").into();
        unanswered.created_at = at;
        let trigger = Trigger::new(
            format!("trg-{number:05}").into(),
            TeamKey::first("main"),
            Definition::new(&format!("many-{number:05}"), listen.clone(), "Look at it."),
            "ann",
            at,
        );
        let writes = Writes::new()
            .put(&waiting)
            .put(&unanswered)
            .put(&trigger)
            .put(&FinishedTask::of(&task))
            .put_at(&topic.key(&"ws:1".into()), &topic)
            .put(&Approval {
                id: format!("apr-{number:05}").into(),
                short_id: format!("{number:06}"),
                status: Status::Denied,
                created_at: at,
                ..approval.clone()
            })
            .put(&open)
            .put(&Notice {
                id: format!("n-{number:05}").into(),
                kind: NoticeKind::DeadTask,
                team: Some("main".into()),
                text: format!("given up {}", number / 2),
                refs: Vec::new(),
                at,
                read: false,
            })
            .put(&Audit::new(&ids, at, &"ann".into(), "team.pause", "main", "api", "done"))
            .events(&lane, 1, &[event])
            .put_at(&(DayKey(day.number), task.id.clone()), &TaskCalls(tally));
        bench.state.spine.store.commit(writes).await.unwrap();
    }
}

/// OP-02, OP-99: each row is on exactly one page, and a page reads the rows a few times at most, however
/// far it is from the beginning.
#[actix::test]
async fn every_row_of_every_list_is_on_one_page() {
    let bench = Bench::new().await;
    fill(&bench).await;
    fill_vault(&bench).await;
    let operator = bench.operator();

    for (path, id, sorts) in [
        ("tasks?state=done", "id", &["-created_at", "created_at"][..]),
        ("topics?q=topic", "id", &["-last_activity", "name"]),
        ("approvals?status=denied", "id", &["created_at", "-expires_at"]),
        ("questions?status=cancelled", "id", &["created_at"]),
        ("inbox?kind=dead_task", "id", &["-last_at", "at"]),
        ("audit?action=team.pause", "id", &["-at"]),
        ("sessions?team=main", "id", &["-updated_at"]),
        ("usage?group=task", "key", &["-usd", "key", "requests"]),
        ("approvals?status=pending&team=ops", "id", &["created_at", "-created_at"]),
        ("questions?status=open", "id", &["created_at"]),
        ("triggers?q=many", "id", &["name", "-created_at", "team"]),
        ("vault?prefix=key-", "key", &["key", "-updated_at", "scope", "last_used_at"]),
    ] {
        for sort in sorts {
            let mut seen = BTreeSet::new();
            let mut cursor = String::new();
            loop {
                let before = bench.storage.shown();
                let path = format!("/api/v1/{path}&sort={sort}&limit={PAGE}{cursor}");
                let answer = bench.get(&path, &operator).await;
                let read = bench.storage.shown() - before;
                assert_eq!(answer.status, 200, "{path}: {}", answer.body);
                let json = answer.json();
                let rows = json["data"].as_array().unwrap();
                assert!(rows.len() as u64 <= PAGE, "{path}");
                assert_eq!(json["total"], ROWS, "{path}");
                // On a slow machine the router looks at all topics meanwhile, once.
                assert!(read <= 5 * ROWS, "{path} read {read} rows");
                for row in rows {
                    let fresh = seen.insert(row[id].as_str().unwrap().to_owned());
                    assert!(fresh, "{path} shows {} again", row[id]);
                }
                match json["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(seen.len() as u64, ROWS, "{path} by {sort}");
        }
    }
}

/// OP-117: however many there are, all are read then, and what comes later is not.
#[actix::test]
async fn all_notices_are_read_in_slices() {
    let bench = Bench::new().await;
    fill(&bench).await;
    bench.clock.advance(Duration::from_secs(365 * 24 * 3_600));
    let late = Notice {
        id: "n-later".into(),
        kind: NoticeKind::DeadTask,
        team: Some("main".into()),
        text: "given up later".to_owned(),
        refs: Vec::new(),
        at: bench.clock.now() + Duration::from_secs(1),
        read: false,
    };
    let store = &bench.state.spine.store;
    store.commit(Writes::new().put(&late)).await.unwrap();
    let operator = bench.operator();

    let read = bench.post("/api/v1/inbox/read-all", &operator, json!({})).await;

    assert_eq!(read.status, 204, "{}", read.body);
    let unread = bench.get("/api/v1/inbox?unread=true", &operator).await.json();
    assert_eq!((&unread["total"], &unread["data"][0]["id"]), (&json!(1), &json!("n-later")));
}
