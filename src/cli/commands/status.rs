//! `hivewright status`: the service in one screen.

use std::time::Duration;

use clap::Args;
use futures_util::future::LocalBoxFuture;
use hivewright_actors::{live::event::Kind, room::Space};
use serde_json::{Value, json};

use crate::{
    api::{
        channels::Channel,
        doctor::{EngineStatus, Findings, KeyState, SHOW_FINDINGS},
        endpoint::Empty,
        overview::{Overview, SHOW_OVERVIEW},
        snapshot::SHOW_SNAPSHOT,
    },
    cli::{
        answer::read,
        client::Service,
        context::Context,
        failure::Failure,
        screen::{Screen, Tone},
        table,
        watch::{Shown, repeat},
    },
    settings::config::Sdk,
    text::{self, rough_size},
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

/// How long the overview waits for what is beside it.
const FINDINGS_TIMEOUT: Duration = Duration::from_secs(3);

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
        return repeat(KINDS.to_vec(), context, &Watch(context.screen)).await;
    }
    let (service, screen) = (Service::find(context)?, context.screen);
    let findings = async { service.at(&SHOW_FINDINGS, &Empty {}).await?.data() };
    let overview = service.at(&SHOW_OVERVIEW, &Empty {});
    let (answer, engines) = tokio::join!(overview, engines(findings));
    let mut answer = answer?;
    if let Ok(engines) = &engines {
        answer.document["data"]["engines"] = json!(engines);
    }
    let shown = engines.as_deref().unwrap_or_default();
    answer.show(screen, |overview| render(&overview, shown, service.url().as_str(), screen))?;
    if let Err(why) = engines {
        screen.remark(&format!("· the command-line agents are not shown: {why}"));
    }
    Ok(())
}

/// The command-line agents, or why they are not known: one that hangs must not keep the rest from being shown.
async fn engines(
    findings: impl Future<Output = Result<Findings, Failure>>,
) -> Result<Vec<EngineStatus>, String> {
    match tokio::time::timeout(FINDINGS_TIMEOUT, findings).await {
        Ok(found) => found.map(|found| found.engines).map_err(|failure| failure.message),
        Err(_) => {
            Err("the service has not found them yet; `hivewright doctor` waits for it".to_owned())
        }
    }
}

/// The overview, without the command-line agents.
struct Watch(Screen);

