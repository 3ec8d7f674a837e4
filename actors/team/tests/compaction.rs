//! Conversations that do not fit: left out, summarised, and gone on with, whatever happens meanwhile.

use std::{collections::BTreeSet, ops::ControlFlow, time::Duration};

use super::crash::{count, heard, settle};
use crate::{
    briefing::QueueMode,
    channel::socket::Item,
    doubles::{
        client::Client,
        disk::Crash,
        engine::{Play, last_words},
        world::World,
    },
    engine::{Message, StepRequest},
    history::{
        Compaction, Fact, HistoryEvent, Meta, SUMMARY, SUMMARY_REQUEST, Trigger, summary_of_turns,
    },
    ids::TopicId,
    journal::sessions,
    spine::Spine,
    storage::Order,
    task::{Label, Lane, outcome::Code, records::LaneKey},
};

/// The calls of nine steps: the seventh message before the last is a call of the second.
const CALLS: [&str; 9] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];
/// What the model says in each step.
const WORDS: &str = "I look at one thing after another, and say a great deal about each of them, so that \
    there is something to summarise: where it stands, what it is made of, who made it and when, what it \
    was for, who wants it now and why, what it would cost to have it moved, and who is to be asked.";

fn is_summary(request: &StepRequest) -> bool {
    last_words(request).starts_with(SUMMARY_REQUEST)
}

fn has_summary(messages: &[Message]) -> bool {
    let is =
        |message: &Message| matches!(message, Message::User(text) if text.starts_with(SUMMARY));
    messages.iter().any(is)
}

/// Looks at something in nine steps. The last reads so many tokens.
fn look(step: u32, tokens: u64) -> Vec<Play> {
    let call = CALLS[step as usize - 1];
    let reads = if step == 9 { tokens } else { 10 };
    // The first step says most, and is what is summarised.
    let (times, tool) = if step == 1 { (4, "rumour") } else { (1, "look") };
    let mut plays = vec![Play::Say(WORDS); times];
    plays.extend([Play::Reads(reads), Play::Call(vec![(call, tool)])]);
    plays
}

/// A turn of ten steps, whose conversation does not fit before the last.
fn world(tokens: u64, summary: fn() -> Vec<Play>) -> World {
    let mut world = World::new(move |request| match request.step {
        _ if is_summary(request) => {
            assert!(request.tools.is_empty());
            summary()
        }
        _ if last_words(request) == "short" => vec![Play::Say("Fine."), Play::Answer],
        10.. => vec![Play::Say("All done."), Play::Answer],
        step => look(step, tokens),
    });
    world.room = 1_000;
    world
}

fn summary() -> Vec<Play> {
    vec![Play::Cost(0.5), Play::Say("Looked at the first thing."), Play::Answer]
}

pub(super) async fn journal(spine: &Spine, topic: &str) -> Vec<HistoryEvent> {
    let lane = lane(topic);
    let read = spine.store.read(move |storage| {
        let mut events = Vec::new();
        let all = (0, u64::MAX);
        sessions::journal(storage, &LaneKey::new(&lane, 1), all, Order::Rising, &mut |piece| {
            events.extend(piece);
            ControlFlow::Continue(())
        })?;
        Ok(events)
    });
    read.await.unwrap()
}

fn lane(topic: &str) -> Lane {
    Lane { team: "main".into(), topic: Some(TopicId::from(topic)) }
}

fn compactions(events: &[HistoryEvent]) -> Vec<Compaction> {
    let found = events.iter().filter_map(|event| match &event.fact {
        Fact::Meta(Meta::Compaction(compaction)) => Some((**compaction).clone()),
        _ => None,
    });
    found.collect()
}

