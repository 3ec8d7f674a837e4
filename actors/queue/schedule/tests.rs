//! The schedule against a simple model of it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::task::cause::Cause;

fn lane(team: u8, topic: u8) -> Lane {
    Lane { team: format!("team-{team}").into(), topic: Some(format!("t-{topic}").into()) }
}

fn task(number: usize) -> TaskId {
    format!("task-{number}").into()
}

fn ticket(task: TaskId, priority: Priority) -> Ticket {
    of("someone", task, priority)
}

fn of(person: &str, task: TaskId, priority: Priority) -> Ticket {
    Ticket { task, priority, person: person.into() }
}

fn limits(running: usize) -> Limits {
    Limits { running, ..Limits::default() }
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
        let of_team =
            |team: &TeamName| self.running.keys().filter(|lane| lane.team == *team).count();
        self.waiting
            .iter()
            .filter(|(lane, tasks)| {
                !tasks.is_empty()
                    && !self.running.contains_key(lane)
                    && self.held.get(lane).is_none_or(|until| *until <= self.now)
                    && self.resting.get(&lane.team).is_none_or(|until| *until <= self.now)
                    && of_team(&lane.team) < cap
            })
            .map(|(lane, _)| lane.clone())
            .collect()
    }

    /// That the schedule says the same of every lane and team.
    fn check(&self, schedule: &Schedule) -> Result<(), TestCaseError> {
        prop_assert_eq!(schedule.running, self.running.len());
        for (lane, waiting) in &self.waiting {
            prop_assert_eq!(&schedule.waiting_in(lane), waiting);
            prop_assert_eq!(schedule.is_running(lane), self.running.contains_key(lane));
            for (place, id) in waiting.iter().enumerate() {
                let ahead = place + usize::from(self.running.contains_key(lane));
                prop_assert_eq!(schedule.ahead_of(lane, id), ahead);
            }
        }
        for (name, waiting, running) in schedule.teams() {
            let of_team = |lane: &Lane| lane.team == *name;
            let lanes = self.waiting.iter().filter(|(lane, _)| of_team(lane));
            prop_assert_eq!(waiting, lanes.map(|(_, tasks)| tasks.len()).sum::<usize>());
            prop_assert_eq!(running, self.running.keys().filter(|lane| of_team(lane)).count());
        }
        Ok(())
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
                    schedule.push(&lane, ticket(task(number), Priority::Normal));
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
                        schedule.put_back(&lane, ticket(id.clone(), Priority::Normal), until);
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
            model.check(&schedule)?;
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
            schedule.push(&lane(1, 0), ticket(task(number), Priority::Normal));
        }
        for ran in turns {
            let (started, _) = schedule.next(Timestamp(0)).unwrap();
            schedule.finished(&started, Duration::from_millis(ran));
        }

        let (busy, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.push(&lane(0, 0), ticket(task(1_000_000), Priority::Normal));
        schedule.finished(&busy, Duration::from_millis(1));

        prop_assert_eq!(schedule.next(Timestamp(0)).unwrap().0, lane(0, 0));
    }
}

/// OR-77
#[test]
fn ten_thousand_waiting_tasks_of_one_team_do_not_starve_another() {
    let mut schedule = Schedule::new(limits(1));
    for number in 0..10_000 {
        schedule.push(&lane(1, 0), ticket(task(number), Priority::Normal));
    }
    let (busy, _) = schedule.next(Timestamp(0)).unwrap();

    schedule.push(&lane(2, 0), ticket(task(10_000), Priority::Normal));
    schedule.finished(&busy, Duration::from_secs(60));

    assert_eq!(schedule.next(Timestamp(0)).unwrap(), (lane(2, 0), task(10_000)));
}

/// OR-77: a team is charged for the time that its turns ran.
#[test]
fn a_team_with_short_turns_starts_as_many_more_of_them() {
    let mut schedule = Schedule::new(limits(1));
    for number in 0..2_000 {
        schedule.push(&lane(1, 0), ticket(task(number), Priority::Normal));
        schedule.push(&lane(2, 0), ticket(task(2_000 + number), Priority::Normal));
    }

    let mut starts = [0, 0];
    for _ in 0..1_100 {
        let (next, _) = schedule.next(Timestamp(0)).unwrap();
        let long = next == lane(1, 0);
        let ran = Duration::from_secs(if long { 10 } else { 1 });
        starts[usize::from(long)] += 1;
        schedule.finished(&next, ran);
    }

    let [short, long] = starts;
    assert!((99..=101).contains(&long), "{long} long, {short} short");
}

