//! What the end of a run leads to.

use serde_json::json;

use super::stage::{HOUR, MINUTE, Stage, cron, keyword};
use crate::{
    doubles::{client::Client, engine::Play, log::Errors, world::World},
    engine::Message,
    ids::ChannelId,
    notice::NoticeKind,
    scheduler::{
        manage::{Change, Manage},
        requests::Call,
        run::{Notified, Report},
        trigger::{
            State, Which,
            config::Config,
            definition::{Definition, NotifyPolicy, OverlapPolicy, Quiet, TimeOfDay},
            webhook::{SecretRef, Webhook},
        },
    },
    store::{keys::key_of, records::Record},
    task::{Label, Task, outcome::Code, records::FinishedTask},
};

fn telling(channel: &ChannelId) -> Definition {
    Definition { notify_channel: Some(channel.clone()), ..cron("scan", "5") }
}

/// A stage on which the main team's client has a channel, and a trigger's model reports so.
async fn told(report: Option<serde_json::Value>) -> (Stage, Client) {
    let stage = Stage::new(move |request| {
        let is_first = matches!(request.messages.last(), Some(Message::User(_)));
        match (&report, is_first) {
            (Some(report), true) => vec![Play::CallWith("r1", "report_run", report.clone())],
            _ => vec![Play::Say("two new articles"), Play::Answer],
        }
    });
    let client = stage.world.connect(&stage.spine);
    (stage, client)
}

/// TR-46, TR-47, TR-79
#[actix::test]
async fn a_run_that_wants_to_be_heard_or_does_not_say_is_heard() {
    let loud = json!({"notify": true, "outcome": "ok", "reason": "news"});
    for report in [None, Some(loud), Some(json!({"notify": "perhaps"}))] {
        let (stage, client) = told(report.clone()).await;
        let trigger = stage.create(telling(&client.channel)).await;

        stage.until_minute(5).await;

        let frame = client.frame().await;
        assert_eq!(frame["type"], "notification", "{report:?}");
        assert_eq!(frame["kind"], "trigger");
        assert_eq!(frame["content"], "[news] two new articles");
        let [run] = &stage.runs(&trigger.id)[..] else { panic!() };
        let channel = client.channel.clone();
        assert_eq!(run.notified, Notified::Channel { channel });
    }
}

/// TR-25, TR-46, TR-79
#[actix::test]
async fn a_run_that_wants_silence_gets_it() {
    let silent = json!({"notify": false, "outcome": "ok", "reason": "nothing new"});
    let noop = json!({"notify": true, "outcome": "noop", "reason": "nothing to do"});
    for report in [silent, noop] {
        let (stage, client) = told(Some(report)).await;
        let trigger = stage.create(telling(&client.channel)).await;

        stage.until_minute(5).await;

        client.hears_nothing_for(MINUTE).await;
        let [run] = &stage.runs(&trigger.id)[..] else { panic!() };
        assert_eq!(run.notified, Notified::Nobody);
        assert!(run.reason.as_ref().unwrap().starts_with("nothing"));
    }
}

/// TR-47: without a channel the operator hears of it, if it is to be told at all.
#[actix::test]
async fn without_a_channel_it_goes_to_the_inbox() {
    let loud = json!({"notify": true, "outcome": "ok", "reason": "news"});
    let (stage, _client) = told(Some(loud)).await;
    let trigger = stage.create(cron("scan", "5")).await;

    stage.until_minute(5).await;

    let notices = stage.notices();
    let texts: Vec<_> = notices.iter().map(|notice| notice.text.as_str()).collect();
    assert_eq!(texts, ["[news] two new articles"]);
    assert_eq!(stage.runs(&trigger.id)[0].notified, Notified::Inbox);

    let (stage, _client) = told(None).await;
    stage.create(cron("scan", "5")).await;
    stage.until_minute(5).await;
    assert_eq!(stage.notices(), []);
}

