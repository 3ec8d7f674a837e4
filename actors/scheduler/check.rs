//! Whether a trigger can be what it is told to be.

use std::time::Duration;

use super::{
    calendar::Calendar,
    config::{Config, Listen, Schedule, Scheme, Span, Test, Webhook, When, Window},
    matcher::{Expressions, Language},
    trigger::{Definition, Problem, Quiet},
    window::{self, View},
};
use crate::{clock::Timestamp, task::Priority};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest task, in characters.
const LONGEST_TASK: usize = 20_000;
/// The longest expression, in characters.
const LONGEST_PATTERN: usize = 500;
/// Header fields that a team never sees.
const HIDDEN_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "webhook-signature",
    "x-hub-signature",
    "x-hub-signature-256",
];

/// What a definition is checked with.
pub struct Check<'a> {
    /// Patterns and zones.
    pub calendar: &'a dyn Calendar,
    /// Expressions.
    pub expressions: &'a dyn Expressions,
    /// The zone of the settings.
    pub zone: &'a str,
    /// The present.
    pub now: Timestamp,
    /// It is being made or changed: a time that has passed is a mistake then.
    pub is_new: bool,
}

impl Check<'_> {
    /// Finds the first thing that is wrong.
    pub fn run(&self, definition: &Definition) -> Result<(), Problem> {
        let Definition {
            name,
            config,
            task,
            max_steps,
            priority,
            deadline,
            failure_threshold,
            cooldown,
            quiet,
            ..
        } = definition;
        ensure(is_slug(name), "name", || {
            "expected lower-case words joined by `-`, at most 64 characters".to_owned()
        })?;
        let length = task.chars().count();
        ensure(!task.trim().is_empty() && length <= LONGEST_TASK, "task", || {
            format!("expected 1 to {LONGEST_TASK} characters, found {length}")
        })?;
        ensure(max_steps.is_none_or(|steps| (1..=500).contains(&steps)), "max_steps", || {
            "is not 1-500".to_owned()
        })?;
        ensure(*priority != Priority::Critical, "priority", || {
            "is `critical`, which no trigger may be; there are `high`, `normal`, `low`".to_owned()
        })?;
        within("deadline", *deadline, MINUTE, 7 * DAY, "1m-7d")?;
        ensure((1..=100).contains(failure_threshold), "failure_threshold", || {
            "is not 1-100".to_owned()
        })?;
        within("cooldown", *cooldown, Duration::ZERO, 30 * DAY, "0s-30d")?;
        if let Some(quiet) = quiet {
            self.quiet(quiet)?;
        }
        match config {
            Config::Schedule(schedule) => self.schedule(schedule),
            Config::Keyword(listen) => self.listen(Language::Keyword, listen),
            Config::Message(listen) => self.listen(Language::Message, listen),
            Config::Window(window) => self.window(window),
            Config::Webhook(webhook) => self.webhook(webhook),
        }
    }

    fn quiet(&self, quiet: &Quiet) -> Result<(), Problem> {
        let in_a_day = quiet.from < 24 * 60 && quiet.to < 24 * 60;
        ensure(in_a_day && quiet.from != quiet.to, "quiet", || {
            "needs `from` and `to` as HH:MM, and they must differ".to_owned()
        })?;
        self.zone("quiet.timezone", quiet.timezone.as_deref())
    }

    fn zone(&self, field: &str, zone: Option<&str>) -> Result<(), Problem> {
        match zone {
            Some(zone) => problem_of(field, self.calendar.check_zone(zone)),
            None => Ok(()),
        }
    }

    fn cron(&self, field: &str, pattern: &str) -> Result<(), Problem> {
        problem_of(field, self.calendar.check_cron(pattern, self.now))
    }

    fn schedule(&self, schedule: &Schedule) -> Result<(), Problem> {
        self.zone("config.timezone", schedule.timezone.as_deref())?;
        match &schedule.when {
            When::Cron(pattern) => self.cron("config.cron", pattern),
            When::At { at, text } => {
                ensure(!self.is_new || *at > self.now, "config.at", || format!("{text} has passed"))
            }
            When::Every(step) => within("config.every", *step, 10 * SECOND, 30 * DAY, "10s-30d"),
        }
    }

    fn listen(&self, language: Language, listen: &Listen) -> Result<(), Problem> {
        let length = listen.pattern.chars().count();
        ensure((1..=LONGEST_PATTERN).contains(&length), "config.pattern", || {
            format!("expected 1 to {LONGEST_PATTERN} characters, found {length}")
        })?;
        let read = self.expressions.read(language, &listen.pattern, listen.flags.as_deref());
        problem_of("config.pattern", read.map(drop))
    }

    fn window(&self, window: &Window) -> Result<(), Problem> {
        self.zone("config.timezone", window.timezone.as_deref())?;
        match &window.span {
            Span::Watch(pattern) => {
                self.cron("config.watch", pattern)?;
                let has_seconds = pattern.split_whitespace().count() == 6;
                ensure(!has_seconds, "config.watch", || {
                    "has seconds; a window is open for whole minutes".to_owned()
                })?;
                let view = View {
                    window,
                    zone: self.zone,
                    calendar: self.calendar,
                    now: self.now,
                    since: self.now,
                };
                let closes = window::opening(view, self.now)
                    .is_some_and(|(opens, closes)| closes.since(opens) < window::LONGEST);
                ensure(closes, "config.watch", || {
                    "never closes within 7 days; give it hours or days, or use a schedule"
                        .to_owned()
                })?;
            }
            Span::Between { open, close } => {
                self.cron("config.open", open)?;
                self.cron("config.close", close)?;
            }
            Span::Lasting { open, duration } => {
                self.cron("config.open", open)?;
                within("config.duration", *duration, SECOND, 7 * DAY, "1s-7d")?;
            }
        }
        within("config.tick_interval", window.tick_interval, 5 * SECOND, DAY, "5s-24h")?;
        ensure((1..=100_000).contains(&window.max_ticks), "config.max_ticks_per_window", || {
            "is not 1-100000".to_owned()
        })?;
        ensure(window.max_tokens != Some(0), "config.max_tokens_per_window", || "is 0".to_owned())?;
        ensure(
            window.max_usd.is_none_or(|most| most.is_finite() && most > 0.0),
            "config.max_usd_per_window",
            || "is not above 0".to_owned(),
        )
    }

    fn webhook(&self, webhook: &Webhook) -> Result<(), Problem> {
        within("config.tolerance", webhook.tolerance, 10 * SECOND, HOUR, "10s-1h")?;
        ensure((1..=8 << 20).contains(&webhook.max_body), "config.max_body", || {
            "is not 1B-8MiB".to_owned()
        })?;
        ensure(webhook.rate > 0, "config.rate", || "is 0".to_owned())?;
        ensure(!webhook.content_types.is_empty(), "config.content_types", || {
            "is empty".to_owned()
        })?;
        for (place, condition) in webhook.filter.iter().enumerate() {
            let pointer = &condition.pointer;
            ensure(
                pointer.is_empty() || pointer.starts_with('/'),
                &format!("config.filter[{place}].pointer"),
                || "is no JSON pointer such as /action".to_owned(),
            )?;
            if let Test::Matches(pattern) = &condition.test {
                let read = self.expressions.read(Language::Message, pattern, None);
                let field = format!("config.filter[{place}].matches");
                problem_of(&field, read.map(drop))?;
            }
        }
        let signature = match &webhook.scheme {
            Scheme::Custom { header, .. } => header.to_ascii_lowercase(),
            _ => String::new(),
        };
        for (place, name) in webhook.pass_headers.iter().enumerate() {
            let name = name.to_ascii_lowercase();
            let hidden = HIDDEN_HEADERS.contains(&name.as_str()) || name == signature;
            ensure(!hidden, &format!("config.pass_headers[{place}]"), || {
                format!("`{name}` is a credential, which no team is shown")
            })?;
        }
        Ok(())
    }
}

fn ensure(holds: bool, field: &str, reason: impl FnOnce() -> String) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::new(field, reason())) }
}

fn within(
    field: &str,
    value: Duration,
    least: Duration,
    most: Duration,
    range: &str,
) -> Result<(), Problem> {
    ensure((least..=most).contains(&value), field, || format!("is not {range}"))
}

fn problem_of(field: &str, checked: Result<(), String>) -> Result<(), Problem> {
    checked.map_err(|reason| Problem::new(field, reason))
}

fn is_slug(name: &str) -> bool {
    let word = |word: &str| {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !word.is_empty() && word.bytes().all(good)
    };
    name.len() <= 64 && name.split('-').all(word)
}

/// The name is kept for triggers that settings make.
pub fn is_reserved(name: &str) -> bool {
    ["heartbeat", "learning-cycle", "reflection-cycle"].iter().any(|reserved| {
        name.strip_prefix(reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}
