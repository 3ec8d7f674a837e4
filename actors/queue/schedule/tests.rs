//! The schedule against a simple model of it.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn lane(team: u8, topic: u8) -> Lane {
    Lane {
        team: format!("team-{team}").into(),
        topic: Some(format!("t-{topic}").into()),
    }
}

fn task(number: usize) -> TaskId {
    format!("task-{number}").into()
}

fn limits(running: usize) -> Limits {
    Limits {
        running,
        ..Limits::default()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8, u8),
    Next,
    /// Which of the running ones ends, after how long.
    Finish(usize, u64),
    /// Which of the running ones goes back, held for how long.
    GiveBack(usize, Option<u64>),
    /// Which lane's first waiting task joins.
    Join(u8, u8),
    /// Which lane's newest waiting task is removed.
    Remove(u8, u8),
    Rest(u8, u64),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (team, topic) = (0..3_u8, 0..3_u8);
    prop_oneof![
        5 => (team.clone(), topic.clone()).prop_map(|(team, topic)| Step::Push(team, topic)),
        5 => Just(Step::Next),
        2 => (0..8_usize, 0..50_u64).prop_map(|(which, ran)| Step::Finish(which, ran)),
        1 => (0..8_usize, prop::option::of(1..50_u64)).prop_map(|(which, pause)| Step::GiveBack(which, pause)),
        1 => (team.clone(), topic.clone()).prop_map(|(team, topic)| Step::Join(team, topic)),
        1 => (team.clone(), topic).prop_map(|(team, topic)| Step::Remove(team, topic)),
        1 => (team, 1..50_u64).prop_map(|(team, pause)| Step::Rest(team, pause)),
        2 => (1..40_u64).prop_map(Step::Pass),
    ]
}

/// What must be true, kept in the plainest way.
#[derive(Default)]
struct Model {
    now: u64,
    waiting: BTreeMap<Lane, Vec<TaskId>>,
    running: BTreeMap<Lane, TaskId>,
    held: BTreeMap<Lane, u64>,
    resting: BTreeMap<TeamName, u64>,
}

