//! Validation: whether a trigger can be what it is told to be, with everything that is wrong.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

use super::{
    config::{Config, Hours, Schedule, TriggerType, Window},
    definition::{Definition, Quiet},
    limits,
    webhook::{Scheme, Signed, Webhook},
};
use crate::{
    scheduler::{
        ports::{Expressions, Language, View},
        window,
    },
    task::STEPS,
    text::{Span, is_slug},
};

/// Header fields that a team never sees.
const HIDDEN_HEADERS: [&str; 6] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "webhook-signature",
    "x-hub-signature",
    "x-hub-signature-256",
];

/// What is wrong with a trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}{}{reason}", if field.is_empty() { "" } else { ": " })]
pub struct Problem {
    /// Where; empty for the whole.
    pub field: String,
    pub reason: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

/// Everything that is wrong with a trigger; at least one problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
pub struct Problems(pub Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl Problems {
    fn note(&mut self, field: &str, reason: impl fmt::Display) {
        self.0.push(Problem::new(field, reason.to_string()));
    }

    fn ensure(&mut self, holds: bool, field: &str, reason: impl fmt::Display) {
        if !holds {
            self.note(field, reason);
        }
    }

    fn ensure_ok<T>(&mut self, field: &str, checked: Result<T, String>) {
        if let Err(reason) = checked {
            self.note(field, reason);
        }
    }

    fn ensure_within(&mut self, field: &str, value: Span, range: &RangeInclusive<Span>) {
        let reason = format!("expected a duration from {} to {}", range.start(), range.end());
        self.ensure(range.contains(&value), field, reason);
    }

    fn ensure_number(&mut self, field: &str, value: u32, range: &RangeInclusive<u32>) {
        let reason = format!("is not {}-{}", range.start(), range.end());
        self.ensure(range.contains(&value), field, reason);
    }

    fn ensure_length(&mut self, field: &str, text: &str, most: usize) {
        let length = text.chars().count();
        let reason = format!("expected 1 to {most} characters, found {length}");
        self.ensure((1..=most).contains(&length), field, reason);
    }

    /// Whether there are none.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl Definition {
    /// Fields that do not go together. What is right with this can be read as a whole.
    pub fn check_shape(&self) -> Result<(), Problems> {
        let mut problems = Problems::default();
        if self.missed.is_some() && self.kind() != TriggerType::Schedule {
            problems.note("missed", "is only for triggers of type `schedule`");
        }
        match &self.config {
            Config::Schedule(Schedule { cron, at, every, .. }) => {
                let given = [cron.is_some(), at.is_some(), every.is_some()];
                let count = given.into_iter().filter(|given| *given).count();
                let reason = "needs exactly one of `cron`, `at` and `every`";
                problems.ensure(count == 1, "config", reason);
            }
            Config::Keyword(listen) => {
                let reason = "unknown field of a `keyword`; as in `/expression/flags`, flags stand behind the expression";
                problems.ensure(listen.flags.is_none(), "config.flags", reason);
            }
            Config::Message(_) => {}
            Config::Window(window) => {
                let reason = "needs `watch`, or `open` with either `close` or `duration`";
                problems.ensure(window.hours().is_some(), "config", reason);
            }
            Config::Webhook(webhook) => {
                for (place, condition) in webhook.filter.iter().enumerate() {
                    let is_one = condition.equals.is_some() != condition.matches.is_some();
                    let field = format!("config.filter[{place}]");
                    problems.ensure(is_one, &field, "needs either `equals` or `matches`");
                }
                if let Scheme::Custom(custom) = &webhook.scheme {
                    let covers_time = custom.signed == Signed::TimestampBody;
                    let field = "config.scheme.timestamp_header";
                    let reason = "is missing: `signed` covers the time";
                    problems.ensure(
                        !covers_time || custom.timestamp_header.is_some(),
                        field,
                        reason,
                    );
                }
            }
        }
        problems.into_result()
    }
}

/// What a definition is checked with.
pub struct Check<'a> {
    pub view: View<'a>,
    pub expressions: &'a dyn Expressions,
    /// It is being made or changed: a time that has passed is a mistake then.
    pub is_new: bool,
}

impl Check<'_> {
    /// Finds everything that is wrong.
    pub fn run(&self, definition: &Definition) -> Result<(), Problems> {
        definition.check_shape()?;
        let Definition { name, task, max_steps, failure_threshold, .. } = definition;
        let mut problems = Problems::default();
        let reason = format!(
            "expected lower-case words joined by `-`, at most {} characters",
            limits::LONGEST_NAME
        );
        problems.ensure(is_slug(name, limits::LONGEST_NAME), "name", reason);
        let words = if task.trim().is_empty() { "" } else { task };
        problems.ensure_length("task", words, limits::LONGEST_TASK);
        if let Some(steps) = max_steps {
            problems.ensure_number("max_steps", *steps, &STEPS);
        }
        problems.ensure_within("deadline", definition.deadline, &limits::DEADLINE);
        problems.ensure_number("failure_threshold", *failure_threshold, &limits::FAILURES);
        problems.ensure_within("cooldown", definition.cooldown, &limits::COOLDOWN);
        if let Some(Quiet { from, to, timezone }) = &definition.quiet {
            problems.ensure(from != to, "quiet", "needs `from` and `to` that differ");
            self.zone(&mut problems, "quiet.timezone", timezone.as_deref());
        }
        match &definition.config {
            Config::Schedule(schedule) => self.schedule(&mut problems, schedule),
            Config::Keyword(listen) | Config::Message(listen) => {
                problems.ensure_length("config.pattern", &listen.pattern, limits::LONGEST_PATTERN);
                if let Some(read) = definition.config.matcher(self.expressions) {
                    problems.ensure_ok("config.pattern", read);
                }
            }
            Config::Window(window) => self.window(&mut problems, window),
            Config::Webhook(webhook) => self.webhook(&mut problems, webhook),
        }
        problems.into_result()
    }