/// SE-92, SE-93, SE-139, CH-65, EN-54
#[actix::test]
async fn a_conversation_that_grows_is_summarised_between_steps() {
    let world = world(900, summary);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "look around");
    let topic = client.topic_of("m1").await;

    let frames = client.hear_end_of("m1").await;

    assert_eq!(count(&frames, "done m1: All done."), 1, "{frames:#?}");
    assert_eq!(count(&frames, "note m1: Earlier parts"), 1, "{frames:#?}");
    assert_eq!(count(&frames, "delta m1: Looked"), 0, "nobody hears it");
    let asked = world.asked.lock().unwrap().clone();
    let last = asked.last().unwrap();
    assert_eq!(asked.len(), 11);
    assert_eq!(last[0], Message::User("look around".to_owned()));
    assert!(has_summary(&last[1..2]));
    assert_eq!(last.len(), 18, "{last:#?}");
    let events = journal(&spine, &topic).await;
    let [compaction] = &compactions(&events)[..] else {
        panic!("{events:#?}");
    };
    assert_eq!(compaction.trigger, Trigger::Size);
    assert_eq!(compaction.step, 10);
    assert_eq!(compaction.tokens_before, 902);
    assert!(compaction.tokens_after < 800);
    // What was read in the first step is not to be believed, and neither is what is said of it.
    assert_eq!(compaction.label, Label::Untrusted);
    let kept = compaction.keep_from_seq.unwrap();
    let first = events.iter().find(|event| event.seq == kept).unwrap();
    assert_eq!(first.fact.step(), Some(2));
    // The journal keeps everything.
    let results = events.iter().filter(|event| matches!(event.fact, Fact::ToolResult { .. }));
    assert_eq!(results.count(), 9);
    let Fact::TurnEnd { usage, steps, .. } = &events.last().unwrap().fact else {
        panic!("{events:#?}");
    };
    // Nine steps of which eight read 10 tokens, the last, and the summary.
    assert_eq!((*steps, usage.input, usage.output), (10, 8 * 10 + 900 + 1 + 1, 11));
}

/// SE-144, SC-104: a crash at any commit, also between a summary and what follows.
#[actix::test]
async fn a_crash_around_a_summary_loses_nothing_and_repeats_nothing() {
    let commits = {
        let world = world(900, summary);
        let storage = world.disk.mount(None);
        let client = world.connect(&world.start_on(storage.clone()));
        client.say("m1", "look around");
        client.hear_end_of("m1").await;
        settle().await;
        storage.commits()
    };
    // Those before are those of any turn.
    for number in commits - 5..commits {
        for crash in [Crash::Before(number), Crash::After(number)] {
            let world = world(900, summary);
            let client = world.connect(&world.start_doomed(crash));
            client.say("m1", "look around");
            settle().await;
            let mut frames = heard(&client).await;

            let spine = world.start();
            let next = world.connect(&spine);
            next.resume(&client.channel, client.last_seq.get());
            next.last_seq.set(client.last_seq.get());
            settle().await;
            frames.extend(heard(&next).await);

            assert_eq!(count(&frames, "done m1: All done."), 1, "{crash:?}: {frames:#?}");
            assert_eq!(count(&frames, "error"), 0, "{crash:?}: {frames:#?}");
            let asked = world.asked.lock().unwrap().clone();
            let topics = spine.store.read(|storage| {
                let mut lanes = Vec::new();
                sessions::sessions(storage, &mut |session| {
                    lanes.push(session.lane);
                    ControlFlow::Continue(())
                })?;
                Ok(lanes)
            });
            let topics = topics.await.unwrap();
            let topic = topics[0].topic.clone().unwrap();
            let events = journal(&spine, topic.as_str()).await;
            assert_eq!(compactions(&events).len(), 1, "{crash:?}: {events:#?}");
            // SE-31: the last step is asked the same each time.
            let last: Vec<_> = asked.iter().filter(|shown| shown.len() > 17).collect();
            assert!(last.iter().all(|shown| *shown == last[0]), "{crash:?}");
            assert!(has_summary(last[0]));
            // Each once, but for one that was under way.
            let runs = world.tools.runs.lock().unwrap().clone();
            let calls: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
            assert_eq!(calls, BTreeSet::from(CALLS), "{crash:?}: {runs:?}");
            assert!(runs.len() <= 10, "{crash:?}: {runs:?}");
        }
    }
}

/// SE-94: without a summary the turn goes on as long as it fits, and ends if it does not.
#[actix::test]
async fn a_turn_goes_on_without_a_summary_while_it_fits() {
    for (tokens, end) in [(900, "done m1: All done."), (1_100, "error m1: context_overflow")] {
        for summary in [
            (|| vec![Play::Fail(Code::ProviderError)]) as fn() -> Vec<Play>,
            || vec![Play::Say(" "), Play::Answer],
            || vec![Play::Hang],
            || vec![Play::Panic],
        ] {
            let world = world(tokens, summary);
            let spine = world.start();
            let client = world.connect(&spine);
            client.say("m1", "look around");
            let topic = client.topic_of("m1").await;

            let frames = client.hear_end_of("m1").await;

            assert_eq!(frames.last().unwrap(), end);
            assert!(compactions(&journal(&spine, &topic).await).is_empty());
            // The lane is free for the next.
            client.say_in(&topic, "m2", "short");
            assert_eq!(client.hear_end_of("m2").await.last().unwrap(), "done m2: Fine.");
        }
    }
}