impl Model {
    fn startable(&self, cap: usize) -> BTreeSet<Lane> {
        let of_team = |team: &TeamName| {
            self.running
                .keys()
                .filter(|lane| lane.team == *team)
                .count()
        };
        self.waiting
            .iter()
            .filter(|(lane, tasks)| {
                !tasks.is_empty()
                    && !self.running.contains_key(lane)
                    && self.held.get(lane).is_none_or(|until| *until <= self.now)
                    && self
                        .resting
                        .get(&lane.team)
                        .is_none_or(|until| *until <= self.now)
                    && of_team(&lane.team) < cap
            })
            .map(|(lane, _)| lane.clone())
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// OR-78, OR-79, CH-84: no task is lost or doubled, none overtakes another of its lane, no lane
    /// runs two, and a slot is used whenever something can start.
    #[test]
    fn the_schedule_does_what_its_model_does(steps in prop::collection::vec(step(), 1..120)) {
        let mut schedule = Schedule::new(limits(4));
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(team, topic) => {
                    let lane = lane(team, topic);
                    schedule.push(&lane, task(number), Priority::Normal);
                    model.waiting.entry(lane).or_default().push(task(number));
                }
                Step::Next => {
                    let startable = model.startable(3);
                    match schedule.next(Timestamp(model.now)) {
                        Some((lane, id)) => {
                            prop_assert!(startable.contains(&lane), "{lane:?} cannot start");
                            prop_assert!(model.running.len() < 4);
                            let waiting = model.waiting.get_mut(&lane).unwrap();
                            prop_assert_eq!(waiting.remove(0), id.clone());
                            model.running.insert(lane, id);
                        }
                        None => prop_assert!(startable.is_empty() || model.running.len() == 4),
                    }
                }
                Step::Finish(which, ran) => {
                    if let Some(lane) = model.running.keys().nth(which).cloned() {
                        model.running.remove(&lane);
                        schedule.finished(&lane, Duration::from_millis(ran));
                    }
                }
                Step::GiveBack(which, pause) => {
                    if let Some(lane) = model.running.keys().nth(which).cloned() {
                        let id = model.running.remove(&lane).unwrap();
                        let until = pause.map(|pause| Timestamp(model.now + pause));
                        schedule.finished(&lane, Duration::ZERO);
                        schedule.put_back(&lane, id.clone(), Priority::Normal, until);
                        model.waiting.entry(lane.clone()).or_default().insert(0, id);
                        if let Some(until) = until {
                            model.held.insert(lane, until.0);
                        }
                    }
                }
                Step::Join(team, topic) => {
                    let lane = lane(team, topic);
                    let runs = model.running.contains_key(&lane);
                    let waiting = model.waiting.entry(lane.clone()).or_default();
                    if let Some(id) = waiting.last().cloned() {
                        prop_assert_eq!(schedule.take(&lane, &id), runs);
                        waiting.truncate(waiting.len() - usize::from(runs));
                    }
                }
                Step::Remove(team, topic) => {
                    let lane = lane(team, topic);
                    if let Some(id) = model.waiting.get_mut(&lane).and_then(Vec::pop) {
                        prop_assert!(schedule.remove(&lane, &id));
                        if model.waiting[&lane].is_empty() {
                            model.held.remove(&lane);
                        }
                        prop_assert!(!schedule.remove(&lane, &id));
                    }
                }
                Step::Rest(team, pause) => {
                    let name = lane(team, 0).team;
                    schedule.rest(&name, Timestamp(model.now + pause));
                    model.resting.insert(name, model.now + pause);
                }
                Step::Pass(time) => model.now += time,
            }
            prop_assert_eq!(schedule.running(), model.running.len());
            for (lane, waiting) in &model.waiting {
                prop_assert_eq!(&schedule.waiting_in(lane), waiting);
                prop_assert_eq!(schedule.is_running(lane), model.running.contains_key(lane));
                for (place, id) in waiting.iter().enumerate() {
                    let ahead = place + usize::from(model.running.contains_key(lane));
                    prop_assert_eq!(schedule.ahead_of(lane, id), ahead);
                }
            }
            for (name, waiting, running) in schedule.teams() {
                let of_team = |lane: &Lane| lane.team == *name;
                let lanes = model.waiting.iter().filter(|(lane, _)| of_team(lane));
                prop_assert_eq!(waiting, lanes.map(|(_, tasks)| tasks.len()).sum::<usize>());
                prop_assert_eq!(running, model.running.keys().filter(|lane| of_team(lane)).count());
            }
        }
    }

    /// OR-77: whoever has waited least gets the next slot, so the one task of a quiet team waits for
    /// one turn of a busy one at most.
    #[test]
    fn a_busy_team_delays_a_quiet_one_by_at_most_one_turn(
        turns in prop::collection::vec(1..10_000_u64, 0..20), backlog in 1..200_usize
    ) {
        let mut schedule = Schedule::new(limits(1));
        for number in 0..backlog + turns.len() {
            schedule.push(&lane(1, 0), task(number), Priority::Normal);
        }
        for ran in turns {
            let (started, _) = schedule.next(Timestamp(0)).unwrap();
            schedule.finished(&started, Duration::from_millis(ran));
        }

        let (busy, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.push(&lane(0, 0), task(1_000_000), Priority::Normal);
        schedule.finished(&busy, Duration::from_millis(1));

        prop_assert_eq!(schedule.next(Timestamp(0)).unwrap().0, lane(0, 0));
    }
}

/// OR-77
#[test]
fn ten_thousand_waiting_tasks_of_one_team_do_not_starve_another() {
    let mut schedule = Schedule::new(limits(1));
    for number in 0..10_000 {
        schedule.push(&lane(1, 0), task(number), Priority::Normal);
    }
    let (busy, _) = schedule.next(Timestamp(0)).unwrap();

    schedule.push(&lane(2, 0), task(10_000), Priority::Normal);
    schedule.finished(&busy, Duration::from_secs(60));

    assert_eq!(
        schedule.next(Timestamp(0)).unwrap(),
        (lane(2, 0), task(10_000))
    );
}

