//! What a turn is shown of the turns before it, living, after a restart and after a crash.

use super::crash::{count, heard, settle};
use crate::{
    approvals::{
        Decide, List,
        record::{Choice, Decider, Resolution, Word},
    },
    channel::socket::Item,
    doubles::{
        client::Client,
        disk::Crash,
        engine::{Play, last_words},
        world::World,
    },
    engine::{Block, Message, StepRequest},
    history::{SUMMARY, SUMMARY_REQUEST, summary_of_turns},
    spine::Spine,
    task::{Label, outcome::Code},
};

/// Much for a small window.
const WORDS: &str = "There is a door, and behind it a garden with a wall, and in the wall another door, which is shut, \
    and whoever has its key is not here; and there is a cat.";

/// Looks when it is told to, else answers with what the first result of an earlier turn was.
fn world() -> World {
    World::new(|request| match (last_words(request), request.step) {
        ("look", 1) => vec![Play::Say("I look."), Play::Call(vec![("c1", "look")])],
        ("wait", 1) => vec![Play::Call(vec![("c2", "held-look")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    })
}

/// All results that a step was shown of earlier turns.
fn results(messages: &[Message]) -> Vec<&str> {
    let results = messages.iter().filter_map(|message| match message {
        Message::ToolResults(results) => Some(results),
        _ => None,
    });
    results.flatten().map(|result| result.content.as_str()).collect()
}

fn newest(world: &World) -> Vec<Message> {
    world.earlier.lock().unwrap().last().unwrap().clone()
}

/// The same person in the next process.
async fn again(world: &World, client: &Client) -> Client {
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    next
}

/// SE-31, SE-41: as messages with calls and results; each turn is shown the very messages that the former was, and
/// what that added, also by another process.
#[actix::test]
async fn a_turn_is_shown_the_turns_before_it_as_messages() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "look");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    client.say_in(&topic, "m2", "and now");
    client.hear_end_of("m2").await;
    let first = newest(&world);
    client.say_in(&topic, "m3", "look");
    client.hear_end_of("m3").await;
    client.say_in(&topic, "m4", "and then");
    client.hear_end_of("m4").await;
    let living = newest(&world);
    let next = again(&world, &client).await;
    next.say_in(&topic, "m5", "and at last");
    next.hear_end_of("m5").await;

    let [user, called, read, answered] = &first[..] else { panic!("{first:#?}") };
    assert_eq!(*user, Message::User("look".to_owned()));
    assert_eq!(called.calls().count(), 1);
    assert_eq!(results(std::slice::from_ref(read)), ["c1 did"]);
    let answer = Block::Text { text: "Fine.".to_owned() };
    assert_eq!(*answered, Message::Assistant(vec![answer]));
    assert!(living.starts_with(&first));
    // The script names the call of the second look as that of the first.
    assert_eq!(results(&living), ["c1 did", "c1 did"]);
    let restarted = newest(&world);
    assert!(restarted.starts_with(&living), "{restarted:#?}");
    assert_eq!(restarted.len(), living.len() + 2);
}

/// SE-21, SE-31: what ran while a turn waited is not shown to it, also after a restart; later turns see both, in the
/// order of their ends.
#[actix::test]
async fn a_turn_that_waited_goes_on_with_the_conversation_it_began_with() {
    for restart in [false, true] {
        let world = world();
        let mut client = world.connect(&world.start());
        client.say("m1", "hello");
        let topic = client.topic_of("m1").await;
        client.hear_end_of("m1").await;
        client.say_in(&topic, "m2", "wait");
        settle().await;
        let began = newest(&world);
        client.say_in(&topic, "m3", "meanwhile");
        client.hear_end_of("m3").await;
        if restart {
            client = again(&world, &client).await;
        }
        approve(&client.spine).await;
        client.hear_end_of("m2").await;
        let went_on = newest(&world);
        client.say_in(&topic, "m4", "and now");
        client.hear_end_of("m4").await;

        assert_eq!(went_on, began, "{restart}");
        let order = ["hello", "Fine.", "meanwhile", "Fine.", "wait", "Fine."];
        assert_eq!(world.shown_before(), order, "{restart}");
    }
}

async fn approve(spine: &Spine) {
    let held = spine.approvals.send(List).await.unwrap().0;
    let word = Word {
        which: held[0].id.to_string(),
        choice: Choice::Approve,
        resolution: Resolution::Once,
        digest: Some(held[0].digest.clone()),
        note: None,
        confirm: None,
        by: Decider::new("operator"),
        via: "test".to_owned(),
    };
    spine.approvals.send(Decide { word, channel: None }).await.unwrap().unwrap();
}

/// SC-104, SE-41: whenever the process dies, the next turn is shown all of the former one.
#[actix::test]
async fn a_crash_at_any_commit_leaves_the_conversation_whole() {
    let (commits, expected) = {
        let world = world();
        let storage = world.disk.mount(None);
        let client = world.connect(&world.start_on(storage.clone()));
        client.say("m1", "look");
        let topic = client.topic_of("m1").await;
        client.hear_end_of("m1").await;
        settle().await;
        let commits = storage.commits();
        client.say_in(&topic, "m2", "and now");
        client.hear_end_of("m2").await;
        (commits, newest(&world))
    };
    for number in 2..commits {
        for crash in [Crash::Before(number), Crash::After(number)] {
            let world = world();
            let client = world.connect(&world.start_doomed(crash));
            client.say("m1", "look");
            settle().await;
            let mut frames = heard(&client).await;
            let next = again(&world, &client).await;
            settle().await;
            frames.extend(heard(&next).await);
            next.say("m2", "look again");
            next.hear_end_of("m2").await;

            assert_eq!(count(&frames, "done m1"), 1, "{crash:?}: {frames:#?}");
            assert_eq!(newest(&world), expected, "{crash:?}");
        }
    }
}

fn is_summary(request: &StepRequest) -> bool {
    last_words(request).starts_with(SUMMARY_REQUEST)
}

/// A small window, in which turns that say much have room for a few.
fn small(summary: fn() -> Vec<Play>) -> World {
    let mut world = World::new(move |request| match last_words(request) {
        _ if is_summary(request) => summary(),
        "look" if request.step == 1 => vec![Play::Call(vec![("c1", "look")])],
        _ => vec![Play::Say(WORDS), Play::Answer],
    });
    world.room = 2_000;
    world
}

fn summary() -> Vec<Play> {
    vec![Play::Say("They spoke of a door."), Play::Answer]
}

/// Says something so often: the topic.
async fn talk(client: &Client, times: usize) -> String {
    client.say("m0", "hello");
    let topic = client.topic_of("m0").await;
    client.hear_end_of("m0").await;
    for number in 1..times {
        let id = format!("m{number}");
        client.say_in(&topic, &id, &format!("words {number}"));
        client.hear_end_of(&id).await;
    }
    topic
}

fn summaries(world: &World) -> usize {
    let asked = world.asked.lock().unwrap();
    let is = |messages: &&Vec<Message>| matches!(&messages[0], Message::User(text) if text.starts_with(SUMMARY_REQUEST));
    asked.iter().filter(is).count()
}

/// How many messages each turn was shown of those before, and whether a summary was the first of them.
fn sizes(world: &World) -> Vec<(usize, bool)> {
    let earlier = world.earlier.lock().unwrap();
    let asked = world.asked.lock().unwrap();
    let turns = earlier.iter().zip(&*asked).filter(
        |(_, own)| !matches!(&own[0], Message::User(text) if text.starts_with(SUMMARY_REQUEST)),
    );
    turns
        .map(|(shown, _)| {
            let first = shown.first();
            let is = matches!(first, Some(Message::User(text)) if text.starts_with(SUMMARY));
            (shown.len(), is)
        })
        .collect()
}

/// SE-41, SE-92: above half of the window what is older becomes a summary, once for many turns; the newest turns stay.
/// It holds for the turns that follow, also in another process.
#[actix::test]
async fn a_conversation_above_half_the_window_is_summarised_before_the_first_step() {
    let world = small(summary);
    let client = world.connect(&world.start());
    let topic = talk(&client, 30).await;

    let made = summaries(&world);
    let sizes = sizes(&world);
    assert!((1..=4).contains(&made), "{made}: {sizes:?}");
    let first = sizes.iter().position(|(_, summarised)| *summarised).unwrap();
    assert!(sizes[first..].iter().all(|(_, summarised)| *summarised), "{sizes:?}");
    assert!(sizes[first].0 < sizes[first - 1].0 && sizes[first].0 > 2, "{sizes:?}");
    let shown = world.shown_before();
    assert_eq!(shown[0], summary_of_turns("They spoke of a door."));
    let living = newest(&world);
    let next = again(&world, &client).await;
    next.say_in(&topic, "n1", "and now");
    next.hear_end_of("n1").await;
    let restarted = newest(&world);
    // One more turn, unless that was one too many.
    assert!(restarted.starts_with(&living) || summaries(&world) > made, "{restarted:#?}");
}

/// SE-94: without a summary older turns are left out all the same; the next turn tries again.
#[actix::test]
async fn a_summary_that_fails_leaves_older_turns_out_and_is_tried_again() {
    let world = small(|| vec![Play::Fail(Code::ProviderError)]);
    let client = world.connect(&world.start());
    let topic = talk(&client, 20).await;
    client.say_in(&topic, "last", "and now");
    let frames = client.hear_end_of("last").await;

    assert!(summaries(&world) > 1);
    assert_eq!(*frames.last().unwrap(), format!("done last: {WORDS}"));
    assert_eq!(count(&frames, "note last: Earlier parts of the conversation were left out"), 1);
    let sizes = sizes(&world);
    assert!(sizes.iter().all(|(_, summarised)| !summarised), "{sizes:?}");
    assert!(sizes.iter().all(|(shown, _)| *shown <= 28), "{sizes:?}");
}

/// SE-95: what the provider finds too long loses its earlier turns first.
#[actix::test]
async fn an_overflow_takes_earlier_turns_first() {
    let world = World::new(|request| match last_words(request) {
        _ if is_summary(request) => summary(),
        "last" if request.earlier.len() > 1 => vec![Play::Fail(Code::ContextOverflow)],
        _ => vec![Play::Say(WORDS), Play::Answer],
    });
    let client = world.connect(&world.start());
    let topic = talk(&client, 3).await;
    client.say_in(&topic, "last", "last");
    let frames = client.hear_end_of("last").await;

    assert_eq!(*frames.last().unwrap(), format!("done last: {WORDS}"), "{frames:#?}");
    assert_eq!(summaries(&world), 1);
    assert_eq!(world.shown_before()[0], summary_of_turns("They spoke of a door."));
    client.say_in(&topic, "after", "and now");
    client.hear_end_of("after").await;
    assert_eq!(world.shown_before()[2..], ["last", WORDS]);
}

/// SE-145, SC-104: a crash at any commit around a summary.
#[actix::test]
async fn a_crash_around_a_summary_of_earlier_turns_loses_nothing() {
    const TIMES: usize = 20;
    let (first, commits) = {
        let world = small(summary);
        let storage = world.disk.mount(None);
        let client = world.connect(&world.start_on(storage.clone()));
        let topic = talk(&client, 1).await;
        let mut number = 1;
        let mut first = storage.commits();
        while summaries(&world) == 0 {
            first = storage.commits();
            let id = format!("m{number}");
            client.say_in(&topic, &id, &format!("words {number}"));
            client.hear_end_of(&id).await;
            settle().await;
            number += 1;
            assert!(number < TIMES);
        }
        (first, storage.commits())
    };
    for number in first..commits {
        for crash in [Crash::Before(number), Crash::After(number)] {
            let world = small(summary);
            let client = world.connect(&world.start_doomed(crash));
            client.say("m0", "hello");
            let topic = client.topic_of("m0").await;
            let mut said = 0;
            settle().await;
            while count(&heard(&client).await, &format!("done m{said}")) == 1 {
                said += 1;
                client.say_in(&topic, &format!("m{said}"), &format!("words {said}"));
                settle().await;
                assert!(said < TIMES);
            }
            let next = again(&world, &client).await;
            settle().await;
            let frames = heard(&next).await;
            next.say_in(&topic, "n1", "and now");
            next.hear_end_of("n1").await;

            assert!(count(&frames, "error") == 0, "{crash:?}: {frames:#?}");
            let shown = world.shown_before();
            assert_eq!(shown[0], summary_of_turns("They spoke of a door."), "{crash:?}");
            let words = shown.iter().filter(|text| text.starts_with("words ")).count();
            assert!(words > 0, "{crash:?}: {shown:#?}");
        }
    }
}

/// SE-92: a team whose tools let nothing be believed uses its summaries too, instead of buying them anew for each turn.
#[actix::test]
async fn a_team_with_tools_that_are_not_believed_uses_its_summaries() {
    let mut world = small(summary);
    world.label = Label::Untrusted;
    let client = world.connect(&world.start());

    talk(&client, 30).await;

    let made = summaries(&world);
    assert!((1..=4).contains(&made), "{made}: {:?}", sizes(&world));
}
