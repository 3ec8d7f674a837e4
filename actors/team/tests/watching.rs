//! What whoever watches is told of a turn.

use std::time::Duration;

use serde_json::json;

use super::crash::settle;
use crate::{
    doubles::{
        disk::Crash,
        engine::{Play, last_words, seconds},
        world::World,
    },
    engine::EngineEvent,
    live::{
        Mark,
        event::{Data, Kind, Moment, Stream},
        watch::Filter,
    },
    spine::Spine,
};

fn world() -> World {
    World::new(|request| match (last_words(request), request.step) {
        ("long", 1) => {
            vec![Play::Say("Let me "), Play::Say("see."), Play::Call(vec![("c1", "look")])]
        }
        _ => vec![Play::Say("All done."), Play::Answer],
    })
}

/// All that was told, in short.
fn told(spine: &Spine) -> Vec<String> {
    let mut watch = spine.live.watch(Some(Mark { boot: 1, seq: 0 }), Filter::default());
    let mut told = Vec::new();
    while let Some(batch) = watch.take() {
        told.extend(
            batch.events.iter().filter_map(|event| short(&event.event.data, event.event.kind)),
        );
    }
    told
}

fn short(data: &Data, kind: Kind) -> Option<String> {
    match data {
        Data::Task(task) => Some(format!("task {}", task.state)),
        Data::Message(said) => Some(format!("{} {}", said.direction, said.text)),
        Data::Turn(turn) => match &turn.moment {
            Moment::TurnStart { body, .. } => Some(format!("start {body}")),
            Moment::TurnEnd { outcome, .. } => Some(format!("end {}", outcome.as_str())),
            Moment::Stream { value } => Some(match value {
                Stream::Text { data } => format!("text {data}"),
                Stream::ToolCall { id, .. } => format!("call {id}"),
                Stream::ToolStart { id, .. } => format!("runs {id}"),
                Stream::ToolResult { id, .. } => format!("result {id}"),
                Stream::ToolEnd { id, .. } => format!("ran {id}"),
                Stream::Done { .. } => "done".to_owned(),
                other => json!(other).to_string(),
            }),
            Moment::State { state, step, .. } => Some(format!("{state} {step:?}")),
            Moment::Note { text, .. } => Some(text.clone()),
        },
        Data::Json(_) => (kind == Kind::TopicChanged).then(|| "topic".to_owned()),
    }
}

/// OP-46, EN-118 to EN-121
#[actix::test]
async fn a_turn_is_told_as_it_happens() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "long");
    client.hear_end_of("m1").await;
    settle().await;

    assert_eq!(
        told(&spine),
        [
            "topic",
            "inbound long",
            "task running",
            "start long",
            "text Let me see.",
            "running Some(1)",
            "call c1",
            "runs c1",
            "ran c1",
            "result c1",
            "text All done.",
            "running Some(2)",
            "done",
            "end done",
            "outbound All done.",
            "task done",
        ]
    );
    assert!(spine.live.running().1.is_empty());
}

/// OP-06, OP-41: what a crash takes back was never told. The start of a turn is in the row of its leased task
/// before it is in the journal.
#[actix::test]
async fn only_what_is_durable_is_told() {
    for number in 1..8 {
        let world = world();
        let spine = world.start_doomed(Crash::Before(number));
        let client = world.connect(&spine);

        client.say("m1", "long");
        settle().await;

        let told = told(&spine);
        let is_told = |start: &str| told.iter().any(|line| line.starts_with(start));
        let stored = |prefix: &str| !world.disk.keys(prefix).is_empty();
        let leased = stored("task/") || stored("done/");
        assert!(!is_told("task running") || leased, "{number}: {told:?}");
        assert!(!is_told("start") || leased, "{number}: {told:?}");
        assert!(!is_told("call") || stored("hist/"), "{number}: {told:?}");
        assert!(!is_told("end") || stored("done/"), "{number}: {told:?}");
        assert!(!is_told("outbound") || stored("out/"), "{number}: {told:?}");
    }
}

/// OP-46: the first words at once, also behind thoughts; later ones a few times a second.
#[actix::test]
async fn the_first_words_are_told_at_once() {
    let wait = || Play::Wait(Duration::from_millis(20));
    let world = World::new(move |_| {
        vec![
            Play::Report(EngineEvent::Thinking("Hm.".to_owned())),
            Play::Report(EngineEvent::Thinking(" Well.".to_owned())),
            Play::Say("One, "),
            wait(),
            Play::Say("two, "),
            wait(),
            Play::Say("three."),
            seconds(1),
            Play::Answer,
        ]
    });
    let spine = world.start();
    let client = world.connect(&spine);
    let texts = || {
        let told = told(&spine).into_iter();
        told.filter(|line| line.starts_with("text ")).collect::<Vec<_>>()
    };

    client.say("m1", "count");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let at_first = texts();
    client.hear_end_of("m1").await;

    assert_eq!(at_first, ["text One, "]);
    assert_eq!(texts(), ["text One, ", "text two, three."]);
}

/// OP-46, EN-118: the start of a turn is told while the model thinks, before anything of it is stored; and once.
#[actix::test]
async fn a_turn_that_thinks_is_seen_to_run() {
    let world = World::new(|_| vec![seconds(1), Play::Say("Fine."), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "think");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let (at_first, stored) = (told(&spine), world.disk.keys("hist"));
    let running = spine.live.running().1;
    client.hear_end_of("m1").await;
    settle().await;

    assert_eq!(at_first.last().unwrap(), "start think");
    assert_eq!(stored, [""; 0]);
    assert_eq!(running[0].active_turn.user_text, "think");
    let starts = told(&spine).into_iter().filter(|line| line.starts_with("start "));
    assert_eq!(starts.collect::<Vec<_>>(), ["start think"]);
}
