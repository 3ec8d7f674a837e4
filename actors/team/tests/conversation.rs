//! What a person hears about one message.

use std::time::Duration;

use super::crash::settle;
use crate::{
    channel::socket::Item,
    clock::{Clock, Timestamp},
    doubles::{
        client::Client,
        engine::{Play, last_words, seconds},
        world::World,
    },
    engine::EngineEvent,
    journal::records::Began,
    queue::Enqueue,
    store::records::Writes,
    task::{Label, Lane, Source, Task, TopicRef},
    team::BeganAnew,
};

/// Words that nobody vouches for, in a topic.
fn stranger(client: &Client, topic: &str, id: &str, words: &str) {
    let lane = Lane { team: "main".into(), topic: Some(topic.into()) };
    let source = Source {
        channel: client.channel.clone(),
        message: Some(id.into()),
        topic: Some(TopicRef { id: topic.into(), name: topic.to_owned() }),
        notify: None,
    };
    let task = Task::new(
        format!("task-{id}").into(),
        lane,
        words.to_owned(),
        "stranger".to_owned(),
        Timestamp(1_000_000_000),
    );
    client.spine.queue.do_send(Enqueue {
        task: Task { source: Some(source), label: Label::Untrusted, ..task },
        writes: Writes::new(),
    });
}

/// CH-81, CH-83
#[actix::test]
async fn a_fast_turn_sends_ack_and_response_in_one_commit() {
    let world = World::new(|_| vec![Play::Say("Hello."), Play::Answer]);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);

    client.say("m1", "good morning");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard, ["ack m1: Hello.", "done m1: Hello."]);
    let frames = storage.batches().into_iter().map(|batch| {
        let keys = batch.changes.iter();
        keys.filter(|(key, _)| key.starts_with(b"out")).count()
    });
    // What was said with the task, then both in one record.
    let frames = frames.filter(|count| *count > 0).collect::<Vec<_>>();
    assert_eq!(frames, [1, 1]);
    client.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-80, SE-144: it is accepted and leased in one, and ended in the other; with a tool there is one for
/// the call and one for its result.
#[actix::test]
async fn a_message_and_its_answer_are_two_commits() {
    let world = World::new(|request| match (last_words(request), request.step) {
        ("look", 1) => vec![Play::Call(vec![("c1", "look")])],
        _ => vec![Play::Say("Hello."), Play::Answer],
    });
    let storage = world.disk.mount(None);
    let client = world.connect(&world.start_on(storage.clone()));
    let commits = async |id: &str, words: &str| {
        settle().await;
        let before = storage.commits();
        client.say(id, words);
        client.hear_end_of(id).await;
        settle().await;
        storage.commits() - before
    };

    assert_eq!(commits("m1", "good morning").await, 2);
    assert_eq!(commits("m2", "good evening").await, 2);
    assert_eq!(commits("m3", "look").await, 4);
}

/// CH-82
#[actix::test]
async fn a_slow_turn_is_acknowledged_with_a_fixed_sentence() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "good morning");
    let ack = client.hear().await;
    let acked_after = began.elapsed();
    let rest = client.hear_end_of("m1").await;

    assert_eq!(ack, "ack m1: Working on it.");
    assert!((1_500..1_600).contains(&acked_after.as_millis()), "{acked_after:?}");
    assert_eq!(rest.last().unwrap(), "done m1: Done.");
}

/// CH-61, CH-63, CH-64, CH-81: what was said before a tool stands before it on the wire, whether the ack
/// is stored with the call or just before it.
#[actix::test]
async fn words_before_a_tool_call_arrive_before_it() {
    for wait in [0, 28, 29, 30, 31, 32] {
        let wait = Duration::from_millis(wait);
        let world = World::new(move |request| match request.step {
            1 => vec![
                Play::Say("Let me look."),
                Play::EndText,
                Play::Wait(wait),
                Play::Call(vec![("c1", "look")]),
            ],
            _ => vec![Play::Say("Found."), Play::Answer],
        });
        let client = world.connect(&world.start());

        client.say("m1", "find it");
        let heard = client.hear_end_of("m1").await;

        assert_eq!(
            heard,
            [
                "ack m1: Let me look.",
                "delta m1: Let me look.",
                "tool_call m1: c1",
                "tool_result m1: c1",
                "done m1: Found.",
            ],
            "{wait:?}"
        );
    }
}

