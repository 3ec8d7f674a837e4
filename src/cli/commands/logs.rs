//! `hivewright logs`: what the service reports.

use std::{collections::VecDeque, time::Duration};

use clap::Args;
use hivewright_actors::live::event::Kind;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::{
    api::{
        events::EventFilter,
        logs::{LIST_LOGS, LogFilter, LogLine},
        when::{Moment, When},
    },
    cli::{
        answer::{Answer, Listing, read},
        client::Service,
        context::Context,
        events::{Follower, Step, until_stopped},
        failure::Failure,
        screen::{Screen, Tone, printable},
        table,
    },
    settings::config::Level,
};

/// A line is kept within this time. Those from right before the stream began are not there sooner.
const KEPT_AFTER: Duration = Duration::from_secs(3);

/// Show what the service reports, oldest first
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright logs --level warn --since 1h\n  \
    hivewright logs --follow --team research --json")]
pub(super) struct Arguments {
    #[command(flatten)]
    list: Listing<LogFilter>,
    /// Go on with what comes, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    if arguments.follow {
        return until_stopped(follow(arguments.list, context)).await;
    }
    let screen = context.screen;
    let kept = kept(&Service::find(context)?, &arguments.list, None).await?;
    kept.list(screen, |rows| rows.iter().rev().map(|row| line(row, screen) + "\n").collect())
}

/// What is kept, newest first; from a moment on, if that is later than what was asked for.
async fn kept(
    service: &Service,
    list: &Listing<LogFilter>,
    from: Option<Moment>,
) -> Result<Answer<Vec<LogLine>>, Failure> {
    let mut list = list.clone();
    list.filter.since = from.map(|Moment(at)| When::At(at)).or(list.filter.since);
    service.list(&LIST_LOGS, &list).await
}

async fn follow(list: Listing<LogFilter>, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let filter = EventFilter { team: list.filter.team.clone(), ..EventFilter::of([Kind::Log]) };
    let mut follower = Follower::open(context, filter).await?;
    let mut shown = Shown::default();
    // When to look once more at what is kept, and from which moment on.
    let mut late: Option<(Instant, Option<Moment>)> = None;
    loop {
        let step = match &late {
            Some((at, _)) => timeout_at(*at, follower.next()).await.ok().transpose()?,
            None => Some(follower.next().await?),
        };
        let begins = step == Some(Step::Begin);
        let rows = match step {
            Some(Step::Event { data, .. }) => {
                let row = as_row(data);
                if !wanted(&read(&row)?, &list.filter) {
                    continue;
                }
                vec![row]
            }
            Some(Step::Begin) | None => {
                let from = match late.take() {
                    Some((_, from)) if !begins => from,
                    _ => shown.newest,
                };
                let look = async |service: &Service| kept(service, &list, from).await;
                let mut answer = follower.read(look).await?.document;
                let rows = answer["data"].as_array_mut().map(std::mem::take);
                rows.into_iter().flatten().rev().collect()
            }
        };
        for row in rows {
            let read = read(&row)?;
            let text = if screen.json { row.to_string() } else { line(&read, screen) };
            if shown.is_news(read) && !screen.follow(&text) {
                return Ok(());
            }
        }
        if begins {
            late = Some((Instant::now() + KEPT_AFTER, shown.newest));
        }
    }
}

/// Whether a line fits what was asked for. Its team was looked at by the service.
fn wanted(line: &LogLine, filter: &LogFilter) -> bool {
    let says = |words: &String| {
        let text = format!("{} {} {}", line.target, line.message, json!(line.fields));
        text.to_lowercase().contains(&words.to_lowercase())
    };
    filter.level.is_none_or(|worst| level(line) >= worst) && filter.words.as_ref().is_none_or(says)
}

/// A level that nobody knows is the least.
fn level(line: &LogLine) -> Level {
    line.level.parse().unwrap_or(Level::Trace)
}

/// An event about a line, in the form of a line that is kept.
fn as_row(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        for of_the_stream in ["seq", "team_seq", "topic_id"] {
            fields.remove(of_the_stream);
        }
        let id = fields.get("fields").and_then(|more| more.get("request_id"));
        if let Some(id) = id.cloned() {
            fields.insert("request_id".to_owned(), id);
        }
    }
    event
}

