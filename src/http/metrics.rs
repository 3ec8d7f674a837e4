//! `/metrics`: figures of what happens, in Prometheus text.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    time::Duration,
};

use actix_web::HttpResponse;
use hivewright_actors::{
    approvals::records,
    channel::{CountConnections, CountPending},
    ids::TeamName,
    meter::Meter,
    queue::{Count, Counts, WAITED, Waited},
    supervisor::CountRestarts,
    task::outcome::Ending,
    usage::Usage,
};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{
        EncodeMetric, MetricEncoder, NoLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::{Metric, Registry},
};

use super::{call::*, error::*};
use crate::logging::tap::Errors;

#[cfg(test)]
mod tests;

/// More teams than this share one label.
const MOST_TEAMS: usize = 200;
/// The label they share; also of tools that do not exist, whatever a model calls them.
const OTHER: &str = "other";
const PREFIX: &str = "hivewright";
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// What the actors count themselves, asked when someone looks.
#[derive(Debug, Default)]
struct Snapshot {
    counts: Counts,
    restarts: Vec<(TeamName, u64)>,
    connections: usize,
    pending: usize,
    approvals: usize,
}

/// Counts what happens. One for the whole service.
pub struct Metrics {
    registry: Registry,
    tools: HashSet<String>,
    errors: Errors,
    /// Teams with a label of their own, and what was counted under it.
    teams: Mutex<HashMap<TeamName, HashSet<Labels>>>,
    turns: Histograms,
    overhead: Histogram,
    tokens: Family<Labels, Counter>,
    calls: Family<Labels, Counter>,
    commits: Histogram,
}

impl Metrics {
    /// Counts nothing yet. The tools are those that there are, by name.
    pub fn new(tools: impl IntoIterator<Item = String>, errors: Errors) -> Self {
        let mut all = Registry::with_prefix(PREFIX);
        all.register("build", "What runs", Info::new(vec![("version", super::VERSION)]));
        let turns = Family::new_with_constructor(seconds as fn() -> Histogram);
        let overhead = "From the acceptance of a message to the first request to a model";
        let commits = "How long groups of commits took";
        Self {
            tools: tools.into_iter().collect(),
            errors,
            teams: Mutex::default(),
            turns: kept(&mut all, "turn_seconds", "How long turns took", turns),
            overhead: kept(&mut all, "turn_overhead_seconds", overhead, milliseconds()),
            tokens: kept(&mut all, "model_tokens", "Tokens of model calls", Family::default()),
            calls: kept(&mut all, "tool_calls", "Tool calls that ended", Family::default()),
            commits: kept(&mut all, "store_commit_seconds", commits, milliseconds()),
            registry: all,
        }
    }

    /// For the store's callback: a group of commits took so long.
    pub fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    /// Up to 200 teams have a label of their own.
    fn label(&self, team: &TeamName) -> String {
        self.labels(team, &[]).swap_remove(0).1
    }