/// OR-77, OR-78: one person fills 300 topics of a team; another one, and the same one in a quiet topic, wait
/// for the next free slot and no longer.
#[test]
fn a_quiet_person_is_served_before_the_next_turn_of_one_with_many_topics() {
    let topic =
        |number: usize| Lane { team: "main".into(), topic: Some(format!("t-{number}").into()) };
    for (person, lane) in [("quiet", topic(300)), ("loud", topic(300))] {
        let mut schedule = Schedule::new(limits(8));
        for number in 0..6_000 {
            let ticket = of("loud", task(number), Priority::Normal);
            schedule.push(&topic(number % 300), ticket);
        }
        let mut running: VecDeque<Lane> = VecDeque::new();
        for _ in 0..900 {
            while let Some((lane, _)) = schedule.next(Timestamp(0)) {
                running.push_back(lane);
            }
            let over = running.pop_front().unwrap();
            schedule.finished(&over, Duration::from_millis(125));
        }
        while let Some((lane, _)) = schedule.next(Timestamp(0)) {
            running.push_back(lane);
        }

        schedule.push(&lane, of(person, task(6_000), Priority::Normal));
        let over = running.pop_front().unwrap();
        schedule.finished(&over, Duration::from_millis(125));

        assert_eq!(schedule.next(Timestamp(0)), Some((lane, task(6_000))), "{person}");
    }
}

/// OR-77, OR-78: in the one lane of a team without topics people take turns, each in the order of their own tasks.
#[test]
fn people_take_turns_in_a_lane_without_topics() {
    let mut schedule = Schedule::new(limits(1));
    let lane = Lane { team: "left".into(), topic: None };
    for number in 0..100 {
        schedule.push(&lane, of("loud", task(number), Priority::Normal));
    }
    let mut order = Vec::new();
    let mut run = |schedule: &mut Schedule, times: usize| {
        for _ in 0..times {
            let (lane, id) = schedule.next(Timestamp(0)).unwrap();
            schedule.finished(&lane, Duration::ZERO);
            order.push(id);
        }
    };
    run(&mut schedule, 10);

    for number in 100..103 {
        schedule.push(&lane, of("quiet", task(number), Priority::Normal));
    }
    schedule.push(&lane, of("loud", task(200), Priority::High));
    run(&mut schedule, 7);

    assert_eq!(order[..10], (0..10).map(task).collect::<Vec<_>>());
    assert_eq!(order[10], task(200));
    let quiet = [100, 101, 102].map(task);
    let places = quiet.map(|id| order.iter().position(|other| *other == id).unwrap());
    assert_eq!(places, [11, 13, 15], "{order:?}");
}

/// OR-77: newcomers go first, but however many come, nobody waits for ever.
#[test]
fn a_stream_of_newcomers_starves_nobody() {
    let mut schedule = Schedule::new(limits(1));
    let topic =
        |number: usize| Lane { team: "main".into(), topic: Some(format!("t-{number}").into()) };
    schedule.push(&topic(0), of("regular", task(0), Priority::Normal));
    schedule.next(Timestamp(0)).unwrap();
    schedule.push(&topic(0), of("regular", task(1), Priority::Normal));
    schedule.finished(&topic(0), Duration::from_millis(1));

    let mut order = Vec::new();
    for number in 2..3_000 {
        let person = format!("guest-{number}");
        schedule.push(&topic(number), of(&person, task(number), Priority::Normal));
        let (lane, id) = schedule.next(Timestamp(0)).unwrap();
        schedule.finished(&lane, Duration::from_millis(1));
        order.push(id);
    }

    let served = order.iter().position(|id| *id == task(1)).unwrap();
    assert!((500..=1_100).contains(&served), "{served}");
}

