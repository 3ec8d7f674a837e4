//! Lists of ended tasks, wherever they lie: in the hot half, in the archive, or in both.

use std::collections::HashSet;

use hivewright_actors::{
    admission::{Admission, Reason},
    archive::Archive,
    channel_type::ChannelType,
    clock::Timestamp,
    doubles::disk::{Disk, MemoryStorage},
    ids::TaskId,
    store::{
        keys::key_of,
        records::{Record, Writes},
    },
    task::{
        Ancestor, Ending, Kind, Lane, Lineage, Outcome, Priority, Source, Task, TaskState,
        TopicRef,
        ended::ended,
        query::{TaskQuery, TaskWindow},
        records::FinishedTask,
    },
    usage::Usage,
};
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

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
        ending: ENDINGS[of(1, 5)],
        code: None,
        message: None,
        text: text.to_owned(),
        truncated: false,
        usage: Usage::default(),
        report: None,
        finished_at: made,
    });
    task
}

fn finished(tasks: &[Task]) -> Batch {
    let put = |writes: Writes, task| writes.put(&FinishedTask::of(task));
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
    (order, after, 0..40_usize, 0..60_usize).prop_map(|(order, after, most, counted)| {
        let after = after.map(|(at, number)| (Timestamp(at), id(number)));
        TaskWindow { order, after, most, counted }
    })
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
        prop_assert_eq!(found, ended(&*plain, &wanted, &window, known).unwrap());
        Ok(())
    });

    compared.unwrap();
    let all = TaskWindow { counted: 1_000, ..TaskWindow::newest(1_000) };
    let found = ended(&tiers, &TaskQuery::default(), &all, HashSet::new()).unwrap();
    assert_eq!((found.places.len(), found.total), (160, 160));
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
