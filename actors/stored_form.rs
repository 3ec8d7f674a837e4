//! The stored form: under which keys the records of the spine stand. Stores of former versions are read by them.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    approvals::{question::Question, record::Approval},
    audit::Audit,
    budget::{
        Caller, Cost, Day, Spent, SpentRow, Tally,
        records::{DayKey, PurposeCalls, Raised, TaskCalls, Warned, calls, ended_calls},
    },
    channel::records::{ChannelRow, DeliveryMark, OutboxRow},
    clock::Timestamp,
    conversation_log::ConversationEntry,
    ids::{ChannelId, MessageId, TaskId, TeamKey},
    inbox::{InboxEvent, PartlyShown, ShownKey},
    interactions::Interaction,
    journal::records::{Began, Branch},
    notice::Notice,
    org::record::TeamRecord,
    plugin::records::{PluginState, TeamPlugin, WebhookCall},
    quarantine::{Quarantined, RecordKey},
    queue::causes::Counts,
    router::{
        audit::AuditRow,
        deleting::DeletedTopic,
        grants::SenderGrant,
        records::{HomeChannel, MessageRow, ReadMark, Undecided},
        topics::Topic,
    },
    scheduler::{
        index::Heard,
        records::{OpenRun, Payload},
        run::{Known, Run},
    },
    store::{
        keys::{Life, key_of},
        records::{Record, Writes},
    },
    task::{
        Lane, Task,
        records::{FinishedTask, LaneKey, TeamError},
    },
    tool::records::Answer,
};

fn row<T: DeserializeOwned>(row: Value) -> T {
    serde_json::from_value(row).unwrap()
}

fn lane() -> Lane {
    Lane { team: "main".into(), topic: Some("t-1".into()) }
}

fn task(outcome: Value) -> Task {
    let lane = Lane { team: "ops".into(), topic: None };
    let (body, from) = (String::new(), "ann".to_owned());
    Task { outcome: row(outcome), ..Task::new("task-1".into(), lane, body, from, Timestamp(5)) }
}

fn failed() -> Task {
    task(json!({
        "ending": "failed", "text": "", "finished_at": 258, "usage": { "input": 0, "output": 0 },
    }))
}

fn approval(status: &str) -> Approval {
    row(json!({
        "id": "apr-1", "short_id": "abcdef", "kind": "tool", "team": { "name": "ops", "generation": 1 },
        "requester": { "kind": "system" }, "arguments": {}, "summary": "", "risk": "normal", "label": "trusted",
        "digest": "", "nonce": "", "status": status, "created_at": 1, "expires_at": 2,
        "execution": "none",
    }))
}

fn question(status: &str) -> Question {
    row(json!({
        "id": "qst-1", "team": { "name": "ops", "generation": 1 }, "lane": lane(), "task": "task-1",
        "question": "", "kind": "text", "status": status, "lineage": { "root": "task-1", "path": [] },
        "cause": { "kind": "system" }, "created_at": 1, "expires_at": 2,
    }))
}

fn run() -> Run {
    row(json!({
        "id": "run-1", "trigger": "trg-1", "team": { "name": "ops", "generation": 1 },
        "cause": "schedule", "key": "k", "decision": "enqueued", "due_at": 7, "fired_at": 9, "outcome": null,
    }))
}

/// A key with `|` for what ends a text, and other bytes that are not printable in hexadecimal.
fn shown(key: &[u8]) -> String {
    let shown = key.iter().map(|byte| match byte {
        0 => "|".to_owned(),
        b'!'..=b'~' => char::from(*byte).to_string(),
        byte => format!("<{byte:02x}>"),
    });
    shown.collect()
}

/// What a commit does to which keys: `+` writes, `-` removes.
#[track_caller]
fn assert_keys(writes: Writes, expected: &[&str]) {
    let changes = writes.batch().unwrap().changes.into_iter();
    let mut keys: Vec<String> = changes
        .map(|(key, value)| format!("{}{}", if value.is_some() { '+' } else { '-' }, shown(&key)))
        .collect();
    keys.sort();
    assert_eq!(keys, expected);
}

