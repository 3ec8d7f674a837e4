//! How long a start takes with work waiting, and what idle teams cost.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use actix::Arbiter;
use hivewright::{
    boot::{Options, Service},
    engines::native::retry::RetryPolicy,
    settings::{
        config::Durability,
        home::{Flags, Home},
        references::Environment,
    },
    storage,
    system::{Randomness, WallClock},
    tools,
};
use hivewright_actors::{
    clock::Clock,
    ids::Ids,
    queue::{Count, Enqueue},
    store::{Store, StoreParts, records::Writes},
    task::{Lane, Task},
};
use std::sync::Arc;

use crate::{
    process::{self, Process},
    report::{Bound, Report},
};

/// The role of this program in which it is a service whose teams have all worked once.
pub(crate) const ARGUMENT: &str = "worked-once";

const TEAMS: usize = 12;
const MORE_TEAMS: usize = 500;
const TASKS: usize = 10_000;
const STARTS: usize = 20;

pub(crate) fn measure(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    add_teams(home, TEAMS);
    fill_queue(home);
    let mut took: Vec<Duration> = (0..STARTS).map(|_| start(home)).collect();
    took.sort_unstable();
    let p95 = took[(STARTS - 1) * 95 / 100].as_secs_f64() * 1e3;
    report.figure(
        "start: to ready, 12 teams and 10,000 queued tasks, p95",
        p95,
        "ms",
        Bound::AtMost(150.0),
    );

    let folder = tempfile::tempdir().expect("a folder");
    add_teams(folder.path(), TEAMS);
    let service = Process::serve(folder.path());
    process::address(folder.path(), &service);
    std::thread::sleep(Duration::from_secs(2));
    let idle = service.memory() as f64 / 1e6;
    report.figure("start: idle memory, 12 teams", idle, "MB", Bound::AtMost(30.0));

    // The same work is done in both, so that the rows it leaves in the store's cache cancel out.
    let few = worked_once(TEAMS);
    let many = worked_once(TEAMS + MORE_TEAMS);
    let each = (many as f64 - few as f64) / MORE_TEAMS as f64 / 1e3;
    report.figure("start: each further idle team, after a turn", each, "kB", Bound::AtMost(16.0));

    let size = std::fs::metadata(process::binary()).expect("the program").len() as f64 / 1e6;
    report.figure("start: release binary, stripped", size, "MB", Bound::AtMost(25.0));
}

fn add_teams(home: &Path, teams: usize) {
    for number in 0..teams {
        let file = format!("run/teams/team-{number}/config.yaml");
        process::write(home, &file, "allowed_tools: [\"@files\", \"@shell\"]\n");
    }
}

/// Starts the service and waits until it says that it is ready.
pub(crate) fn start(home: &Path) -> Duration {
    let began = Instant::now();
    let service = Process::serve(home);
    process::address(home, &service);
    began.elapsed()
}

fn task(team: String, ids: &Ids, not_before: Option<Duration>) -> Task {
    let now = WallClock.now();
    Task {
        not_before: not_before.map(|pause| now + pause),
        acked: true,
        ..Task::new(
            ids.task(),
            Lane { team: team.into(), topic: None },
            "Say hello.".to_owned(),
            "operator".to_owned(),
            now,
        )
    }
}

/// Tasks that wait: each team's lane rests for an hour.
fn fill_queue(home: &Path) {
    let layout = storage::Home::new(&home.join("data"), &home.join("run"));
    let opened =
        storage::open::open(&layout, Durability::Process, &storage::unwatched).expect("a store");
    actix::System::new().block_on(async {
        let storage = Arc::new(opened);
        let store = Store::start(&Arbiter::new().handle(), StoreParts::of(storage));
        let ids = Ids::new(Arc::new(Randomness));
        for number in 0..TASKS {
            let hour = Some(Duration::from_secs(3_600));
            let task = task(format!("team-{}", number % TEAMS), &ids, hour);
            let committed = store.commit(Writes::new().put(&task));
            if number % 256 == 0 || number + 1 == TASKS {
                committed.await.expect("a commit");
            }
        }
    });
}

/// The memory of a service whose teams have all done one turn and are idle.
fn worked_once(teams: usize) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    add_teams(folder.path(), teams);
    let home = folder.path().display().to_string();
    let mut process = Process::role(&[ARGUMENT, &home, &teams.to_string()]);
    assert_eq!(process.first_line(), "idle");
    // Threads of the burst of work end after ten idle seconds.
    std::thread::sleep(Duration::from_secs(12));
    process.memory()
}

/// Spreads the same number of tasks over the teams, says when all are done, and stays.
pub(crate) fn serve(arguments: &[String]) {
    let teams: usize = arguments[1].parse().expect("a number");
    actix::System::new().block_on(async {
        let environment = Environment::fixed([]);
        let flags = Flags { home: Some(arguments[0].clone().into()), ..Flags::default() };
        let service = Service::start(Options {
            home: Home::new(&flags, &environment).expect("a home"),
            environment,
            bind: None,
            port: Some(0),
            launcher: process::binary(),
            toolbox: tools::all(),
            retry: RetryPolicy::default(),
        })
        .await
        .expect("it starts");
        let ids = Ids::new(Arc::new(Randomness));
        let tasks = TEAMS + MORE_TEAMS;
        for number in 0..tasks {
            let task = task(format!("team-{}", number % teams), &ids, None);
            service.spine.queue.do_send(Enqueue { task, writes: Writes::new() });
        }
        loop {
            let counts = service.spine.queue.send(Count).await.expect("counts");
            if counts.ended.iter().map(|(.., count)| count).sum::<u64>() == tasks as u64 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("idle");
        std::future::pending::<()>().await;
    });
}