/// OR-77
#[test]
fn an_idle_team_saves_nothing_up() {
    let mut schedule = Schedule::new(limits(1));
    for number in 0..100 {
        schedule.push(&lane(1, 0), task(number), Priority::Normal);
    }
    for _ in 0..50 {
        let (busy, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.finished(&busy, Duration::from_secs(60));
    }
    for number in 100..110 {
        schedule.push(&lane(2, 0), task(number), Priority::Normal);
    }

    let mut order = Vec::new();
    for _ in 0..10 {
        let (next, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.finished(&next, Duration::from_secs(60));
        order.push(next.team);
    }

    let idle = order
        .iter()
        .filter(|team| **team == lane(2, 0).team)
        .count();
    assert!((5..=6).contains(&idle), "{order:?}");
}

/// OR-77
#[test]
fn equals_go_by_name() {
    let mut schedule = Schedule::new(limits(3));
    for team in [3, 1, 2] {
        schedule.push(&lane(team, 0), task(team.into()), Priority::Normal);
    }

    let order = [(); 3].map(|()| schedule.next(Timestamp(0)).unwrap().0.team);

    assert_eq!(order, [1, 2, 3].map(|team| lane(team, 0).team));
}

/// OR-79
#[test]
fn one_team_holds_at_most_three_quarters_of_the_slots() {
    let mut schedule = Schedule::new(limits(8));
    for topic in 0..8 {
        schedule.push(&lane(1, topic), task(topic.into()), Priority::Normal);
    }
    let started = std::iter::from_fn(|| schedule.next(Timestamp(0))).count();
    schedule.push(&lane(2, 0), task(9), Priority::Normal);

    assert_eq!(started, 6);
    assert_eq!(schedule.next(Timestamp(0)).unwrap().0, lane(2, 0));
}

/// OR-80, CH-67
#[test]
fn a_full_topic_team_or_queue_takes_no_more() {
    let mut schedule = Schedule::new(Limits {
        running: 1,
        waiting_in_topic: 2,
        waiting_for_team: 3,
        waiting: 4,
    });
    let mut answers = Vec::new();
    for (number, (team, topic)) in [(1, 0), (1, 0), (1, 0), (1, 1), (1, 1), (2, 0), (3, 0)]
        .into_iter()
        .enumerate()
    {
        let answer = schedule.admits(&lane(team, topic));
        if answer.is_ok() {
            schedule.push(&lane(team, topic), task(number), Priority::Normal);
        }
        answers.push(answer);
    }

    assert_eq!(
        answers,
        [
            Ok(()),
            Ok(()),
            Err(Full::Topic(2)),
            Ok(()),
            Err(Full::Queue(3)),
            Ok(()),
            Err(Full::Queue(4)),
        ]
    );
}

/// OR-96
#[test]
fn a_resting_team_starts_nothing_and_then_goes_on() {
    let mut schedule = Schedule::new(limits(2));
    schedule.push(&lane(1, 0), task(1), Priority::Normal);
    schedule.rest(&lane(1, 0).team, Timestamp(10));
    schedule.push(&lane(1, 1), task(2), Priority::Normal);

    let early = schedule.next(Timestamp(9));
    let wakes_at = schedule.wakes_at();
    let late = schedule.next(Timestamp(10));

    assert_eq!(early, None);
    assert_eq!(wakes_at, Some(Timestamp(10)));
    assert_eq!(late, Some((lane(1, 0), task(1))));
}

/// SE-20: a pause is for the task that failed, not for those behind it.
#[test]
fn a_lane_does_not_rest_for_a_task_that_is_gone() {
    let mut schedule = Schedule::new(limits(1));
    schedule.put_back(&lane(1, 0), task(1), Priority::Normal, Some(Timestamp(10)));
    schedule.push(&lane(1, 0), task(2), Priority::Normal);

    assert!(schedule.remove(&lane(1, 0), &task(1)));

    assert_eq!(schedule.wakes_at(), None);
    assert_eq!(schedule.next(Timestamp(0)), Some((lane(1, 0), task(2))));
}

/// OR-78: a task that is tried again is as urgent as before: no less, and no more.
#[test]
fn a_returned_task_keeps_its_class() {
    let mut schedule = Schedule::new(limits(1));
    let lane = lane(1, 0);
    schedule.push(&lane, task(1), Priority::Normal);
    schedule.push(&lane, task(2), Priority::High);

    schedule.put_back(&lane, task(3), Priority::Low, None);
    schedule.put_back(&lane, task(4), Priority::Normal, None);
    schedule.put_back(&lane, task(5), Priority::Critical, None);
    schedule.push(&lane, task(6), Priority::Low);
    schedule.push(&lane, task(7), Priority::Critical);

    let order = [5, 7, 2, 4, 1, 3, 6].map(task);
    assert_eq!(schedule.waiting_in(&lane), order);
}