/// CH-153, TR-47: a trigger that listens always has a channel. Run by hand it has none: that is an error in
/// the log, with trigger and task, and in the inbox. A schedule without one is as it should be.
#[actix::test]
async fn a_listening_trigger_without_a_channel_is_an_error_in_the_log() {
    let loud = json!({"notify": true, "outcome": "ok", "reason": "news"});
    let (stage, _client) = told(Some(loud)).await;
    let (errors, _guard) = Errors::listen();
    let scan = stage.create(cron("scan", "5")).await;
    let alarm = stage.create(keyword("alarm", "fire")).await;

    stage.run_by_hand(&scan.id, "k1").await.unwrap();
    stage.pass(MINUTE).await;
    let before = errors.heard();
    let run = stage.run_by_hand(&alarm.id, "k2").await.unwrap();
    stage.pass(MINUTE).await;

    assert_eq!(before, [] as [String; 0]);
    let heard = errors.heard();
    let [line] = &heard[..] else { panic!("{heard:?}") };
    assert!(line.contains(&format!("trigger={} ", alarm.id)), "{line}");
    let task = run.task_id.unwrap();
    assert!(line.contains(&format!("task={:?} ", task.as_str())), "{line}");
    assert_eq!(stage.notices().len(), 2);
    assert_eq!(stage.runs(&alarm.id)[0].notified, Notified::Inbox);
}

/// TR-42, TR-43, TR-78
#[actix::test]
async fn three_failures_switch_it_off_with_one_notice_and_enabling_begins_anew() {
    let stage = Stage::new(|_| vec![Play::Fail(Code::ProviderRefused)]);
    let client = stage.world.connect(&stage.spine);
    let definition = Definition {
        notify_channel: Some(client.channel.clone()),
        notify: NotifyPolicy::Never,
        ..cron("scan", "*/10")
    };
    let trigger = stage.create(definition).await;

    stage.pass(HOUR).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued failed"; 3]);
    let off = stage.trigger(&trigger.id).await;
    assert_eq!(off.state, State::Disabled);
    let reason = off.disabled_reason.unwrap();
    assert!(reason.starts_with("3 failures in a row: "), "{reason}");
    let notices = stage.notices();
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(notice.kind, NoticeKind::Breaker);
    for run in stage.runs(&trigger.id) {
        assert!(notice.refs.contains(&run.id.to_string()));
    }
    // Its channel is told too, once, under every policy.
    let frame = client.frame().await;
    assert!(frame["content"].as_str().unwrap().contains("was disabled"));
    client.hears_nothing_for(MINUTE).await;

    let which = Which::Id(trigger.id.clone());
    let on = stage
        .spine
        .scheduler
        .send(Manage { which, change: Change::Enable })
        .await
        .unwrap()
        .unwrap();
    assert_eq!((on.state, on.consecutive_failures), (State::Active, 0));
    stage.pass(30 * MINUTE).await;
    assert_eq!(stage.runs(&trigger.id).len(), 6);
}

/// TR-24: what one run leaves, the next one sees; a failed one leaves nothing.
#[actix::test]
async fn cursors_go_from_run_to_run() {
    let stage = Stage::new(|request| {
        let words = request.messages.iter().find_map(|message| match message {
            Message::User(text) => Some(text.clone()),
            _ => None,
        });
        let words = words.unwrap_or_default();
        let is_first = matches!(request.messages.last(), Some(Message::User(_)));
        let (seen, outcome) = match (words.contains("\"two\""), words.contains("\"one\"")) {
            (true, _) => ("three", "failed"),
            (_, true) => ("two", "ok"),
            _ => ("one", "noop"),
        };
        let report = json!({
            "notify": false, "outcome": outcome, "reason": seen, "cursors": {"last_scan": seen},
        });
        if is_first {
            vec![Play::CallWith("r1", "report_run", report)]
        } else {
            vec![Play::Say("fine"), Play::Answer]
        }
    });
    let definition = Definition {
        overlap_policy: OverlapPolicy::SkipThenReplace,
        ..Definition::new("scan", super::windows::window("*/2"), "do scan")
    };
    let trigger = stage.create(definition).await;

    stage.pass(12 * MINUTE).await;

    let after = stage.trigger(&trigger.id).await;
    assert_eq!(after.cursors["last_scan"], "two");
    let changed: Vec<_> = stage
        .runs(&trigger.id)
        .iter()
        .map(|run| run.cursors.get("last_scan").cloned().flatten())
        .collect();
    assert_eq!(changed[..3], [Some("one".to_owned()), Some("two".to_owned()), None]);
}

