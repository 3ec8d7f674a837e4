//! What happens to a team between its beginning and its end.

use super::*;
use crate::{
    doubles::disk,
    notice::NoticeKind,
    queue,
    store::reads::get,
    task::{
        outcome::{Code, Ending},
        records::FinishedTask,
    },
    tool::records::Answer,
};

fn ended(ending: Ending, text: &str) -> Task {
    let mut task = spawn_of("scouts", "main").bootstrap;
    task.outcome = Some(Outcome {
        code: (ending != Ending::Done).then_some(Code::NoProvider),
        text: text.to_owned(),
        ..Outcome::new(ending, Timestamp(2))
    });
    task
}

impl Process {
    /// A task has its end, the queue says so, and a first work was judged.
    async fn end(&self, task: Task) {
        let name = task.lane.team.as_str().to_owned();
        let team = self.view.now().get(&name).cloned().unwrap();
        let is_its_first = team.bootstrap_task.as_ref() == Some(&task.id);
        let stored = self.store.commit(Writes::new().put(&FinishedTask::of(&task)));
        stored.await.unwrap();
        self.org.do_send(queue::Ended { task: task.id, kind: task.kind, team: task.lane.team });
        self.settle().await;
        if is_its_first {
            self.judged(&name).await;
        }
    }

    /// Until something was made of the team's first work, and that is stored.
    async fn judged(&self, team: &str) {
        let judged = async {
            while self.view.now().get(team).unwrap().phase == Phase::Initializing {
                self.settle().await;
            }
        };
        let deadline = std::time::Duration::from_secs(30);
        tokio::time::timeout(deadline, judged).await.unwrap();
    }
}

async fn phase_after(world: &World, ended: Task) -> (Phase, usize) {
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    process.end(ended).await;
    let notices = process.store.read(disk::notices).await.unwrap();
    assert!(notices.iter().all(|notice| notice.kind == NoticeKind::BootstrapFailed));
    let phase = process.view.now().get("scouts").unwrap().phase;
    // As it is stored, too.
    let next = world.start(None);
    assert_eq!(next.view.now().get("scouts").unwrap().phase, phase);
    (phase, notices.len())
}

/// OR-63
#[actix::test]
async fn a_team_is_ready_if_it_said_something_and_has_something() {
    for (ending, text, furnished, expected) in [
        (Ending::Done, "Ready.", true, (Phase::Ready, 0)),
        (Ending::Done, "Ready.", false, (Phase::Failed, 1)),
        (Ending::Done, " ", true, (Phase::Failed, 1)),
        (Ending::Failed, "", true, (Phase::Failed, 1)),
    ] {
        let world = World::default();
        world.folders.lock().unwrap().furnished = furnished;

        let phase = phase_after(&world, ended(ending, text)).await;

        assert_eq!(phase, expected, "{ending:?} {text:?} {furnished}");
    }
}

/// OR-63: the end of other work says nothing about it.
#[actix::test]
async fn the_end_of_another_task_leaves_the_phase() {
    let world = World::default();
    let mut other = ended(Ending::Failed, "");
    other.id = "task-other".into();

    assert_eq!(phase_after(&world, other).await, (Phase::Initializing, 0));
}

/// OR-63, OR-90: a first work whose end was stored just before a crash is looked at after it.
#[actix::test]
async fn an_end_that_nobody_heard_is_found_at_the_next_start() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    let done = ended(Ending::Done, "Ready.");
    let stored = process.store.commit(Writes::new().put(&FinishedTask::of(&done)));
    stored.await.unwrap();
    world.folders.lock().unwrap().furnished = true;

    let next = world.start(None);
    next.judged("scouts").await;

    assert_eq!(next.view.now().get("scouts").unwrap().phase, Phase::Ready);
}

/// OR-63: a failed one can be tried again; a ready one has nothing to do.
#[actix::test]
async fn a_first_work_can_be_given_again_until_it_succeeds() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    process.end(ended(Ending::Failed, "")).await;
    let mut task = spawn_of("scouts", "main").bootstrap;
    task.id = "task-again".into();
    let bootstrap = |task: Task| process.org.send(Bootstrap { task });

    let given = bootstrap(task.clone()).await.unwrap().unwrap();
    assert_eq!(given, Some("task-again".into()));
    assert_eq!(process.view.now().get("scouts").unwrap().phase, Phase::Initializing);

    world.folders.lock().unwrap().furnished = true;
    let mut again = ended(Ending::Done, "Ready.");
    again.id = "task-again".into();
    process.end(again).await;
    assert_eq!(bootstrap(task).await.unwrap(), Ok(None));
}

/// OR-50, OR-36
#[actix::test]
async fn a_scope_changes_but_never_becomes_empty() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    let update = |add: &[&str], remove: &[&str], by: &str| Update {
        name: "scouts".into(),
        by: By::Team(by.into()),
        add: add.iter().map(ToString::to_string).collect(),
        remove: remove.iter().map(ToString::to_string).collect(),
        description: Some("They look around.".to_owned()),
        capabilities: None,
        call: Some("call-2".to_owned()),
    };
    let ask = async |update: Update| process.org.send(update).await.unwrap();

    let changed = ask(update(&["Maps", " roads"], &["SCOUTS work"], "main")).await;
    let changed = changed.unwrap();
    assert_eq!(changed.scope, ["maps".to_owned(), "roads".to_owned()].into());
    let refused = ask(update(&[], &["maps", "roads"], "main")).await.unwrap_err();
    assert_eq!(refused.code(), "scope_empty");
    let refused = ask(update(&["x"], &[], "scouts")).await.unwrap_err();
    assert_eq!(refused.code(), "not_authorized");

    let descriptions = world.folders.lock().unwrap().descriptions.clone();
    assert_eq!(descriptions, [("scouts".to_owned(), "They look around.".to_owned())]);
    let answer = process.store.read(|storage| get::<Answer<TeamRecord>>(storage, "call-2"));
    assert_eq!(answer.await.unwrap(), Some(Answer(changed)));
}

