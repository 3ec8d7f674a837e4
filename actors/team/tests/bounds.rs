//! What a turn may take in all, and who hears of it when it took too much.

use std::time::Duration;

use super::crash::settle;
use crate::{
    approvals::{
        Decide, List,
        record::{Choice, Decider, Resolution, Word},
    },
    doubles::{
        disk,
        engine::{Play, last_words, seconds},
        world::World,
    },
    notice::NoticeKind,
    spine::Spine,
    task::outcome::Code,
};

/// Lets the only held call run.
async fn approve(spine: &Spine) {
    let held = spine.approvals.send(List).await.unwrap().0;
    let word = Word {
        which: held[0].id.to_string(),
        choice: Choice::Approve,
        resolution: Resolution::Once,
        digest: Some(held[0].digest.clone()),
        note: None,
        by: Decider::new("bob"),
        via: "api".to_owned(),
        confirm: None,
    };
    let decided = Decide { word, channel: None };
    spine.approvals.send(decided).await.unwrap().unwrap();
}

/// Talks for so many minutes.
fn minutes(number: usize) -> Vec<Play> {
    let minute = || [seconds(60), Play::Say("x")];
    (0..number).flat_map(|_| minute()).collect()
}

/// SE-130: all attempts at a turn share its time; while it is parked none of it passes.
#[actix::test]
async fn a_turn_has_its_time_once_however_often_it_is_set_aside() {
    let world = World::new(|request| match request.step {
        1 => {
            let mut plays = minutes(20);
            plays.push(Play::Call(vec![("c1", "held-look")]));
            plays
        }
        _ => minutes(100),
    });
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    tokio::time::sleep(Duration::from_secs(6 * 60 * 60)).await;

    approve(&spine).await;
    let began = tokio::time::Instant::now();
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "error m1: deadline");
    let took = began.elapsed().as_secs();
    assert!((595..=605).contains(&took), "{took}");
}

/// SE-151, SC-112: the operator is told once of a task that was given up, and which it was.
#[actix::test]
async fn a_task_that_is_given_up_is_told_to_the_operator() {
    let world = World::new(|_| vec![Play::Break(Code::Overloaded)]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "water the garden");
    let task = loop {
        let frame = client.frame().await;
        if frame["type"] == "error" {
            break frame["task_id"].as_str().unwrap().to_owned();
        }
    };

    let notices = spine.store.read(disk::notices).await.unwrap();
    let dead = notices.iter().filter(|notice| notice.kind == NoticeKind::DeadTask);
    let dead: Vec<_> = dead.map(|notice| notice.refs.clone()).collect();
    assert_eq!(dead, [[task]]);
}

/// CH-157: a question to another team carries channel and topic, so that what is asked there reaches the person.
#[actix::test]
async fn an_approval_that_a_query_needs_reaches_the_person_who_asked() {
    let world = World::new(|request| match (request.team.as_str(), request.step) {
        ("main", 1) if last_words(request) == "ask" => {
            vec![Play::Call(vec![("c1", "ask-left")])]
        }
        ("left", 1) => vec![Play::Call(vec![("c2", "held-look")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);
    let other = world.connect(&spine);
    client.say("m1", "ask");
    settle().await;

    let card = loop {
        let frame = client.frame().await;
        if frame["kind"] == "approval" {
            break frame;
        }
    };
    approve(&spine).await;
    let end = loop {
        let frame = client.frame().await;
        if frame["type"] == "response" {
            break frame;
        }
    };

    assert_eq!(card["team"], "left", "{card}");
    assert_eq!(card["topic_id"], end["topic_id"]);
    assert!(card["topic_id"].is_string(), "{card}");
    other.hears_nothing_for(Duration::from_secs(60)).await;
}
