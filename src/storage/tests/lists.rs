//! Lists of ended tasks, wherever they lie: in the hot half, in the archive, or in both.

use std::{collections::HashSet, time::Duration};

use hivewright_actors::{
    admission::{Admission, Reason},
    archive::Archive,
    budget::{
        Tally,
        query::{UsagePlace, UsageQuery, UsageRank},
        records::{DayKey, TaskCalls, each_task_calls, ended_calls},
    },
    channel_type::ChannelType,
    clock::Timestamp,
    doubles::disk::{Disk, MemoryStorage},
    ids::TaskId,
    order::Window,
    store::{
        keys::key_of,
        records::{Record, Writes, encode},
    },
    task::{
        Ancestor, Kind, Lane, Lineage, Priority, Source, Task, TaskState, TopicRef,
        ended::{count_ended, ended},
        outcome::{Ending, Outcome},
        query::{TaskPage, TaskPlace, TaskQuery, TaskWindow},
        records::{EndedTask, FinishedTask},
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const TEAMS: [&str; 3] = ["main", "ops", "billing"];
const SENDERS: [&str; 3] = ["ann", "bob", "main"];
const TOPICS: [&str; 3] = ["t-1", "t-2", "t-3"];
const ENDINGS: [Ending; 5] =
    [Ending::Done, Ending::Failed, Ending::Cancelled, Ending::Expired, Ending::Dead];

fn id(number: usize) -> TaskId {
    format!("task-{number:016x}").into()
}

/// Tasks that differ in all that lists filter by; several were made in the same moment.
fn task(number: usize) -> Task {
    let noise = noise(number as u64, 10);
    let of = |place: usize, most: usize| usize::from(noise[place]) % most;
    let made = Timestamp(1_000 + (number as u64 * 7_919 % 100) / 3);
    let lane = Lane { team: TEAMS[of(0, 3)].into(), topic: None };
    let body = format!("water the {}", ["garden", "Lawn", "roses"][of(1, 3)]);
    let mut task = Task::new(id(number), lane, body, SENDERS[of(2, 3)].to_owned(), made);
    task.kind = Kind::ALL[of(3, 2) * of(3, Kind::ALL.len())];
    task.priority = Priority::ALL[of(4, Priority::ALL.len())];
    let topic = TOPICS.get(of(5, 5));
    task.source = (of(6, 4) > 0).then(|| Source {
        topic: topic.map(|topic| TopicRef { id: (*topic).into(), name: "Garden".to_owned() }),
        ..Source::channel("ws:1".into())
    });
    task.admission = (of(7, 3) > 0).then_some(Admission {
        channel_type: ChannelType::Ws,
        reason: Reason::SenderAllowlist,
        asserted_by: None,
        listener: None,
    });
    if of(8, 3) == 0 {
        let root = id(number % 4);
        let path = vec![Ancestor { task: root.clone(), team: "main".into() }];
        task.lineage = Some(Lineage { root, path });
    }
    let text = ["Done.", "It RAINED."][of(9, 2)];
    task.outcome = Some(Outcome {
        text: text.to_owned(),
        ..Outcome::new(ENDINGS[of(1, 5)], made + DAY * u32::from(noise[4]) / 64)
    });
    task
}

/// Most of them with what they came to, which several have in common.
fn finished(tasks: &[Task]) -> Batch {
    let put = |writes: Writes, task: &Task| {
        let of = task.id.as_str().bytes().map(u64::from).sum::<u64>() * 7_919;
        let tally =
            Tally { requests: 1 + of % 3 / 2, usd: (of % 4) as f64 / 4.0, ..Tally::default() };
        let writes = writes.put(&FinishedTask::of(task));
        if of % 5 > 0 { writes.and(ended_calls(task, &tally)) } else { writes }
    };
    tasks.iter().fold(Writes::new(), put).batch().unwrap()
}

/// Moves everything that there is.
fn archive(storage: &TieredStorage) {
    while storage.take_next().unwrap() {}
}

/// The same tasks in two tiers and in one: archived ones, some that were changed since, some that are in both, and some that
/// have not moved yet.
fn stores() -> (Place, TieredStorage, Arc<MemoryStorage>) {
    let place = Place::new();
    let (tiers, plain) = (place.open(), Disk::default().mount(None));
    let tasks: Vec<Task> = (0..160).map(task).collect();
    tiers.commit(&finished(&tasks[..100])).unwrap();
    archive(&tiers);
    let changed =
        |task: &Task| Task { priority: Priority::Low, body: "…".to_owned(), ..task.clone() };
    let changed: Vec<Task> = tasks[..7].iter().map(changed).collect();
    tiers.commit(&finished(&changed)).unwrap();
    tiers.commit(&finished(&tasks[100..130])).unwrap();
    tiers.take_oldest().unwrap();
    tiers.commit(&finished(&tasks[130..])).unwrap();
    // It moved as it was before.
    tiers
        .commit(&finished(&[Task { priority: Priority::Critical, ..tasks[110].clone() }]))
        .unwrap();
    plain.commit(&finished(&tasks)).unwrap();
    plain.commit(&finished(&changed)).unwrap();
    plain
        .commit(&finished(&[Task { priority: Priority::Critical, ..tasks[110].clone() }]))
        .unwrap();
    (place, tiers, plain)
}

fn queries() -> impl Strategy<Value = TaskQuery> {
    let states = select(TaskState::ALL.to_vec());
    let teams = vec(select(TEAMS.to_vec()).prop_map(Into::into), 0..3);
    let kinds = select(vec![Kind::Chat, Kind::Chat, Kind::Delegate, Kind::Compact]);
    let of = (
        option::weighted(0.3, states),
        option::weighted(0.4, teams),
        option::weighted(0.3, kinds),
        option::weighted(0.3, select(Priority::ALL.to_vec())),
        option::weighted(0.3, select(vec!["t-1", "t-2", "t-9"])),
        option::weighted(0.3, (0..6_usize).prop_map(id)),
    );
    let words = select(vec!["rain", "lawn", "task-0", "nowhere"]);
    let more = (
        any::<bool>(),
        option::weighted(0.2, select(vec!["ann", "bob", "eve"])),
        option::weighted(0.3, 1_000..1_035_u64),
        option::weighted(0.3, 1_000..1_035_u64),
        option::weighted(0.2, words),
    );
    (of, more).prop_map(|(of, more)| {
        let (state, teams, kind, priority, topic, root) = of;
        let (admitted, sender, since, until, words) = more;
        TaskQuery {
            state,
            teams,
            kind,
            priority,
            topic: topic.map(Into::into),
            root,
            admitted,
            sender: sender.map(str::to_owned),
            since: Timestamp(since.unwrap_or_default()),
            until: until.map(Timestamp),
            words: words.map(str::to_owned),
        }
    })
}

fn windows() -> impl Strategy<Value = TaskWindow> {
    let order = select(vec![Order::Rising, Order::Falling]);
    let after = option::of((995..1_040_u64, 0..160_usize));
    let skip = option::weighted(0.5, 0..50_usize).prop_map(Option::unwrap_or_default);
    (order, after, skip, 0..40_usize, 0..60_usize).prop_map(
        |(order, after, skip, most, counted)| {
            let after = after.map(|(at, number)| (Timestamp(at), id(number)));
            TaskWindow { order, after, skip, most: skip + most, counted }
        },
    )
}

/// What there is behind the first, which are wanted only as a number, and how many there are in all.
fn behind(mut part: TaskPage, skip: usize) -> (Vec<TaskPlace>, usize) {
    let skip = skip - part.skipped;
    (part.places.split_off(skip.min(part.places.len())), part.total)
}

/// OP-02: whatever is filtered by and wherever tasks lie, a list is the one that a walk over all of them makes.
#[test]
fn lists_of_the_archive_are_those_of_a_walk() {
    let (_place, tiers, plain) = stores();
    let known = vec((0..160_usize).prop_map(id), 0..5);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });

    let compared = runner.run(&(queries(), windows(), known), |(wanted, window, known)| {
        let known: HashSet<TaskId> = known.into_iter().collect();
        let found = ended(&tiers, &wanted, &window, known.clone()).unwrap();
        prop_assert!(found.skipped <= window.skip);
        let expected = ended(&*plain, &wanted, &window, known).unwrap();
        prop_assert_eq!(behind(found, window.skip), behind(expected, window.skip));
        Ok(())
    });

    compared.unwrap();
    let all = TaskWindow { counted: 1_000, ..TaskWindow::newest(1_000) };
    let found = ended(&tiers, &TaskQuery::default(), &all, HashSet::new()).unwrap();
    assert_eq!((found.places.len(), found.total), (160, 160));
}

