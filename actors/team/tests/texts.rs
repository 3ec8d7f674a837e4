//! Long texts: what is cut says so, and the rest can be read.

use std::sync::atomic::Ordering;

use super::crash::settle;
use crate::{
    channel_type::ChannelType,
    clock::{Timestamp, millis},
    doubles::{
        engine::{Play, last_words, seconds},
        world::World,
    },
    engine::Message,
    frame::FRAME_TEXT,
    inbox::{self, InboxEvent},
    interactions::Interaction,
    queue::{Enqueue, Told},
    store::{
        reads::{Range, scan},
        records::Writes,
    },
    task::{
        Kind, Label, Lane, OnResult, Source, Task,
        records::{self as tasks, FinishedTask, LaneKey},
    },
};

fn lane(topic: &str) -> Lane {
    Lane { team: "main".into(), topic: Some(topic.into()) }
}

/// What the last turn was asked.
fn asked(world: &World) -> String {
    let asked = world.asked.lock().unwrap();
    match asked.last().unwrap().last() {
        Some(Message::User(text)) => text.clone(),
        other => unreachable!("{other:?}"),
    }
}

/// OR-67: of 100,000 characters none is lost: the turn is shown the first, and the whole stays where
/// that turn reads it, and no other lane.
#[actix::test]
async fn a_long_message_for_a_team_is_shown_cut_and_kept_whole() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    world.tools.reads.store(true, Ordering::Relaxed);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "hello");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    let event = InboxEvent {
        id: "m-9".to_owned(),
        text: "a".repeat(99_999) + "z",
        label: Label::Trusted,
        at: Timestamp(1),
        audience: None,
    };
    let writes = Writes::new().put_at(&(LaneKey::new(&lane(&topic), 1), 1), &event);
    spine.store.commit(writes).await.unwrap();
    spine.queue.do_send(Told(LaneKey::new(&lane(&topic), 1)));

    client.say_in(&topic, "m2", "go on");
    client.hear_end_of("m2").await;

    let mark = r#"aaa … [92000 more characters: list_completed_tasks {"id":"m-9","offset":8000}]"#;
    let shown = asked(&world);
    assert!(shown.contains(mark), "{shown}");
    let here = lane(&topic);
    let kept = spine.store.read(move |storage| {
        let other = lane("t-other");
        Ok((
            inbox::waiting(storage, &here, 1)?.len(),
            inbox::partly_shown(storage, &here, 1, "m-9")?,
            inbox::partly_shown(storage, &other, 1, "m-9")?,
            inbox::partly_shown(storage, &here, 2, "m-9")?,
        ))
    });
    assert_eq!(kept.await.unwrap(), (0, Some(event), None, None));
}

/// SE-12: the person is told that there is more where that came from.
#[actix::test]
async fn an_answer_that_the_output_limit_cut_says_so() {
    let world = World::new(|_| vec![Play::Say("Once upon a"), Play::Cut]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "tell me a story");
    let end = loop {
        let frame = client.frame().await;
        if frame["type"] == "response" {
            break frame;
        }
    };

    assert_eq!(
        (&end["content"], &end["status"], &end["truncated"]),
        (&"Once upon a".into(), &"done".into(), &true.into())
    );
    let id = end["task_id"].as_str().unwrap().into();
    let task = spine.store.read(move |storage| tasks::find(storage, &id));
    let outcome = task.await.unwrap().unwrap().outcome.unwrap();
    assert!(outcome.truncated);
}

/// What is told of work that no message waits for.
async fn told(world: &World) -> serde_json::Value {
    let spine = world.start();
    let client = world.connect(&spine);
    let task = Task {
        kind: Kind::Delegate,
        source: Some(Source::channel(client.channel.clone())),
        on_result: OnResult::Notify,
        ..Task::new(
            "task-9".into(),
            lane("t-9"),
            "tell me a story".to_owned(),
            "main".to_owned(),
            Timestamp(1_000_000_000),
        )
    };
    spine.queue.do_send(Enqueue { task, writes: Writes::new() });
    loop {
        let frame = client.frame().await;
        if frame["type"] == "notification" {
            break frame;
        }
    }
}

