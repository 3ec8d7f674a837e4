//! Processes that lose the disk in the middle of firing.

use std::{collections::HashSet, sync::atomic::Ordering};

use super::stage::{MINUTE, Stage, cron, keyword};
use crate::{
    doubles::disk::Crash,
    scheduler::{
        run::Run,
        trigger::definition::{Definition, MissedPolicy},
    },
};

/// Tries a story with a crash at each commit, each time in a system of its own: what a dead process
/// leaves behind in memory must not slow the next one down. Tells how often nothing crashed.
fn at_each_commit(
    commits: usize,
    story: impl AsyncFn(Crash) -> bool + Copy + Send + 'static,
) -> usize {
    let crashes = (0..commits).flat_map(|number| [Crash::Before(number), Crash::After(number)]);
    let ends = crashes.map(|crash| {
        let system = std::thread::spawn(move || actix::System::new().block_on(story(crash)));
        system.join().unwrap()
    });
    ends.filter(|crashed| !crashed).count()
}

/// TR-27, TR-74: whatever the commit at which the process dies, each time has exactly one row and at
/// most one task, and none is lost.
#[test]
fn each_time_has_one_row_whenever_the_process_is_killed() {
    let survived = at_each_commit(24, async |crash| {
        let mut stage = Stage::calm();
        let definition = Definition { missed: Some(MissedPolicy::All), ..cron("scan", "*") };
        let trigger = stage.create(definition).await;
        stage.stop().await;
        let start = stage.now();

        stage.start_doomed(crash);
        stage.pass(5 * MINUTE).await;
        stage.restart_after(MINUTE).await;
        stage.pass(3 * MINUTE).await;

        let runs = stage.runs(&trigger.id);
        let end = stage.now();
        let expected: Vec<u64> =
            (start.0 / 60_000 + 1..=end.0 / 60_000).map(|minute| minute * 60_000).collect();
        let mut due: Vec<u64> = runs.iter().map(|run| run.due_at.0).collect();
        due.sort();
        assert_eq!(due, expected, "{crash:?}");
        // A task that the crash cut off may be in the way of the next one, which says so.
        let (made, skipped): (Vec<&Run>, Vec<&Run>) =
            runs.iter().partition(|run| run.decision.made_a_task());
        let tasks: HashSet<_> = made.iter().filter_map(|run| run.task_id.clone()).collect();
        assert_eq!(tasks.len(), made.len(), "{crash:?}");
        assert!(skipped.len() <= 1, "{crash:?}: {skipped:?}");
        for task in stage.tasks(&trigger.id) {
            assert!(task.outcome.is_some(), "{crash:?}: {}", task.id);
        }
        let accounted = made.iter().all(|run| run.outcome.is_some());
        assert!(accounted, "{crash:?}: {:?}", stage.story(&trigger.id));
        assert_eq!(stage.world.disk.keys("edge/run.open/"), [] as [String; 0]);
        stage.world.failures.load(Ordering::Relaxed) > 0
    });

    // The last crashes come after all that five firings commit: every commit of theirs was hit.
    assert!(survived > 0, "more commits than crashes were tried");
}

/// TR-28: a message whose trigger had not fired when the process died fires after it, once.
#[test]
fn a_message_that_was_accepted_fires_its_trigger_whenever_the_process_is_killed() {
    let survived = at_each_commit(12, async |crash| {
        let mut stage = Stage::calm();
        let trigger = stage.create(keyword("alarm", "fire")).await;
        stage.stop().await;

        stage.start_doomed(crash);
        let client = stage.world.connect(&stage.spine);
        client.say("m1", "there is a FIRE in the hall");
        stage.pass(MINUTE).await;
        stage.stop().await;
        let accepted = !stage.world.disk.keys("msg/").is_empty();
        stage.restart_after(MINUTE).await;
        stage.pass(MINUTE).await;

        let runs = stage.runs(&trigger.id);
        assert_eq!(runs.len(), usize::from(accepted), "{crash:?}: {runs:?}");
        assert_eq!(stage.world.disk.keys("edge/heard/"), [] as [String; 0]);
        stage.world.failures.load(Ordering::Relaxed) > 0
    });

    assert!(survived > 0, "more commits than crashes were tried");
}