/// OP-91
#[test]
fn tasks_and_journals_stand_where_they_stood() {
    let event = row(json!({
        "seq": 258, "turn": "turn-1", "timestamp": 1, "type": "assistant_text", "text": "", "step": 1,
    }));
    let waiting: InboxEvent = row(json!({ "id": "x", "text": "", "at": 1 }));
    let partly = PartlyShown(Cow::Borrowed(&waiting));
    let w = Writes::new;

    assert_keys(w().put(&task(Value::Null)), &["+task|task-1"]);
    assert_keys(
        w().put(&FinishedTask::of(&failed())),
        &["+done|task-1", "+end|||||||<01><02>ops|task-1", "+team_error|ops~1", "-task|task-1"],
    );
    assert_keys(ended_calls(&failed(), &Tally::default()), &["+end|||||||<01><02>ops|task-1"]);
    assert_keys(w().delete::<TeamError>(&TeamKey::first("ops")), &["-team_error|ops~1"]);
    assert_keys(w().events(&lane(), 2, &[event]), &["+hist|main~2|t-1|||||||<01><02>"]);
    assert_keys(w().put_at(&lane().session_id(2), &Began(Timestamp(1))), &["+began|main~2:t-1"]);
    let branch = Branch { of: "main:t-0".to_owned(), before: 7, at: Timestamp(1) };
    assert_keys(w().put_at(&lane().session_id(1), &branch), &["+branch|main:t-1"]);
    assert_keys(
        w().put_at(&(LaneKey::new(&lane(), 1), 3), &waiting),
        &["+inbox|main|t-1||||||||<03>"],
    );
    let no_topic = Lane { topic: None, ..lane() };
    assert_keys(
        w().put_at(&(LaneKey::new(&no_topic, 1), 3), &waiting),
        &["+inbox|main|main||||||||<03>"],
    );
    assert_keys(
        w().put_at(&ShownKey(LaneKey::new(&lane(), 2), "x".to_owned()), &partly),
        &["+inbox|main~2|<01>t-1|x"],
    );
    assert_keys(w().put_at(&"turn-1:1".to_owned(), &Answer(1)), &["+call|turn-1:1"]);
    assert_keys(w().put_at(&"task-1".into(), &Counts::default()), &["+cause|task-1"]);
    assert_keys(w().delete::<Counts>(&TaskId::from("task-1")), &["-cause|task-1"]);
}

/// OP-91
#[test]
fn conversations_stand_where_they_stood() {
    let channel = ChannelId::from("ws:1");
    let message = (channel.clone(), MessageId::from("m1"));
    let known: MessageRow = row(json!({ "digest": 1, "at": 1, "task": null }));
    let undecided: Undecided = row(json!({
        "channel": "ws:1", "id": "m1", "sender": "ann", "content": "", "at": 1, "acked": false,
        "named": true,
    }));
    let opened: ChannelRow = row(json!({ "principal": "ann", "last_seen": 1 }));
    let topic: Topic = row(json!({ "id": "t-1", "name": "", "created_at": 1, "last_activity": 1 }));
    let said: Interaction = row(json!({
        "channel": "ws:1", "topic": null, "task": "task-1", "at": 258, "said": [],
    }));
    let grant: SenderGrant = row(json!({
        "id": "g-1", "channel_type": "discord", "sender": "bob", "level": "trusted",
        "granted_by": "ann", "at": 1,
    }));
    let decision: AuditRow = row(json!({
        "id": "d-1", "at": 258, "channel_type": "ws", "channel": "ws:1", "sender": "ann",
        "allowed": true, "reason": "cli_bypass",
    }));
    let w = Writes::new;

    assert_keys(w().put_at(&message, &known), &["+msg|ws:1|m1"]);
    assert_keys(w().delete::<MessageRow>(&message), &["-msg|ws:1|m1"]);
    assert_keys(w().put(&undecided), &["+und|ws:1|m1"]);
    assert_keys(w().put_at(&channel, &opened), &["+chan|ws:1"]);
    assert_keys(w().put_at(&channel, &DeliveryMark::default()), &["+deliv|ws:1"]);
    assert_keys(w().put_at(&topic.key(&channel), &topic), &["+tchan|t-1", "+topic|ws:1|t-1"]);
    assert_keys(w().put(&said), &["+log|ws:1|||||||<01><02>task-1"]);
    assert_keys(w().put_at(&said.key_named("n"), &said), &["+log|ws:1|||||||<01><02>n"]);
    let place = ("t-1".to_owned(), Timestamp(258), "task-1".to_owned());
    assert_keys(
        w().put_at(&place, &ConversationEntry::Message),
        &["+conv|t-1|||||||<01><02>task-1"],
    );
    let mark = (channel.clone(), "t-1".to_owned());
    assert_keys(w().put_at(&mark, &ReadMark(Timestamp(1))), &["+read|ws:1|t-1"]);
    let deleted = DeletedTopic { channel: channel.clone(), created_at: Timestamp(1) };
    assert_keys(w().put_at(&"t-1".into(), &deleted), &["+deleted|t-1"]);
    let home = HomeChannel(channel.clone());
    assert_keys(w().put_at(&"operator".to_owned(), &home), &["+home|operator"]);
    assert_keys(w().put(&grant), &["+trust|grant|discord|bob|"]);
    assert_keys(w().put(&decision), &["+trust|audit|||||||<01><02>d-1"]);
    assert_eq!(shown(&key_of(OutboxRow::KIND, &(channel, 258))), "out|ws:1|||||||<01><02>");
}