/// SE-95: the provider's word counts, once for each step.
#[actix::test]
async fn a_step_that_overflows_is_tried_once_more_with_less() {
    for (helps, end) in [(true, "done m1: All done."), (false, "error m1: context_overflow")] {
        let mut world = World::new(move |request| match request.step {
            _ if is_summary(request) => summary(),
            10.. if helps && has_summary(&request.messages) => {
                vec![Play::Say("All done."), Play::Answer]
            }
            10.. => vec![Play::Say("Half"), Play::Fail(Code::ContextOverflow)],
            step => look(step, 10),
        });
        world.room = 100_000;
        let spine = world.start();
        let client = world.connect(&spine);
        client.say("m1", "look around");
        let topic = client.topic_of("m1").await;

        let frames = client.hear_end_of("m1").await;

        assert_eq!(frames.last().unwrap(), end, "{frames:#?}");
        let events = journal(&spine, &topic).await;
        let [compaction] = &compactions(&events)[..] else {
            panic!("{events:#?}");
        };
        assert_eq!((compaction.trigger, compaction.step), (Trigger::Overflow, 10));
        let asked = world.asked.lock().unwrap().len();
        assert_eq!(asked, 9 + 1 + 1 + 1, "nine steps, a try, a summary, another try");
        let Fact::TurnEnd { message, .. } = &events.last().unwrap().fact else {
            panic!("{events:#?}");
        };
        let advises = message.as_ref().is_some_and(|text| text.contains("`/new`"));
        assert_eq!(advises, !helps);
    }
}

/// SE-95: where there is nothing to leave out, that is said at once.
#[actix::test]
async fn a_task_that_does_not_fit_ends() {
    let world = World::new(|_| vec![Play::Fail(Code::ContextOverflow)]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "look around");

    let frames = client.hear_end_of("m1").await;

    assert_eq!(frames.last().unwrap(), "error m1: context_overflow");
    assert_eq!(world.asked.lock().unwrap().len(), 1);
}

/// SE-132: a stop is heard while the model writes a summary.
#[actix::test]
async fn a_stop_ends_a_summary() {
    let world = world(900, || vec![Play::Hang]);
    let client = world.connect(&world.start());
    client.say("m1", "look around");
    let topic = client.topic_of("m1").await;
    client.hears_result("c9").await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    client.cancel(&topic, false);
    let frames = client.hear_end_of("m1").await;

    assert!(frames.last().unwrap().starts_with("cancelled m1"), "{frames:#?}");
}

/// Says something nine times, which is eighteen messages.
async fn talk(client: &Client) -> String {
    client.say("m0", "hello");
    let topic = client.topic_of("m0").await;
    client.hear_end_of("m0").await;
    for number in 1..9 {
        let id = format!("m{number}");
        client.say_in(&topic, &id, &format!("words {number}"));
        client.hear_end_of(&id).await;
    }
    topic
}

fn talking() -> World {
    World::new(|request| {
        if is_summary(request) {
            vec![Play::Say("They said hello."), Play::Answer]
        } else {
            vec![Play::Say(WORDS), Play::Answer]
        }
    })
}

/// The summary that the newest turn was shown first.
fn shown(world: &World) -> Option<String> {
    let first = world.shown_before().into_iter().next()?;
    first.starts_with(SUMMARY).then_some(first)
}

