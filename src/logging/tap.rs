//! Log lines for whoever watches, and for the store: taken where they are written, never waited for.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    excerpt,
    live::event::{Event, Kind},
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tracing::{
    Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{
    layer::{Context, Layer},
    registry::LookupSpan,
};

use super::Secrets;
use crate::system::WallClock;

/// So many lines may wait to be told of, and as many for the store; more are counted and left out.
pub(super) const WAITING: usize = 1_024;
/// So much of a text is kept, in characters.
const LONGEST: usize = 4_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub at: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    pub target: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Line {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }
}

/// Where lines go.
#[derive(Clone, Debug)]
pub struct Tap {
    lines: mpsc::Sender<Line>,
    left_out: Arc<AtomicU64>,
    /// How many errors were among them.
    pub errors: Errors,
}

/// How many errors were logged, by the part of the program that did.
#[derive(Clone, Debug, Default)]
pub struct Errors(Arc<Mutex<BTreeMap<String, u64>>>);

impl Errors {
    /// One for each part that logged any.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock();
        counts.iter().map(|(part, count)| (part.clone(), *count)).collect()
    }

    fn add(&self, target: &str) {
        let mut counts = self.0.lock();
        *counts.entry(part(target).to_owned()).or_default() += 1;
    }
}

/// The module of ours, or the crate of others, that a target lies in.
fn part(target: &str) -> &str {
    let mut names = target.split("::");
    match names.next() {
        Some("hivewright" | "hivewright_actors") => names.next().unwrap_or("service"),
        other => other.unwrap_or_default(),
    }
}

/// The other end of a tap.
#[derive(Debug)]
pub struct Lines {
    pub lines: mpsc::Receiver<Line>,
    /// How many were left out since someone looked.
    pub left_out: Arc<AtomicU64>,
}

impl Tap {
    /// A tap with its other end, where lines wait for whoever stores them.
    pub fn new() -> (Self, Lines) {
        let (sender, lines) = mpsc::channel(WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let tap = Self { lines: sender, left_out: left_out.clone(), errors: Errors::default() };
        (tap, Lines { lines, left_out })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Taking {
    pub(super) tap: Tap,
    pub(super) secrets: Secrets,
}

/// The name of what a line says among its fields.
const MESSAGE: &str = "message";

impl Taking {
    /// Adds fields, without secrets, beside those that are there.
    fn add(&self, fields: &mut Map<String, Value>, more: &Fields) {
        for (name, value) in &more.0 {
            fields.entry(*name).or_insert_with(|| match value {
                Value::String(text) => {
                    let clean = self.secrets.scrub(text);
                    excerpt::excerpt(&clean, LONGEST, "the log keeps no more").into()
                }
                other => other.clone(),
            });
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Taking {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        fields.0.retain(|(name, _)| *name != MESSAGE);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &tracing::Event<'_>, context: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            self.tap.errors.add(event.metadata().target());
        }
        let (mut own, mut fields) = (Fields::default(), Map::new());
        event.record(&mut own);
        self.add(&mut fields, &own);
        // The innermost span comes first, and what the line says itself goes before all of them.
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(of_span) = span.extensions().get() {
                self.add(&mut fields, of_span);
            }
        }
        let message = match fields.remove(MESSAGE) {
            Some(Value::String(message)) => message,
            _ => String::new(),
        };
        let line = Line {
            at: WallClock.now(),
            level: event.metadata().level().as_str().to_ascii_lowercase(),
            target: event.metadata().target().to_owned(),
            message,
            fields,
        };
        if self.tap.lines.try_send(line).is_err() {
            self.tap.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What whoever watches is told of a line.
pub(super) fn told(line: &Line) -> Event {
    let event = Event::new(
        Kind::Log,
        json!({
            "level": line.level,
            "target": line.target,
            "message": line.message,
            "fields": line.fields,
        }),
    );
    let event = match line.field("team") {
        Some(team) => event.of_team(&team.into()),
        None => event,
    };
    event.of_task(line.field("task").or(line.field("task_id")).map(Into::into).as_ref())
}

/// The fields of a line, or of a span, which are those of every line within it. They are as they were given: few spans
/// ever hold a line, and only a line is cleaned.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn take(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.push((field.name(), value.into()));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value);
    }
}

#[cfg(test)]
mod tests {

    use hivewright_actors::live::{Publisher, watch::Filter};
    use tracing_subscriber::prelude::*;

    use super::*;

    /// OP-50, OP-132
    #[actix::test]
    async fn lines_are_taken_without_secrets_and_never_waited_for() {
        let live = Publisher::new(1, Arc::new(WallClock));
        let mut watch = live.watch(None, Filter::default());
        let ((tap, mut lines), secrets) = (Tap::new(), Secrets::default());
        secrets.learn(["hunter2-hunter2".to_owned()]);
        let subscriber = tracing_subscriber::registry().with(Taking { tap, secrets });

        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(team = "ops", count = 3, "the key hunter2-hunter2 is wrong");
            for _ in 0..WAITING + 4 {
                tracing::info!("more");
            }
        });

        let line = lines.lines.try_recv().unwrap();
        assert_eq!((line.level.as_str(), line.field("team")), ("warn", Some("ops")));
        assert!(!line.message.contains("hunter2"), "{}", line.message);
        assert_eq!(line.fields["count"], json!(3));
        assert_eq!(lines.left_out.load(Ordering::Relaxed), 5);
        while let Ok(line) = lines.lines.try_recv() {
            live.publish(told(&line));
        }
        let batch = watch.take().unwrap();
        // A flood of lines is what a watcher goes without first, and it is told so.
        assert!(batch.after.is_some());
        assert!(batch.events.len() < WAITING, "{}", batch.events.len());
    }

    /// OP-50: what is said within a turn is found by its team and task.
    #[test]
    fn a_line_has_the_fields_of_the_spans_it_is_within() {
        let (tap, mut lines) = Tap::new();
        let taking = Taking { tap, secrets: Secrets::default() };
        let subscriber = tracing_subscriber::registry().with(taking);

        tracing::subscriber::with_default(subscriber, || {
            let turn = tracing::error_span!("turn", team = "ops", task = "task-1");
            let _turn = turn.enter();
            let call = tracing::error_span!("call", task = "task-2");
            call.in_scope(|| tracing::info!("in both"));
            tracing::info!(team = "lab", "with its own");
        });

        let mut fields = || json!(lines.lines.try_recv().unwrap().fields);
        assert_eq!(fields(), json!({"team": "ops", "task": "task-2"}));
        assert_eq!(fields(), json!({"team": "lab", "task": "task-1"}));
    }

    /// OP-50: also what was no secret yet when the span began.
    #[test]
    fn a_span_shows_no_secret_in_its_lines() {
        let ((tap, mut lines), secrets) = (Tap::new(), Secrets::default());
        let taking = Taking { tap, secrets: secrets.clone() };
        let subscriber = tracing_subscriber::registry().with(taking);

        tracing::subscriber::with_default(subscriber, || {
            let call = tracing::error_span!("call", key = "hunter2-hunter2");
            secrets.learn(["hunter2-hunter2".to_owned()]);
            call.in_scope(|| tracing::info!("within"));
        });

        let line = lines.lines.try_recv().unwrap();
        assert_eq!(json!(line.fields), json!({"key": "[REDACTED]"}));
        assert_eq!(line.message, "within");
    }
}
