//! Firing in time, once.

use std::{sync::Arc, time::Duration};

use super::stage::{HOUR, MINUTE, Stage, cron, team};
use crate::{
    clock::Timestamp,
    doubles::{engine::Play, redactor::Knows, world::World},
    org::roster::Availability,
    scheduler::{
        Refusal,
        alarm::{SetZone, TeamsChanged},
        firing::Findings,
        manage::{Change, Manage},
        run::{Decision, Known, RunOutcome},
        trigger::{
            State, Trigger, Which,
            config::{Config, Schedule, Window},
            definition::{Definition, MissedPolicy},
            validation::Problem,
        },
    },
    spine,
    store::{
        reads::{Range, scan},
        records::Writes,
        redact::Redaction,
    },
    text::Span,
};

/// TR-73
#[actix::test]
async fn a_schedule_fires_and_a_restart_makes_no_second_run_for_the_same_minute() {
    let mut stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*/2")).await;

    stage.pass(Duration::from_secs(150)).await;
    let before = stage.runs(&trigger.id);
    stage.restart_after(Duration::ZERO).await;

    let after = stage.runs(&trigger.id);
    assert_eq!(before.len(), 1);
    assert_eq!(after, before);
    let [run] = &after[..] else { panic!() };
    assert_eq!(run.due_at.0 % 120_000, 0);
    assert_eq!(run.outcome, Some(RunOutcome::Ok));
    stage.pass(2 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 2);
}

/// TR-33: stored within a second of its time.
#[actix::test]
async fn a_firing_is_stored_when_it_is_due() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*")).await;

    stage.pass(10 * MINUTE).await;

    for run in stage.runs(&trigger.id) {
        assert!(run.fired_at.since(run.due_at) < Duration::from_secs(1));
    }
    assert_eq!(stage.runs(&trigger.id).len(), 10);
}

/// TR-04: no restart is ever needed.
#[actix::test]
async fn every_change_takes_effect_at_once() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "30")).await;
    let which = Which::Id(trigger.id.clone());
    let to_each_minute = Manage {
        which: which.clone(),
        change: Change::Define(Box::new(|trigger| {
            let mut definition = trigger.definition.clone();
            definition.config = Config::Schedule(Schedule::cron("*"));
            Ok(definition)
        })),
    };

    stage.spine.scheduler.send(to_each_minute).await.unwrap().unwrap();
    stage.pass(2 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 2);

    let change = Change::Disable { reason: "enough".to_owned(), cancel_running: false };
    let off = Manage { which: which.clone(), change };
    let off = stage.spine.scheduler.send(off).await.unwrap().unwrap();
    assert_eq!((off.state, off.next_due_at), (State::Disabled, None));
    stage.pass(5 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 2);

    // TR-43: the time it was off is not made up.
    let on = stage.spine.scheduler.send(Manage { which, change: Change::Enable }).await.unwrap();
    assert_eq!(on.unwrap().state, State::Active);
    stage.pass(MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 3);
}

/// TR-09
#[actix::test]
async fn a_single_time_fires_once_and_is_finished() {
    let stage = Stage::calm();
    let at = stage.now() + 5 * MINUTE;
    let mut definition = cron("once", "*");
    definition.config = Config::Schedule(Schedule {
        at: Some(at.to_string()),
        moment: Some(at),
        ..Schedule::default()
    });
    let trigger = stage.create(definition).await;

    stage.pass(20 * MINUTE).await;

    let runs = stage.runs(&trigger.id);
    assert_eq!(runs.iter().map(|run| run.due_at).collect::<Vec<_>>(), [at]);
    let trigger = stage.trigger(&trigger.id).await;
    assert_eq!((trigger.state, trigger.next_due_at), (State::Finished, None));
}

/// TR-10: counted from enabling, also over a restart.
#[actix::test]
async fn steps_keep_their_phase_over_a_restart() {
    let mut stage = Stage::calm();
    let mut definition = cron("step", "*");
    definition.config = Config::Schedule(Schedule::every(Duration::from_secs(45)));
    let trigger = stage.create(definition).await;
    let start = trigger.anchor_at.unwrap();

    stage.pass(Duration::from_secs(100)).await;
    stage.restart_after(Duration::from_secs(10)).await;
    stage.pass(Duration::from_secs(80)).await;

    let due: Vec<u64> =
        stage.runs(&trigger.id).iter().map(|run| run.due_at.since(start).as_secs()).collect();
    assert_eq!(due, [45, 90, 135, 180]);
}

