//! Making and changing triggers.

use std::collections::BTreeMap;

use super::stage::{MINUTE, Stage, cron, keyword, team};
use crate::{
    notice::NoticeKind,
    scheduler::{
        Refusal,
        maintain::{Maintain, Wanted},
        manage::{Change, Create, Forget, Manage},
        trigger::{
            State, Which,
            config::{Config, Schedule},
            definition::Definition,
            validation::Problems,
        },
        views::List,
    },
    text::Span,
};

fn with_zone(zone: &str) -> Definition {
    Definition {
        config: Config::Schedule(Schedule {
            timezone: Some(zone.to_owned()),
            ..Schedule::cron("*")
        }),
        ..cron("zone", "*")
    }
}

/// TR-02, TR-82
#[actix::test]
async fn an_invalid_trigger_is_refused_with_its_field_and_nothing_is_stored() {
    let stage = Stage::calm();
    let cases = [
        (cron("scan", "75"), "config.cron"),
        (with_zone("Mars"), "config.timezone"),
        (keyword("word", "("), "config.pattern"),
        (cron("Not a slug", "*"), "name"),
        (Definition { task: " ".to_owned(), ..cron("scan", "*") }, "task"),
        (Definition { max_steps: Some(501), ..cron("scan", "*") }, "max_steps"),
        (Definition { deadline: Span(MINUTE / 2), ..cron("scan", "*") }, "deadline"),
        (Definition { failure_threshold: 0, ..cron("scan", "*") }, "failure_threshold"),
    ];
    for (definition, field) in cases {
        let refusal = stage.try_create(definition).await.unwrap_err();
        let Refusal::Invalid(Problems(problems)) = refusal else { panic!("{refusal:?}") };
        let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, [field]);
    }
    // The main team is made by itself.
    let mut stored = stage.world.disk.keys("");
    stored.retain(|key| !key.starts_with("team/"));
    assert_eq!(stored, Vec::<String>::new());
}

/// TR-01, TR-06, TR-56, TR-58
#[actix::test]
async fn names_are_unique_and_some_are_reserved_and_fifty_are_enough() {
    let stage = Stage::calm();
    stage.create(cron("scan", "0")).await;

    let code = async |definition| stage.try_create(definition).await.unwrap_err().code();
    assert_eq!(code(cron("scan", "1")).await, "name_taken");
    for name in ["heartbeat", "learning-cycle", "reflection-cycle-editor"] {
        assert_eq!(code(cron(name, "1")).await, "name_reserved");
    }
    for number in 1..50 {
        stage.create(cron(&format!("scan-{number}"), "0")).await;
    }
    assert_eq!(code(cron("one-too-many", "1")).await, "limit_triggers");
}

/// TR-50: a change is validated like a new one, and takes nothing with it if it is refused.
#[actix::test]
async fn a_change_that_is_invalid_changes_nothing() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*")).await;
    let update = Manage {
        which: Which::Id(trigger.id.clone()),
        change: Change::Define(Box::new(|trigger| {
            Ok(Definition { config: cron("scan", "99").config, ..trigger.definition.clone() })
        })),
    };

    let refused = stage.spine.scheduler.send(update).await.unwrap();

    assert_eq!(refused.unwrap_err().code(), "invalid_input");
    assert_eq!(stage.trigger(&trigger.id).await, trigger);
}

/// TR-02: a stored one that an upgrade made invalid never stops the start.
#[actix::test]
async fn a_stored_trigger_that_is_no_longer_valid_is_switched_off_at_the_start() {
    use crate::store::records::Writes;
    let mut stage = Stage::calm();
    let mut trigger = stage.create(cron("scan", "*")).await;
    trigger.definition.config = cron("scan", "99").config;
    stage.stop().await;
    let spoil = Writes::new().put(&trigger);
    stage.spine.store.commit(spoil).await.unwrap();

    stage.restart_after(MINUTE).await;

    let off = stage.trigger(&trigger.id).await;
    assert_eq!(off.state, State::Disabled);
    assert!(off.disabled_reason.unwrap().starts_with("config.cron: "));
    let notices = stage.notices();
    let kinds: Vec<_> = notices.iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::InvalidTrigger]);
    let which = Which::Id(trigger.id);
    let on = stage.spine.scheduler.send(Manage { which, change: Change::Enable }).await.unwrap();
    assert_eq!(on.unwrap_err().code(), "invalid_input");
}

/// TR-59
#[actix::test]
async fn deleting_keeps_the_runs() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*")).await;
    stage.pass(2 * MINUTE).await;

    let which = Which::Named { team: team(), name: "scan".to_owned() };
    stage.spine.scheduler.send(Manage { which, change: Change::Delete }).await.unwrap().unwrap();
    stage.pass(2 * MINUTE).await;

    assert_eq!(stage.runs(&trigger.id).len(), 2);
    let left = stage.spine.scheduler.send(List { team: None }).await.unwrap();
    assert_eq!(left, []);
    // Its name is free again.
    stage.create(cron("scan", "*")).await;
}

