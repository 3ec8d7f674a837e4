//! What the service tells of turns under way, recorded for the page: `tests/ui/fold.test.js` takes the same events in and
//! must come to the same turns.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    doubles::clock::ManualClock,
    live::{
        Mark, Publisher,
        event::{Event, Moment, Stream},
        watch::Filter,
    },
    store::records::Record,
    task::{
        Lane, Parked, Task, WaitReason,
        outcome::{Code, Ending, Outcome},
    },
    usage::Usage,
};
use serde_json::{Value, json};

use crate::{
    api::topics::RunningTurn, http::routes::events, logging::Secrets, tests::assert_snapshot,
};

fn turn(task: &str, turn: &str, moment: Moment) -> Event {
    let topic = "t-1".into();
    let task = task.into();
    Event::turn(&"main".into(), Some(&topic), Some(&task), &turn.into(), moment)
}

fn start(body: &str) -> Moment {
    Moment::TurnStart {
        session_id: "main:t-1".to_owned(),
        from: "ann".to_owned(),
        body: body.to_owned(),
        sdk: "native".to_owned(),
        provider: "offline".to_owned(),
        model: "demo".to_owned(),
        attempt: 1,
        redelivered: false,
    }
}

fn says(text: &str) -> Moment {
    let data = text.to_owned();
    let value = Stream::Text { data };
    Moment::Stream { value }
}

fn thinks(text: &str) -> Moment {
    let data = text.to_owned();
    let value = Stream::Thinking { data };
    Moment::Stream { value }
}

fn reset() -> Moment {
    let value = Stream::Reset;
    Moment::Stream { value }
}

fn call(id: &str) -> Moment {
    let value = Stream::ToolCall {
        id: id.into(),
        name: "read".to_owned(),
        arguments: json!({"file_path": "notes.md"}),
    };
    Moment::Stream { value }
}

fn runs(id: &str) -> Moment {
    let value = Stream::ToolStart { id: id.into(), tool_name: "read".to_owned() };
    Moment::Stream { value }
}

fn result(id: &str, content: &str, is_error: bool) -> Moment {
    let value = Stream::ToolResult {
        id: id.into(),
        name: "read".to_owned(),
        content: content.to_owned(),
        is_error,
        truncated: false,
        duration_ms: 3,
    };
    Moment::Stream { value }
}

fn state(state: &'static str, reason: Option<&'static str>, step: Option<u32>) -> Moment {
    Moment::State {
        state,
        reason,
        step,
        usage: step.map(|_| Usage { input: 10, ..Usage::default() }),
    }
}

fn end() -> Moment {
    Moment::TurnEnd {
        ok: true,
        outcome: Ending::Done,
        code: None,
        note: None,
        usage: Usage::default(),
        duration_ms: 5,
        steps: 1,
    }
}

fn task(id: &str, change: impl FnOnce(&mut Task)) -> Event {
    let lane = Lane { team: "main".into(), topic: Some("t-1".into()) };
    let asked = Timestamp(1_700_000_000_000);
    let mut task = Task::new(id.into(), lane, "hello".to_owned(), "ann".to_owned(), asked);
    change(&mut task);
    task.told(&task.id).unwrap()
}

/// Every way in which a turn goes on, begins again, or is no more.
fn happenings() -> Vec<Event> {
    let one = |moment| turn("task-1", "turn-1", moment);
    let outcome = Outcome::new(Ending::Cancelled, Timestamp(1));
    let leased = |task: &mut Task| task.lease = Some("lease".into());
    let parked = |task: &mut Task| {
        task.parked =
            Some(Parked { reason: WaitReason::Approval, since: Timestamp(1), until: None });
    };
    vec![
        task("task-1", |_| {}),
        one(start("hello")),
        task("task-1", leased),
        one(thinks("Hm, ä € 😀.")),
        one(says("A paragraph 😀.\n\n")),
        one(says("Another one.")),
        one(state("running", None, Some(1))),
        one(call("c1")),
        // It waits for a person, and goes on with what it has said.
        one(state("waiting", Some("approval"), None)),
        task("task-1", parked),
        task("task-1", |_| {}),
        one(start("")),
        one(runs("c1")),
        one(result("c1", &"long ".repeat(200), false)),
        // A step that breaks off takes back what it has said, and no more.
        one(thinks("And now?")),
        one(says("Half a sen")),
        one(reset()),
        one(thinks("Again.")),
        one(says("A whole ")),
        one(says("sentence.\n\nTwo of them.")),
        one(Moment::Note { text: "patience".to_owned(), level: "info" }),
        // An engine that runs tools within its step, and names calls anew.
        one(call("c1")),
        one(result("c1", "no such file", true)),
        one(says("Then not.")),
        one(state("running", None, Some(2))),
        one(says("A last word.")),
        // Put aside, tried again, cut off, tried again by another turn.
        one(state("stopped", Some(Code::Overloaded.as_str()), None)),
        task("task-1", |_| {}),
        one(start("hello")),
        one(says("From the beginning.")),
        task("task-1", |_| {}),
        turn("task-1", "turn-2", start("hello")),
        turn("task-1", "turn-2", says("Once more.")),
        // Beside it another one.
        turn("task-2", "turn-3", start("me too")),
        turn("task-2", "turn-3", says("Yes.")),
        turn("task-1", "turn-2", end()),
        task("task-2", |task| task.outcome = Some(outcome)),
    ]
}

/// OP-44, OP-45, OP-67
#[actix::test]
async fn the_page_has_a_true_record_of_turns_under_way() {
    let clock = Arc::new(ManualClock::default());
    let live = Publisher::new(3, clock.clone());
    let mut watch = live.watch(Some(Mark { boot: 3, seq: 0 }), Filter::default());
    let mut record = Vec::new();
    for event in happenings() {
        clock.advance(Duration::from_secs(1));
        live.publish(event);
        let (mark, running) = live.running();
        let running: Vec<_> =
            running.into_iter().map(|turn| RunningTurn::new(mark.boot, turn)).collect();
        // What says nothing new is not told.
        let Some(batch) = watch.take() else { continue };
        let [told] = batch.events.as_slice() else {
            panic!("one thing happened: {:?}", batch.events);
        };
        let text = events::event(mark.boot, told, &Secrets::default());
        let (_, data) = text.split_once("data: ").unwrap();
        let step = json!({
            "type": told.event.kind.as_str(),
            "data": serde_json::from_str::<Value>(data).unwrap(),
            "running": running,
        });
        record.push(step.to_string());
    }
    let record = format!("[\n{}\n]\n", record.join(",\n"));

    assert_snapshot("tests/ui/fixtures/turns.json", &record, module_path!());
}