/// SE-12: the same of work that no message waits for.
#[actix::test]
async fn a_notification_of_an_answer_that_the_output_limit_cut_says_so() {
    let world = World::new(|_| vec![Play::Say("Once upon a"), Play::Cut]);

    let told = told(&world).await;

    assert_eq!(
        (&told["content"], &told["truncated"]),
        (&"[main] Once upon a".into(), &true.into())
    );
}

/// CH-60
#[actix::test]
async fn a_notification_longer_than_a_frame_is_marked() {
    let world = World::new(|_| vec![Play::Say(kept()), Play::Answer]);

    let told = told(&world).await;

    let mark = format!(
        " … [{} more characters: `hivewright tasks show task-9`]",
        "[main] ".len() + kept().len() - FRAME_TEXT
    );
    assert!(told["content"].as_str().unwrap().ends_with(&mark));
    assert_eq!(told["truncated"], true);
}

/// CH-60: the reason of a failure stands beside the text so far, and is cut with a mark too.
#[actix::test]
async fn a_long_reason_of_a_failure_is_marked() {
    let world = World::new(|_| vec![Play::Answer]);
    let wrong: &str = "x".repeat(4_003).leak();
    world.brief_errors.lock().unwrap().insert("main", wrong);
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let end = loop {
        let frame = client.frame().await;
        if frame["type"] == "error" {
            break frame;
        }
    };

    let task = end["task_id"].as_str().unwrap();
    let mark = format!("x … [3 more characters: `hivewright tasks show {task}`]");
    assert!(end["error"].as_str().unwrap().ends_with(&mark), "{end}");
}

/// CH-60: a frame takes 1 MiB, and says what it left out.
#[actix::test]
async fn an_answer_and_an_error_longer_than_a_frame_are_marked() {
    let world = World::new(|request| match (last_words(request), request.step) {
        ("fail", 1) => vec![Play::Say(kept()), Play::Call(vec![("c1", "look")])],
        ("fail", _) => vec![Play::Fail(crate::task::outcome::Code::ProviderRefused)],
        _ => vec![Play::Say(kept()), Play::Answer],
    });
    let client = world.connect(&world.start());

    for (number, words) in ["tell", "fail"].into_iter().enumerate() {
        client.say(&format!("m{number}"), words);
        let end = loop {
            let frame = client.frame().await;
            if matches!(frame["type"].as_str(), Some("response" | "error")) {
                break frame;
            }
        };

        let content = end["content"].as_str().unwrap();
        assert_eq!(end["truncated"], true, "{words}");
        assert!(end.to_string().len() < 1024 * 1024, "{words}");
        let mark = format!(
            " … [{} more characters: `hivewright tasks show {}`]",
            kept().len() - FRAME_TEXT,
            end["task_id"].as_str().unwrap()
        );
        assert!(content.ends_with(&mark), "{words}");
    }
}

/// More than a frame takes, and no more than a turn keeps.
fn kept() -> &'static str {
    long().split_at(1_040_000).0
}

/// EN-43: a text that a model never ends is kept as far as 1 MiB, and says so.
#[actix::test]
async fn a_text_without_end_is_cut_and_marked() {
    let world = World::new(|_| vec![Play::Say(long()), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "tell");
    let end = loop {
        let frame = client.frame().await;
        if frame["type"] == "response" {
            break frame;
        }
    };

    let id = end["task_id"].as_str().unwrap().into();
    let task = spine.store.read(move |storage| tasks::find(storage, &id));
    let outcome = task.await.unwrap().unwrap().outcome.unwrap();
    let mark = format!(" … [{} more characters: a text holds no more]", long().len() - (1 << 20));
    assert!(outcome.text.ends_with(&mark));
    assert!(outcome.truncated && end["truncated"] == true);
}

static LETTERS: [u8; 1_200_000] = [b'x'; 1_200_000];

/// More than a turn keeps of a text.
fn long() -> &'static str {
    std::str::from_utf8(&LETTERS).unwrap()
}

