//! `hivewright status`: the service in one screen.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use clap::Args;
use hivewright_actors::live::event::Kind;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{
    Context,
    events::{Follower, until_stopped},
    failure::Failure,
    screen::{Screen, Tone},
    service::Service,
};
use crate::{
    api::{endpoint::Empty, events::EventFilter, overview::SHOW_OVERVIEW, snapshot::SHOW_SNAPSHOT},
    text::rough_size,
};

/// What is told of anything that the overview counts.
const KINDS: [Kind; 11] = [
    Kind::TeamChanged,
    Kind::TaskChanged,
    Kind::TriggerChanged,
    Kind::ChannelChanged,
    Kind::ApprovalChanged,
    Kind::QuestionChanged,
    Kind::InboxChanged,
    Kind::UsageChanged,
    Kind::ConfigReloaded,
    Kind::ConfigInvalid,
    Kind::Drain,
];
/// What changes within this time is shown at once.
const TOGETHER: Duration = Duration::from_millis(250);

/// Show how the service is
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  hivewright status --json\n  hivewright status --watch")]
pub(super) struct Arguments {
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    if arguments.watch {
        return until_stopped(watch(context)).await;
    }
    let (service, screen) = (Service::find(context)?, context.screen);
    let answer = service.at(&SHOW_OVERVIEW, &Empty {}).await?.document;
    if screen.json {
        return screen.document(&answer);
    }
    screen.write(&Overview::read(&answer)?.render(service.url().as_str(), screen));
    Ok(())
}

async fn watch(context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let mut follower = Follower::open(context, EventFilter::of(KINDS)).await?;
    let mut before = None;
    loop {
        follower.next().await?;
        let until = Instant::now() + TOGETHER;
        while before.is_some()
            && let Ok(step) = timeout_at(until, follower.next()).await
        {
            step?;
        }
        let answer = follower.read(async |service| service.get(SHOW_SNAPSHOT.path).await);
        let overview = answer.await?["data"]["overview"].take();
        if before.as_ref().is_some_and(|before| *before == timeless(&overview)) {
            continue;
        }
        let first = before.replace(timeless(&overview)).is_none();
        let answer = json!({ "data": overview });
        let line = if screen.json {
            answer.to_string()
        } else {
            let clear = match (first, screen.live) {
                (false, true) => "\x1b[H\x1b[J",
                (false, false) => "\n",
                (true, _) => "",
            };
            let url = follower.service().url().as_str();
            let text = Overview::read(&answer)?.render(url, screen);
            format!("{clear}{}", text.trim_end())
        };
        if !screen.follow(&line) {
            return Ok(());
        }
    }
}

/// Without what changes all the time.
fn timeless(overview: &Value) -> Value {
    let mut overview = overview.clone();
    if let Some(fields) = overview.as_object_mut() {
        fields.remove("uptime_s");
        fields.remove("store_bytes");
        fields.remove("free_bytes");
    }
    overview
}

/// What the service says about itself. A part that it does not count is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Overview {
    uptime_s: u64,
    version: String,
    store_bytes: Option<u64>,
    disk: String,
    free_bytes: Option<u64>,
    teams: Counts,
    tasks: Counts,
    triggers: Counts,
    channels: Vec<Channel>,
    settings_error: Option<String>,
    approvals_open: Option<u64>,
    questions_open: Option<u64>,
    inbox_unread: Option<u64>,
    spend_today_usd: Option<f64>,
    drain: bool,
}

type Counts = BTreeMap<String, Value>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Channel {
    r#type: String,
    state: String,
    connected: Option<u64>,
    error: Option<String>,
}

impl Overview {
    fn read(answer: &Value) -> Result<Self, Failure> {
        serde_json::from_value(answer["data"].clone()).map_err(|error| {
            Failure::failed(format!(
                "the service's overview cannot be read ({error}); is it of another version?"
            ))
        })
    }