/// OP-24: so are the numbers of them.
#[test]
fn counts_of_the_archive_are_those_of_a_walk() {
    let (_place, tiers, plain) = stores();
    let known: HashSet<TaskId> = [3, 50, 115, 140].map(id).into();

    for known in [HashSet::new(), known] {
        let found = count_ended(&tiers, known.clone()).unwrap();

        assert_eq!(found.values().sum::<usize>(), 160 - known.len());
        assert_eq!(found, count_ended(&*plain, known).unwrap());
    }
}

/// All that a list of usage shows, from both tiers, and how many it says there are.
fn usage(
    storage: &dyn Storage,
    wanted: &UsageQuery,
    window: &Window<UsagePlace>,
) -> (Vec<UsagePlace>, usize) {
    let (mut places, mut total) = (Vec::new(), 0);
    let reaches = |place: &UsagePlace| {
        window.after.as_ref().is_none_or(|after| match window.order {
            Order::Rising => place > after,
            Order::Falling => place < after,
        })
    };
    let known = each_task_calls(storage, wanted, &mut |_, task, tally| {
        total += 1;
        let place = (wanted.rank.of(tally), task.clone());
        places.extend(Some(place).filter(&reaches));
    });
    let known = known.unwrap();
    let skip = window.skip.saturating_sub(places.len());
    if let Some(tiers) = storage.tiers() {
        let part = tiers.lists().usage(wanted, &Window { skip, ..window.clone() }, &known).unwrap();
        assert!(part.skipped <= skip);
        // Those that were skipped come before all that are shown.
        let first = match window.order {
            Order::Rising => f64::NEG_INFINITY,
            Order::Falling => f64::INFINITY,
        };
        places.extend((0..part.skipped).map(|_| (first, TaskId::from("skipped"))));
        places.extend(part.places);
        total += part.total;
    }
    places.sort_by(|one, other| one.partial_cmp(other).unwrap());
    if window.order == Order::Falling {
        places.reverse();
    }
    places.truncate(window.most);
    (places.split_off(window.skip.min(places.len())), total.min(window.counted + 1))
}

