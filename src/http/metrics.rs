//! Metrics: figures of what happens, in Prometheus text.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    time::Duration,
};

use hivewright_actors::{
    ids::TeamName,
    meter::Meter,
    queue::{Counts, WAITED, Waited},
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

use crate::logging::tap::Errors;

#[cfg(test)]
mod tests;

/// More teams than this share one label.
const MOST_TEAMS: usize = 200;
/// The label they share; also of tools that do not exist, whatever a model calls them.
const OTHER: &str = "other";
const PREFIX: &str = "hivewright";

/// The kinds of tokens, as labels.
const TOKENS: [&str; 4] = ["input", "output", "cache_read", "cache_write"];

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// What the actors count themselves, asked when someone looks.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) counts: Counts,
    pub(super) restarts: Vec<(TeamName, u64)>,
    pub(super) connections: usize,
    pub(super) pending: usize,
    pub(super) approvals: usize,
}

/// What is counted under the label of a team, so that labels are made once.
#[derive(Default)]
struct TeamCounts {
    /// By engine.
    turns: HashMap<String, Histogram>,
    /// By profile, one for each kind.
    tokens: HashMap<String, [Counter; 4]>,
}

/// Counts what happens. One for the whole service.
pub struct Metrics {
    registry: Registry,
    tools: HashSet<String>,
    errors: Errors,
    /// Teams with a label of their own.
    teams: Mutex<HashMap<TeamName, TeamCounts>>,
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
        all.register("build", "What runs", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
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
        self.of(team, |label, _| label.to_owned())
    }

    /// Looks at what is counted for a team. Under the label that the rest share nothing is kept.
    fn of<T>(&self, team: &TeamName, look: impl FnOnce(&str, &mut TeamCounts) -> T) -> T {
        let mut teams = self.teams.lock();
        if teams.contains_key(team) || teams.len() < MOST_TEAMS {
            look(team.as_str(), teams.entry(team.clone()).or_default())
        } else {
            look(OTHER, &mut TeamCounts::default())
        }
    }

    /// Teams that are gone leave their labels to others.
    fn keep_teams(&self, is_there: impl Fn(&TeamName) -> bool) {
        let mut teams = self.teams.lock();
        for (team, TeamCounts { turns, tokens }) in teams.extract_if(|team, _| !is_there(team)) {
            for sdk in turns.keys() {
                self.turns.remove(&labels(team.as_str(), &[("sdk", sdk)]));
            }
            let kinds = |profile| TOKENS.map(|kind| (profile, kind));
            for (profile, kind) in tokens.keys().flat_map(kinds) {
                self.tokens.remove(&token_labels(team.as_str(), profile, kind));
            }
        }
    }

    /// The figures, with labels for teams that are there.
    pub(super) fn text(
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
        let turns = self.of(team, |label, counts| {
            let make = || self.turns.get_or_create_owned(&labels(label, &[("sdk", sdk)]));
            known(&mut counts.turns, sdk, make)
        });
        turns.observe(took.as_secs_f64());
    }

    fn model_called(&self, team: &TeamName, profile: &str, usage: &Usage) {
        let tokens = self.of(team, |label, counts| {
            let of_kind =
                |kind| self.tokens.get_or_create_owned(&token_labels(label, profile, kind));
            known(&mut counts.tokens, profile, || TOKENS.map(of_kind))
        });
        let Usage { input, output, cache_read, cache_write, .. } = *usage;
        for (tokens, count) in tokens.iter().zip([input, output, cache_read, cache_write]) {
            tokens.inc_by(count);
        }
    }

    fn tool_called(&self, tool: &str, succeeded: bool) {
        let tool = if self.tools.contains(tool) { tool } else { OTHER };
        let outcome = if succeeded { "ok" } else { "error" };
        let labels = vec![("tool", tool.to_owned()), ("outcome", outcome.to_owned())];
        self.calls.get_or_create(&labels).inc();
    }
}

/// The labels of something that is counted for a team.
fn labels(team: &str, more: &[(&'static str, &str)]) -> Labels {
    let all = [("team", team)].into_iter().chain(more.iter().copied());
    all.map(|(name, value)| (name, value.to_owned())).collect()
}

fn token_labels(team: &str, profile: &str, kind: &str) -> Labels {
    labels(team, &[("profile", profile), ("kind", kind)])
}

/// What is counted under a name, made when it is first asked for.
fn known<T: Clone>(all: &mut HashMap<String, T>, name: &str, make: impl FnOnce() -> T) -> T {
    if let Some(known) = all.get(name) {
        return known.clone();
    }
    all.entry(name.to_owned()).or_insert_with(make).clone()
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
