//! How teams go.

use super::*;
use crate::{
    store::reads::get,
    task::{
        Task,
        outcome::Ending,
        records::{self as tasks, FinishedTask},
    },
    tool::records::Answer,
};

fn names(names: &[&str]) -> Vec<TeamName> {
    names.iter().map(|name| TeamName::from(*name)).collect()
}

/// main ─ aa ─ bb, and main ─ cc; rows of another part for each.
async fn populate(world: &World) -> Process {
    let process = world.start(None);
    for (name, parent) in [("aa", "main"), ("bb", "aa"), ("cc", "main")] {
        process.spawn(name, parent).await.unwrap();
    }
    *world.kept.lock().unwrap() = vec!["aa~1".into(), "bb~1".into(), "cc~1".into()];
    process
}

/// OR-64
#[actix::test]
async fn a_team_goes_with_all_below_it_the_deepest_first() {
    let world = World::default();
    let process = populate(&world).await;

    let removed = process.shutdown("aa", true).await.unwrap();

    assert_eq!(
        removed,
        Removed {
            removed: names(&["bb", "aa"]),
            cancelled_tasks: 6,
            trash: Some("aa~1".to_owned()),
        }
    );
    process.settle().await;
    assert_eq!(process.teams(), ["cc~1 active", "main~1 active"]);
    assert_eq!(world.folders(), ["cc~1"]);
    assert_eq!(*world.kept.lock().unwrap(), ["cc~1"]);
    let desk = world.work.lock().unwrap();
    assert_eq!(desk.states, ["bb draining", "aa draining", "bb active", "aa active"]);
    assert_eq!(desk.dismissed, ["bb", "aa"]);
}

/// OR-64, OR-90: wherever the process dies, the next one finishes what was begun, once, and the
/// call finds its answer.
#[actix::test]
async fn a_crash_in_the_middle_is_finished_by_the_next_start() {
    let mut seen = Vec::new();
    for crash in (0..5).flat_map(|at| [Crash::Before(at), Crash::After(at)]) {
        let world = World::default();
        populate(&world).await;
        let doomed = world.start(Some(crash));
        let shutdown = Shutdown {
            name: "aa".into(),
            cascade: true,
            by: By::Team("main".into()),
            call: Some("call-1".to_owned()),
        };
        let _lost = doomed.org.send(shutdown).await;

        let process = world.start(None);
        process.settle().await;

        let begun = process.view.now().get("aa").is_none();
        seen.push(begun);
        if !begun {
            assert_eq!(world.folders(), ["aa~1", "bb~1", "cc~1"], "{crash:?}");
            continue;
        }
        assert_eq!(process.teams(), ["cc~1 active", "main~1 active"]);
        assert_eq!(world.folders(), ["cc~1"], "{crash:?}");
        let answer = process.store.read(|storage| get::<Answer<Removed>>(storage, "call-1"));
        let Answer(answer) = answer.await.unwrap().unwrap();
        assert_eq!(answer.removed, names(&["bb", "aa"]), "{crash:?}");
        assert_eq!(answer.trash.as_deref(), Some("aa~1"), "{crash:?}");
    }
    assert!(seen.contains(&true) && seen.contains(&false));
}

/// OR-64
#[actix::test]
async fn asking_again_while_it_goes_waits_for_the_same_end() {
    let world = World::default();
    let process = populate(&world).await;

    let (one, two, below) =
        tokio::join!(process.shutdown("aa", true), process.shutdown("aa", false), async {
            let shutdown = Shutdown {
                name: "bb".into(),
                cascade: false,
                by: By::Operator("operator".to_owned()),
                call: None,
            };
            process.org.send(shutdown).await.unwrap()
        });

    assert_eq!(one, two);
    assert_eq!(one, below);
    assert_eq!(world.work.lock().unwrap().cancelled, ["bb", "aa"]);
}

/// OR-64: a folder that cannot be moved stops it; repeating it goes on.
#[actix::test]
async fn a_shutdown_that_stopped_halfway_can_be_repeated() {
    let world = World::default();
    let process = populate(&world).await;
    world.folders.lock().unwrap().full = true;
    let stopped = process.shutdown("cc", false).await.unwrap_err();
    assert!(stopped.to_string().contains("disk is full"), "{stopped}");
    assert!(process.teams().contains(&"cc~1 draining".to_owned()));

    world.folders.lock().unwrap().full = false;
    let removed = process.shutdown("cc", false).await.unwrap();

    assert_eq!(removed.removed, names(&["cc"]));
}