/// SE-41: an earlier answer is shown whole, however long; the same after a restart.
#[actix::test]
async fn an_earlier_answer_is_shown_whole() {
    let world = World::new(|_| vec![Play::Say(long().split_at(3_000).0), Play::Answer]);
    let client = world.connect(&world.start());
    client.say("m1", "hello");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    client.say_in(&topic, "m2", "go on");
    client.hear_end_of("m2").await;
    let living = world.shown_before();
    settle().await;
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.channel = client.channel.clone();
    next.item().await;
    next.say_in(&topic, "m3", "go on");
    next.hear_end_of("m3").await;

    let answer = "x".repeat(3_000);
    assert_eq!(living, ["hello", &answer]);
    assert_eq!(world.shown_before(), ["hello", &answer, "go on", &answer]);
}

/// CH-148, CH-149: what a row of the log would say of a message and its answer is with their task, and said once.
#[actix::test]
async fn an_ended_task_tells_its_channel_who_spoke_and_how_long_the_work_took() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());

    client.say("m1", "hello");
    client.hear_end_of("m1").await;

    let disk = world.disk.mount(None);
    let tasks = scan::<FinishedTask<'_>>(&*disk, Range::all()).unwrap();
    let [FinishedTask(task)] = tasks.as_slice() else { panic!("{tasks:?}") };
    let outcome = task.outcome.as_ref().unwrap();
    let took = millis(outcome.finished_at.since(task.created_at));
    assert!((10_000..10_100).contains(&took), "{took}");
    let admission = task.admission.as_ref().unwrap();
    assert_eq!(admission.channel_type, ChannelType::Ws);
    let source = task.source.as_ref().unwrap();
    assert_eq!((&source.channel, source.topic.is_some()), (&client.channel, true));
    assert_eq!((&*task.from, &*task.body, &*outcome.text), ("someone", "hello", "Done."));
    assert_eq!(scan::<Interaction>(&*disk, Range::all()).unwrap(), []);
}

/// SE-16: what was said before the store refused a step is kept and sent.
#[actix::test]
async fn a_step_that_the_store_refuses_keeps_what_was_said() {
    let world =
        World::new(|_| vec![Play::Say("I look it up."), Play::Call(vec![("c1", "save-much")])]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "tell me all");
    let end = loop {
        let frame = client.frame().await;
        if frame["type"] == "error" {
            break frame;
        }
    };

    assert_eq!((&end["code"], &end["content"]), (&"internal".into(), &"I look it up.".into()));
}

/// SC-115: whoever speaks for a model may call a call what they like: keys of the store have a bound, and so have the ids
/// that they are made of. The answer names the call as the model is shown it.
#[actix::test]
async fn calls_with_long_ids_are_stored_and_answered() {
    let ids: [&'static str; 2] = ["a", "b"].map(|end| &*("x".repeat(3_000) + end).leak());
    let world = World::new(move |request| match request.step {
        1 => vec![Play::Call(ids.iter().map(|id| (*id, "look")).collect())],
        _ => vec![Play::Say("Done."), Play::Answer],
    });
    let client = world.connect(&world.start());

    client.say("m1", "look it up");
    let end = client.hear_end_of("m1").await;

    assert_eq!(end.last().unwrap(), "done m1: Done.");
    let asked = world.asked.lock().unwrap();
    let shown = asked.last().unwrap();
    let called: Vec<_> = shown.iter().flat_map(Message::calls).map(|call| &call.id).collect();
    let answered: Vec<_> = shown
        .iter()
        .flat_map(|message| match message {
            Message::ToolResults(results) => results.as_slice(),
            _ => &[],
        })
        .map(|result| &result.id)
        .collect();
    assert!(called.len() == 2 && called[0] != called[1], "{called:?}");
    assert_eq!(called, answered);
    assert_eq!(world.disk.keys("audit").len(), 2);
    assert!(world.disk.keys("").iter().all(|key| key.len() < 300));
}