/// What tasks came to on days of a zone, from one day to another.
fn usage_queries() -> impl Strategy<Value = UsageQuery> {
    let ranks = select(vec![UsageRank::Usd, UsageRank::Requests, UsageRank::Task]);
    let days = option::weighted(0.7, (0..5_u32, 0..5_u32));
    (ranks, days, select(vec![0, 2, 12])).prop_map(|(rank, days, hours)| {
        let day = DAY.as_millis() as u64;
        let begins = |number: u32| (u64::from(number) * day).saturating_sub(hours * 3_600_000);
        let (from, to) = days.unwrap_or((0, 9));
        let moments = (Timestamp(begins(from)), Timestamp(begins(to + 1) - 1));
        UsageQuery { days: (from, to), moments, rank }
    })
}

/// OP-02: so is the list of what they came to, by whatever it is sorted, on whatever days.
#[test]
fn usage_of_the_archive_is_that_of_a_walk() {
    let (_place, tiers, plain) = stores();
    let calls = Tally { requests: 2, usd: 0.25, ..Tally::default() };
    let on = |day: u32, task: TaskId| {
        (key_of(TaskCalls::KIND, &(DayKey(day), task)), encode(&TaskCalls(calls)).ok())
    };
    // Of tasks that have ended on the same day, on another, or not at all.
    for calls in (0..160)
        .step_by(9)
        .map(|number| on(1 + number as u32 % 3, id(number)))
        .chain([on(1, "open".into()), on(2, "open".into())])
    {
        commit(&tiers, [calls.clone()]);
        plain.commit(&Batch::from(vec![calls])).unwrap();
    }
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    });

    let compared = runner.run(&(usage_queries(), windows()), |(wanted, window)| {
        let TaskWindow { order, after, skip, most, counted } = window;
        let ranked = |(at, id): (Timestamp, TaskId)| match wanted.rank {
            UsageRank::Task => (0.0, id),
            _ => ((at.0 % 5) as f64 / 4.0, id),
        };
        let window = Window { order, after: after.map(ranked), skip, most, counted };
        prop_assert_eq!(usage(&tiers, &wanted, &window), usage(&*plain, &wanted, &window));
        Ok(())
    });

    compared.unwrap();
    archive(&tiers);
    let moments = (Timestamp(0), Timestamp(u64::MAX >> 2));
    let all = UsageQuery { days: (0, 9), moments, rank: UsageRank::Usd };
    let window =
        Window { order: Order::Falling, after: None, skip: 0, most: 1_000, counted: 1_000 };
    let (places, total) = usage(&tiers, &all, &window);
    assert!(total > 100, "{total}");
    assert_eq!((&places, total), (&usage(&*plain, &all, &window).0, places.len()));
}