/// EN-36, EN-54: `/compact` summarises all but the last messages, for the turns that follow, also after a
/// restart.
#[actix::test]
async fn a_person_has_a_conversation_summarised() {
    let world = talking();
    let spine = world.start();
    let client = world.connect(&spine);
    let topic = talk(&client).await;
    assert_eq!(shown(&world), None);

    client.say_in(&topic, "m9", "/compact");
    let frames = client.hear_end_of("m9").await;
    client.say_in(&topic, "m10", "/COMPACT");
    let soon = client.hear_end_of("m10").await;
    client.say_in(&topic, "m11", "go on");
    client.hear_end_of("m11").await;
    let living = shown(&world);
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    next.say_in(&topic, "m12", "and on");
    next.hear_end_of("m12").await;

    let told = frames.last().unwrap();
    assert!(told.starts_with("done m9: Earlier parts of the conversation were summarised: about "));
    let told = soon.last().unwrap();
    assert!(told.starts_with("done m10: This conversation was compacted less than a minute ago"));
    let expected = Some(summary_of_turns("They said hello."));
    assert_eq!(living, expected);
    assert_eq!(shown(&world), expected);
    let events = journal(&spine, &topic).await;
    let [compaction] = &compactions(&events)[..] else {
        panic!("{events:#?}");
    };
    assert_eq!(compaction.trigger, Trigger::Command);
    assert!(compaction.tokens_after < compaction.tokens_before);
    // What was said is still there; that it was summarised was said to nobody's model.
    let said: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::User { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((said[0], said.len()), ("hello", 11));
    assert!(!said.contains(&"/compact"));
}

/// EN-36: bad input is answered.
#[actix::test]
async fn what_cannot_be_summarised_is_said() {
    let world = talking();
    let client = world.connect(&world.start());
    client.say("m0", "/compact");
    let none = client.hear_end_of("m0").await;
    client.say("m1", "hello");
    client.hear_end_of("m1").await;
    client.say("m2", "/compact");
    let short = client.hear_end_of("m2").await;
    client.say("m3", "/compact nowhere");
    let unknown = client.hear_end_of("m3").await;

    assert_eq!(none.last().unwrap(), "done m0: There are no open topics.");
    assert_eq!(
        short.last().unwrap(),
        "done m2: There is nothing to compact: the last 16 messages stay as they are."
    );
    assert!(unknown.last().unwrap().starts_with("done m3: There is no topic \"nowhere\"."));
    assert_eq!(world.asked.lock().unwrap().len(), 1);
}

/// EN-36, EN-57: a summary that cannot be had changes nothing; one comes after the running turn.
#[actix::test]
async fn a_summary_that_fails_changes_nothing_and_waits_its_turn() {
    let world = World::new(|request| {
        if is_summary(request) {
            vec![Play::Fail(Code::ProviderError)]
        } else {
            vec![Play::Say(WORDS), Play::Wait(Duration::from_secs(5)), Play::Answer]
        }
    });
    let spine = world.start();
    let client = world.connect(&spine);
    let topic = talk(&client).await;

    client.say_in(&topic, "m9", "still there?");
    client.say_in(&topic, "m10", "/compact");
    let running = client.hear_end_of("m9").await;
    let frames = client.hear_end_of("m10").await;

    assert_eq!(count(&running, "done m10"), 0);
    assert_eq!(frames.last().unwrap(), "error m10: provider_error");
    assert!(compactions(&journal(&spine, &topic).await).is_empty());
    client.say_in(&topic, "m11", "and now");
    client.hear_end_of("m11").await;
    assert_eq!(shown(&world), None);
}

/// EN-57: a message that comes while a summary is written has a turn of its own, whatever the mode.
#[actix::test]
async fn a_message_does_not_get_into_a_summary() {
    for mode in [QueueMode::Steer, QueueMode::Interrupt] {
        let mut world = World::new(|request| {
            if is_summary(request) {
                vec![
                    Play::Wait(Duration::from_secs(5)),
                    Play::Say("They said hello."),
                    Play::Answer,
                ]
            } else {
                vec![Play::Say(WORDS), Play::Answer]
            }
        });
        world.queue_mode = mode;
        let client = world.connect(&world.start());
        let topic = talk(&client).await;

        client.say_in(&topic, "m9", "/compact");
        tokio::time::sleep(Duration::from_secs(2)).await;
        client.say_in(&topic, "m10", "hello again");
        let first = client.hear_end_of("m9").await;
        let second = client.hear_end_of("m10").await;

        assert!(first.last().unwrap().starts_with("done m9: Earlier parts"), "{mode:?}");
        assert_eq!(*second.last().unwrap(), format!("done m10: {WORDS}"), "{mode:?}");
        assert_eq!(shown(&world), Some(summary_of_turns("They said hello.")));
    }
}
