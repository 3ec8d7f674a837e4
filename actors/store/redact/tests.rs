use std::sync::Arc;

use actix::Arbiter;
use serde_json::json;

use super::*;
use crate::{
    briefing::Speaker,
    channel::records::OutboxWrites,
    clock::Timestamp,
    conversation_log::ConversationEntry,
    doubles::{
        disk::{Disk, MemoryStorage},
        redactor::Knows,
    },
    frame::{Body, Frame, Notification, NotificationKind, Progress, ProgressKind},
    history::{Fact, HistoryEvent, Meta, Origin},
    ids::{ChannelId, TeamKey},
    inbox::InboxEvent,
    interactions::{Interaction, Said},
    journal::records::Piece,
    notice::{Notice, NoticeKind},
    router::{records::Undecided, topics::Topic},
    scheduler::trigger::{
        Trigger,
        config::{Config, Listen},
        definition::Definition,
    },
    spine,
    store::{
        Store, StoreError, StoreHandle, StoreParts,
        keys::{key_of, printable},
        reads::{Range, get, scan},
        records::Writes,
    },
    task::{
        Label, Lane, Task, WaitReason,
        outcome::{Ending, Outcome},
        records::{FinishedTask, LaneKey, TeamError},
    },
    tool::Effect,
    usage::Usage,
};

/// Records of the edges that hold words.
const NOTES: &[Texts] =
    &[Texts { kind: "edge\0note", owner: Owner::At("/team"), fields: &["text"], names: &[] }];

/// A store over a disk, and what will be a secret of these teams.
fn open(
    disk: &Disk,
    value: &'static str,
    teams: &'static [&'static str],
) -> (StoreHandle, Arc<MemoryStorage>, Arc<Knows>) {
    let storage = disk.mount(None);
    let knows = Arc::new(Knows::later(value, teams));
    let texts = spine::TEXTS.iter().copied().chain([NOTES]);
    let redaction = Some(Redaction::new(knows.clone(), texts));
    let parts = StoreParts { redaction, ..StoreParts::of(storage.clone()) };
    (Store::start(&Arbiter::current(), parts), storage, knows)
}

fn lane(team: &str) -> Lane {
    Lane { team: team.into(), topic: (team == MAIN).then(|| "t-1".into()) }
}

fn event(seq: u64, fact: Fact) -> HistoryEvent {
    HistoryEvent { seq, turn: "turn-1".into(), timestamp: Timestamp(seq), fact, redacted: false }
}

fn text(seq: u64, text: &str) -> HistoryEvent {
    let text = text.to_owned();
    event(seq, Fact::AssistantText { text, step: 1 })
}

fn task(id: &str, team: &str, body: &str) -> Task {
    Task::new(id.into(), lane(team), body.to_owned(), "ann".to_owned(), Timestamp(0))
}

fn ended(id: &str, team: &str, text: &str) -> Task {
    Task {
        outcome: Some(Outcome {
            message: Some(text.to_owned()),
            text: text.to_owned(),
            report: Some(json!({ "note": text, "pin": [text] })),
            ..Outcome::new(Ending::Done, Timestamp(1))
        }),
        ..task(id, team, text)
    }
}

fn trigger(team: &str, words: &str) -> Trigger {
    let config = Config::Keyword(Listen { pattern: words.to_owned(), ..Listen::default() });
    let definition = Definition::new("alarm", config, words);
    let cursors = [("last".to_owned(), words.to_owned())].into();
    let team = TeamKey::first(team);
    Trigger { cursors, ..Trigger::new("trg-1".into(), team, definition, "main", Timestamp(0)) }
}

/// A turn with words in everything that a journal keeps of one.
fn turn(words: &str) -> Vec<HistoryEvent> {
    let said = words.to_owned();
    vec![
        event(
            1,
            Fact::User {
                text: said.clone(),
                from: "ann".to_owned(),
                origin: Origin::Person,
                label: Label::Trusted,
                task_id: "task-1".into(),
                files: Vec::new(),
            },
        ),
        event(
            2,
            Fact::AssistantThinking {
                text: said.clone(),
                step: 1,
                block: Some(json!({ "thinking": words, "signature": "x" })),
            },
        ),
        text(3, "harmless"),
        event(
            4,
            Fact::ToolCall {
                id: "call-1".into(),
                name: "write".to_owned(),
                args: json!({ "content": words, words: 1 }),
                step: 1,
                effect: Effect::Pure,
                idempotency_key: "key".to_owned(),
            },
        ),
        event(
            5,
            Fact::ToolResult {
                id: "call-1".into(),
                name: "write".to_owned(),
                content: said.clone(),
                fault: None,
                duration_ms: 1,
                truncated: false,
                taints: false,
                rule: None,
                approved: false,
                files: Vec::new(),
                pictures: Vec::new(),
            },
        ),
        event(6, Fact::Meta(Meta::Parked(WaitReason::Approval))),
        event(
            7,
            Fact::TurnEnd {
                outcome: Ending::Done,
                code: None,
                message: Some(said.clone()),
                text: said.clone(),
                steps: 1,
                usage: Usage::default(),
                duration_ms: 1,
            },
        ),
    ]
}

