//! Weeks of triggers on virtual time: two changes of the clock, three days of downtime, a run that
//! takes too long, failures in a row, a window. Every firing, skip and notice is named.

use std::time::Duration;

use hivewright_actors::{
    notice::NoticeKind,
    scheduler::{
        run::{Cause, Decision},
        trigger::{
            State, Trigger,
            config::{Config, Schedule, Window},
            definition::{Definition, MissedPolicy},
        },
        window::{Closed, Phase},
    },
    task::outcome::Ending,
    text::Span,
};

use super::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);

fn cron(name: &str, pattern: &str) -> Definition {
    let config = Config::Schedule(Schedule::cron(pattern));
    Definition::new(name, config, name)
}

/// Most work takes a minute. What is `slow` takes two and a half hours, and what is `broken` fails.
fn script(order: &str) -> (Duration, Ending) {
    match order {
        "slow" => (150 * MINUTE, Ending::Done),
        "broken" => (MINUTE, Ending::Failed),
        _ => (MINUTE, Ending::Done),
    }
}

fn office_hours() -> Definition {
    let config = Config::Window(Window {
        open: Some("0 9 * * MON-FRI".to_owned()),
        close: Some("6 9 * * *".to_owned()),
        tick_interval: Span(2 * MINUTE),
        ..Window::default()
    });
    Definition::new("watch", config, "watch")
}

/// Triggers of a spring, and the stage on which they fire.
struct Spring {
    stage: Stage,
    nightly: Trigger,
    rhythm: Trigger,
    slow: Trigger,
    broken: Trigger,
    watch: Trigger,
    skip: Trigger,
    once: Trigger,
    all: Trigger,
}

impl Spring {
    async fn new() -> Self {
        let stage = Stage::new("2025-03-28T12:00", script);
        let noon = |missed: MissedPolicy| {
            let name = format!("{missed:?}").to_lowercase();
            Definition { missed: Some(missed), ..cron(&name, "0 12 * * *") }
        };
        Self {
            nightly: stage.create(cron("nightly", "30 2 * * *")).await,
            rhythm: stage.create(cron("rhythm", "*/30 * * * *")).await,
            slow: stage.create(cron("slow", "0 18-23 * * FRI")).await,
            broken: stage.create(cron("broken", "15 * * * *")).await,
            watch: stage.create(office_hours()).await,
            skip: stage.create(noon(MissedPolicy::Skip)).await,
            once: stage.create(noon(MissedPolicy::Once)).await,
            all: stage.create(noon(MissedPolicy::All)).await,
            stage,
        }
    }

    async fn check_first_weekend(&self) {
        // The time that does not exist on Sunday is the first moment after the gap.
        assert_eq!(
            self.stage.story(&self.nightly),
            [
                "Sat 2025-03-29 02:30 CET schedule enqueued ok",
                "Sun 2025-03-30 03:00 CEST schedule enqueued ok",
                "Mon 2025-03-31 02:30 CEST schedule enqueued ok",
            ]
        );
        // Friday afternoon 24, Saturday 48, Sunday 46, Monday morning 20 (midnight counts as Monday).
        let of_day = |day: &str| {
            self.stage.story(&self.rhythm).iter().filter(|run| run.starts_with(day)).count()
        };
        assert_eq!(
            ["Fri", "Sat", "Sun", "Mon"].map(of_day),
            [23, 48, 46, 20],
            "{:?}",
            self.stage.story(&self.rhythm)
        );
        // One task takes until half past eight: the first firing meanwhile is skipped, the next replaces it.
        assert_eq!(
            self.stage.story(&self.slow),
            [
                "Fri 2025-03-28 18:00 CET schedule enqueued cancelled",
                "Fri 2025-03-28 19:00 CET schedule skipped_overlap",
                "Fri 2025-03-28 20:00 CET schedule replaced cancelled",
                "Fri 2025-03-28 21:00 CET schedule skipped_overlap",
                "Fri 2025-03-28 22:00 CET schedule replaced ok",
                "Fri 2025-03-28 23:00 CET schedule skipped_overlap",
            ]
        );
        // Three failures and no more.
        assert_eq!(
            self.stage.story(&self.broken),
            [
                "Fri 2025-03-28 12:15 CET schedule enqueued failed",
                "Fri 2025-03-28 13:15 CET schedule enqueued failed",
                "Fri 2025-03-28 14:15 CET schedule enqueued failed",
            ]
        );
        let off = self.stage.trigger(&self.broken).await;
        assert_eq!(off.state, State::Disabled);
        assert_eq!(off.disabled_reason.as_deref(), Some("3 failures in a row: no luck"));
        // The window opened on Monday at nine for six minutes.
        assert_eq!(
            self.stage.story(&self.watch),
            [
                "Mon 2025-03-31 09:00 CEST window enqueued ok",
                "Mon 2025-03-31 09:02 CEST window enqueued ok",
                "Mon 2025-03-31 09:04 CEST window enqueued ok",
            ]
        );
        let over = self.stage.trigger(&self.watch).await.occurrence.unwrap();
        assert_eq!((over.phase, over.reason, over.ticks), (Phase::Closed, Some(Closed::Time), 3));
    }

