//! What the queue says and does only once.

use super::*;
use crate::queue::submit::{Submission, Submit};

/// OR-72: whoever submits a task is told that it is stored after its commit. A disk that loses the commit gives no
/// such answer, whether the task could start at once or waits.
#[actix::test]
async fn a_task_whose_commit_is_lost_is_not_answered_as_stored() {
    for waits in [false, true] {
        let storage = Disk::default().mount(None);
        let setting = set_up_on(storage.clone(), Limits::default());
        if waits {
            setting.enqueue("task-1", "t-1");
            setting.settle().await;
        }
        let submit = |name| Submit {
            task: task(name, "t-1"),
            writes: Writes::new(),
            overlap: None,
            giver: None,
        };
        let stored = setting.queue.send(submit("task-2")).await.unwrap();

        storage.lose_after(0);
        let lost = setting.queue.send(submit("task-3"));
        let lost = tokio::time::timeout(Duration::from_secs(60), lost).await;

        assert!(matches!(stored, Ok(Submission::Enqueued { .. })), "{stored:?}");
        // Refused, or never answered.
        assert!(!matches!(&lost, Ok(Ok(Ok(_)))), "{waits}: {lost:?}");
    }
}

impl Setting {
    /// A task that the team `left` was given and has ended, as far as the store knows, and what it led to.
    async fn end_of_a_delegation(&self) -> (Task, Task) {
        let given = Task {
            lane: Lane { team: "left".into(), topic: None },
            kind: Kind::Delegate,
            reply_to: Some(task("task-1", "t-1").lane),
            on_result: crate::task::OnResult::Wake,
            ..task("task-1", "t-1")
        };
        self.queue.do_send(Enqueue { task: given.clone(), writes: Writes::new() });
        self.settle().await;
        let (_, lease) = self.leases()[0].clone();
        let mut done = Task { lease: Some(lease.clone()), attempts: 1, ..given };
        let outcome =
            Outcome { text: "Done.".to_owned(), ..Outcome::new(Ending::Done, Timestamp(1_000)) };
        let ids = Ids::new(Arc::new(Sequence::from(0)));
        let closed = ending::close(&mut done, outcome, &ids, &view());
        let result = closed.follow_up.clone().unwrap();
        let writes = Writes::new().under_lease(&done.id, &lease);
        self.store.commit(writes.and(closed.writes)).await.unwrap();
        (done, result)
    }
}

fn finished(task: &Task, follow_up: Option<Box<Task>>) -> Finished {
    let (task, ran) = (task.id.clone(), Duration::ZERO);
    Finished { task, ending: Ending::Done, ran, follow_up, told: Vec::new() }
}

/// OR-75, OR-84: the news of a team's death and of its last end cross each other: what the end led to
/// runs once.
#[actix::test]
async fn the_result_of_a_delegation_is_taken_in_once_when_its_team_dies() {
    let setting = set_up(Limits::default());
    let (done, result) = setting.end_of_a_delegation().await;

    setting.queue.do_send(Orphaned {
        team: "left".into(),
        pause: Duration::ZERO,
        uncounted: false,
    });
    setting.queue.do_send(finished(&done, Some(Box::new(result.clone()))));
    setting.settle().await;
    setting.queue.do_send(finished(&result, None));
    let counts = setting.settle().await;

    let leases = setting.leases();
    let of_result = leases.iter().filter(|(task, _)| *task == result.id);
    assert_eq!(of_result.count(), 1, "{leases:?}");
    let waiting: usize = counts.teams.iter().map(|(_, waiting, _)| waiting).sum();
    assert_eq!(waiting, 0, "{counts:?}");
}

/// OR-72: the same of a task whose turn could start at once, which is stored with its lease.
#[actix::test]
async fn a_task_that_starts_at_once_is_not_answered_as_stored_if_its_commit_is_lost() {
    let storage = Disk::default().mount(None);
    let setting = set_up_on(storage.clone(), Limits::default());

    storage.lose_after(0);
    let lost = setting.queue.send(Submit {
        task: task("task-1", "t-1"),
        writes: Writes::new(),
        overlap: None,
        giver: None,
    });
    let lost = tokio::time::timeout(Duration::from_secs(60), lost).await;

    assert!(!matches!(&lost, Ok(Ok(Ok(_)))), "{lost:?}");
}

/// OR-75, OR-84: a result that has ended before the rows of the dead team are read does not run again.
#[actix::test]
async fn a_result_that_has_ended_is_not_taken_in_again_when_its_team_dies() {
    let setting = set_up(Limits::default());
    let (done, result) = setting.end_of_a_delegation().await;

    setting.queue.do_send(Orphaned {
        team: "left".into(),
        pause: Duration::ZERO,
        uncounted: false,
    });
    setting.queue.do_send(finished(&done, Some(Box::new(result.clone()))));
    setting.queue.do_send(finished(&result, None));
    setting.settle().await;

    let leases = setting.leases();
    assert!(leases.iter().all(|(task, _)| *task != result.id), "{leases:?}");
}

/// OR-75, SC-112: of the tasks that a team left, one whose record is damaged is lost, and those that had ended do not run
/// again for it.
#[actix::test]
async fn a_damaged_task_of_a_dead_team_makes_nothing_else_run_twice() {
    let disk = Disk::default();
    let setting = set_up_on(disk.mount(None), Limits::default());
    let (done, _) = setting.end_of_a_delegation().await;
    let lane = Lane { team: "left".into(), topic: Some("t-2".into()) };
    let broken = Task { lane, ..task("task-2", "t-2") };
    setting.queue.do_send(Enqueue { task: broken.clone(), writes: Writes::new() });
    setting.settle().await;
    assert!(setting.leases().iter().any(|(task, _)| *task == broken.id));

    disk.damage("task/task-2");
    setting.queue.do_send(Orphaned {
        team: "left".into(),
        pause: Duration::ZERO,
        uncounted: false,
    });
    let counts = setting.settle().await;

    let leases = setting.leases();
    let again = leases.iter().filter(|(task, _)| *task == done.id || *task == broken.id);
    assert_eq!(again.count(), 2, "{leases:?}");
    let waiting: usize = counts.teams.iter().map(|(_, waiting, _)| waiting).sum();
    assert_eq!(waiting, 0, "{counts:?}");
}