/// OR-95: what is wanted survives restarts; `now` also stops what runs.
#[actix::test]
async fn a_paused_team_rests_until_it_is_resumed() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    let pause = |team: Option<&str>, paused: bool, now: bool| {
        process.org.send(Pause { team: team.map(TeamName::from), paused, now, by: operator() })
    };

    let paused = pause(Some("scouts"), true, true).await.unwrap().unwrap();

    assert_eq!(paused, ["scouts".into()]);
    assert_eq!(process.teams(), ["main~1 active", "scouts~1 paused"]);
    assert_eq!(world.work.lock().unwrap().states, ["scouts paused"]);
    assert_eq!(world.work.lock().unwrap().dismissed, ["scouts"]);
    let next = world.start(None);
    assert_eq!(next.teams(), ["main~1 active", "scouts~1 paused"]);

    let resumed = pause(None, false, false).await.unwrap().unwrap();
    assert_eq!(resumed, ["main".into(), "scouts".into()]);
    assert_eq!(process.teams(), ["main~1 active", "scouts~1 active"]);
    let unknown = pause(Some("nobody"), true, false).await.unwrap();
    assert_eq!(unknown, Err(OrgError::Unknown("nobody".into())));
}

impl Process {
    /// A change is under way while a pause comes in.
    async fn pause_during<T>(&self, first: impl Future<Output = T> + 'static, yields: usize)
    where
        T: 'static,
    {
        let asked = actix::spawn(first);
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        self.org.send(pause(true)).await.unwrap().unwrap();
        asked.await.unwrap();
        self.settle().await;
    }
}

fn operator() -> By {
    By::Operator("ann".to_owned())
}

fn pause(paused: bool) -> Pause {
    Pause { team: Some("scouts".into()), paused, now: false, by: operator() }
}

/// OR-30: a commit that ends late does not undo what was changed meanwhile.
#[actix::test]
async fn a_pause_outlives_a_change_that_was_under_way() {
    for yields in 0..30 {
        let world = World::default();
        let process = world.start(None);
        process.spawn("scouts", "main").await.unwrap();
        let update = Update {
            name: "scouts".into(),
            by: By::Operator("operator".to_owned()),
            add: vec!["maps".to_owned()],
            remove: Vec::new(),
            description: None,
            capabilities: None,
            call: None,
        };

        let update = process.org.send(update);
        process.pause_during(update, yields).await;

        let state = process.view.now().get("scouts").unwrap().state;
        assert_eq!(state, TeamState::Paused, "{yields}");
        let next = world.start(None);
        let state = next.view.now().get("scouts").unwrap().state;
        assert_eq!(state, TeamState::Paused, "{yields}");
    }
}

/// OR-30: whichever comes last counts, for the queue as well.
#[actix::test]
async fn a_pause_outlives_a_resume_that_was_under_way() {
    for yields in 0..30 {
        let world = World::default();
        let process = world.start(None);
        process.spawn("scouts", "main").await.unwrap();
        process.org.send(pause(true)).await.unwrap().unwrap();

        let resume = process.org.send(pause(false));
        process.pause_during(resume, yields).await;

        let last = world.work.lock().unwrap().states.last().cloned();
        assert_eq!(last.as_deref(), Some("scouts paused"), "{yields}");
    }
}

/// OR-63: a first work that is refused leaves the team as it was.
#[actix::test]
async fn a_first_work_that_cannot_be_given_leaves_no_trace() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    process.end(ended(Ending::Failed, "")).await;
    world.work.lock().unwrap().refuse = true;

    let task = Task { id: "task-again".into(), ..spawn_of("scouts", "main").bootstrap };
    let again = process.org.send(Bootstrap { task }).await.unwrap();

    assert!(again.is_err());
    let tree = process.view.now();
    let team = tree.get("scouts").unwrap();
    assert_eq!(team.phase, Phase::Failed);
    assert_eq!(team.bootstrap_task, Some("task-scouts".into()));
}

/// OR-30: teams don't give each other more than their tools.
#[actix::test]
async fn only_operators_change_capabilities() {
    let world = World::default();
    let process = world.start(None);
    process.spawn("scouts", "main").await.unwrap();
    let give = |by| Update {
        name: "scouts".into(),
        by,
        add: Vec::new(),
        remove: Vec::new(),
        description: None,
        capabilities: Some([Capability::Triggers].into()),
        call: None,
    };

    let team = process.org.send(give(By::Team("main".into()))).await;
    let operator = process.org.send(give(By::Operator("operator".to_owned()))).await;

    assert_eq!(team.unwrap().unwrap_err().code(), "not_authorized");
    assert!(operator.unwrap().is_ok());
    let next = world.start(None);
    let tree = next.view.now();
    let kept = &tree.get("scouts").unwrap().capabilities;
    assert_eq!(*kept, [Capability::Triggers].into());
}
