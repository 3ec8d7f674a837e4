//! How teams are made.

use super::*;

use crate::tool::records::Answer;

/// OR-60: record, first work and answer are one commit; the folder is there.
#[actix::test]
async fn a_team_is_made_whole() {
    let world = World::default();
    let process = world.start(None);

    let key = process.spawn("scouts", "main").await.unwrap();

    assert_eq!(key, TeamKey::first("scouts"));
    assert_eq!(process.teams(), ["main~1 active", "scouts~1 active"]);
    assert_eq!(world.folders(), ["scouts~1"]);
    let tree = process.view.now();
    let team = tree.get("scouts").unwrap();
    assert_eq!(team.phase, Phase::Initializing);
    assert_eq!(team.created_by, "main");
    assert_eq!(team.bootstrap_task, Some("task-scouts".into()));
    assert_eq!(team.scope, ["scouts work".to_owned()].into());
    assert_eq!(world.disk.keys("task/"), ["task/task-scouts"]);
    assert_eq!(world.disk.keys("call/"), ["call/spawn-scouts"]);
}

/// OR-60, OR-90: wherever the process dies, the next one has the whole team or nothing of it, and
/// the name can be used.
#[actix::test]
async fn a_crash_leaves_a_whole_team_or_none() {
    let crashes = (0..4).flat_map(|at| [Crash::Before(at), Crash::After(at)]);
    let mut seen = Vec::new();
    for crash in crashes {
        let world = World::default();
        let doomed = world.start(Some(crash));
        let _lost = doomed.org.send(spawn_of("scouts", "main")).await;

        let process = world.start(None);
        process.settle().await;

        let whole = process.view.now().get("scouts").is_some();
        seen.push(whole);
        let expected: &[&str] = if whole { &["scouts~1"] } else { &[] };
        assert_eq!(world.folders(), expected, "{crash:?}");
        assert_eq!(world.disk.keys("task/").len(), expected.len(), "{crash:?}");
        assert_eq!(world.disk.keys("call/").len(), expected.len(), "{crash:?}");
        let again = process.spawn("scouts", "main").await;
        if whole {
            assert_eq!(again, Err(OrgError::NameTaken("scouts".into())))
        } else {
            assert_eq!(again, Ok(TeamKey::first("scouts")))
        }
    }
    assert!(seen.contains(&true) && seen.contains(&false));
}

/// OR-60: what the queue refuses leaves nothing behind.
#[actix::test]
async fn a_refused_first_work_takes_the_folder_along() {
    let world = World::default();
    let process = world.start(None);
    world.work.lock().unwrap().refuse = true;

    let refused = process.spawn("scouts", "main").await.unwrap_err();

    assert_eq!(refused.code(), "queue_full");
    assert_eq!(process.teams(), ["main~1 active"]);
    assert_eq!(world.folders(), [] as [&str; 0]);
    world.work.lock().unwrap().refuse = false;
    assert!(process.spawn("scouts", "main").await.is_ok());
}

/// OR-60
#[actix::test]
async fn a_folder_that_cannot_be_made_means_no_team() {
    let world = World::default();
    let process = world.start(None);
    world.folders.lock().unwrap().full = true;

    let refused = process.spawn("scouts", "main").await.unwrap_err();

    assert!(refused.to_string().contains("disk is full"), "{refused}");
    assert_eq!(process.teams(), ["main~1 active"]);
    assert_eq!(world.disk.keys("task/"), [] as [&str; 0]);
}

/// OR-35, OR-60: teams on their way count, so that two at once cannot pass a limit together.
#[actix::test]
async fn limits_hold_for_teams_that_are_made_at_once() {
    let world = World::default();
    let process = world.start(None);
    let ask = |name: &str| {
        let mut spawn = spawn_of(name, "main");
        spawn.limits.children = 1;
        process.org.send(spawn)
    };

    let (one, two, same) = tokio::join!(ask("aa"), ask("bb"), ask("aa"));

    assert!(one.unwrap().is_ok());
    assert_eq!(two.unwrap().unwrap_err().code(), "limit_children");
    assert_eq!(same.unwrap().unwrap_err().code(), "name_taken");
}

/// OR-60: what depends on the key of the new team is in the same commit, or prevents it.
#[actix::test]
async fn what_belongs_to_a_team_is_made_with_it_or_it_is_not_made() {
    let world = World::default();
    let process = world.start(None);
    let with = |beside: Beside| Spawn { beside: Some(beside), ..spawn_of("scouts", "main") };

    let failing = with(Box::new(|_| Box::pin(async { Err("the vault is locked".into()) })));
    let refused = process.org.send(failing).await.unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "the vault is locked");
    assert_eq!(world.folders(), [] as [&str; 0]);

    let counts = Arc::new(Mutex::new(0));
    let counted = counts.clone();
    let good = with(Box::new(|key| {
        Box::pin(async move {
            Ok(Alongside {
                writes: Writes::new().put_at(&format!("secret-{key}"), &Answer(&1)),
                then: Box::pin(async move { *counted.lock().unwrap() += 1 }),
            })
        })
    }));
    process.org.send(good).await.unwrap().unwrap();
    assert_eq!(*counts.lock().unwrap(), 1);
    assert_eq!(world.disk.keys("call/"), ["call/secret-scouts~1", "call/spawn-scouts"]);
}

/// OR-36
#[actix::test]
async fn a_team_needs_a_scope() {
    let world = World::default();
    let process = world.start(None);
    let spawn = Spawn { scope: Vec::new(), ..spawn_of("scouts", "main") };

    let refused = process.org.send(spawn).await.unwrap().unwrap_err();

    assert_eq!(refused.code(), "scope_empty");
}

/// OR-33
#[actix::test]
async fn the_main_team_is_there_from_the_first_start_on() {
    let world = World::default();

    for _ in 0..2 {
        let process = world.start(None);
        process.settle().await;
        assert_eq!(process.teams(), ["main~1 active"]);
    }

    assert_eq!(world.disk.keys("team/"), ["team/main/00000001"]);
}