/// OR-49, OR-37, OR-33
#[actix::test]
async fn who_may_not_or_forgets_the_children_is_refused() {
    let world = World::default();
    let process = populate(&world).await;

    let code = |result: Result<Removed, OrgError>| result.unwrap_err().code();
    assert_eq!(code(process.shutdown("aa", false).await), "has_children");
    assert_eq!(code(process.shutdown("bb", false).await), "not_authorized");
    assert_eq!(code(process.shutdown("zz", false).await), "not_found");
    assert_eq!(code(process.shutdown("main", true).await), "not_authorized");
    assert_eq!(process.teams().len(), 4);
}

/// OR-30: a team that is made anew inherits nothing.
#[actix::test]
async fn a_name_can_be_used_again_for_another_team() {
    let world = World::default();
    let process = populate(&world).await;
    process.shutdown("cc", false).await.unwrap();

    let key = process.spawn("cc", "main").await.unwrap();

    assert_eq!(key.generation, 2);
    assert_eq!(world.disk.keys("team/cc"), ["team/cc/00000001", "team/cc/00000002"]);
    let next = world.start(None);
    next.settle().await;
    assert!(next.teams().contains(&"cc~2 active".to_owned()));
}

/// A record of an older form, or one that was damaged, still ends.
#[actix::test]
async fn a_draining_team_without_a_plan_goes_at_the_next_start() {
    let world = World::default();
    let process = populate(&world).await;
    let lost = TeamRecord {
        state: TeamState::Draining,
        closing: None,
        ..process.view.now().get("cc").unwrap().clone()
    };
    let writes = Writes::new().put(&lost);
    process.store.commit(writes).await.unwrap();

    let next = world.start(None);
    next.settle().await;

    assert_eq!(next.view.now().get("cc"), None);
}

/// Records that were written are read back as they were.
#[test]
fn a_record_survives_its_way_through_the_store() {
    let record = TeamRecord {
        capabilities: [Capability::Spawn].into(),
        closing: Some(Closing {
            top: "aa".into(),
            call: None,
            removed: names(&["bb"]),
            cancelled: 2,
        }),
        ..TeamRecord::main(Timestamp(5))
    };

    let text = serde_json::to_string(&record).unwrap();

    assert_eq!(serde_json::from_str::<TeamRecord>(&text).unwrap(), record);
}

/// OR-32: a team that is going by itself is not taken along by one above it.
#[actix::test]
async fn a_team_waits_for_the_shutdown_of_one_below_it() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    process.spawn("guides", "scouts").await.unwrap();
    let shutdown = |name: &str, call: &str| Shutdown {
        name: name.into(),
        cascade: true,
        by: By::Operator("operator".to_owned()),
        call: Some(call.to_owned()),
    };

    let below = process.org.send(shutdown("guides", "call-below"));
    let above = process.org.send(shutdown("scouts", "call-above"));
    let (below, above) = tokio::join!(below, above);

    assert!(below.unwrap().is_ok());
    assert_eq!(above.unwrap().unwrap_err().code(), "busy");
    let again = process.org.send(shutdown("scouts", "call-above")).await;
    assert!(again.unwrap().is_ok());
    for call in ["call-below", "call-above"] {
        let answer = process.store.read(move |storage| get::<Answer<Removed>>(storage, call));
        assert!(answer.await.unwrap().is_some(), "{call}");
    }
}

/// OR-64: what went wrong last in a team goes with it.
#[actix::test]
async fn the_last_error_of_a_team_goes_with_it() {
    let world = World::default();
    let process = populate(&world).await;
    for name in ["aa", "cc"] {
        let lane = Lane { team: name.into(), topic: None };
        let failed = Outcome::new(Ending::Failed, Timestamp(1));
        let task = Task::new(
            format!("task-{name}").into(),
            lane,
            "work".to_owned(),
            "main".to_owned(),
            Timestamp(0),
        );
        let task = Task { outcome: Some(failed), ..task };
        let finished = Writes::new().put(&FinishedTask::of(&task));
        process.store.commit(finished).await.unwrap();
    }

    process.shutdown("aa", true).await.unwrap();
    process.settle().await;

    let left = process.store.read(tasks::team_errors);
    let tasks: Vec<_> = left.await.unwrap().into_values().map(|error| error.task_id).collect();
    assert_eq!(tasks, ["task-cc".into()]);
}