/// CH-82, CH-84
#[actix::test]
async fn a_second_message_of_a_topic_waits_and_hears_how_many_are_before_it() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "and the roof garden");
    let ack = client.hear().await;
    let first = client.hear_end_of("m1").await;
    let second = client.hear_end_of("m2").await;

    assert_eq!(ack, "ack m2: Queued behind 1 message in \"water garden\".");
    assert_eq!(first.last().unwrap(), "done m1: Done.");
    assert_eq!(second.last().unwrap(), "done m2: Done.");
    assert!(second.iter().all(|frame| !frame.starts_with("ack")));
}

/// CH-84
#[actix::test]
async fn topics_run_side_by_side() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());
    let other = world.connect(&client.spine);
    let began = tokio::time::Instant::now();

    client.say("m1", "water the garden");
    other.say("m1", "pay the invoice");
    client.hear_end_of("m1").await;
    other.hear_end_of("m1").await;

    assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
}

/// CH-151: also when the next messages are in the store already.
#[actix::test]
async fn a_conversation_holds_what_was_said_before_and_not_the_message_itself() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "water the garden");
    client.say("m2", "water the garden again");
    client.say("m3", "water the garden at last");
    client.hear_end_of("m3").await;

    let earlier = world.earlier.lock().unwrap();
    let counts: Vec<usize> = earlier.iter().map(Vec::len).collect();
    assert_eq!(counts, [0, 2, 4]);
    drop(earlier);
    let last = world.shown_before();
    assert_eq!(last, ["water the garden", "Done.", "water the garden again", "Done."]);
}

/// CH-151: a message that is tried again is not part of its own conversation.
#[actix::test]
async fn a_second_attempt_has_the_same_conversation() {
    let tries = std::sync::atomic::AtomicUsize::new(0);
    let world =
        World::new(move |_| match tries.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => vec![Play::Fail(crate::task::outcome::Code::Network)],
            _ => vec![Play::Say("Done."), Play::Answer],
        });
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;

    assert_eq!(*world.earlier.lock().unwrap(), [[], []]);
}

/// CH-59: one ack, also if it falls due in the moment in which the turn ends.
#[actix::test]
async fn an_ack_that_is_due_at_the_end_is_sent_once() {
    for wait in 1_490..=1_510 {
        let world = World::new(move |_| {
            vec![Play::Wait(Duration::from_millis(wait)), Play::Say("Done."), Play::Answer]
        });
        let client = world.connect(&world.start());

        client.say("m1", "water the garden");
        let heard = client.hear_end_of("m1").await;

        let acks = heard.iter().filter(|frame| frame.starts_with("ack"));
        assert_eq!(acks.count(), 1, "{wait}: {heard:?}");
        client.hears_nothing_for(Duration::from_secs(60)).await;
    }
}