/// One record of every kind that holds words, of a team; those of channels are the main team's.
fn everything(team: &str, words: &str) -> Writes {
    of_team(team, words)
        .and(of_channel(words))
        .put_json(key_of("edge\0note", "1"), &json!({ "team": team, "text": words }))
}

fn of_team(team: &str, words: &str) -> Writes {
    let said = words.to_owned();
    Writes::new()
        .events(&lane(team), 1, &turn(words))
        .put(&task("task-1", team, words))
        .put(&FinishedTask::of(&ended("task-2", team, words)))
        .put(&trigger(team, words))
        .put_at(
            &TeamKey::first(team),
            &TeamError {
                task_id: "task-3".into(),
                code: None,
                message: said.clone(),
                at: Timestamp(0),
            },
        )
        .put_at(
            &(LaneKey::new(&lane(team), 1), 1),
            &InboxEvent {
                id: "i".to_owned(),
                text: said.clone(),
                label: Label::Trusted,
                at: Timestamp(0),
                audience: None,
            },
        )
}

fn of_channel(words: &str) -> Writes {
    let (channel, said) = (ChannelId::from("ws:1"), words.to_owned());
    Writes::new()
        .put(&Undecided {
            channel: "ws:1".into(),
            id: "m-1".into(),
            sender: "ann".to_owned(),
            content: said.clone(),
            topic: None,
            at: Timestamp(0),
            acked: false,
            told: false,
            named: false,
            admission: None,
            label: Label::Trusted,
            cause: None,
            notify: None,
            team: None,
            steers: false,
            files: Vec::new(),
        })
        .put_at(
            &(channel.clone(), "t-1".into()),
            &Topic::new("t-1".into(), said.clone(), Timestamp(0)),
        )
        .put(&Interaction {
            channel: channel.clone(),
            channel_type: None,
            topic: None,
            task: None,
            at: Timestamp(0),
            duration_ms: None,
            said: vec![Said::new(
                Timestamp(0),
                Speaker::Person("ann".to_owned()),
                words,
                Label::Trusted,
            )],
            trust_decision: None,
        })
        .put(&Notice {
            id: "n-1".into(),
            kind: NoticeKind::Report,
            team: None,
            text: said.clone(),
            refs: Vec::new(),
            at: Timestamp(0),
            read: false,
        })
        .frame(
            &channel,
            Frame {
                topic: None,
                ts: Timestamp(0),
                body: Body::Progress(Progress::new(ProgressKind::Note, words)),
            },
        )
        .put_at(
            &("t-1".to_owned(), Timestamp(0), "ops".to_owned()),
            &ConversationEntry::Notification(Notification::new(
                NotificationKind::Task,
                "ops".into(),
                said,
                "",
            )),
        )
}