/// The lines of the last moments: one that is kept is told as an event too.
#[derive(Debug, Default)]
struct Shown {
    newest: Option<Moment>,
    recent: VecDeque<ShownLine>,
}

#[derive(Debug)]
struct ShownLine {
    row: LogLine,
    /// It was told as an event.
    told: bool,
}

/// More lines than these are not told apart.
const RECENT: usize = 400;
/// Between the writing of a line and its event there is less than this, in milliseconds.
const LAG: u64 = 250;

impl Shown {
    fn is_news(&mut self, row: LogLine) -> bool {
        let is_event = row.id.is_empty();
        let known = self.recent.iter_mut().find(|line| match &line.row.id {
            _ if is_event => !line.told && same(&line.row, &row),
            id if id.is_empty() => same(&line.row, &row),
            id => *id == row.id,
        });
        if let Some(line) = known {
            line.told |= is_event;
            if line.row.id.is_empty() {
                line.row.id = row.id;
            }
            return false;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.newest = self.newest.max(row.at);
        self.recent.push_back(ShownLine { row, told: is_event });
        true
    }
}

/// Whether two lines say the same at nearly the same time.
fn same(one: &LogLine, other: &LogLine) -> bool {
    let is_near = match (one.at, other.at) {
        (Some(Moment(one)), Some(Moment(other))) => one.0.abs_diff(other.0) < LAG,
        _ => false,
    };
    is_near
        && one.level == other.level
        && one.target == other.target
        && one.message == other.message
        && one.fields == other.fields
}

fn line(row: &LogLine, screen: Screen) -> String {
    let at = row.at.map(table::to_the_second).unwrap_or_default();
    let level = level(row);
    let tone = match level {
        Level::Error => Tone::Bad,
        Level::Warn => Tone::Doubtful,
        _ => Tone::Faint,
    };
    let level = screen.paint(tone, &format!("{level:<5}"));
    let fields = row.fields.iter().map(|(name, value)| match value {
        Value::String(text) => format!(" {name}={text}"),
        other => format!(" {name}={other}"),
    });
    let fields = printable(&fields.collect::<String>()).replace('\n', " ");
    let message = printable(&row.message).replace('\n', " ");
    format!("{at}  {level}  {message}{}", screen.paint(Tone::Faint, &fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at: &str, message: &str) -> LogLine {
        let row = json!({
            "at": at, "level": "warn", "target": "hivewright::queue", "message": message,
            "fields": {"team": "ops", "left": "3"},
        });
        read(&row).unwrap()
    }

    #[test]
    fn a_line_shows_when_how_bad_what_and_about_whom() {
        assert_eq!(
            line(&row("2026-11-14T23:46:40.123Z", "two\nlines"), Screen::PLAIN),
            "2026-11-14 23:46:40  warn   two lines left=3 team=ops"
        );
    }

    /// OP-132: what is kept and told as well is shown once.
    #[test]
    fn a_line_that_was_read_is_not_shown_again_when_it_is_told() {
        let mut shown = Shown::default();
        let kept = |id: &str, at: &str| LogLine { id: id.to_owned(), ..row(at, "one") };
        let (first, later) = ("2026-11-14T23:46:40.123Z", "2026-11-14T23:46:41.123Z");
        let told_a_little_later = row("2026-11-14T23:46:40.125Z", "one");

        let news = [
            kept("1", first),
            told_a_little_later.clone(),
            told_a_little_later,
            kept("1", first),
            kept("2", first),
            kept("3", first),
            row(later, "one"),
        ]
        .map(|row| shown.is_news(row));

        // The third says the same once more, and is kept as the fifth.
        assert_eq!(news, [true, false, true, false, false, true, true]);
        assert_eq!(shown.newest, later.parse().ok());
    }

    #[test]
    fn only_lines_that_were_asked_for_are_followed() {
        let line = row("2026-11-14T23:46:40.123Z", "Disk full");
        let with = |level, words: Option<&str>| LogFilter {
            level,
            words: words.map(str::to_owned),
            ..LogFilter::default()
        };

        assert!(wanted(&line, &with(None, None)));
        assert!(wanted(&line, &with(Some(Level::Warn), Some("disk"))));
        assert!(wanted(&line, &with(Some(Level::Debug), Some("ops"))));
        assert!(!wanted(&line, &with(Some(Level::Error), None)));
        assert!(!wanted(&line, &with(None, Some("network"))));
    }
}