/// TR-05, TR-29: while the team rests nothing is made, and then it is made up for.
#[actix::test]
async fn a_team_that_rests_gets_no_task_until_it_works_again() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*")).await;
    let all = cron("each", "*");
    let all = crate::scheduler::trigger::definition::Definition {
        missed: Some(MissedPolicy::All),
        ..all
    };
    let each = stage.create(all).await;
    let availabilities = stage.world.outside.availabilities.0.clone();
    availabilities.lock().unwrap().insert(team(), Availability::Paused);

    stage.pass(3 * MINUTE).await;
    assert_eq!(stage.story(&trigger.id), ["schedule team_paused"; 3]);
    assert_eq!(stage.asked(), 0);

    availabilities.lock().unwrap().clear();
    stage.spine.scheduler.send(TeamsChanged).await.unwrap();
    stage.pass(Duration::from_secs(10)).await;
    assert_eq!(stage.story(&trigger.id)[3..], ["missed enqueued ok"]);
    assert_eq!(stage.story(&each.id)[3..], ["missed enqueued ok"; 3]);
    let body = &stage.tasks(&trigger.id)[0].body;
    assert!(body.contains("This run stands for 3"), "{body}");
}

/// TR-06: a team that is gone takes its triggers along.
#[actix::test]
async fn triggers_go_with_their_team() {
    let stage = Stage::calm();
    stage.create(cron("scan", "*")).await;
    let availabilities = stage.world.outside.availabilities.0.clone();
    availabilities.lock().unwrap().insert(team(), Availability::Gone);

    stage.spine.scheduler.send(TeamsChanged).await.unwrap();
    stage.pass(3 * MINUTE).await;

    assert_eq!(stage.world.disk.keys("edge/trigger/"), [] as [String; 0]);
    assert_eq!(stage.asked(), 0);
}

/// TR-02, TR-05: looked at again right before it fires; a look takes its time.
#[actix::test]
async fn a_trigger_that_cannot_be_any_more_is_switched_off_with_one_notice() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*")).await;
    let gone = Findings {
        problem: Some(Problem::new("subagent", "there is no `editor`")),
        ..Findings::default()
    };
    let finds = &stage.world.outside.finds.0;
    let look = (Duration::from_secs(5), gone);
    finds.lock().unwrap().insert("scan".to_owned(), look);

    stage.pass(3 * MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["schedule not_active"]);
    let trigger = stage.trigger(&trigger.id).await;
    assert_eq!(trigger.state, State::Disabled);
    let reason = "subagent: there is no `editor`";
    assert_eq!(trigger.disabled_reason.as_deref(), Some(reason));
    assert_eq!(stage.notices().len(), 1);
}

/// TR-70: code decides, no model is asked.
#[actix::test]
async fn nothing_to_do_costs_nothing() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("beat", "*")).await;
    let nothing =
        Findings { nothing_to_do: Some("nothing to check".to_owned()), ..Findings::default() };
    let finds = &stage.world.outside.finds.0;
    let look = (Duration::ZERO, nothing);
    finds.lock().unwrap().insert("beat".to_owned(), look);

    stage.pass(MINUTE).await;

    let [run] = &stage.runs(&trigger.id)[..] else { panic!() };
    assert_eq!(run.outcome, Some(RunOutcome::Noop));
    assert_eq!(run.reason.as_deref(), Some("nothing to check"));
    assert_eq!(stage.asked(), 0);
}

/// TR-32: back: nothing fires twice. Forward: as if the service had been down.
#[actix::test]
async fn a_clock_that_jumps_repeats_nothing() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*/10")).await;
    stage.pass(25 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 3);

    stage.world.clock.set(stage.now() - HOUR);
    stage.pass(55 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 3);
    stage.pass(15 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 4);

    stage.world.clock.advance(3 * HOUR);
    stage.pass(MINUTE).await;
    let runs = stage.runs(&trigger.id);
    assert_eq!(stage.story(&trigger.id)[4..], ["missed enqueued ok"]);
    let body = &stage.tasks(&trigger.id)[4].body;
    assert!(body.contains("This run stands for 18"), "{body}");
    let mut due: Vec<_> = runs.iter().map(|run| run.due_at).collect();
    due.dedup();
    assert_eq!(due.len(), 5);
}

