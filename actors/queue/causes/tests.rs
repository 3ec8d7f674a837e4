//! The guard against runaway work.

use super::*;
use crate::{
    clock::Timestamp,
    task::{Ancestor, Lane},
};

fn root(team: &str) -> Task {
    let lane = Lane { team: team.into(), topic: None };
    Task::new("task-0".into(), lane, "begin".into(), "someone".into(), Timestamp(0))
}

fn below(above: &Task, id: &str, team: &str, body: &str) -> Task {
    let lane = Lane { team: team.into(), topic: None };
    Task {
        lineage: Some(above.lineage_below()),
        ..Task::new(id.into(), lane, body.into(), "team".into(), Timestamp(0))
    }
}

fn giver(task: &Task, step: u32, words: &str) -> Giver {
    Giver { task: task.id.clone(), step, words: words.to_owned() }
}

/// OR-86
#[test]
fn the_seventeenth_hop_is_refused() {
    let mut causes = Causes::default();
    let path = |hops| Lineage {
        root: "task-0".into(),
        path: (0..hops)
            .map(|n| Ancestor {
                task: format!("task-{n}").into(),
                team: format!("team-{n}").into(),
            })
            .collect(),
    };
    let mut task = below(&root("main"), "x", "deep", "go");

    task.lineage = Some(path(16));
    assert!(causes.admit(&task, &giver(&root("main"), 1, "go")).is_ok());
    task.lineage = Some(path(17));
    assert_eq!(causes.admit(&task, &giver(&root("main"), 1, "go")), Err(Runaway::Hops(17)));
}

/// OR-87
#[test]
fn a_step_makes_ten_tasks_and_a_task_has_twenty_unfinished() {
    let mut causes = Causes::default();
    let main = root("main");
    let mut made = Vec::new();
    let mut refused = 0;
    for step in 1..=3 {
        for n in 0..12 {
            let task = below(&main, &format!("t-{step}-{n}"), "child", &format!("{step} {n}"));
            match causes.admit(&task, &giver(&main, step, &task.body)) {
                Ok(_) => {
                    causes.opened(&task);
                    made.push(task);
                }
                Err(Runaway::Fanout(_)) => refused += 1,
                Err(other) => unreachable!("{other}"),
            }
        }
    }
    assert_eq!((made.len(), refused), (20, 16));

    causes.ended(&made[0]);
    let task = below(&main, "next", "child", "next");
    assert!(causes.admit(&task, &giver(&main, 4, "next")).is_ok());
}

/// OR-87
#[test]
fn one_cause_leads_to_two_hundred_tasks() {
    let mut causes = Causes::default();
    let main = root("main");
    causes.led_to_more(&main);
    for n in 0..200_u32 {
        let task = below(&main, &format!("t-{n}"), "child", &format!("words {n}"));
        assert!(causes.admit(&task, &giver(&main, n, &task.body)).is_ok(), "{n}");
        causes.opened(&task);
        causes.ended(&task);
    }
    let more = below(&main, "more", "child", "one more");
    assert!(matches!(causes.admit(&more, &giver(&main, 999, "one more")), Err(Runaway::Fanout(_))));
}

/// OR-88: case and white space are ignored.
#[test]
fn the_same_words_a_third_time_are_a_loop() {
    let mut causes = Causes::default();
    let main = root("main");
    causes.led_to_more(&main);
    for (n, words) in ["Look it up", "look  IT up"].into_iter().enumerate() {
        let task = below(&main, &format!("t-{n}"), "child", words);
        assert!(causes.admit(&task, &giver(&main, 1, words)).is_ok());
    }
    let third = below(&main, "t-2", "child", "LOOK it up");
    let other_team = below(&main, "t-3", "other", "look it up");

    assert!(matches!(causes.admit(&third, &giver(&main, 1, &third.body)), Err(Runaway::Loop(_))));
    assert!(causes.admit(&other_team, &giver(&main, 1, &other_team.body)).is_ok());
}

/// OR-88: whatever the words.
#[test]
fn the_fourth_round_trip_between_two_teams_is_a_loop() {
    let mut causes = Causes::default();
    let mut task = root("main");
    let mut trips = 0;
    for n in 0..20 {
        let to = if n % 2 == 0 { "child" } else { "main" };
        let next = below(&task, &format!("t-{n}"), to, &format!("words {n}"));
        let verdict = causes.admit(&next, &giver(&task, 1, &next.body));
        if n % 2 == 1 || n > 0 {
            trips += 1;
        }
        match verdict {
            Ok(_) => causes.opened(&next),
            Err(Runaway::Loop(chain)) => {
                assert!(chain.contains("main → child → main"), "{chain}");
                assert_eq!(trips, 4);
                return;
            }
            Err(other) => unreachable!("{other}"),
        }
        task = next;
    }
    unreachable!("the loop was not noticed");
}

/// A cause is forgotten with its last task, and is there again after a restart.
#[test]
fn a_cause_lasts_as_long_as_its_tasks() {
    let mut causes = Causes::default();
    let main = root("main");
    let task = below(&main, "t-1", "child", "once");
    let counts = causes.admit(&task, &giver(&main, 1, "once")).unwrap_or_default();
    causes.opened(&task);

    let mut later = Causes::default();
    let over = later.recover(
        vec![("task-0".into(), counts.clone()), ("gone".into(), counts)],
        &[task.clone().into()],
    );

    assert_eq!(over, vec![TaskId::from("gone")]);
    let again = below(&main, "t-2", "child", "once");
    assert!(later.admit(&again, &giver(&main, 1, "once")).is_ok());
    let third = below(&main, "t-3", "child", "once");
    assert!(later.admit(&third, &giver(&main, 1, "once")).is_err());
    assert_eq!(later.ended(&task), Some(("task-0".into(), true)));
}