/// All that is stored, as text.
fn stored(storage: &dyn Storage) -> String {
    let mut all = String::new();
    storage
        .scan(&[], &[0xff], Order::Rising, &mut |key, value| {
            all.push_str(&printable(key));
            all.push_str(&String::from_utf8_lossy(value.unwrap()));
            all.push('\n');
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

fn journal(storage: &dyn Storage, team: &str, generation: u32) -> Vec<HistoryEvent> {
    let lane = LaneKey::new(&lane(team), generation);
    let pieces = scan::<Piece<'_>>(storage, Range::under(&(&lane,))).unwrap();
    pieces.into_iter().flat_map(|Piece(events)| events.into_owned()).collect()
}

const VALUE: &str = "hunter22";

/// MV-52
#[actix::test]
async fn what_became_a_secret_is_taken_out_of_every_kind_of_record() {
    let disk = Disk::default();
    let (store, storage, knows) = open(&disk, VALUE, &[MAIN]);
    let before = "it is hunter22, no?";
    store.commit(everything(MAIN, before)).await.unwrap();
    let records = stored(&*storage).lines().count();

    knows.learn_secret();
    let first = store.redact(Writes::new()).await.unwrap();
    let second = store.redact(Writes::new()).await.unwrap();

    let after = stored(&*storage);
    assert!(!after.contains(VALUE), "{after}");
    assert_eq!(after.lines().count(), records);
    // All but the one in the order of ends, and the one that a topic's channel is found by: they have no words.
    assert_eq!((first, second), (records - 2, 0));
    let clean = "it is ${vault:K}, no?";
    let journal = journal(&*storage, MAIN, 1);
    let marks: Vec<_> = journal.iter().map(|event| event.redacted).collect();
    assert_eq!(marks, [true, true, false, true, true, false, true]);
    let seqs: Vec<_> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6, 7]);
    assert!(
        matches!(&journal[1].fact, Fact::AssistantThinking { text, block: None, .. } if text == clean)
    );
    assert!(matches!(&journal[3].fact, Fact::ToolCall { args, .. }
            if *args == json!({ "content": clean, clean: 1 })));
    let open = scan::<Task>(&*storage, Range::all()).unwrap();
    assert_eq!(open, [task("task-1", MAIN, clean)]);
    assert_eq!(scan::<Trigger>(&*storage, Range::all()).unwrap(), [trigger(MAIN, clean)]);
}

/// MV-52: what a running turn has in memory does not bring it back.
#[actix::test]
async fn what_is_written_later_does_not_hold_it() {
    let (store, storage, knows) = open(&Disk::default(), VALUE, &[MAIN]);
    knows.learn_secret();

    store.commit(everything(MAIN, VALUE)).await.unwrap();

    let after = stored(&*storage);
    assert!(!after.contains(VALUE), "{after}");
    assert_eq!(journal(&*storage, MAIN, 1).len(), 7);
}

/// MV-52: a team's secrets concern its lineage alone.
#[actix::test]
async fn what_other_teams_wrote_stays_as_it_is() {
    let (store, storage, knows) = open(&Disk::default(), VALUE, &["ops"]);
    let words = [text(1, VALUE)];
    let writes = Writes::new()
        .events(&lane("ops"), 1, &words)
        .events(&lane("dev"), 1, &words)
        .events(&lane("dev"), 2, &words)
        .put(&task("task-1", "ops", VALUE))
        .put(&task("task-2", "dev", VALUE));
    store.commit(writes).await.unwrap();

    knows.learn_secret();
    let redacted = store.redact(Writes::new()).await.unwrap();

    assert_eq!(redacted, 2);
    assert_eq!(journal(&*storage, "dev", 1), words);
    assert_eq!(journal(&*storage, "dev", 2), words);
    assert_eq!(
        journal(&*storage, "ops", 1),
        [HistoryEvent { redacted: true, ..text(1, "${vault:K}") }]
    );
}

/// MV-52: nobody can make records unreadable by a value that is the same as a name in them.
#[actix::test]
async fn names_in_records_are_no_words() {
    for value in ["assistant", "approval", "task-1", "main", "turn-1", "t-1"] {
        let disk = Disk::default();
        let (store, storage, knows) = open(&disk, value, &[MAIN]);
        knows.learn_secret();

        store.commit(everything(MAIN, "harmless")).await.unwrap();
        store.redact(Writes::new()).await.unwrap();

        let journal = journal(&*storage, MAIN, 1);
        assert!(journal.iter().all(|event| !event.redacted), "{value}");
        assert_eq!(journal.len(), 7, "{value}");
        let open = scan::<Task>(&*storage, Range::all()).unwrap();
        assert_eq!(open, [task("task-1", MAIN, "harmless")], "{value}");
    }
}

/// MV-52, SE-30: looking again changes nothing that has changed meanwhile.
#[actix::test]
async fn a_task_that_ended_meanwhile_does_not_come_back() {
    let (store, storage, knows) = open(&Disk::default(), VALUE, &["ops"]);
    let open = task("task-1", "ops", VALUE);
    store.commit(Writes::new().put(&open)).await.unwrap();
    knows.learn_secret();
    let (held, _) = store.redaction.as_ref().unwrap().held(&*storage).unwrap();

    // In one group, and in two.
    let ended = store.commit(Writes::new().put(&FinishedTask::of(&ended("task-1", "ops", VALUE))));
    let same = store.commit(Writes::new().look_again(&held));
    ended.await.unwrap();
    same.await.unwrap();
    store.commit(Writes::new().look_again(&held)).await.unwrap();

    assert_eq!(held.len(), 1);
    assert_eq!(scan::<Task>(&*storage, Range::all()).unwrap(), []);
    assert!(!stored(&*storage).contains(VALUE));
}

/// MV-52: a record that cannot be read now is not taken for one without secrets: the others are cleaned, and it is, the
/// next time.
#[actix::test]
async fn a_secret_in_a_record_that_cannot_be_read_is_not_forgotten() {
    let (store, storage, knows) = open(&Disk::default(), VALUE, &["ops"]);
    for id in ["task-1", "task-2"] {
        store.commit(Writes::new().put(&task(id, "ops", VALUE))).await.unwrap();
    }
    knows.learn_secret();
    let (held, _) = store.redaction.as_ref().unwrap().held(&*storage).unwrap();
    storage.scratch(held[0].clone());

    let noted = task("task-3", "ops", "noted");
    let unread = store.redact(Writes::new().put(&noted)).await;
    let told = store.redactions();
    let refused = store.commit(Writes::new().look_again(&held[..1])).await;
    storage.mend();
    let left = store.redact(Writes::new()).await;

    let reason = || StorageError::Read("wrong checksum".to_owned());
    assert_eq!(unread, Err(reason()));
    assert_eq!(refused, Err(StoreError::Unreadable(reason())));
    assert_eq!(left, Ok(1));
    // Whatever comes of the rest, it is noted that something was taken out.
    assert_eq!(get::<Task>(&*storage, &noted.id), Ok(Some(noted)));
    // Whoever keeps a copy hears of the half that was cleaned: the next try finds nothing in it.
    assert_eq!((told, store.redactions()), (1, 2));
    assert!(!stored(&*storage).contains(VALUE));
}