/// TR-34: counted from rows, so that a restart does not begin anew.
#[actix::test]
async fn more_than_ten_firings_in_a_minute_are_too_many_also_over_a_restart() {
    let mut stage = Stage::calm();
    let mut ids = Vec::new();
    for number in 0..12 {
        let trigger = stage.create(cron(&format!("scan-{number}"), "5")).await;
        ids.push(trigger.id);
    }
    stage.until_minute(5).await;
    let decisions = |stage: &Stage| -> Vec<Decision> {
        ids.iter().flat_map(|id| stage.runs(id)).map(|run| run.decision).collect()
    };
    let limited = |decisions: &[Decision]| {
        let limited = |decision: &&Decision| **decision == Decision::RateLimited;
        decisions.iter().filter(limited).count()
    };
    assert_eq!(limited(&decisions(&stage)), 2);
    assert_eq!(stage.notices().len(), 2);

    stage.restart_after(Duration::from_secs(1)).await;
    let late = stage.create(cron("late", "*")).await;
    stage.pass(Duration::from_secs(57)).await;
    assert_eq!(stage.runs(&late.id).len(), 0);
    stage.pass(Duration::from_secs(2)).await;
    // The ten of the former process are a minute old by then.
    assert_eq!(stage.story(&late.id), ["schedule enqueued ok"]);
}

/// TR-44: however much has gathered, a sweep leaves nothing that is too old.
#[actix::test]
async fn a_sweep_goes_on_until_nothing_old_is_left() {
    let mut stage = Stage::calm();
    stage.pass(100 * 24 * HOUR).await;
    let trigger = stage.create(cron("scan", "0")).await;
    let first = stage.run_by_hand(&trigger.id, "by hand").await.unwrap();
    stage.pass(MINUTE).await;
    let rows = (0..2_500_u32).fold(Writes::new(), |writes, number| {
        let known = Known {
            trigger: trigger.id.clone(),
            key: format!("key-{number}"),
            run: first.id.clone(),
            task: None,
            at: Timestamp(0),
        };
        writes.put(&known)
    });
    stage.spine.store.commit(rows).await.unwrap();
    stage.restart_after(MINUTE).await;

    stage.pass(HOUR + MINUTE).await;

    let known = stage.world.disk.keys("edge/run.key/").len();
    assert!(known <= 1, "{known} reasons");
}

/// TR-04, TR-11: lists read the rows, so those say when each is due by the zone of the settings.
#[actix::test]
async fn another_zone_of_the_settings_is_in_the_rows_at_once() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "0")).await;

    let timezone = "half an hour ahead".to_owned();
    stage.spine.scheduler.send(SetZone { timezone }).await.unwrap();
    stage.settle().await;

    let stored = scan::<Trigger>(&*stage.world.disk.mount(None), Range::all()).unwrap();
    assert_ne!(stored[0].next_due_at, trigger.next_due_at);
    assert_eq!(stored[0].next_due_at, stage.trigger(&trigger.id).await.next_due_at);
}

fn single(name: &str, at: Timestamp) -> Definition {
    let schedule = Schedule { at: Some(at.to_string()), moment: Some(at), ..Schedule::default() };
    Definition { config: Config::Schedule(schedule), ..cron(name, "*") }
}

/// TR-09, TR-34: a time that comes but once is not lost because others fired at the same time.
#[actix::test]
async fn a_single_time_that_was_limited_is_tried_again() {
    let stage = Stage::calm();
    stage.until_minute(55).await;
    for number in 0..10 {
        stage.create(cron(&format!("scan-{number}"), "0")).await;
    }
    let at = Timestamp((stage.now().0 / 3_600_000 + 1) * 3_600_000 + 1_000);
    let once = stage.create(single("once", at)).await;

    stage.until_minute(1).await;
    assert_eq!(stage.story(&once.id), ["schedule rate_limited"]);
    let waiting = stage.trigger(&once.id).await;
    assert_eq!(waiting.state, State::Active);
    assert!(waiting.next_due_at >= Some(at + 5 * MINUTE), "{waiting:?}");
    stage.until_minute(10).await;

    assert_eq!(stage.story(&once.id), ["schedule rate_limited", "missed enqueued ok"]);
    assert_eq!(stage.trigger(&once.id).await.state, State::Finished);
}