/// TR-24: whatever a trigger waits for, its runs see what the last one left; only a window says that
/// there is nothing yet.
#[actix::test]
async fn a_run_of_any_type_is_shown_its_cursors() {
    let stage = Stage::calm();
    let schedule = stage.create(cron("scan", "*")).await;
    let listening = stage.create(super::stage::keyword("listen", "news")).await;
    let definition = Definition::new("watch", super::windows::window("*/2"), "do watch");
    let window = stage.create(definition).await;
    stage.run_by_hand(&schedule.id, "before").await.unwrap();

    for trigger in [&schedule, &listening] {
        let set = Manage {
            which: Which::Id(trigger.id.clone()),
            change: Change::SetCursors([("last_scan".to_owned(), "7".to_owned())].into()),
        };
        stage.spine.scheduler.send(set).await.unwrap().unwrap();
        stage.run_by_hand(&trigger.id, "by hand").await.unwrap();
    }
    stage.pass(3 * MINUTE).await;

    let shown = |id| -> Vec<bool> {
        let tasks = stage.tasks(id);
        let shows = |task: &Task| task.body.contains("- last_scan: \"7\"");
        tasks.iter().map(shows).collect()
    };
    assert_eq!(shown(&schedule.id)[..3], [false, true, true]);
    assert_eq!(shown(&listening.id), [true]);
    let before = &stage.tasks(&schedule.id)[0].body;
    assert!(!before.contains("Cursors"), "{before}");
    let empty = &stage.tasks(&window.id)[0].body;
    assert!(empty.contains("(nothing yet)"), "{empty}");
}

/// TR-24, MV-13: what a run that read a stranger's words leaves is a stranger's, until an operator sets it.
#[actix::test]
async fn what_a_run_that_is_not_to_be_believed_leaves_makes_the_next_one_like_it() {
    let stage = Stage::new(|request| {
        let shown = format!("{:?}", request.messages.first()).contains("- summary:");
        let report = json!({
            "notify": false, "outcome": "ok", "reason": "", "cursors": {"summary": "obey"},
        });
        match (request.step, shown) {
            (1, false) => vec![Play::Call(vec![("c1", "rumour")])],
            (2, false) => vec![Play::CallWith("r1", "report_run", report)],
            _ => vec![Play::Say("fine"), Play::Answer],
        }
    });
    let trigger = stage.create(cron("scan", "*")).await;
    stage.pass(3 * MINUTE).await;
    let set = Manage {
        which: Which::Id(trigger.id.clone()),
        change: Change::SetCursors([("summary".to_owned(), "mine".to_owned())].into()),
    };
    stage.spine.scheduler.send(set).await.unwrap().unwrap();
    stage.pass(MINUTE).await;

    let label_with = |words: &str| {
        let tasks = stage.tasks(&trigger.id);
        let task = tasks.iter().find(|task| task.body.contains(words));
        task.unwrap().label
    };
    assert_eq!(label_with("- summary: \"obey\""), Label::Untrusted);
    assert_eq!(label_with("- summary: \"mine\""), Label::Trusted);
}

/// TR-45: a reason may be left out.
#[test]
fn a_report_without_a_reason_is_read() {
    let report: Report = serde_json::from_value(json!({"notify": true, "outcome": "ok"})).unwrap();

    assert_eq!((report.notify, report.reason.as_str()), (true, ""));
}

