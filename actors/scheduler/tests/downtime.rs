//! Times that passed while nobody was there.

use super::stage::{HOUR, MINUTE, Stage, cron};
use crate::{
    doubles::engine::Play,
    notice::NoticeKind,
    scheduler::{
        records,
        run::RunOutcome,
        trigger::{
            State,
            config::{Config, Schedule},
            definition::{Definition, MissedPolicy},
        },
    },
};

fn hourly(name: &str, missed: MissedPolicy) -> Definition {
    Definition { missed: Some(missed), ..cron(name, "0") }
}

/// TR-29, TR-75
#[actix::test]
async fn three_hours_down_make_none_one_or_three_tasks() {
    let mut stage = Stage::calm();
    stage.until_minute(30).await;
    let skip = stage.create(hourly("skip", MissedPolicy::Skip)).await;
    let once = stage.create(hourly("once", MissedPolicy::Once)).await;
    let all = stage.create(hourly("all", MissedPolicy::All)).await;

    stage.restart_after(3 * HOUR).await;

    assert_eq!(stage.story(&skip.id), ["missed missed_skipped"]);
    assert_eq!(stage.runs(&skip.id)[0].count, Some(3));
    assert_eq!(stage.story(&once.id), ["missed enqueued ok"]);
    assert!(stage.tasks(&once.id)[0].body.contains("stands for 3"));
    assert_eq!(stage.story(&all.id), ["missed enqueued ok"; 3]);
    let due: Vec<u64> = stage.runs(&all.id).iter().map(|run| run.due_at.0).collect();
    assert!(due.is_sorted());

    // And from then on as ever.
    stage.pass(HOUR).await;
    for id in [&skip.id, &once.id, &all.id] {
        let story = stage.story(id);
        assert_eq!(story.last().unwrap(), "schedule enqueued ok");
    }
}

/// TR-30
#[actix::test]
async fn a_single_time_that_was_missed_fires_within_a_day_and_is_a_notice_after_it() {
    let mut stage = Stage::calm();
    let at = |name: &str, at| Definition {
        config: Config::Schedule(Schedule {
            at: Some(String::new()),
            moment: Some(at),
            ..Schedule::default()
        }),
        ..cron(name, "0")
    };
    let soon = stage.create(at("soon", stage.now() + 20 * HOUR)).await;
    let early = stage.create(at("early", stage.now() + HOUR)).await;

    stage.restart_after(26 * HOUR).await;

    assert_eq!(stage.story(&soon.id), ["missed enqueued ok"]);
    assert_eq!(stage.story(&early.id), ["missed missed_skipped missed"]);
    assert_eq!(stage.runs(&early.id)[0].outcome, Some(RunOutcome::Missed));
    for id in [&soon.id, &early.id] {
        assert_eq!(stage.trigger(id).await.state, State::Finished);
    }
    let notices = stage.notices();
    let kinds: Vec<_> = notices.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::MissedRun]);
}

/// A restart between two times misses nothing.
#[actix::test]
async fn a_short_stop_between_two_times_is_no_downtime() {
    let mut stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*/10")).await;
    stage.until_minute(10).await;

    stage.restart_after(MINUTE).await;
    stage.until_minute(20).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued ok"; 4]);
}

/// TR-27, TR-28: rows are stored in the order in which they were made, however many there are at once.
#[actix::test]
async fn forty_missed_times_leave_the_newest_of_each_trigger_noted() {
    let mut stage = Stage::new(|_| vec![Play::Hang]);
    for name in ["a", "b", "c", "d"] {
        let definition =
            Definition { subagent: Some(name.to_owned()), ..hourly(name, MissedPolicy::All) };
        stage.create(definition).await;
    }

    stage.restart_after(12 * HOUR).await;

    let stored = records::recover(&*stage.world.disk.mount(None), &[]).unwrap();
    assert_eq!(stored.triggers.len(), 4);
    for trigger in stored.triggers {
        let runs = stage.runs(&trigger.id);
        let made = runs.iter().filter(|run| run.task_id.is_some()).count();
        assert_eq!(made, 10, "{:?}", stage.story(&trigger.id));
        let newest = runs.iter().map(|run| run.due_at).max();
        assert_eq!(trigger.cursor_at, newest);
    }
}
