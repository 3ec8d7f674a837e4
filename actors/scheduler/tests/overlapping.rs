//! A firing while the last task is unfinished.

use std::time::Duration;

use super::stage::{MINUTE, Stage, cron, first_line};
use crate::{
    doubles::engine::{Play, seconds},
    engine::Message,
    queue::{causes::Giver, parking::SetState, submit::Overlap},
    scheduler::{
        firing::ByTurn,
        manage::{Change, Manage},
        requests::{ByHand, Fire},
        run::Cause,
        trigger::{
            Which,
            definition::{Definition, OverlapPolicy},
        },
    },
    task::{self, Label, Lane, Task, outcome::Ending},
};

fn with(policy: OverlapPolicy) -> Definition {
    Definition { overlap_policy: policy, ..cron("slow", "*") }
}

fn slow_stage() -> Stage {
    Stage::new(|_| vec![seconds(150), Play::Say("done"), Play::Answer])
}

/// TR-36
#[actix::test]
async fn allowed_ones_wait_behind_each_other() {
    let stage = slow_stage();
    let trigger = stage.create(with(OverlapPolicy::Allow)).await;

    stage.pass(4 * MINUTE).await;

    let story = stage.story(&trigger.id);
    assert_eq!(story.len(), 4);
    assert!(story.iter().all(|run| run.starts_with("schedule enqueued")));
}

/// TR-37: the task of minute 1 ends in the middle of minute 3.
#[actix::test]
async fn skipped_ones_leave_a_row() {
    let stage = slow_stage();
    let trigger = stage.create(with(OverlapPolicy::AlwaysSkip)).await;

    stage.pass(4 * MINUTE).await;

    assert_eq!(
        stage.story(&trigger.id),
        [
            "schedule enqueued ok",
            "schedule skipped_overlap",
            "schedule skipped_overlap",
            "schedule enqueued",
        ]
    );
}

/// TR-38, TR-40
#[actix::test]
async fn a_replaced_task_is_cancelled_and_says_by_which_run() {
    let stage = slow_stage();
    let trigger = stage.create(with(OverlapPolicy::AlwaysReplace)).await;

    stage.pass(2 * MINUTE + Duration::from_secs(10)).await;

    let runs = stage.runs(&trigger.id);
    assert_eq!(stage.story(&trigger.id), ["schedule enqueued cancelled", "schedule replaced"]);
    let reason = format!("replaced by {}", runs[1].id);
    assert_eq!(runs[0].reason.as_ref(), Some(&reason));
    let outcome = stage.tasks(&trigger.id)[0].outcome.clone().unwrap();
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert_eq!(outcome.message, Some(reason));
    // It counts as nothing, and nobody is told.
    assert_eq!(stage.trigger(&trigger.id).await.consecutive_failures, 0);
    assert_eq!(stage.notices(), []);
}

/// OR-46, TR-38: what cannot be stored replaces nothing.
#[actix::test]
async fn a_run_that_is_refused_leaves_the_old_one_alone() {
    let stage = slow_stage();
    let trigger = stage.create(with(OverlapPolicy::AlwaysReplace)).await;
    stage.pass(MINUTE).await;
    let running = stage.trigger(&trigger.id).await.active_task_id;

    stage.spine.queue.do_send(SetState {
        team: trigger.team.name.clone(),
        paused: false,
        draining: true,
    });
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued", "schedule not_active"]);
    assert_eq!(stage.trigger(&trigger.id).await.active_task_id, running);
    stage.pass(MINUTE).await;
    assert_eq!(stage.story(&trigger.id)[0], "schedule enqueued ok");
}

/// TR-39
#[actix::test]
async fn the_first_is_skipped_and_the_next_one_replaces() {
    let stage = Stage::new(|_| vec![Play::Hang]);
    let trigger = stage.create(with(OverlapPolicy::SkipThenReplace)).await;

    stage.pass(5 * MINUTE).await;

    assert_eq!(
        stage.story(&trigger.id),
        [
            "schedule enqueued cancelled",
            "schedule skipped_overlap",
            "schedule replaced cancelled",
            "schedule skipped_overlap",
            "schedule replaced",
        ]
    );
}

/// TR-77: what the old turn started is gone before the new one starts.
#[actix::test]
async fn the_tools_of_a_replaced_turn_are_gone_before_the_next_turn() {
    let stage = Stage::new(|request| {
        let is_first = matches!(request.messages.last(), Some(Message::User(_)));
        if is_first && first_line(request) == "do slow" {
            vec![Play::Call(vec![("c1", "deaf")])]
        } else {
            vec![Play::Say("done"), Play::Answer]
        }
    });
    let trigger = stage.create(with(OverlapPolicy::AlwaysReplace)).await;

    stage.pass(MINUTE).await;
    assert_eq!(stage.asked(), 1);
    assert_eq!(stage.world.tools.ended.lock().unwrap().len(), 0);
    let ended = stage.world.tools.ended.clone();
    let asked = stage.world.asked.clone();
    let mut gone_first = false;
    for _ in 0..100_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if asked.lock().unwrap().len() == 2 {
            gone_first = ended.lock().unwrap().len() == 1;
            break;
        }
    }

    assert!(gone_first);
    assert_eq!(stage.runs(&trigger.id).len(), 2);
}

