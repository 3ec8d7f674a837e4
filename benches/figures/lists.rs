//! What a page of a list costs in memory and time when there are very many rows.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::Arbiter;
use hivewright::{
    settings::config::Durability,
    storage,
    system::{Randomness, WallClock},
};
use hivewright_actors::{
    audit::Audit,
    budget::{
        Tally,
        records::{DayKey, TaskCalls},
    },
    clock::Clock,
    history::{Fact, HistoryEvent, Meta},
    ids::{Ids, TeamKey},
    notice::{Notice, NoticeKind},
    router::topics::Topic,
    scheduler::trigger::{
        Trigger,
        config::{Config, Listen},
        definition::Definition,
    },
    store::{Store, StoreParts, records::Writes},
    task::{
        Kind, Lane, Task,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
};

use crate::{
    process::{self, Process},
    report::{Bound, Report},
};

const ROWS: usize = 100_000;
/// Rows of one commit.
const AT_ONCE: usize = 250;
/// Pages that are asked for, one after another.
const PAGES: usize = 5;

/// A kind of rows: where they are listed, and what stores the row of a number.
type Rows = (&'static str, fn(usize, &Ids) -> Writes);

pub(crate) fn measure(report: &mut Report) {
    let lists: [Rows; 8] = [
        ("tasks?state=done", task),
        ("topics?state=done", topic),
        ("inbox?kind=dead_task", notice),
        ("audit?action=team.pause", audit),
        ("sessions?team=main", session),
        ("sessions/main:main/history?view=full", event),
        ("usage?group=task", usage),
        ("triggers?type=keyword", trigger),
    ];
    for (path, write) in lists {
        let folder = tempfile::tempdir().expect("a folder");
        fill(folder.path(), write);
        let (share, slowest) = pages(folder.path(), path);
        let name = path.split('?').next().unwrap_or_default();
        report.figure(
            &format!("lists: memory for pages of {name}, by that of 100,000 rows"),
            share,
            "",
            Bound::AtMost(0.5),
        );
        report.figure(
            &format!("lists: slowest of the first pages of {name}, among 100,000 rows"),
            slowest.as_secs_f64() * 1e3,
            "ms",
            Bound::None,
        );
    }
}

fn fill(home: &Path, write: fn(usize, &Ids) -> Writes) {
    let layout = storage::Home::new(&home.join("data"), &home.join("run"));
    let opened =
        storage::open::open(&layout, Durability::Process, &storage::unwatched).expect("a store");
    actix::System::new().block_on(async {
        let store = Store::start(&Arbiter::new().handle(), StoreParts::of(Arc::new(opened)));
        let ids = Ids::new(Arc::new(Randomness));
        for first in (0..ROWS).step_by(AT_ONCE) {
            let rows = first..first + AT_ONCE;
            let writes = rows.fold(Writes::new(), |all, number| all.and(write(number, &ids)));
            store.commit(writes).await.expect("a commit");
        }
    });
}

/// By how much some pages of a list raise the memory of a fresh service, in parts of what the answer with
/// all rows would hold; and how long the slowest of them took.
fn pages(home: &Path, path: &str) -> (f64, Duration) {
    let service = Process::serve(home);
    let address = process::address(home, &service);
    let token = process::token(home);
    let ask = |query: &str| {
        let path = format!("/api/v1/{path}&limit=200{query}");
        let (status, body) = process::get(&address, Some(&token), &path);
        assert_eq!(status, 200, "{path}: {body:.300}");
        body
    };
    // What serving costs at all, and what the store keeps in its cache once all of it was read, which
    // is at most 32 MB.
    let backup = home.join("all.backup");
    process::command(home, &["backup", backup.to_str().expect("a path")]);
    std::thread::sleep(Duration::from_secs(1));
    let before = service.memory();
    service.forget_peak();
    let (mut size, mut cursor, mut slowest) = (0, String::new(), Duration::ZERO);
    for _ in 0..PAGES {
        let asked = Instant::now();
        let answer = ask(&cursor);
        slowest = slowest.max(asked.elapsed());
        size = size.max(answer.len());
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        cursor = match (answer["next_cursor"].as_str(), answer["prev_before"].as_u64()) {
            (Some(next), _) => format!("&cursor={next}"),
            (None, Some(before)) => format!("&before={before}"),
            (None, None) => panic!("{path} ends early"),
        };
    }
    let grown = service.peak_memory().saturating_sub(before);
    let rows = size as f64 / 200.0 * ROWS as f64;
    (grown as f64 / rows, slowest)
}

fn lane(topic: Option<String>) -> Lane {
    Lane { team: "main".into(), topic: topic.map(Into::into) }
}

fn task(_: usize, ids: &Ids) -> Writes {
    let now = WallClock.now();
    let body = "Look at the figures of this month. ".repeat(10);
    let task = Task {
        kind: Kind::Delegate,
        outcome: Some(Outcome {
            text: "They are fine. ".repeat(20),
            ..Outcome::new(Ending::Done, now)
        }),
        ..Task::new(ids.task(), lane(None), body, "operator".to_owned(), now)
    };
    Writes::new().put(&FinishedTask::of(&task))
}

fn topic(number: usize, ids: &Ids) -> Writes {
    let now = WallClock.now();
    let topic = Topic {
        id: ids.topic(),
        name: format!("the figures of month {number}"),
        created_at: now,
        last_activity: now,
        closed: true,
        pinned: false,
        untitled: false,
        thinking: None,
        profile: None,
        branch: None,
        recent: Default::default(),
    };
    Writes::new().put_at(&topic.key(&format!("ws:{}", number % 100).into()), &topic)
}

fn notice(number: usize, ids: &Ids) -> Writes {
    Writes::new().put(&Notice {
        id: ids.notice(),
        kind: NoticeKind::DeadTask,
        team: Some("main".into()),
        text: format!("Task {number} was given up. {}", "Look at it. ".repeat(20)),
        refs: vec![format!("task-{number:016x}")],
        at: WallClock.now(),
        read: false,
    })
}

fn audit(number: usize, ids: &Ids) -> Writes {
    Writes::new().put(&Audit::new(
        ids,
        WallClock.now(),
        &"operator".into(),
        "team.pause",
        format!("team-{number}"),
        "api",
        "done",
    ))
}

fn happened(seq: u64, text: &str) -> HistoryEvent {
    HistoryEvent {
        seq,
        turn: "turn-1".into(),
        timestamp: WallClock.now(),
        fact: match text {
            "" => Fact::Meta(Meta::Reset),
            text => Fact::AssistantText { text: text.to_owned(), step: 1 },
        },
        redacted: false,
    }
}

fn session(_: usize, ids: &Ids) -> Writes {
    let lane = lane(Some(ids.topic().to_string()));
    Writes::new().events(&lane, 1, &[happened(1, "")])
}

/// Twenty answers are a turn.
fn event(number: usize, _: &Ids) -> Writes {
    let (turn, place) = (number / 20, number % 20);
    let happened = |seq: usize, text: &str| HistoryEvent {
        turn: format!("turn-{turn}").into(),
        ..happened((turn * 21 + seq) as u64 + 1, text)
    };
    let answer = happened(place + 1, &"They are fine. ".repeat(20));
    let start = HistoryEvent { fact: begun(), ..happened(0, "") };
    let events = match place {
        0 => vec![start, answer],
        _ => vec![answer],
    };
    Writes::new().events(&lane(None), 1, &events)
}

fn begun() -> Fact {
    Fact::TurnStart {
        task_ids: vec!["task-1".into()],
        team: "main".into(),
        topic: None,
        source_channel: None,
        attempt: 1,
        redelivered: false,
        sdk: "native".to_owned(),
        provider: "offline".to_owned(),
        model: "demo".to_owned(),
        prompt_hash: String::new(),
        toolset_hash: String::new(),
        cause: None,
        root: None,
        idle: None,
    }
}

fn trigger(number: usize, ids: &Ids) -> Writes {
    let config = Config::Keyword(Listen { pattern: "invoice".to_owned(), ..Listen::default() });
    let (name, task) = (format!("invoice-{number}"), "Look at the invoice. ".repeat(10));
    let definition = Definition::new(&name, config, &task);
    let (id, team) = (ids.trigger(), TeamKey::first("main"));
    Writes::new().put(&Trigger::new(id, team, definition, "operator", WallClock.now()))
}

fn usage(number: usize, ids: &Ids) -> Writes {
    let tally = Tally { requests: 1, usd: number as f64, ..Tally::default() };
    Writes::new().put_at(&(DayKey(20_261_115), ids.task()), &TaskCalls(tally))
}