impl Shown for Watch {
    fn read<'a>(&'a self, service: &'a Service) -> LocalBoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async {
            let overview = service.get(SHOW_SNAPSHOT.path).await?["data"]["overview"].take();
            Ok(json!({ "data": overview }))
        })
    }

    fn essence(&self, document: &Value) -> Value {
        timeless(&document["data"])
    }

    fn draw(&self, document: &Value, service: &Service) -> Result<String, Failure> {
        Ok(render(&read(&document["data"])?, &[], service.url().as_str(), self.0))
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

fn render(overview: &Overview, engines: &[EngineStatus], url: &str, screen: Screen) -> String {
    let (state, tone) =
        if overview.drain { ("stopping", Tone::Doubtful) } else { ("running", Tone::Good) };
    let (state, uptime) = (screen.paint(tone, state), span(overview.uptime_s));
    let mut rows = vec![
        ("service", format!("{state}, version {}, up {uptime}, {url}", overview.version)),
        ("teams", counted(&json!(overview.teams))),
        ("tasks", counted(&json!(overview.tasks))),
        ("triggers", counted(&json!(overview.triggers))),
    ];
    if !overview.channels.is_empty() {
        let channels: Vec<_> = overview.channels.iter().map(channel).collect();
        rows.push(("channels", channels.join(", ")));
    }
    let is_agent = |engine: &&EngineStatus| {
        engine.sdk != Sdk::Native && (engine.binary.is_some() || !engine.teams.is_empty())
    };
    let engines = engines.iter().filter(is_agent);
    let engines: Vec<_> = engines.map(|one| engine(one, screen)).collect();
    if !engines.is_empty() {
        rows.push(("engines", engines.join(", ")));
    }
    if let Some(error) = &overview.settings_error {
        let fault = screen.paint(Tone::Bad, "fault");
        let lines: Vec<_> = error.lines().collect();
        rows.push(("settings", format!("{fault}: {}", lines.join("; "))));
    }
    let Overview { approvals_open, questions_open, inbox_unread, .. } = overview;
    rows.push((
        "waiting for you",
        [
            text::counted(*approvals_open, "approval"),
            text::counted(*questions_open, "question"),
            text::counted(*inbox_unread, "unread notice"),
        ]
        .join(", "),
    ));
    rows.push(("store", rough_size(overview.store_bytes)));
    if let Some(free) = overview.free_bytes {
        let free = format!("{} free", rough_size(free));
        let disk = match overview.disk {
            Space::Full => format!(
                "{}, {free}: no new work is taken in until there is room",
                screen.paint(Tone::Bad, "full")
            ),
            Space::Low => format!("{}, {free}", screen.paint(Tone::Doubtful, "low")),
            Space::Enough => free,
        };
        rows.push(("disk", disk));
    }
    rows.push(("spent today", format!("{:.2} USD", overview.spend_today_usd)));
    table::fields(17, rows)
}

fn channel(Channel { kind, state, connected, error }: &Channel) -> String {
    match error {
        Some(error) => format!("{kind} {state} ({error})"),
        None => format!("{kind} {state} ({connected} connected)"),
    }
}

/// An agent with its version, and whether those who use it can.
fn engine(engine: &EngineStatus, screen: Screen) -> String {
    let EngineStatus { sdk, version, problem, teams, .. } = engine;
    let bad = |text: &str| screen.paint(Tone::Bad, text);
    let mut remarks: Vec<String> = problem.iter().map(|problem| bad(problem)).collect();
    remarks.extend(teams.iter().map(|team| match (&team.problem, team.login) {
        (Some(problem), _) => format!("`{}`: {}", team.name, bad(problem)),
        (None, Some(KeyState::Present)) => format!("`{}`: key present", team.name),
        (None, Some(KeyState::Missing)) => {
            format!("`{}`: {}", team.name, screen.paint(Tone::Doubtful, "key missing"))
        }
        (None, Some(KeyState::Unneeded) | None) => format!("`{}`", team.name),
    }));
    let name = version.as_ref().map_or(sdk.to_string(), |version| format!("{sdk} {version}"));
    if remarks.is_empty() { name } else { format!("{name} ({})", remarks.join("; ")) }
}

/// `total` first, then the rest by name.
fn counted(counts: &Value) -> String {
    let count = |(name, count): (&String, &Value)| format!("{count} {name}");
    let (total, others): (Vec<_>, Vec<_>) =
        counts.as_object().into_iter().flatten().partition(|(name, _)| *name == "total");
    total.into_iter().chain(others).map(count).collect::<Vec<_>>().join(", ")
}

/// A span of time with its two largest parts.
fn span(seconds: u64) -> String {
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
    use super::*;

    fn overview() -> Value {
        json!({
            "uptime_s": 93_784, "version": "0.1.0", "demo": false, "store_bytes": 3_355_443,
            "disk": "full", "free_bytes": 1_048_576,
            "teams": {"total": 2, "active": 1, "paused": 0, "degraded": 1, "alive": 2},
            "tasks": {"queued": 1, "running": 2, "waiting": 0},
            "triggers": {"total": 3, "active": 2, "disabled": 1},
            "channels": [{"type": "ws", "state": "on", "connected": 3},
                {"type": "discord", "state": "off", "connected": 0, "error": "no token"}],
            "settings_error": "config.yaml:1:1: log: no\nproviders.yaml:2:1: x: no",
            "approvals_open": 1, "questions_open": 0, "inbox_unread": 4, "spend_today_usd": 0.126, "today": "2026-11-15",
            "drain": false, "extra": true,
        })
    }

    /// OP-77, EN-96
    #[test]
    fn the_overview_fits_on_one_screen() {
        let engines: Vec<EngineStatus> = read(&json!([
            {"sdk": "claude", "binary": "/bin/claude", "version": "2.1.325", "teams": [
                {"name": "main", "profile": "default", "model": "m", "login": "present"},
                {"name": "ops", "profile": "other", "model": "m", "login": "missing"}]},
            {"sdk": "codex", "binary": "/bin/codex", "version": "0.166.0", "teams": []},
            {"sdk": "pi", "problem": "pi CLI not found", "teams": [{"name": "lab", "login": "unneeded"}]},
            {"sdk": "acp", "problem": "no agent is named", "teams": []},
        ]))
        .unwrap();
        let overview = read(&overview()).unwrap();

        let text = render(&overview, &engines, "http://127.0.0.1:8080/", Screen::PLAIN);

        let expected = "\
service          running, version 0.1.0, up 1 d 2 h, http://127.0.0.1:8080/
teams            2 total, 1 active, 2 alive, 1 degraded, 0 paused
tasks            1 queued, 2 running, 0 waiting
triggers         3 total, 2 active, 1 disabled
channels         ws on (3 connected), discord off (no token)
engines          claude 2.1.325 (`main`: key present; `ops`: key missing), codex 0.166.0, pi (pi CLI not found; `lab`)
settings         fault: config.yaml:1:1: log: no; providers.yaml:2:1: x: no
waiting for you  1 approval, 0 questions, 4 unread notices
store            3.2 MiB
disk             full, 1.0 MiB free: no new work is taken in until there is room
spent today      0.13 USD
";
        assert_eq!(text, expected);
    }

    /// OP-77
    #[tokio::test(start_paused = true)]
    async fn agents_that_are_not_found_in_time_are_not_waited_for() {
        let late = engines(std::future::pending()).await;
        let refused = engines(async { Err(Failure::failed("no")) }).await;

        assert!(late.unwrap_err().contains("`hivewright doctor`"));
        assert_eq!(refused, Err("no".to_owned()));
    }

    #[test]
    fn what_the_service_does_not_know_is_left_out() {
        let mut overview = overview();
        for field in ["free_bytes", "settings_error", "channels"] {
            overview[field] = if field == "channels" { json!([]) } else { Value::Null };
        }
        overview["uptime_s"] = json!(59);

        let text = render(&read(&overview).unwrap(), &[], "http://h/", Screen::PLAIN);

        let names = text.lines().map(|line| line.split("  ").next().unwrap());
        let expected = ["service", "teams", "tasks", "triggers", "waiting for you", "store"];
        assert_eq!(names.collect::<Vec<_>>(), [&expected[..], &["spent today"]].concat());
        assert!(text.starts_with("service          running, version 0.1.0, up 59 s, http://h/\n"));
        assert!(read::<Overview>(&json!({"ok": true})).is_err());
    }
}