/// What a removed task came to is in no list, and what is said of one again counts.
#[test]
fn usage_follows_the_ends_of_tasks() {
    let place = Place::new();
    let storage = place.open();
    let tasks = [task(1), task(2), task(3)];
    let tally = |usd| Tally { requests: 1, usd, ..Tally::default() };
    let moments = (Timestamp(0), Timestamp(u64::MAX >> 2));
    let all = UsageQuery { days: (0, 9), moments, rank: UsageRank::Usd };
    let window = Window { order: Order::Rising, after: None, skip: 0, most: 10, counted: 10 };
    let costs = || {
        let costs = || {
            let (places, _) = usage(&storage, &all, &window);
            places.into_iter().map(|(usd, _)| usd).collect::<Vec<_>>()
        };
        let pending = costs();
        archive(&storage);
        assert_eq!(pending, costs(), "before it moves and after");
        pending
    };
    let ended = |task: &Task, usd| ended_calls(task, &tally(usd)).batch().unwrap();

    // The end of the first moves before the task.
    storage.commit(&ended(&tasks[0], 1.0)).unwrap();
    archive(&storage);
    for task in &tasks {
        commit(&storage, [(key_of(FinishedTask::KIND, &task.id), encode(task).ok())]);
    }
    assert_eq!(costs(), [1.0]);
    storage.commit(&ended(&tasks[1], 2.0)).unwrap();
    storage.commit(&ended(&tasks[2], 3.0)).unwrap();
    assert_eq!(costs(), [1.0, 2.0, 3.0]);
    storage.commit(&ended(&tasks[1], 4.0)).unwrap();
    commit(&storage, [(EndedTask::stored_key(&tasks[0]), None)]);
    let gone = [key_of(FinishedTask::KIND, &tasks[2].id), EndedTask::stored_key(&tasks[2])];
    commit(&storage, gone.map(|key| (key, None)));
    assert_eq!(costs(), [4.0]);
}

#[test]
fn a_task_that_cannot_be_read_is_in_no_list_of_the_archive() {
    let place = Place::new();
    let storage = place.open();
    storage.commit(&finished(&[task(1)])).unwrap();
    let key = key_of(FinishedTask::KIND, &id(2));
    commit(&storage, [(key.clone(), Some(b"?".to_vec()))]);
    archive(&storage);

    let all = TaskWindow { counted: 10, ..TaskWindow::newest(10) };
    let found = ended(&storage, &TaskQuery::default(), &all, HashSet::new()).unwrap();

    assert_eq!((found.places, found.total), (vec![(task(1).created_at, id(1))], 1));
    assert_eq!(storage.get(&key).unwrap().unwrap(), b"?");
}

/// What is removed leaves no name behind.
#[test]
fn the_last_task_of_a_sender_takes_the_name_with_it() {
    let place = Place::new();
    let storage = place.open();
    let by = |number: usize, from: &str, topic: &str| {
        let mut task = Task { from: from.to_owned(), ..task(number) };
        task.admission = Some(Admission {
            channel_type: ChannelType::Ws,
            reason: Reason::SenderAllowlist,
            asserted_by: None,
            listener: None,
        });
        let topic = TopicRef { id: topic.into(), name: "Garden".to_owned() };
        task.source = Some(Source { topic: Some(topic), ..Source::channel("ws:1".into()) });
        task
    };
    let tasks = [by(1, "somebody-1234", "t-gone"), by(2, "ann", "t-kept"), by(3, "ann", "t-kept")];
    storage.commit(&finished(&tasks)).unwrap();
    archive(&storage);
    let names = || {
        let names = |of| storage.cold.names(of);
        [names("sender"), names("topic")].concat()
    };
    assert_eq!(names(), ["somebody-1234", "ann", "t-gone", "t-kept"]);

    commit(&storage, [1, 2].map(|number| (key_of(FinishedTask::KIND, &id(number)), None)));
    archive(&storage);

    assert_eq!(names(), ["ann", "t-kept"]);
}