/// OP-91
#[test]
fn what_operators_see_stands_where_it_stood() {
    let notice: Notice = row(json!({ "id": "n-1", "kind": "report", "text": "", "at": 1 }));
    let audit: Audit = row(json!({
        "id": "a-1", "at": 258, "actor": "ann", "action": "", "target": "", "from": "", "outcome": "",
    }));
    let team: TeamRecord = row(json!({
        "name": "ops", "generation": 17, "parent": null, "state": "active", "phase": "ready",
        "scope": [], "created_at": 1, "created_by": "ann",
    }));
    let copy: Quarantined = row(json!({ "record": "", "reason": "", "at": 1, "text": "" }));
    let of_plugin = json!({ "team": { "name": "ops", "generation": 2 }, "plugin": "weather" });
    let mut stands = of_plugin.clone();
    stands["status"] = json!("running");
    (stands["created_at"], stands["updated_at"]) = (json!(1), json!(1));
    let stands: TeamPlugin = row(stands);
    let mut kept = of_plugin;
    kept["state"] = json!({});
    let kept: PluginState = row(kept);
    let w = Writes::new;

    assert_keys(w().put(&notice), &["+notice|n-1"]);
    assert_keys(w().put(&audit), &["+audit|||||||<01><02>a-1"]);
    assert_keys(w().put(&team), &["+team|ops|00000011"]);
    assert_keys(w().put(&stands), &["+team_plugin|ops~2|weather"]);
    assert_keys(w().put(&kept), &["+plugin_state|ops~2|weather"]);
    let call = (kept.team.clone(), kept.plugin.clone(), "id:1".to_owned());
    assert_keys(
        w().put_at(&call, &WebhookCall { at: Timestamp(5) }),
        &["+plugin_call|ops~2|weather|id:1"],
    );
    assert_keys(
        w().put(&approval("pending")),
        &["+apr-open|apr-1", "+apr-short|abcdef", "+apr|apr-1"],
    );
    assert_keys(w().put(&approval("denied")), &["+apr|apr-1", "-apr-open|apr-1"]);
    assert_keys(w().put(&question("open")), &["+qst-open|qst-1", "+qst|qst-1"]);
    assert_keys(w().put(&question("answered")), &["+qst|qst-1", "-qst-open|qst-1"]);
    assert_keys(w().put_at(&RecordKey::of(b"task\0x"), &copy), &["+quarantine|task|x"]);
    let long = format!("+quarantine|{}{}", "k".repeat(900), "156dfe4694b8e4fd");
    assert_keys(w().put_at(&RecordKey::of(&[b'k'; 1000]), &copy), &[&long]);
}

/// OP-91
#[test]
fn accounts_stand_where_they_stood() {
    let day = Day { number: 20_261_115, ends_at: Timestamp(0) };
    let today = DayKey(day.number);
    let second = TeamKey { name: "ops".into(), generation: 2 };
    let spent = SpentRow { own: Spent::default(), above: None };
    let (tally, own) = (Tally::default(), Spent::default());
    let caller =
        |team: &TeamKey| Caller { team: team.clone(), profile: "p".into(), model: "m".into() };
    let cost = Cost { tasks: vec!["a".into(), "b".into(), "c".into()], spent: own };
    let w = Writes::new;

    assert_keys(
        w().put_at(&(today, Life(TeamKey::first("ops"))), &spent),
        &["+spend|20261115|ops"],
    );
    assert_keys(w().put_at(&(today, Life(second.clone())), &spent), &["+spend|20261115|ops~2"]);
    assert_keys(w().put_at(&(today, Life(second.clone())), &Raised(1)), &["+raise|20261115|ops~2"]);
    assert_keys(w().put_at(&(today, "ops".into()), &Warned(true)), &["+warned|20261115|ops"]);
    let first = caller(&TeamKey::first("ops"));
    assert_keys(calls(day, &first, &tally, &own), &["+use|20261115|ops|p|m"]);
    assert_keys(calls(day, &caller(&second), &tally, &own), &["+use|20261115|ops~2|p|m"]);
    assert_keys(
        w().put_at(&(today, "task-1".into()), &TaskCalls(tally)),
        &["+use-task|20261115|task-1"],
    );
    assert_keys(
        w().put_at(&(today, "titles".to_owned()), &PurposeCalls(tally)),
        &["+use-for|20261115|titles"],
    );
    assert_keys(w().put(&cost), &["+cost|a|c"]);
}

/// OP-91
#[test]
fn triggers_stand_where_they_stood() {
    let run = run();
    let known: Known = row(json!({ "trigger": "trg-1", "key": "k", "run": "run-1", "at": 1 }));
    let heard: Heard = row(json!({
        "channel": "ws:1", "message": "m1", "sender": "", "content": "", "at": 1,
    }));
    let stored = "+edge|run|ops~1/trg-1/00000000000000000009/00000000000000000007/run-1";
    let w = Writes::new;

    assert_keys(w().put(&run), &[stored]);
    assert_keys(
        w().put_at(&"task-1".into(), &OpenRun(Cow::Borrowed(&run))),
        &["+edge|run.open|task-1"],
    );
    assert_keys(
        w().put_at(&"run-1".into(), &Payload("x".to_owned())),
        &["+edge|run.payload|run-1"],
    );
    assert_keys(w().put(&known), &["+edge|run.key|trg-1/k"]);
    assert_keys(w().put(&heard), &["+edge|heard|ws:1/m1"]);
}