/// OR-78: urgency goes before whose turn it is.
#[test]
fn an_urgent_task_goes_before_that_of_a_quiet_person() {
    let mut schedule = Schedule::new(limits(1));
    let loud = |number, priority| of("loud", task(number), priority);
    schedule.push(&lane(1, 0), loud(1, Priority::Normal));
    let (first, _) = schedule.next(Timestamp(0)).unwrap();
    schedule.push(&lane(1, 1), of("quiet", task(2), Priority::Normal));
    schedule.push(&lane(1, 2), loud(3, Priority::Normal));
    schedule.push(&lane(1, 3), loud(4, Priority::High));
    schedule.finished(&first, Duration::ZERO);

    let mut order = Vec::new();
    while let Some((lane, id)) = schedule.next(Timestamp(0)) {
        schedule.finished(&lane, Duration::ZERO);
        order.push(id);
    }

    assert_eq!(order, [4, 2, 3].map(task));
}

/// OR-77
#[test]
fn an_idle_team_saves_nothing_up() {
    let mut schedule = Schedule::new(limits(1));
    for number in 0..100 {
        schedule.push(&lane(1, 0), ticket(task(number), Priority::Normal));
    }
    for _ in 0..50 {
        let (busy, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.finished(&busy, Duration::from_secs(60));
    }
    for number in 100..110 {
        schedule.push(&lane(2, 0), ticket(task(number), Priority::Normal));
    }

    let mut order = Vec::new();
    for _ in 0..10 {
        let (next, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.finished(&next, Duration::from_secs(60));
        order.push(next.team);
    }

    let idle = order.iter().filter(|team| **team == lane(2, 0).team).count();
    assert!((5..=6).contains(&idle), "{order:?}");
}

/// OR-77
#[test]
fn equals_go_by_name() {
    let mut schedule = Schedule::new(limits(3));
    for team in [3, 1, 2] {
        schedule.push(&lane(team, 0), ticket(task(team.into()), Priority::Normal));
    }

    let order = [(); 3].map(|()| schedule.next(Timestamp(0)).unwrap().0.team);

    assert_eq!(order, [1, 2, 3].map(|team| lane(team, 0).team));
}

/// OR-79
#[test]
fn one_team_holds_at_most_three_quarters_of_the_slots() {
    let mut schedule = Schedule::new(limits(8));
    for topic in 0..8 {
        schedule.push(&lane(1, topic), ticket(task(topic.into()), Priority::Normal));
    }
    let started = std::iter::from_fn(|| schedule.next(Timestamp(0))).count();
    schedule.push(&lane(2, 0), ticket(task(9), Priority::Normal));

    assert_eq!(started, 6);
    assert_eq!(schedule.next(Timestamp(0)).unwrap().0, lane(2, 0));
}

/// OR-80, CH-67
#[test]
fn a_full_topic_team_or_queue_takes_no_more() {
    let mut schedule =
        Schedule::new(Limits { running: 1, waiting_in_topic: 2, waiting_for_team: 3, waiting: 4 });
    let mut answers = Vec::new();
    for (number, (team, topic)) in
        [(1, 0), (1, 0), (1, 0), (1, 1), (1, 1), (2, 0), (3, 0)].into_iter().enumerate()
    {
        let answer = schedule.admits(&lane(team, topic));
        if answer.is_ok() {
            schedule.push(&lane(team, topic), ticket(task(number), Priority::Normal));
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
    schedule.push(&lane(1, 0), ticket(task(1), Priority::Normal));
    schedule.rest(&lane(1, 0).team, Timestamp(10));
    schedule.push(&lane(1, 1), ticket(task(2), Priority::Normal));

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
    schedule.put_back(&lane(1, 0), ticket(task(1), Priority::Normal), Some(Timestamp(10)));
    schedule.push(&lane(1, 0), ticket(task(2), Priority::Normal));

    assert!(schedule.remove(&lane(1, 0), &task(1)));

    assert_eq!(schedule.wakes_at(), None);
    assert_eq!(schedule.next(Timestamp(0)), Some((lane(1, 0), task(2))));
}

/// OR-78: a task that is tried again is as urgent as before: no less, and no more.
#[test]
fn a_returned_task_keeps_its_class() {
    let mut schedule = Schedule::new(limits(1));
    let lane = lane(1, 0);
    schedule.push(&lane, ticket(task(1), Priority::Normal));
    schedule.push(&lane, ticket(task(2), Priority::High));

    schedule.put_back(&lane, ticket(task(3), Priority::Low), None);
    schedule.put_back(&lane, ticket(task(4), Priority::Normal), None);
    schedule.put_back(&lane, ticket(task(5), Priority::Critical), None);
    schedule.push(&lane, ticket(task(6), Priority::Low));
    schedule.push(&lane, ticket(task(7), Priority::Critical));

    let order = [5, 7, 2, 4, 1, 3, 6].map(task);
    assert_eq!(schedule.waiting_in(&lane), order);
}

/// OR-77, OR-78: who comes while a task is tried again stands behind it, however much else its person has given.
#[test]
fn a_returned_task_is_not_overtaken_by_newcomers() {
    let mut schedule = Schedule::new(limits(1));
    let lane = Lane { team: "team".into(), topic: None };
    schedule.push(&lane, of("ann", task(1), Priority::Normal));
    schedule.push(&lane, of("ann", task(2), Priority::Normal));
    schedule.next(Timestamp(0)).unwrap();

    schedule.put_back(&lane, of("ann", task(1), Priority::Normal), None);
    schedule.push(&lane, of("bob", task(3), Priority::Normal));

    assert_eq!(schedule.waiting_in(&lane), [1, 3, 2].map(task));
}

/// SE-130, OR-79: a turn that waits for other work holds no slot, and takes one again before it goes on.
#[test]
fn a_turn_that_waits_for_other_work_lends_its_slot() {
    let mut schedule = Schedule::new(limits(1));
    schedule.push(&lane(1, 0), ticket(task(1), Priority::Normal));
    schedule.push(&lane(2, 0), ticket(task(2), Priority::Normal));
    schedule.lend(&lane(2, 0));
    assert_eq!(schedule.running, 0, "what does not run lends nothing");
    schedule.next(Timestamp(0)).unwrap();
    assert_eq!(schedule.next(Timestamp(0)), None);

    // Two of its calls wait: the slot is lent once.
    schedule.lend(&lane(1, 0));
    schedule.lend(&lane(1, 0));
    assert_eq!(schedule.running, 0);
    assert_eq!(schedule.next(Timestamp(0)).unwrap().0, lane(2, 0));

    assert!(schedule.reclaim(&lane(1, 0)), "the other call still waits");
    assert_eq!(schedule.running, 1);
    assert!(!schedule.reclaim(&lane(1, 0)), "the slot is taken");
    schedule.finished(&lane(2, 0), Duration::ZERO);
    assert!(schedule.reclaim(&lane(1, 0)));
    assert_eq!(schedule.running, 1);
    assert!(schedule.reclaim(&lane(1, 0)), "nothing is lent any more");
    assert_eq!(schedule.running, 1);
    schedule.finished(&lane(1, 0), Duration::ZERO);
    assert_eq!(schedule.running, 0);
}

/// OR-79: a turn that ends while its slot is lent gives back no second one.
#[test]
fn a_turn_that_ends_while_it_lends_frees_nothing_twice() {
    let mut schedule = Schedule::new(limits(2));
    for team in [1, 2] {
        schedule.push(&lane(team, 0), ticket(task(team.into()), Priority::Normal));
        schedule.next(Timestamp(0)).unwrap();
    }

    schedule.lend(&lane(1, 0));
    schedule.finished(&lane(1, 0), Duration::ZERO);

    assert_eq!(schedule.running, 1);
}

/// OR-79: the limit of turns at a time can be changed.
#[test]
fn more_slots_are_used_at_once() {
    let mut schedule = Schedule::new(limits(1));
    for team in [1, 2] {
        schedule.push(&lane(team, 0), ticket(task(team.into()), Priority::Normal));
    }
    schedule.next(Timestamp(0)).unwrap();
    assert_eq!(schedule.next(Timestamp(0)), None);

    schedule.allow(2);

    assert_eq!(schedule.next(Timestamp(0)).unwrap().0, lane(2, 0));
}

/// SE-20: a lane is held up to the moment and not beyond; one that is let go starts at once.
#[test]
fn a_held_lane_goes_on_at_its_moment_or_when_it_is_let_go() {
    let mut schedule = Schedule::new(limits(2));
    for topic in [1, 2] {
        schedule.push(&lane(topic, 0), ticket(task(topic.into()), Priority::Normal));
        schedule.hold(&lane(topic, 0), Timestamp(10));
    }
    assert_eq!(schedule.next(Timestamp(9)), None);

    schedule.unhold(&lane(2, 0));

    assert_eq!(schedule.next(Timestamp(9)).unwrap().0, lane(2, 0));
    assert_eq!(schedule.wakes_at(), Some(Timestamp(10)));
    assert_eq!(schedule.next(Timestamp(10)).unwrap().0, lane(1, 0));
    assert_eq!(schedule.wakes_at(), None);
}

/// OR-80: who is refused is told how many wait.
#[test]
fn a_refusal_says_how_many_wait() {
    assert_eq!([Full::Topic(7), Full::Queue(9)].map(Full::waiting), [7, 9]);
}

/// SC-117: what is remembered of people and topics is bounded; whoever waits is not forgotten.
#[test]
fn people_and_topics_of_long_ago_are_forgotten() {
    let mut schedule = Schedule::new(limits(1));
    let team = TeamName::from("team");
    let topic =
        |number: u64| Lane { team: team.clone(), topic: Some(format!("t-{number}").into()) };
    let waits = topic(0);
    schedule.push(&waits, of("person-0", task(0), Priority::Low));
    for number in 1..=3 * REMEMBERED_STARTS {
        let person = format!("person-{number}");
        schedule.push(&topic(number), of(&person, task(1), Priority::Normal));
        let (lane, _) = schedule.next(Timestamp(0)).unwrap();
        schedule.finished(&lane, Duration::ZERO);
    }

    let work = &schedule.teams[&team];
    let most = usize::try_from(REMEMBERED_STARTS).unwrap() + 1;
    assert_eq!(work.people.len(), most);
    assert_eq!(work.last_turns.len(), most - 1);
    assert_eq!(work.lanes.len(), 1, "a lane without work is no lane");
    assert_eq!(schedule.next(Timestamp(0)), Some((waits, task(0))));
}

/// OR-77: a task counts for the person who is behind it, whichever team does it.
#[test]
fn a_task_waits_with_those_of_the_person_behind_it() {
    let person = |cause: Cause, number: usize| {
        let (id, lane) = (task(number), lane(1, 1));
        let words = ("work".to_owned(), "main".to_owned());
        let waiting = Task::new(id, lane, words.0, words.1, Timestamp(0));
        let cause = Some(cause);
        Ticket::from(&Task { cause, ..waiting }).person
    };

    let ann = person(Cause::sender("ws", "ann"), 1);

    assert_eq!(ann, person(Cause::sender("ws", "ann"), 2));
    assert_ne!(ann, person(Cause::sender("ws", "bob"), 3));
    assert_ne!(ann, person(Cause::System, 4));
}

/// OR-78: a turn gives back what had joined it, the first last: so it stands first again.
#[test]
fn what_a_turn_gives_back_keeps_its_order() {
    let mut schedule = Schedule::new(limits(1));
    let lane = lane(1, 0);
    schedule.push(&lane, ticket(task(9), Priority::Normal));

    for number in [3, 2, 1] {
        schedule.put_back(&lane, ticket(task(number), Priority::Normal), None);
    }

    assert_eq!(schedule.waiting_in(&lane), [1, 2, 3, 9].map(task));
}

/// EN-27: a lane whose turns fail rests for longer each time, up to a bound, and begins again after one that is done.
#[test]
fn a_lane_rests_longer_after_each_failure_in_a_row() {
    let mut schedule = Schedule::new(limits(1));
    let lane = lane(0, 0);
    let mut now = Timestamp(0);
    let mut turn = |failed: bool| {
        schedule.push(&lane, ticket(task(0), Priority::default()));
        assert!(schedule.next(now).is_some());
        schedule.finished(&lane, Duration::ZERO);
        schedule.ended(&lane, failed, now);
        let until = schedule.wakes_at().unwrap_or(now);
        let pause = until.since(now);
        now = until;
        pause.as_secs()
    };

    let failing: Vec<u64> = (0..8).map(|_| turn(true)).collect();
    let after_success = [turn(false), turn(true), turn(true)];

    assert_eq!(failing, [1, 2, 4, 8, 16, 30, 30, 30]);
    assert_eq!(after_success, [0, 1, 2]);
}