    fn render(&self, url: &str, screen: Screen) -> String {
        let mut rows = Vec::new();
        let uptime = span(Duration::from_secs(self.uptime_s));
        let state = if !self.drain {
            screen.paint(Tone::Good, "running")
        } else {
            screen.paint(Tone::Doubtful, "stopping")
        };
        rows.push(("service", format!("{state}, version {}, up {uptime}, {url}", self.version)));
        for (name, counts) in
            [("teams", &self.teams), ("tasks", &self.tasks), ("triggers", &self.triggers)]
        {
            if !counts.is_empty() {
                rows.push((name, counted(counts)));
            }
        }
        let channels: Vec<_> = self.channels.iter().map(Channel::render).collect();
        if !channels.is_empty() {
            rows.push(("channels", channels.join(", ")));
        }
        if let Some(error) = &self.settings_error {
            let fault = screen.paint(Tone::Bad, "fault");
            let lines: Vec<_> = error.lines().collect();
            rows.push(("settings", format!("{fault}: {}", lines.join("; "))));
        }
        let waiting = [
            (self.approvals_open, "approvals"),
            (self.questions_open, "questions"),
            (self.inbox_unread, "unread notices"),
        ];
        let waiting: Vec<_> = waiting
            .into_iter()
            .filter_map(|(count, what)| Some(format!("{} {what}", count?)))
            .collect();
        if !waiting.is_empty() {
            rows.push(("waiting for you", waiting.join(", ")));
        }
        if let Some(bytes) = self.store_bytes {
            rows.push(("store", rough_size(bytes)));
        }
        if let Some(free) = self.free_bytes {
            let free = format!("{} free", rough_size(free));
            let disk = match self.disk.as_str() {
                "full" => format!(
                    "{}, {free}: no new work is taken in until there is room",
                    screen.paint(Tone::Bad, "full")
                ),
                "low" => format!("{}, {free}", screen.paint(Tone::Doubtful, "low")),
                _ => free,
            };
            rows.push(("disk", disk));
        }
        if let Some(spend) = self.spend_today_usd {
            rows.push(("spent today", format!("{spend:.2} USD")));
        }
        let mut text = String::new();
        for (name, value) in rows {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{name:<16} {}", value);
        }
        text
    }
}

impl Channel {
    fn render(&self) -> String {
        let name = format!("{} {}", self.r#type, self.state);
        match (&self.error, self.connected) {
            (Some(error), _) => format!("{name} ({error})"),
            (None, Some(connected)) => format!("{name} ({connected} connected)"),
            (None, None) => name,
        }
    }
}

/// `total` first, then the rest by name.
fn counted(counts: &Counts) -> String {
    let total = counts.get("total").map(|total| format!("{total} total"));
    let others = counts
        .iter()
        .filter(|(name, count)| *name != "total" && count.is_number())
        .map(|(name, count)| format!("{count} {name}"));
    total.into_iter().chain(others).collect::<Vec<_>>().join(", ")
}

/// A span of time with its two largest parts.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// OP-77
    #[test]
    fn the_overview_fits_on_one_screen() {
        let answer = json!({"data": {
            "uptime_s": 93_784, "version": "0.1.0", "store_bytes": 3_355_443,
            "disk": "full", "free_bytes": 1_048_576,
            "teams": {"total": 2, "active": 1, "paused": 0, "degraded": 1},
            "tasks": {"queued": 1, "running": 2, "waiting": 0},
            "channels": [{"type": "ws", "state": "on", "connected": 3}, {"type": "discord", "state": "off", "error": "no token"}],
            "settings_error": "config.yaml:1:1: log: no\nproviders.yaml:2:1: x: no",
            "approvals_open": 1, "inbox_unread": 4, "spend_today_usd": 0.126, "drain": false, "extra": true,
        }});

        let text = Overview::read(&answer).unwrap().render("http://127.0.0.1:8080/", Screen::PLAIN);

        let expected = "\
service          running, version 0.1.0, up 1 d 2 h, http://127.0.0.1:8080/
teams            2 total, 1 active, 1 degraded, 0 paused
tasks            1 queued, 2 running, 0 waiting
channels         ws on (3 connected), discord off (no token)
settings         fault: config.yaml:1:1: log: no; providers.yaml:2:1: x: no
waiting for you  1 approvals, 4 unread notices
store            3.2 MiB
disk             full, 1.0 MiB free: no new work is taken in until there is room
spent today      0.13 USD
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_service_that_says_little_is_shown_all_the_same() {
        let text = Overview::read(&json!({"data": {"version": "0.1.0", "uptime_s": 59}}))
            .unwrap()
            .render("http://h/", Screen::PLAIN);

        assert_eq!(text, "service          running, version 0.1.0, up 59 s, http://h/\n");
        assert!(Overview::read(&json!({"ok": true})).is_err());
    }
}