    /// The labels of something that a team did.
    fn labels(&self, team: &TeamName, more: &[(&'static str, &str)]) -> Labels {
        let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let mut teams = self.teams.lock();
        if !teams.contains_key(team) && teams.len() >= MOST_TEAMS {
            return [("team", OTHER.to_owned())].into_iter().chain(more).collect();
        }
        let own = teams.entry(team.clone()).or_default();
        let labels: Labels = [("team", team.to_string())].into_iter().chain(more).collect();
        if !own.contains(&labels) {
            own.insert(labels.clone());
        }
        labels
    }

    /// Teams that are gone leave their labels to others.
    fn keep_teams(&self, is_there: impl Fn(&TeamName) -> bool) {
        let mut teams = self.teams.lock();
        for (_, counted) in teams.extract_if(|team, _| !is_there(team)) {
            for labels in &counted {
                self.turns.remove(labels);
                self.tokens.remove(labels);
            }
        }
    }

    /// The figures, with labels for teams that are there.
    fn text(
        &self,
        snapshot: &Snapshot,
        is_there: impl Fn(&TeamName) -> bool,
    ) -> Result<String, fmt::Error> {
        self.keep_teams(&is_there);
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &self.of_actors(snapshot, &is_there))?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    fn of_actors(&self, snapshot: &Snapshot, is_there: &dyn Fn(&TeamName) -> bool) -> Registry {
        let mut registry = Registry::with_prefix(PREFIX);
        let label =
            |team: &TeamName| if is_there(team) { self.label(team) } else { OTHER.to_owned() };
        let Counts { teams, ended, waited } = &snapshot.counts;
        let tasks = ended.iter().map(|(team, kind, ending, count)| {
            let [kind, ending] = [kind.as_str(), ending.as_str()].map(str::to_owned);
            (vec![("team", label(team)), ("type", kind), ("outcome", ending)], *count)
        });
        registry.register("tasks", "Tasks that ended", counters(tasks));
        let (queued, running) =
            (Family::<Labels, Gauge>::default(), Family::<Labels, Gauge>::default());
        for (team, waiting, at_work) in teams {
            let labels = vec![("team", label(team))];
            queued.get_or_create(&labels).inc_by(signed(*waiting));
            running.get_or_create(&labels).inc_by(signed(*at_work));
        }
        registry.register("tasks_queued", "Tasks that wait", queued);
        registry.register("turns_running", "Turns at work", running);
        registry.register(
            "task_wait_seconds",
            "From the acceptance of a task to its lease",
            Waits::new(waited.iter().map(|(team, waited)| (label(team), *waited))),
        );
        let restarts = snapshot.restarts.iter();
        let restarts =
            counters(restarts.map(|(team, count)| (vec![("team", label(team))], *count)));
        registry.register("actor_restarts", "Teams that died and were started again", restarts);
        for (name, help, count) in [
            ("ws_connections", "Open WebSockets", snapshot.connections),
            ("approvals_open", "Approvals that wait for a person", snapshot.approvals),
            ("outbox_pending", "Durable frames that wait for a client", snapshot.pending),
        ] {
            kept(&mut registry, name, help, <Gauge>::default()).set(signed(count));
        }
        let errors = self.errors.counts().into_iter();
        let errors = counters(errors.map(|(source, count)| (vec![("source", source)], count)));
        registry.register("errors", "Errors in the log, by part of the program", errors);
        registry
    }
}

impl Meter for Metrics {
    fn turn_began(&self, _: &TeamName, overhead: Duration) {
        self.overhead.observe(overhead.as_secs_f64());
    }

    fn turn_ended(&self, team: &TeamName, sdk: &str, _: Ending, took: Duration) {
        let labels = self.labels(team, &[("sdk", sdk)]);
        self.turns.get_or_create(&labels).observe(took.as_secs_f64());
    }

    fn model_called(&self, team: &TeamName, profile: &str, usage: &Usage) {
        for (kind, count) in [
            ("input", usage.input),
            ("output", usage.output),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
        ] {
            let labels = self.labels(team, &[("profile", profile), ("kind", kind)]);
            self.tokens.get_or_create(&labels).inc_by(count);
        }
    }

    fn tool_called(&self, tool: &str, succeeded: bool) {
        let tool = if self.tools.contains(tool) { tool } else { OTHER };
        let outcome = if succeeded { "ok" } else { "error" };
        let labels = vec![("tool", tool.to_owned()), ("outcome", outcome.to_owned())];
        self.calls.get_or_create(&labels).inc();
    }
}

/// How long tasks waited, by the label of their team: counted by the queue, shown as histograms.
#[derive(Debug)]
struct Waits(BTreeMap<String, Waited>);

impl Waits {
    /// Teams that share a label are added up.
    fn new(waited: impl Iterator<Item = (String, Waited)>) -> Self {
        let mut waits = BTreeMap::<String, Waited>::new();
        for (label, waited) in waited {
            let sum = waits.entry(label).or_default();
            sum.count += waited.count;
            sum.sum += waited.sum;
            for (sum, within) in sum.within.iter_mut().zip(waited.within) {
                *sum += within;
            }
        }
        Self(waits)
    }
}

impl EncodeMetric for Waits {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (team, waited) in &self.0 {
            let longer = waited.count - waited.within.iter().sum::<u64>();
            let bounds = WAITED.iter().map(Duration::as_secs_f64);
            let buckets = bounds.zip(waited.within);
            let buckets: Vec<_> = buckets.chain([(f64::INFINITY, longer)]).collect();
            let labels: Labels = vec![("team", team.clone())];
            encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                waited.sum.as_secs_f64(),
                waited.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// From a tenth of a second to an hour.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 3.0, 11))
}

/// From half a millisecond to ten seconds.
fn milliseconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 3.0, 10))
}

/// A metric that is counted after it was registered.
fn kept<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn counters(counts: impl Iterator<Item = (Labels, u64)>) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    for (labels, count) in counts {
        family.get_or_create(&labels).inc_by(count);
    }
    family
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) async fn show(Call { state, .. }: Call) -> ApiResult<HttpResponse> {
    let spine = &state.spine;
    let (counts, restarts, connections, pending, approvals) = tokio::join!(
        spine.queue.send(Count).timeout(COUNT_TIMEOUT),
        spine.supervisor.send(CountRestarts).timeout(COUNT_TIMEOUT),
        spine.channel.send(CountConnections).timeout(COUNT_TIMEOUT),
        spine.channel.send(CountPending).timeout(COUNT_TIMEOUT),
        spine.store.read(records::count_pending),
    );
    let snapshot = Snapshot {
        counts: counts?,
        restarts: restarts?,
        connections: connections?,
        pending: pending?,
        approvals: approvals?,
    };
    let is_there = |team: &TeamName| state.service.team(team.as_str()).is_some();
    let text = state.metrics.text(&snapshot, is_there).map_err(ApiError::internal)?;
    Ok(HttpResponse::Ok().content_type(TEXT).body(text))
}