/// TR-54
#[actix::test]
async fn a_run_by_hand_asks_before_it_disturbs() {
    let stage = slow_stage();
    let trigger = stage.create(with(OverlapPolicy::AlwaysSkip)).await;
    stage.pass(MINUTE).await;
    let fire = |overlap, key: &str| Fire {
        which: Which::Id(trigger.id.clone()),
        cause: Cause::Test,
        key: key.to_owned(),
        max_steps: None,
        overlap,
        sample: None,
        principal: task::cause::Cause::System,
        source: None,
        turn: None,
    };
    let running = stage.trigger(&trigger.id).await.active_task_id.unwrap();

    let asked = stage.spine.scheduler.send(fire(Overlap::Confirm, "1")).await;
    assert_eq!(asked.unwrap(), Ok(ByHand::NeedsConfirmation(running.clone())));
    let allowed = stage.spine.scheduler.send(fire(Overlap::Allow, "2")).await;
    let Ok(ByHand::Fired(answer)) = allowed.unwrap() else { panic!() };
    let again = stage.spine.scheduler.send(fire(Overlap::Allow, "2")).await;
    let Ok(ByHand::Fired(repeat)) = again.unwrap() else { panic!() };

    // TR-28: the same key, no second task.
    let first = repeat.first.unwrap();
    assert_eq!((first.run, first.task), (answer.run.id, answer.run.task_id));
    assert_eq!(repeat.run.task_id, None);
    // TR-13: the schedule's own task is the one that counts.
    let after = stage.trigger(&trigger.id).await;
    assert_eq!(after.active_task_id, Some(running));
}

/// TR-52
#[actix::test]
async fn disabling_can_stop_what_runs() {
    for policy in [OverlapPolicy::AlwaysSkip, OverlapPolicy::Allow] {
        stop_what_runs(policy).await;
    }
}

async fn stop_what_runs(policy: OverlapPolicy) {
    let stage = slow_stage();
    let trigger = stage.create(with(policy)).await;
    stage.pass(MINUTE).await;

    let off = Manage {
        which: Which::Id(trigger.id.clone()),
        change: Change::Disable { reason: "enough".to_owned(), cancel_running: true },
    };
    stage.spine.scheduler.send(off).await.unwrap().unwrap();
    stage.pass(Duration::from_secs(5)).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued cancelled"]);
}

/// MV-14, OR-40, OR-86, OR-88: a run that a turn tries is part of the turn's work, and no way around what
/// holds for that.
#[actix::test]
async fn a_run_that_a_turn_tries_is_part_of_its_work() {
    let stage = slow_stage();
    let trigger = stage.create(with(OverlapPolicy::Allow)).await;
    let lane = Lane { team: "main".into(), topic: None };
    let caller = Task::new("task-caller".into(), lane, String::new(), String::new(), stage.now());
    let deadline_at = stage.now() + MINUTE;
    let fire = |key: &str| Fire {
        which: Which::Id(trigger.id.clone()),
        cause: Cause::Test,
        key: key.to_owned(),
        max_steps: None,
        overlap: Overlap::Allow,
        sample: None,
        principal: task::cause::Cause::System,
        source: None,
        turn: Some(ByTurn {
            label: Label::Untrusted,
            lineage: caller.lineage_below(),
            deadline_at,
            giver: Giver { task: caller.id.clone(), step: 1, words: "look".to_owned() },
        }),
    };

    let mut said = Vec::new();
    for key in ["1", "2", "3"] {
        let fired = stage.spine.scheduler.send(fire(key)).await.unwrap();
        said.push(fired.map(|_| ()).map_err(|refusal| refusal.code()));
    }

    stage.pass(Duration::from_secs(1)).await;

    assert_eq!(said, [Ok(()), Ok(()), Err("loop_detected")]);
    let mut story = stage.story(&trigger.id);
    story.sort();
    assert_eq!(story, ["test enqueued", "test enqueued", "test rate_limited"]);
    let tasks = stage.tasks(&trigger.id);
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        assert_eq!(task.label, Label::Untrusted);
        assert_eq!(task.lineage, Some(caller.lineage_below()));
        assert_eq!(task.deadline_at, deadline_at);
    }
}