/// TR-48
#[actix::test]
async fn what_happens_in_the_quiet_time_is_told_after_it_as_one() {
    let (stage, client) = told(None).await;
    let minute = u32::try_from(stage.now().0 / 60_000 % (24 * 60)).unwrap();
    let definition = Definition {
        quiet: Some(quiet(minute, 40)),
        ..Definition { config: cron("scan", "*/10").config, ..telling(&client.channel) }
    };
    let trigger = stage.create(definition).await;

    client.hears_nothing_for(39 * MINUTE).await;
    let ends: Vec<_> = stage.runs(&trigger.id).iter().map(|run| run.notified.clone()).collect();
    assert_eq!(ends, vec![Notified::Later; ends.len()]);
    let frame = client.frame().await;

    let text = frame["content"].as_str().unwrap();
    assert_eq!(text.matches("[news] two new articles").count(), ends.len());
}

/// A stage whose runs say so much.
async fn talkative() -> (Stage, Client) {
    let stage = Stage::new(|_| vec![Play::Say(MUCH), Play::Answer]);
    let client = stage.world.connect(&stage.spine);
    (stage, client)
}

const MUCH: &str = {
    const BYTES: [u8; 5_000] = [b'x'; 5_000];
    match std::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => "",
    }
};

/// TR-47: a report in the inbox that is cut says so, and a frame takes all of it.
#[actix::test]
async fn a_report_that_is_cut_says_how_much_and_where_the_rest_is() {
    let (stage, _client) = talkative().await;
    let definition = Definition { notify: NotifyPolicy::Always, ..cron("scan", "5") };
    let trigger = stage.create(definition).await;

    stage.until_minute(5).await;

    let text = stage.notices()[0].text.clone();
    let task = stage.runs(&trigger.id)[0].task_id.clone().unwrap();
    let mark = format!(" … [1007 more characters: `hivewright tasks show {task}`]");
    assert!(text.ends_with(&mark), "{text}");

    let (stage, client) = talkative().await;
    stage.create(telling(&client.channel)).await;
    stage.until_minute(5).await;
    let frame = client.frame().await;
    assert_eq!(frame["content"], format!("[news] {MUCH}"));
}

/// TR-48, CH-149: what was held back is marked where it was cut, those that were too many are counted,
/// and all of it stands in the conversation of the channel.
#[actix::test]
async fn what_the_quiet_time_left_out_is_counted() {
    let (stage, client) = talkative().await;
    let minute = u32::try_from(stage.now().0 / 60_000 % (24 * 60)).unwrap();
    let definition = Definition {
        quiet: Some(quiet(minute, 60)),
        ..Definition { config: cron("scan", "*").config, ..telling(&client.channel) }
    };
    let trigger = stage.create(definition).await;

    client.hears_nothing_for(59 * MINUTE).await;
    let frame = client.frame().await;

    let text = frame["content"].as_str().unwrap();
    let runs = stage.runs(&trigger.id);
    let held = runs.iter().filter(|run| run.notified == Notified::Later);
    let left_out = held.count() - 50;
    let first = format!(
        "({left_out} older ones are not shown: `hivewright trigger runs {}`)\n\n[news] xxx",
        trigger.id
    );
    assert!(text.starts_with(&first), "{}", &text[..200]);
    assert_eq!(text.matches(" … [1007 more characters: ").count(), 50);
    let said = stage.world.disk.keys("log");
    assert_eq!(said.len(), 1, "{said:?}");
}

/// TR-48: a trigger that listens answers where the message came from, also after the quiet time.
#[actix::test]
async fn what_a_listening_trigger_held_back_goes_to_the_messages_channel() {
    let stage = Stage::calm();
    let minute = u32::try_from(stage.now().0 / 60_000 % (24 * 60)).unwrap();
    let definition =
        Definition { quiet: Some(quiet(minute, 10)), ..super::stage::keyword("alarm", "fire") };
    stage.create(definition).await;
    let client = stage.world.connect(&stage.spine);

    client.say("m1", "fire");
    client.hear_end_of("m1").await;
    let told = client.frame().await;

    assert_eq!((&told["type"], &told["content"]), (&"notification".into(), &"[news] done".into()));
    assert_eq!(stage.notices(), []);
}

