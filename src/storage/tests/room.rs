//! What retention removes makes room for what comes next.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    archive::Archive,
    clock::Timestamp,
    retention::{pass::Pass, terms::Keeping},
    store::records::Writes,
    task::{
        Kind, Lane, Task,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
};

use super::*;
use crate::{
    retention::Keeper,
    settings::{home, live::Live, references::Environment},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Tasks of a round: some twelve MiB.
const TASKS: usize = 3_000;

fn ended(id: &str, at: Timestamp) -> Task {
    let lane = Lane { team: "news".into(), topic: None };
    // Text that does not lend itself to being stored in less space.
    let text: String = (0..4_096)
        .map(|place| char::from(b'a' + ((place * 7 + id.len() * place / 3) % 26) as u8))
        .collect();
    Task {
        kind: Kind::Delegate,
        outcome: Some(Outcome { text, ..Outcome::new(Ending::Done, at) }),
        ..Task::new(id.into(), lane, String::new(), String::new(), at)
    }
}

fn retain(storage: &TieredStorage, keeping: &Arc<Keeper>, now: Timestamp) -> u64 {
    let mut pass = Pass::new(keeping.clone(), keeping.terms().unwrap(), now);
    loop {
        let slice = pass.slice(storage, &mut || false).unwrap();
        storage.commit(&slice.writes.batch().unwrap()).unwrap();
        storage.take_next().unwrap();
        if slice.last {
            return pass.removed().tasks;
        }
    }
}

/// OR-97: a service that has run for years needs no more room than its records of the last 90 days.
#[test]
fn the_space_of_what_was_removed_is_used_again() {
    let place = Place::new();
    let storage = place.open();
    let environment = Environment::fixed([]);
    let flags =
        home::Flags { home: Some(place.folder.path().to_owned()), ..home::Flags::default() };
    let home = home::Home::new(&flags, &environment).unwrap();
    let keeping = Arc::new(Keeper { live: Live::new(home.clone(), environment), home });
    let size = |file: &str| fs::metadata(place.path(file)).unwrap().len();
    let mut sizes = Vec::new();

    for round in 1..=5 {
        let now = Timestamp(0) + 100 * DAY * round;
        for batch in 0..TASKS / 100 {
            let tasks = (0..100).map(|n| ended(&format!("task-{round}-{batch}-{n}"), now));
            let writes =
                tasks.fold(Writes::new(), |writes, task| writes.put(&FinishedTask::of(&task)));
            storage.commit(&writes.batch().unwrap()).unwrap();
            storage.take_next().unwrap();
        }
        let removed = retain(&storage, &keeping, now + 91 * DAY);
        assert_eq!(removed, TASKS as u64);
        assert_eq!(storage.records(), 0);
        sizes.push(size("run/store/db") + size("run/store/history.db"));
    }

    let (first, last) = (sizes[0], sizes[4]);
    assert!(last < 2 * first, "{sizes:?}");
}
