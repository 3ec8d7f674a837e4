//! `hivewright logs`: what the service reports.

use std::{collections::VecDeque, time::Duration};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    Context,
    events::{Follower, Step, until_stopped},
    failure::Failure,
    screen::{Screen, Tone, printable},
    service::{Service, given},
};

const PATH: &str = "/api/v1/logs";
/// A line is kept within this time. Those from right before the stream began are not there sooner.
const KEPT_AFTER: Duration = Duration::from_secs(3);

/// Show what the service reports, oldest first
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright logs --level warn --since 1h\n  \
    hivewright logs --follow --team research --json")]
pub(super) struct Arguments {
    /// Only this, and worse
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// Only about this team
    #[arg(long)]
    team: Option<String>,
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
    #[arg(long)]
    since: Option<String>,
    /// Only with this in it
    #[arg(long, value_name = "WORDS")]
    query: Option<String>,
    /// How many of the newest, 1 to 200
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Go on with what comes, until Ctrl-C
    #[arg(long, short)]
    follow: bool,
}

/// From the worst to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    fn named(name: &str) -> Self {
        let all = Self::value_variants().iter().copied();
        let mut found = all.filter(|level| level.as_str() == name);
        found.next().unwrap_or(Self::Trace)
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    if arguments.follow {
        return until_stopped(follow(arguments, context)).await;
    }
    let screen = context.screen;
    let answer = kept(&Service::find(context)?, &arguments, None).await?;
    if screen.json {
        return screen.document(&answer);
    }
    let rows = answer["data"].as_array().into_iter().flatten().rev();
    let lines: String = rows.map(|row| line(row, screen) + "\n").collect();
    screen.write(&lines);
    Ok(())
}

/// What is kept, newest first; from a moment on, if that is later than what was asked for.
async fn kept(
    service: &Service,
    arguments: &Arguments,
    from: Option<&str>,
) -> Result<Value, Failure> {
    let since = from.map(str::to_owned).or_else(|| arguments.since.clone());
    let fields = [
        ("level", arguments.level.map(|level| level.as_str().into())),
        ("team", arguments.team.clone()),
        ("since", since),
        ("q", arguments.query.clone()),
        ("limit", Some(arguments.limit.to_string())),
    ];
    service.search(PATH, given(fields)).await
}

async fn follow(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let fields = [("types", Some("log".to_owned())), ("team", arguments.team.clone())];
    let mut follower = Follower::open(context, given(fields)).await?;
    let mut shown = Shown::default();
    // When to look once more at what is kept, and from which moment on.
    let mut late: Option<(Instant, Option<String>)> = None;
    loop {
        let step = match &late {
            Some((at, _)) => timeout_at(*at, follower.next()).await.ok().transpose()?,
            None => Some(follower.next().await?),
        };
        let begins = step == Some(Step::Begin);
        let rows = match step {
            Some(Step::Event { data, .. }) if wanted(&data, &arguments) => vec![as_row(data)],
            Some(Step::Event { .. }) => continue,
            Some(Step::Begin) | None => {
                let from = match late.take() {
                    Some((_, from)) if !begins => from,
                    _ => shown.newest.clone(),
                };
                let read =
                    async |service: &Service| kept(service, &arguments, from.as_deref()).await;
                let answer = follower.read(read).await?;
                let rows = answer["data"].as_array().into_iter().flatten().rev();
                rows.cloned().collect()
            }
        };
        for row in rows.iter().filter(|row| shown.is_news(row)) {
            let line = if screen.json { row.to_string() } else { line(row, screen) };
            if !screen.follow(&line) {
                return Ok(());
            }
        }
        if begins {
            late = Some((Instant::now() + KEPT_AFTER, shown.newest.clone()));
        }
    }
}

/// Whether a line fits what was asked for. Its team was looked at by the service.
fn wanted(line: &Value, arguments: &Arguments) -> bool {
    let level = Level::named(line["level"].as_str().unwrap_or_default());
    let says = |words: &String| {
        let parts = [&line["target"], &line["message"]].map(|part| part.as_str());
        let text = format!("{parts:?} {}", line["fields"]).to_lowercase();
        text.contains(&words.to_lowercase())
    };
    arguments.level.is_none_or(|worst| level <= worst) && arguments.query.as_ref().is_none_or(says)
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
    newest: Option<String>,
    recent: VecDeque<Line>,
}