    fn zone(&self, problems: &mut Problems, field: &str, zone: Option<&str>) {
        if let Some(zone) = zone {
            problems.ensure_ok(field, self.view.calendar.check_zone(zone));
        }
    }

    fn cron(&self, problems: &mut Problems, field: &str, pattern: &str) {
        problems.ensure_ok(field, self.view.calendar.check_cron(pattern, self.view.now));
    }

    fn schedule(&self, problems: &mut Problems, schedule: &Schedule) {
        self.zone(problems, "config.timezone", schedule.timezone.as_deref());
        if let Some(pattern) = &schedule.cron {
            self.cron(problems, "config.cron", pattern);
        }
        if let Some(text) = &schedule.at {
            let is_ahead = schedule.moment.is_some_and(|at| at > self.view.now);
            problems.ensure(!self.is_new || is_ahead, "config.at", format!("{text} has passed"));
        }
        if let Some(step) = schedule.every {
            problems.ensure_within("config.every", step, &limits::EVERY);
        }
    }

    fn window(&self, problems: &mut Problems, window: &Window) {
        self.zone(problems, "config.timezone", window.timezone.as_deref());
        match window.hours() {
            Some(Hours::Watch(pattern)) => self.watch(problems, window, pattern),
            Some(Hours::Between { open, close }) => {
                self.cron(problems, "config.open", open);
                self.cron(problems, "config.close", close);
            }
            Some(Hours::Lasting { open, duration }) => {
                self.cron(problems, "config.open", open);
                problems.ensure_within("config.duration", Span(duration), &limits::OPEN);
            }
            None => {}
        }
        problems.ensure_within(
            "config.tick_interval",
            window.tick_interval,
            &limits::TICK_INTERVAL,
        );
        problems.ensure_number("config.max_ticks_per_window", window.max_ticks, &limits::TICKS);
        problems.ensure(window.max_tokens != Some(0), "config.max_tokens_per_window", "is 0");
        let is_fit = window.max_usd.is_none_or(|most| most.is_finite() && most > 0.0);
        problems.ensure(is_fit, "config.max_usd_per_window", "is not above 0");
    }

    fn watch(&self, problems: &mut Problems, window: &Window, pattern: &str) {
        let field = "config.watch";
        if let Err(reason) = self.view.calendar.check_cron(pattern, self.view.now) {
            return problems.note(field, reason);
        }
        if pattern.split_whitespace().count() == 6 {
            return problems.note(field, "has seconds; a window is open for whole minutes");
        }
        let closes = window::opening(self.view, window, self.view.now)
            .is_some_and(|(opens, closes)| closes.since(opens) < window::LONGEST);
        let reason = "never closes within 7 days; give it hours or days, or use a schedule";
        problems.ensure(closes, field, reason);
    }

    fn webhook(&self, problems: &mut Problems, webhook: &Webhook) {
        problems.ensure_within("config.tolerance", webhook.tolerance, &limits::TOLERANCE);
        let reason = format!("is not {}-{}", limits::BODY.start(), limits::BODY.end());
        problems.ensure(limits::BODY.contains(&webhook.max_body), "config.max_body", reason);
        problems.ensure(webhook.rate.0 > 0, "config.rate", "is 0");
        problems.ensure(!webhook.content_types.is_empty(), "config.content_types", "is empty");
        for (place, condition) in webhook.filter.iter().enumerate() {
            let is_pointer = condition.pointer.is_empty() || condition.pointer.starts_with('/');
            let field = format!("config.filter[{place}].pointer");
            problems.ensure(is_pointer, &field, "is no JSON pointer such as /action");
            if let Some(pattern) = &condition.matches {
                let read = self.expressions.read(Language::Message, pattern, None);
                problems.ensure_ok(&format!("config.filter[{place}].matches"), read);
            }
        }
        let signature = match &webhook.scheme {
            Scheme::Custom(custom) => custom.header.to_ascii_lowercase(),
            Scheme::Known(_) => String::new(),
        };
        for (place, name) in webhook.pass_headers.iter().enumerate() {
            let name = name.to_ascii_lowercase();
            let is_hidden = HIDDEN_HEADERS.contains(&name.as_str()) || name == signature;
            let reason = format!("`{name}` is a credential, which no team is shown");
            problems.ensure(!is_hidden, &format!("config.pass_headers[{place}]"), reason);
        }
    }
}

/// The name is kept for triggers that settings make.
pub fn is_reserved(name: &str) -> bool {
    ["heartbeat", "learning-cycle", "reflection-cycle"].iter().any(|reserved| {
        name.strip_prefix(reserved).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Why cursors cannot be kept.
pub fn check_cursors(cursors: &BTreeMap<String, String>) -> Result<(), Problem> {
    if cursors.len() > limits::MOST_CURSORS {
        return Err(Problem::new("cursors", format!("are more than {}", limits::MOST_CURSORS)));
    }
    let slug = |name: &str| {
        let good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(good)
    };
    for (name, value) in cursors {
        if !slug(name) {
            return Err(Problem::new("cursors", "a name has 1 to 64 of a-z, 0-9, `_` and `-`"));
        }
        if value.len() > limits::LONGEST_CURSOR {
            let field = format!("cursors.{name}");
            return Err(Problem::new(
                field,
                format!("has more than {} bytes", limits::LONGEST_CURSOR),
            ));
        }
    }
    Ok(())
}