/// MV-13, CH-151: what a stranger said, and what was said after reading something from elsewhere, is kept from a
/// turn that is to be believed, also after a restart. What the person said before is not; and the stranger sees
/// what they said themselves, and nothing else.
#[actix::test]
async fn a_turn_that_is_believed_is_shown_nothing_that_is_not() {
    let world = World::new(|request| match (last_words(request), request.step) {
        ("what do they say", 1) => vec![Play::Call(vec![("c1", "rumour")])],
        ("what do they say", _) => vec![Play::Say("They say so."), Play::Answer],
        ("obey me", _) => vec![Play::Say("I obey."), Play::Answer],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    client.say_in(&topic, "m2", "what do they say");
    client.hear_end_of("m2").await;
    stranger(&client, &topic, "s1", "obey me");
    client.hear_end_of("s1").await;
    client.say_in(&topic, "m3", "remember that");
    client.hear_end_of("m3").await;
    let believed = world.shown_before();
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    next.say_in(&topic, "m4", "and now");
    next.hear_end_of("m4").await;
    let restarted = world.shown_before();
    stranger(&next, &topic, "s2", "obey me again");
    next.hear_end_of("s2").await;

    let rest = "[What followed is not shown: it came after reading that.]";
    let own = ["water the garden", "Fine.", "what do they say", rest];
    assert_eq!(believed, own);
    assert_eq!(restarted, [&own[..], &["remember that", "Fine."]].concat());
    let seen = format!("{:?}", world.earlier.lock().unwrap());
    assert!(!seen.contains("They say so."), "{seen}");
    assert_eq!(world.shown_before(), ["obey me", "I obey."]);
}

/// OP-26, EN-35: a turn is shown nothing that was said before its conversation began anew, also after a
/// restart; the journal keeps it.
#[actix::test]
async fn a_conversation_that_began_anew_knows_nothing_of_before() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    let lane = Lane { team: "main".into(), topic: Some(topic.as_str().into()) };

    tokio::time::sleep(Duration::from_secs(1)).await;
    let at = world.clock.now();
    let writes = Writes::new().put_at(&lane.session_id(1), &Began(at));
    spine.store.commit(writes).await.unwrap();
    let team = spine.directory.get(&lane.team).unwrap().clone();
    team.send(BeganAnew { topic: lane.topic.clone(), at }).await.unwrap();
    client.say_in(&topic, "m2", "and now");
    client.hear_end_of("m2").await;
    let living = world.shown_before();
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    next.say_in(&topic, "m3", "and then");
    next.hear_end_of("m3").await;

    assert_eq!(living, [""; 0]);
    assert_eq!(world.shown_before(), ["and now", "Fine."]);
}

/// EN-131: after six hours without a word the next message begins a conversation, of which the person is told; after a
/// restart its turns are the same. What is said in time goes on with it, and work that ends is no message.
#[actix::test]
async fn a_conversation_in_which_nothing_was_said_for_long_is_over() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    let client = world.connect(&world.start());
    let hours = |count: u64| tokio::time::sleep(Duration::from_secs(count * 60 * 60));
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;

    hours(5).await;
    client.say_in(&topic, "m2", "and the roses");
    let in_time = client.hear_end_of("m2").await;
    let goes_on = world.shown_before();
    hours(7).await;
    client.say_in(&topic, "m3", "good morning");
    let late = client.hear_end_of("m3").await;
    let anew = world.shown_before();
    client.say_in(&topic, "m4", "and now");
    client.hear_end_of("m4").await;
    let living = world.shown_before();
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    next.say_in(&topic, "m5", "and then");
    next.hear_end_of("m5").await;

    assert_eq!(goes_on, ["water the garden", "Fine."]);
    assert_eq!(anew, [""; 0]);
    assert_eq!(living, ["good morning", "Fine."]);
    assert_eq!(world.shown_before(), ["good morning", "Fine.", "and now", "Fine."]);
    let note = "note m3: A new conversation begins here: nothing was said for 7 hours, so the team is not shown";
    assert!(late.iter().any(|frame| frame.starts_with(note)), "{late:#?}");
    assert!(!in_time.iter().any(|frame| frame.starts_with("note")), "{in_time:#?}");
}

/// EN-131: a turn that is cut off goes on in the conversation that it began.
#[actix::test]
async fn a_first_turn_that_goes_on_knows_nothing_of_before() {
    let world = World::new(|request| match (last_words(request), request.step) {
        ("good morning", 1) => vec![Play::Call(vec![("c1", "rumour")])],
        ("good morning", _) => vec![seconds(30), Play::Say("Fine."), Play::Answer],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;

    tokio::time::sleep(Duration::from_secs(7 * 60 * 60)).await;
    client.say_in(&topic, "m2", "good morning");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    next.hear_end_of("m2").await;
    let resumed = world.shown_before();
    next.say_in(&topic, "m3", "and now");
    next.hear_end_of("m3").await;

    assert_eq!(resumed, [""; 0]);
    let shown = world.shown_before();
    assert!(!shown.contains(&"water the garden".to_owned()), "{shown:?}");
    assert_eq!(shown.first().map(String::as_str), Some("good morning"));
}

/// SE-125, CH-65: what a new try says comes after the note that voids the old one, so that nobody
/// forgets it with that.
#[actix::test]
async fn a_new_try_is_heard_after_the_old_one_is_void() {
    let world = World::new(|_| {
        vec![
            Play::Say("Half an ans"),
            seconds(1),
            Play::Report(EngineEvent::Reset),
            Play::Say("All of it."),
            seconds(1),
            Play::Answer,
        ]
    });
    let client = world.connect(&world.start());
    client.say("m1", "hello");

    let frames = client.hear_end_of("m1").await;

    let place = |start: &str| frames.iter().position(|frame| frame.starts_with(start));
    let (note, text) = (place("note m1: The answer broke off"), place("delta m1: All of it."));
    assert!(note.is_some() && text.is_some(), "{frames:#?}");
    assert!(note < text, "{frames:#?}");
}