/// A line that was shown.
#[derive(Debug)]
struct Line {
    row: Value,
    /// It was read among those that are kept, by this name.
    kept: Option<String>,
    /// It was told as an event.
    told: bool,
}

/// More lines than these are not told apart.
const RECENT: usize = 400;
/// Between the writing of a line and its event there is less than this, in milliseconds.
const LAG: u64 = 250;

impl Shown {
    fn is_news(&mut self, row: &Value) -> bool {
        let kept = row["id"].as_str().map(str::to_owned);
        let same = |line: &Line| {
            let parts = ["level", "target", "message", "fields"];
            parts.iter().all(|part| line.row[part] == row[part])
                && near(&line.row["at"], &row["at"])
        };
        let known = self.recent.iter_mut().find(|line| match &kept {
            Some(id) if line.kept.is_some() => line.kept.as_ref() == Some(id),
            Some(_) => same(line),
            None => !line.told && same(line),
        });
        if let Some(line) = known {
            line.told |= kept.is_none();
            line.kept = line.kept.take().or(kept);
            return false;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Line { row: row.clone(), told: kept.is_none(), kept });
        let at = row["at"].as_str().map(str::to_owned);
        self.newest = self.newest.take().max(at);
        true
    }
}

fn near(one: &Value, other: &Value) -> bool {
    let moment = |date: &Value| crate::time::parse(date.as_str()?);
    match (moment(one), moment(other)) {
        (Some(one), Some(other)) => one.0.abs_diff(other.0) < LAG,
        _ => false,
    }
}

fn line(row: &Value, screen: Screen) -> String {
    let text = |name: &str| printable(row[name].as_str().unwrap_or_default());
    let at = text("at");
    let at = at.get(..19).unwrap_or(&at).replace('T', " ");
    let level = Level::named(&text("level"));
    let tone = match level {
        Level::Error => Tone::Bad,
        Level::Warn => Tone::Doubtful,
        _ => Tone::Faint,
    };
    let level = screen.paint(tone, &format!("{:<5}", level.as_str()));
    let none = Map::new();
    let fields = row["fields"].as_object().unwrap_or(&none);
    let fields: String = fields
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!(" {name}={text}"),
            other => format!(" {name}={other}"),
        })
        .collect();
    let fields = printable(&fields).replace('\n', " ");
    let message = text("message").replace('\n', " ");
    format!("{at}  {level}  {message}{}", screen.paint(Tone::Faint, &fields))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(at: &str, message: &str) -> Value {
        json!({
            "at": at, "level": "warn", "target": "hivewright::queue", "message": message,
            "fields": {"team": "ops", "left": "3"},
        })
    }

    fn arguments() -> Arguments {
        Arguments { level: None, team: None, since: None, query: None, limit: 50, follow: true }
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
        let kept = |id: &str, at: &str| {
            let mut row = row(at, "one");
            row["id"] = json!(id);
            row
        };
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
        .map(|row| shown.is_news(&row));

        // The third says the same once more, and is kept as the fifth.
        assert_eq!(news, [true, false, true, false, false, true, true]);
        assert_eq!(shown.newest.as_deref(), Some(later));
    }

    #[test]
    fn only_lines_that_were_asked_for_are_followed() {
        let line = row("2026-11-14T23:46:40.123Z", "Disk full");
        let with = |level, query: Option<&str>| Arguments {
            level,
            query: query.map(str::to_owned),
            ..arguments()
        };

        assert!(wanted(&line, &with(None, None)));
        assert!(wanted(&line, &with(Some(Level::Warn), Some("disk"))));
        assert!(wanted(&line, &with(Some(Level::Debug), Some("ops"))));
        assert!(!wanted(&line, &with(Some(Level::Error), None)));
        assert!(!wanted(&line, &with(None, Some("network"))));
    }
}