/// TR-09, TR-30: the same if the queue has no room, also over a restart.
#[actix::test]
async fn a_single_time_without_room_in_the_queue_is_tried_again() {
    let mut world = World::new(|_| vec![Play::Say("done"), Play::Answer]);
    world.limits.waiting = 0;
    let spine = world.start();
    let mut stage = Stage { world, spine };
    let once = stage.create(single("once", stage.now() + MINUTE)).await;
    let lost = stage.create(single("lost", stage.now() + MINUTE)).await;

    stage.pass(8 * MINUTE).await;
    assert_eq!(stage.story(&once.id), ["schedule queue_full", "missed queue_full"]);
    assert_eq!(stage.trigger(&once.id).await.state, State::Active);
    let which = Which::Id(lost.id.clone());
    let change = Change::Disable { reason: "enough".to_owned(), cancel_running: false };
    stage.spine.scheduler.send(Manage { which, change }).await.unwrap().unwrap();
    stage.world.limits.waiting = 100;
    stage.restart_after(HOUR).await;

    assert_eq!(stage.story(&once.id).last().unwrap(), "missed enqueued ok");
    assert_eq!(stage.trigger(&once.id).await.state, State::Finished);
    assert_eq!(stage.trigger(&lost.id).await.state, State::Disabled);
}

/// TR-34: ticks are bounded by their window, and are in nobody's way.
#[actix::test]
async fn ticks_of_a_window_use_up_no_rate() {
    let mut stage = Stage::calm();
    let config = Config::Window(Window {
        watch: Some("0-58".to_owned()),
        tick_interval: Span(Duration::from_secs(5)),
        ..Window::default()
    });
    stage.create(Definition::new("watch", config, "watch")).await;
    let trigger = stage.create(cron("scan", "*")).await;

    stage.pass(2 * MINUTE).await;
    stage.restart_after(Duration::ZERO).await;
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued ok"; 3]);
}

/// TR-05, TR-29: a team that is paused while its trigger is looked into loses nothing.
#[actix::test]
async fn a_pause_during_a_look_is_made_up_for() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "0")).await;
    let look = (Duration::from_secs(5), Findings::default());
    stage.world.outside.finds.0.lock().unwrap().insert("scan".to_owned(), look);
    let availabilities = stage.world.outside.availabilities.0.clone();

    stage.until_minute(0).await;
    availabilities.lock().unwrap().insert(team(), Availability::Paused);
    stage.pass(MINUTE).await;
    assert_eq!(stage.story(&trigger.id), ["schedule team_paused"]);
    availabilities.lock().unwrap().clear();
    stage.spine.scheduler.send(TeamsChanged).await.unwrap();
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["schedule team_paused", "missed enqueued ok"]);
}

/// TR-01: whoever runs it by hand is told what is wrong with it.
#[actix::test]
async fn a_run_by_hand_of_a_trigger_that_cannot_be_is_refused() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "0")).await;
    let problem = Problem::new("subagent", "there is no `editor`");
    let gone = Findings { problem: Some(problem.clone()), ..Findings::default() };
    let look = (Duration::ZERO, gone);
    stage.world.outside.finds.0.lock().unwrap().insert("scan".to_owned(), look);

    let refused = stage.run_by_hand(&trigger.id, "by hand").await;

    assert_eq!(refused.unwrap_err(), Refusal::Invalid(problem.into()));
    assert_eq!(stage.story(&trigger.id), [] as [String; 0]);
}

/// MV-50, MV-52: what the store no longer holds is not told from memory either.
#[actix::test]
async fn a_trigger_whose_record_was_redacted_says_what_that_says() {
    let knows = Arc::new(Knows::later("scan now", &["news"]));
    let redaction = Redaction::new(knows.clone(), spine::TEXTS.iter().copied());
    let stage = Stage::redacting(redaction);
    let definition = Definition { task: "do scan now".to_owned(), ..cron("scan", "0") };
    let trigger = stage.create(definition).await;

    knows.learn_secret();
    stage.spine.store.redact(Writes::new()).await.unwrap();
    stage.settle().await;

    assert_eq!(stage.trigger(&trigger.id).await.definition.task, "do ${vault:K}");
    stage.until_minute(0).await;
    assert!(stage.tasks(&trigger.id)[0].body.starts_with("do ${vault:K}"));
}