/// TR-39: what somebody sent is never dropped because it came close to another.
#[test]
fn only_what_a_clock_started_is_skipped_unless_told_otherwise() {
    use crate::scheduler::trigger::{
        config::{Config, Listen},
        definition::OverlapPolicy,
    };

    let overlap = |config| Definition::new("a", config, "b").overlap_policy;

    assert_eq!(overlap(cron("a", "5").config), OverlapPolicy::SkipThenReplace);
    for config in [Config::Keyword(Listen::default()), Config::Message(Listen::default())] {
        assert_eq!(overlap(config), OverlapPolicy::Allow);
    }
}

/// TR-36, TR-39: the second message waits behind the first.
#[actix::test]
async fn messages_that_come_close_together_are_both_served() {
    let stage = Stage::new(|_| vec![Play::Wait(MINUTE), Play::Say("served"), Play::Answer]);
    let trigger = stage.create(super::stage::keyword("alarm", "fire")).await;
    let client = stage.world.connect(&stage.spine);

    client.say("m1", "fire in the hall");
    client.say("m2", "fire in the attic");
    stage.pass(HOUR).await;

    assert_eq!(stage.story(&trigger.id), ["keyword enqueued ok"; 2]);
}

/// From a minute of the day on, for so many minutes.
fn quiet(minute: u32, lasts: u32) -> Quiet {
    let to = TimeOfDay((minute + lasts) % (24 * 60));
    Quiet { from: TimeOfDay(minute), to, timezone: None }
}

fn webhook(name: &str) -> Definition {
    let webhook = Webhook::new(SecretRef::to("HOOK"));
    Definition {
        allow_untrusted: true,
        ..Definition::new(name, Config::Webhook(webhook), "look at it")
    }
}

/// TR-39: each call of a webhook is somebody's message.
#[test]
fn calls_of_a_webhook_wait_for_each_other() {
    assert_eq!(webhook("push").overlap_policy, OverlapPolicy::Allow);
}

/// TR-85: what the prompt does not show of a body is counted, and it says where it is.
#[actix::test]
async fn a_body_that_is_longer_than_the_prompt_shows_says_so() {
    let stage = Stage::new(|_| vec![Play::Say("seen"), Play::Answer]);
    let trigger = stage.create(webhook("push")).await;
    let call = Call {
        trigger: trigger.id.clone(),
        key: "d1".to_owned(),
        headers: Vec::new(),
        payload: "x".repeat(64 * 1024 + 7),
        filtered: None,
    };

    stage.spine.scheduler.send(call).await.unwrap().unwrap();
    stage.pass(MINUTE).await;

    let asked = format!("{:?}", stage.world.asked.lock().unwrap().last().unwrap());
    let mark =
        format!("[7 more bytes: an operator finds them in the run of trigger {}]", trigger.id);
    assert!(asked.contains(&mark), "{}", &asked[asked.len() - 300..]);
}

/// SC-112, TR-41: whatever can be read of the task, its run ends with it.
#[actix::test]
async fn a_run_whose_task_is_damaged_is_accounted_for() {
    let mut stage = Stage::new(|_| vec![Play::Hang]);
    let trigger = stage.create(cron("scan", "0")).await;
    stage.until_minute(0).await;
    stage.stop().await;
    assert_eq!(stage.story(&trigger.id), ["schedule enqueued"]);
    stage.world.disk.damage("task/");

    stage.spine = stage.world.start();
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued failed"]);
    assert_eq!(stage.world.disk.keys("edge/run.open/"), [] as [String; 0]);
    assert_eq!(stage.trigger(&trigger.id).await.active_task_id, None);
}

/// TR-41: an end that cannot be read is looked at again.
#[actix::test]
async fn an_end_that_the_disk_does_not_give_is_read_later() {
    let world = World::new(|_| vec![Play::Wait(MINUTE), Play::Say("done"), Play::Answer]);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let stage = Stage { world, spine };
    let trigger = stage.create(cron("scan", "0")).await;
    stage.until_minute(0).await;
    let task = stage.runs(&trigger.id)[0].task_id.clone().unwrap();
    storage.scratch(key_of(FinishedTask::KIND, &task));

    stage.pass(2 * MINUTE).await;
    assert_eq!(stage.story(&trigger.id), ["schedule enqueued"]);
    storage.mend();
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["schedule enqueued ok"]);
}
