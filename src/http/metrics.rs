//! `/metrics`: figures of what happens, in Prometheus text.

use std::{
    collections::HashSet,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use actix_web::{HttpResponse, web};
use hivewright_actors::{
    channel::CountConnections,
    ids::TeamName,
    meter::Meter,
    queue::{Count, Counts},
    supervisor::CountRestarts,
    task::Ending,
    usage::Usage,
};
use prometheus_client::{
    encoding::{
        EncodeMetric, MetricEncoder, NoLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::{
        MetricType, TypedMetric,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

use super::{
    State,
    arguments::{Caller, Metrics as Right},
    error::ApiError,
    operation::Operation,
    reply::Content,
    routes::{Resource, at},
};

#[cfg(test)]
mod tests;

/// More teams than this share one label.
const MOST_TEAMS: usize = 200;
/// The label they share; also of tools that do not exist, whatever a model calls them.
const OTHER: &str = "other";
const PREFIX: &str = "hivewright";
const PATIENCE: Duration = Duration::from_secs(2);
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

pub(super) fn resources() -> Vec<Resource> {
    vec![at("/metrics").get(
        Operation::new("Shows figures in the text form of Prometheus."),
        show,
    )]
}

/// What the actors count themselves, asked when someone looks.
#[derive(Debug, Default)]
struct Snapshot {
    counts: Counts,
    restarts: Vec<(TeamName, u64)>,
    connections: usize,
}

/// Counts what happens. One for the whole service.
pub struct Metrics {
    registry: Registry,
    tools: HashSet<String>,
    teams: Mutex<HashSet<TeamName>>,
    turns: Histograms,
    overhead: Histogram,
    tokens: Family<Labels, Counter>,
    calls: Family<Labels, Counter>,
    commits: Histogram,
}

impl Metrics {
    /// Counts nothing yet. The tools are those that there are, by name.
    pub fn new(tools: impl IntoIterator<Item = String>) -> Self {
        let mut registry = Registry::with_prefix(PREFIX);
        let build = Info::new(vec![("version", super::VERSION)]);
        registry.register("build", "What runs", build);
        let turns: Histograms = Family::new_with_constructor(seconds);
        registry.register("turn_seconds", "How long turns took", turns.clone());
        let overhead = milliseconds();
        registry.register(
            "turn_overhead_seconds",
            "From the acceptance of a message to the first request to a model",
            overhead.clone(),
        );
        let tokens = Family::<Labels, Counter>::default();
        registry.register("model_tokens", "Tokens of model calls", tokens.clone());
        let calls = Family::<Labels, Counter>::default();
        registry.register("tool_calls", "Tool calls that ended", calls.clone());
        let commits = milliseconds();
        registry.register(
            "store_commit_seconds",
            "How long groups of commits took",
            commits.clone(),
        );
        Self {
            registry,
            tools: tools.into_iter().collect(),
            teams: Mutex::default(),
            turns,
            overhead,
            tokens,
            calls,
            commits,
        }
    }

    /// For the store's callback: a group of commits took so long.
    pub fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    /// The first 200 teams have a label of their own.
    fn label(&self, team: &TeamName) -> String {
        let mut teams = self.teams.lock().unwrap_or_else(PoisonError::into_inner);
        if teams.contains(team) {
            return team.to_string();
        }
        if teams.len() == MOST_TEAMS {
            return OTHER.to_owned();
        }
        teams.insert(team.clone());
        team.to_string()
    }

    fn text(&self, snapshot: &Snapshot) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &self.of_actors(snapshot))?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    fn of_actors(&self, snapshot: &Snapshot) -> Registry {
        let mut registry = Registry::with_prefix(PREFIX);
        let Counts {
            teams,
            ended,
            waited: (count, sum),
        } = &snapshot.counts;
        let tasks = Family::<Labels, Counter>::default();
        for (team, ending, count) in ended {
            let labels = vec![
                ("team", self.label(team)),
                ("outcome", ending.as_str().to_owned()),
            ];
            tasks.get_or_create(&labels).inc_by(*count);
        }
        registry.register("tasks", "Tasks that ended", tasks);
        let (queued, running) = (
            Family::<Labels, Gauge>::default(),
            Family::<Labels, Gauge>::default(),
        );
        for (team, waiting, at_work) in teams {
            let labels = vec![("team", self.label(team))];
            queued.get_or_create(&labels).inc_by(signed(*waiting));
            running.get_or_create(&labels).inc_by(signed(*at_work));
        }
        registry.register("tasks_queued", "Tasks that wait", queued);
        registry.register("turns_running", "Turns at work", running);
        registry.register(
            "task_wait_seconds",
            "From the acceptance of a task to its lease",
            Waited {
                count: *count,
                seconds: sum.as_secs_f64(),
            },
        );
        let restarts = Family::<Labels, Counter>::default();
        for (team, count) in &snapshot.restarts {
            let labels = vec![("team", self.label(team))];
            restarts.get_or_create(&labels).inc_by(*count);
        }
        registry.register(
            "actor_restarts",
            "Teams that died and were started again",
            restarts,
        );
        registry.register(
            "ws_connections",
            "Open WebSockets",
            gauge(snapshot.connections),
        );
        registry
    }
}

impl Meter for Metrics {
    fn turn_began(&self, _: &TeamName, overhead: Duration) {
        self.overhead.observe(overhead.as_secs_f64());
    }

    fn turn_ended(&self, team: &TeamName, _: Ending, took: Duration) {
        let labels = vec![("team", self.label(team))];
        self.turns
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    fn model_called(&self, team: &TeamName, profile: &str, usage: &Usage) {
        let team = self.label(team);
        for (kind, count) in [
            ("input", usage.input),
            ("output", usage.output),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
        ] {
            let labels = vec![
                ("team", team.clone()),
                ("profile", profile.to_owned()),
                ("kind", kind.to_owned()),
            ];
            self.tokens.get_or_create(&labels).inc_by(count);
        }
    }

    fn tool_called(&self, tool: &str, succeeded: bool) {
        let tool = if self.tools.contains(tool) {
            tool
        } else {
            OTHER
        };
        let outcome = if succeeded { "ok" } else { "error" };
        let labels = vec![("tool", tool.to_owned()), ("outcome", outcome.to_owned())];
        self.calls.get_or_create(&labels).inc();
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// A count with its sum: a histogram of one bucket.
#[derive(Debug)]
struct Waited {
    count: u64,
    seconds: f64,
}

impl EncodeMetric for Waited {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let all = [(f64::INFINITY, self.count)];
        encoder.encode_histogram::<NoLabelSet>(self.seconds, self.count, &all, None)
    }

    fn metric_type(&self) -> MetricType {
        <Self as TypedMetric>::TYPE
    }
}

impl TypedMetric for Waited {
    const TYPE: MetricType = MetricType::Histogram;
}

/// From a tenth of a second to an hour.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 3.0, 11))
}

/// From half a millisecond to ten seconds.
fn milliseconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 3.0, 10))
}

fn gauge(count: usize) -> Gauge {
    let gauge = Gauge::default();
    gauge.set(signed(count));
    gauge
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

async fn show(state: web::Data<State>, _: Caller<Right>) -> Result<Content, ApiError> {
    let spine = &state.spine;
    let (counts, restarts, connections) = tokio::join!(
        spine.queue.send(Count).timeout(PATIENCE),
        spine.supervisor.send(CountRestarts).timeout(PATIENCE),
        spine.channel.send(CountConnections).timeout(PATIENCE),
    );
    let snapshot = Snapshot {
        counts: counts.map_err(ApiError::internal)?,
        restarts: restarts.map_err(ApiError::internal)?,
        connections: connections.map_err(ApiError::internal)?,
    };
    let text = state.metrics.text(&snapshot).map_err(ApiError::internal)?;
    Ok(Content(HttpResponse::Ok().content_type(TEXT).body(text)))
}
