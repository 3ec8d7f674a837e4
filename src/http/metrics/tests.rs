//! Tests of the figures.

use std::collections::BTreeSet;

use hivewright_actors::task::Kind;

use super::*;

fn lines(metrics: &Metrics, snapshot: &Snapshot) -> Vec<String> {
    lines_of(metrics, snapshot, |_| true)
}

fn lines_of(
    metrics: &Metrics,
    snapshot: &Snapshot,
    is_there: impl Fn(&TeamName) -> bool,
) -> Vec<String> {
    let text = metrics.text(snapshot, is_there).unwrap();
    assert!(text.ends_with("# EOF\n"));
    text.lines().map(str::to_owned).collect()
}

/// OP-48
#[test]
fn all_that_was_counted_is_shown() {
    let metrics = Metrics::new(["read".to_owned()], Errors::default());
    let main = TeamName::from("main");
    metrics.turn_began(&main, Duration::from_millis(2));
    metrics.turn_ended(&main, "native", Ending::Done, Duration::from_secs(2));
    let usage = Usage { input: 7, output: 5, ..Usage::default() };
    metrics.model_called(&main, "default", &usage);
    metrics.tool_called("read", true);
    metrics.tool_called("read", false);
    metrics.committed(Duration::from_millis(3));
    let snapshot = Snapshot {
        counts: Counts {
            teams: vec![(main.clone(), 3, 1)],
            ended: vec![(main.clone(), Kind::Chat, Ending::Done, 4)],
            waited: vec![(
                main.clone(),
                Waited {
                    count: 5,
                    sum: Duration::from_millis(1_500),
                    within: [1, 0, 3, 0, 0, 0, 0],
                },
            )],
        },
        restarts: vec![(main, 2)],
        connections: 6,
        pending: 7,
        approvals: 8,
    };

    let found = lines(&metrics, &snapshot);

    for expected in [
        &format!("hivewright_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        "hivewright_turn_seconds_count{team=\"main\",sdk=\"native\"} 1",
        "hivewright_turn_overhead_seconds_count 1",
        "hivewright_model_tokens_total{team=\"main\",profile=\"default\",kind=\"input\"} 7",
        "hivewright_model_tokens_total{team=\"main\",profile=\"default\",kind=\"output\"} 5",
        "hivewright_tool_calls_total{tool=\"read\",outcome=\"ok\"} 1",
        "hivewright_tool_calls_total{tool=\"read\",outcome=\"error\"} 1",
        "hivewright_store_commit_seconds_count 1",
        "hivewright_tasks_total{team=\"main\",type=\"chat\",outcome=\"done\"} 4",
        "hivewright_tasks_queued{team=\"main\"} 3",
        "hivewright_turns_running{team=\"main\"} 1",
        "hivewright_task_wait_seconds_count{team=\"main\"} 5",
        "hivewright_task_wait_seconds_sum{team=\"main\"} 1.5",
        "hivewright_task_wait_seconds_bucket{le=\"0.01\",team=\"main\"} 1",
        "hivewright_task_wait_seconds_bucket{le=\"1.0\",team=\"main\"} 4",
        "hivewright_task_wait_seconds_bucket{le=\"+Inf\",team=\"main\"} 5",
        "hivewright_outbox_pending 7",
        "hivewright_approvals_open 8",
        "hivewright_actor_restarts_total{team=\"main\"} 2",
        "hivewright_ws_connections 6",
    ] {
        assert!(found.iter().any(|line| line == expected), "{expected}\n{found:#?}");
    }
}

/// OP-48
#[test]
fn above_200_teams_the_rest_share_a_label() {
    let metrics = Metrics::new([], Errors::default());
    let teams = (0..250).map(|number| TeamName::from(format!("team-{number}")));
    let snapshot = Snapshot {
        counts: Counts { teams: teams.map(|team| (team, 1, 0)).collect(), ..Counts::default() },
        ..Snapshot::default()
    };

    let found = lines(&metrics, &snapshot);

    let queued = found.iter().filter(|line| line.starts_with("hivewright_tasks_queued{"));
    assert_eq!(queued.count(), 201);
    let other = "hivewright_tasks_queued{team=\"other\"} 50".to_owned();
    assert!(found.contains(&other));
}

/// OP-48: a team that is gone leaves its label to another, and its figures to `other`.
#[test]
fn a_team_that_is_gone_leaves_its_label() {
    let metrics = Metrics::new([], Errors::default());
    let teams: Vec<_> = (0..250).map(|number| TeamName::from(format!("team-{number}"))).collect();
    for team in &teams[..200] {
        metrics.turn_ended(team, "native", Ending::Done, Duration::from_secs(1));
        metrics.model_called(team, "default", &Usage::default());
    }
    let snapshot = Snapshot {
        counts: Counts {
            ended: teams
                .iter()
                .map(|team| (team.clone(), Kind::Delegate, Ending::Done, 1))
                .collect(),
            ..Counts::default()
        },
        ..Snapshot::default()
    };
    let is_there = |team: &TeamName| teams[199..].contains(team);

    lines_of(&metrics, &snapshot, is_there);
    metrics.turn_ended(&teams[220], "native", Ending::Done, Duration::from_secs(1));
    let found = lines_of(&metrics, &snapshot, is_there);

    let of = |name: &str| {
        let starts = format!("hivewright_{name}{{");
        let lines = found.iter().filter(|line| line.starts_with(&starts));
        lines.cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        of("turn_seconds_count"),
        [
            "hivewright_turn_seconds_count{team=\"team-199\",sdk=\"native\"} 1",
            "hivewright_turn_seconds_count{team=\"team-220\",sdk=\"native\"} 1",
        ]
    );
    assert_eq!(of("model_tokens_total").len(), 4);
    let tasks = of("tasks_total");
    assert_eq!(tasks.len(), 52);
    let other = "hivewright_tasks_total{team=\"other\",type=\"delegate\",outcome=\"done\"} 199";
    assert!(tasks.iter().any(|line| line == other), "{tasks:#?}");
}

/// OP-48: errors are counted by the part of the program that logged them, without what they say.
#[test]
fn errors_are_counted_by_their_source() {
    let (tap, _lines) = crate::logging::tap::Tap::new();
    let metrics = Metrics::new([], tap.errors.clone());
    let subscriber = crate::logging::layer(tap, crate::logging::Secrets::default());

    tracing::subscriber::with_default(subscriber, || {
        tracing::error!("mail of alice cannot be read");
        tracing::error!(target: "hivewright_actors::team::calls", "so");
        tracing::error!(target: "hivewright_actors::team::commits", "so");
        tracing::error!(target: "sled::pagecache", "so");
        tracing::warn!("not one");
    });
    let found = lines(&metrics, &Snapshot::default());

    let errors = found.iter().filter(|line| line.starts_with("hivewright_errors_total"));
    let mut errors: Vec<_> = errors.cloned().collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            "hivewright_errors_total{source=\"http\"} 1",
            "hivewright_errors_total{source=\"sled\"} 1",
            "hivewright_errors_total{source=\"team\"} 2",
        ]
    );
}

/// OP-48
#[test]
fn what_a_model_calls_a_tool_is_no_label() {
    let metrics = Metrics::new(["read".to_owned()], Errors::default());
    metrics.tool_called("please wire 5000 to account 17", false);

    let found = lines(&metrics, &Snapshot::default()).join("\n");

    assert!(!found.contains("account"));
    assert!(found.contains("tool_calls_total{tool=\"other\",outcome=\"error\"} 1"));
}