/// TR-06
#[actix::test]
async fn a_team_that_is_shut_down_loses_its_triggers() {
    let stage = Stage::calm();
    stage.create(cron("scan", "*")).await;
    stage.create(keyword("word", "fire")).await;

    let gone = stage.spine.scheduler.send(Forget { team: team() }).await;

    assert_eq!(gone.unwrap(), 2);
    assert_eq!(stage.world.disk.keys("edge/trigger/"), [] as [String; 0]);
}

/// TR-24: operators may set what runs leave for each other.
#[actix::test]
async fn cursors_can_be_set() {
    let stage = Stage::calm();
    let trigger = stage.create(cron("scan", "*")).await;
    let set = |name: &str, value: String| Manage {
        which: Which::Id(trigger.id.clone()),
        change: Change::SetCursors(BTreeMap::from([(name.to_owned(), value)])),
    };

    let good = stage.spine.scheduler.send(set("last_scan", "7".to_owned())).await;
    let long = stage.spine.scheduler.send(set("last_scan", "x".repeat(4097))).await;
    let name = stage.spine.scheduler.send(set("Not a slug", String::new())).await;

    assert_eq!(good.unwrap().unwrap().cursors["last_scan"], "7");
    assert_eq!(long.unwrap().unwrap_err().code(), "invalid_input");
    assert_eq!(name.unwrap().unwrap_err().code(), "invalid_input");
}

/// TR-58, TR-61, TR-63, TR-69
#[actix::test]
async fn settings_keep_their_triggers_and_nobody_else_changes_them() {
    let stage = Stage::calm();
    let maintain = async |wanted: Wanted| {
        let team = team();
        let kept = stage.spine.scheduler.send(Maintain { team, wanted }).await;
        kept.unwrap().unwrap();
        let listed = stage.spine.scheduler.send(List { team: None }).await.unwrap();
        let names = listed.into_iter().map(|listed| listed.trigger.definition.name);
        names.collect::<Vec<_>>()
    };
    let wanted = Wanted { heartbeat: Some(10 * MINUTE), learning: None };

    assert_eq!(maintain(wanted.clone()).await, ["heartbeat"]);
    let which = Which::Named { team: team(), name: "heartbeat".to_owned() };
    let change = Change::Define(Box::new(|trigger| Ok(trigger.definition.clone())));
    let change = Manage { which: which.clone(), change };
    let refused = stage.spine.scheduler.send(change).await.unwrap();
    assert_eq!(refused.unwrap_err().code(), "name_reserved");
    let refused =
        stage.spine.scheduler.send(Manage { which, change: Change::Delete }).await.unwrap();
    assert_eq!(refused.unwrap_err().code(), "name_reserved");
    // The same again changes nothing, not even the phase.
    stage.pass(MINUTE).await;
    let before = stage.world.disk.keys("");
    maintain(wanted).await;
    assert_eq!(stage.world.disk.keys(""), before);
    assert_eq!(maintain(Wanted::default()).await, [] as [String; 0]);
}

/// A create that is not to fire yet.
#[actix::test]
async fn a_new_trigger_waits_to_be_enabled() {
    let stage = Stage::calm();
    let create = Create {
        team: team(),
        definition: cron("scan", "*"),
        enable: false,
        by: "main".to_owned(),
    };
    let trigger = stage.spine.scheduler.send(create).await.unwrap().unwrap();
    assert_eq!((trigger.state, trigger.next_due_at), (State::Pending, None));

    stage.pass(3 * MINUTE).await;

    assert_eq!(stage.runs(&trigger.id).len(), 0);
    assert!(stage.run_by_hand(&trigger.id, "k1").await.is_ok());
}

/// TR-72: a heartbeat belongs to no topic and no channel, so it keeps none in use.
#[actix::test]
async fn a_heartbeat_is_no_activity_of_a_topic() {
    let stage = Stage::calm();
    let kept =
        Maintain { team: team(), wanted: Wanted { heartbeat: Some(10 * MINUTE), learning: None } };
    stage.spine.scheduler.send(kept).await.unwrap().unwrap();
    let listed = stage.spine.scheduler.send(List { team: None });
    let id = listed.await.unwrap()[0].trigger.id.clone();

    stage.pass(11 * MINUTE).await;

    let tasks = stage.tasks(&id);
    assert_eq!(tasks.len(), 1);
    let task = &tasks[0];
    assert_eq!((&task.source, &task.lane.topic), (&None, &None));
}
