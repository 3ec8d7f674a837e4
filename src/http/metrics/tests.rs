//! Tests of the figures.

#![allow(clippy::unwrap_used)]

use super::*;

fn lines(metrics: &Metrics, snapshot: &Snapshot) -> Vec<String> {
    let text = metrics.text(snapshot).unwrap();
    assert!(text.ends_with("# EOF\n"));
    text.lines().map(str::to_owned).collect()
}

/// OP-48
#[test]
fn all_that_was_counted_is_shown() {
    let metrics = Metrics::new(["read".to_owned()]);
    let main = TeamName::from("main");
    metrics.turn_began(&main, Duration::from_millis(2));
    metrics.turn_ended(&main, Ending::Done, Duration::from_secs(2));
    let usage = Usage {
        input: 7,
        output: 5,
        ..Usage::default()
    };
    metrics.model_called(&main, "default", &usage);
    metrics.tool_called("read", true);
    metrics.tool_called("read", false);
    metrics.committed(Duration::from_millis(3));
    let snapshot = Snapshot {
        counts: Counts {
            teams: vec![(main.clone(), 3, 1)],
            ended: vec![(main.clone(), Ending::Done, 4)],
            waited: (5, Duration::from_millis(1_500)),
        },
        restarts: vec![(main, 2)],
        connections: 6,
    };

    let found = lines(&metrics, &snapshot);

    for expected in [
        &format!(
            "hivewright_build_info{{version=\"{}\"}} 1",
            crate::http::VERSION
        ),
        "hivewright_turn_seconds_count{team=\"main\"} 1",
        "hivewright_turn_overhead_seconds_count 1",
        "hivewright_model_tokens_total{team=\"main\",profile=\"default\",kind=\"input\"} 7",
        "hivewright_model_tokens_total{team=\"main\",profile=\"default\",kind=\"output\"} 5",
        "hivewright_tool_calls_total{tool=\"read\",outcome=\"ok\"} 1",
        "hivewright_tool_calls_total{tool=\"read\",outcome=\"error\"} 1",
        "hivewright_store_commit_seconds_count 1",
        "hivewright_tasks_total{team=\"main\",outcome=\"done\"} 4",
        "hivewright_tasks_queued{team=\"main\"} 3",
        "hivewright_turns_running{team=\"main\"} 1",
        "hivewright_task_wait_seconds_count 5",
        "hivewright_task_wait_seconds_sum 1.5",
        "hivewright_task_wait_seconds_bucket{le=\"+Inf\"} 5",
        "hivewright_actor_restarts_total{team=\"main\"} 2",
        "hivewright_ws_connections 6",
    ] {
        assert!(
            found.iter().any(|line| line == expected),
            "{expected}\n{found:#?}"
        );
    }
}

/// OP-48
#[test]
fn above_200_teams_the_rest_share_a_label() {
    let metrics = Metrics::new([]);
    let teams = (0..250).map(|number| TeamName::from(format!("team-{number}")));
    let snapshot = Snapshot {
        counts: Counts {
            teams: teams.map(|team| (team, 1, 0)).collect(),
            ..Counts::default()
        },
        ..Snapshot::default()
    };

    let found = lines(&metrics, &snapshot);

    let queued = found
        .iter()
        .filter(|line| line.starts_with("hivewright_tasks_queued{"));
    assert_eq!(queued.count(), 201);
    let other = "hivewright_tasks_queued{team=\"other\"} 50".to_owned();
    assert!(found.contains(&other));
}

/// OP-48
#[test]
fn what_a_model_calls_a_tool_is_no_label() {
    let metrics = Metrics::new(["read".to_owned()]);
    metrics.tool_called("please wire 5000 to account 17", false);

    let found = lines(&metrics, &Snapshot::default()).join("\n");

    assert!(!found.contains("account"));
    assert!(found.contains("tool_calls_total{tool=\"other\",outcome=\"error\"} 1"));
}