    async fn check_after_downtime(&self) {
        // Only what is less than a day old is made up, and who asked for nothing gets nothing.
        assert_eq!(
            self.stage.story(&self.nightly)[3..],
            ["Thu 2025-04-03 02:30 CEST missed enqueued ok"]
        );
        let made_up = &self.stage.runs(&self.nightly)[3];
        assert!(
            self.stage
                .body(made_up)
                .contains("stands for 3 that were due since Tue 2025-04-01 02:30")
        );
        let noon = "Thu 2025-04-03 12:00 CEST schedule enqueued ok";
        assert_eq!(
            self.stage.story(&self.skip)[2..],
            ["Wed 2025-04-02 12:00 CEST missed missed_skipped x3", noon]
        );
        assert_eq!(
            self.stage.story(&self.once)[2..],
            ["Wed 2025-04-02 12:00 CEST missed enqueued ok", noon]
        );
        assert_eq!(
            self.stage.story(&self.all)[2..],
            [
                "Tue 2025-04-01 12:00 CEST missed missed_skipped x2",
                "Wed 2025-04-02 12:00 CEST missed enqueued ok",
                noon,
            ]
        );
        // Of the half hours one run for all, then as ever. The service came up at 09:01.
        let since: Vec<String> = self.stage.story(&self.rhythm).split_off(137);
        assert_eq!(since[0], "Thu 2025-04-03 09:00 CEST missed enqueued ok");
        assert_eq!(since[1], "Thu 2025-04-03 09:30 CEST schedule enqueued ok");
        assert_eq!(since.len(), 1 + 7);
        // The window had opened a minute before: it goes on in step, without the tick it missed.
        assert_eq!(
            self.stage.story(&self.watch)[3..],
            [
                "Thu 2025-04-03 09:02 CEST window enqueued ok",
                "Thu 2025-04-03 09:04 CEST window enqueued ok",
            ]
        );
    }

    fn check_nothing_is_left(&self) {
        let notices = self.stage.notices();
        let kinds: Vec<NoticeKind> = notices.iter().map(|notice| notice.kind).collect();
        assert_eq!(kinds, [NoticeKind::Breaker]);
        for run in self.stage.runs(&self.broken) {
            assert!(notices[0].refs.contains(&run.id.to_string()));
        }
        assert_eq!(self.stage.open(), []);
        for trigger in [&self.nightly, &self.rhythm, &self.slow, &self.skip, &self.once, &self.all]
        {
            let runs = self.stage.runs(trigger);
            let mut keys: Vec<_> =
                runs.iter().map(|run| (run.cause == Cause::Missed, &run.key)).collect();
            keys.sort();
            let all = keys.len();
            keys.dedup();
            assert_eq!(keys.len(), all, "no time is served twice");
            let limited = |run: &&hivewright_actors::scheduler::run::Run| {
                run.decision == Decision::RateLimited
            };
            assert_eq!(runs.iter().filter(limited).count(), 0);
        }
    }
}

/// TR-08, TR-12, TR-20 to TR-23, TR-27 to TR-32, TR-36 to TR-44, TR-75, TR-78, TR-81
#[actix::test]
async fn a_spring_of_triggers() {
    let mut spring = Spring::new().await;

    // From Friday noon over the night of the change to Monday, half past nine.
    spring.stage.until("2025-03-31T09:30").await;
    spring.check_first_weekend().await;

    // Three days down, from Monday to Thursday, past three nights, three noons and three openings.
    spring.stage.stop().await;
    spring.stage.until("2025-04-03T09:01").await;
    spring.stage.start();
    spring.stage.until("2025-04-03T12:31").await;
    spring.check_after_downtime().await;

    // Nothing else was ever told, and nothing is left behind.
    spring.check_nothing_is_left();
}

/// TR-12, TR-81
#[actix::test]
async fn an_autumn_of_triggers() {
    let mut stage = Stage::new("2025-10-25T12:00", script);
    let nightly = stage.create(cron("nightly", "30 2 * * *")).await;
    let rhythm = stage.create(cron("rhythm", "*/30 * * * *")).await;

    // Down in the middle of the second pass, and up again before it is over.
    stage.until("2025-10-26T03:10").await;
    let before = stage.story(&nightly);
    stage.stop().await;
    stage.start();
    stage.until("2025-10-27T12:00").await;

    // The time that comes twice is served on its first pass only.
    assert_eq!(before, ["Sun 2025-10-26 02:30 CEST schedule enqueued ok"]);
    assert_eq!(
        stage.story(&nightly),
        [
            "Sun 2025-10-26 02:30 CEST schedule enqueued ok",
            "Mon 2025-10-27 02:30 CET schedule enqueued ok",
        ]
    );
    let sunday = stage.story(&rhythm).iter().filter(|run| run.starts_with("Sun")).count();
    assert_eq!(sunday, 50);
    assert_eq!(stage.notices(), []);
}

/// OR-12: a schedule without a zone of its own follows the settings, also while the service runs.
#[actix::test]
async fn a_change_of_the_time_zone_moves_what_is_due() {
    let stage = Stage::new("2026-03-02T08:00", script);
    let trigger = stage.create(cron("noon", "0 12 * * *")).await;
    let before = stage.trigger(&trigger).await.next_due_at.unwrap();

    stage.set_zone("UTC");
    let after = stage.trigger(&trigger).await.next_due_at.unwrap();

    assert_eq!(after, before + Duration::from_secs(3_600));
}
