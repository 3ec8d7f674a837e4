//! What the JavaScript host costs: a first call, which starts a process in the sandbox, and those after it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hivewright::{
    plugins::host::{
        process::{Call, Hosts, Offline},
        wire::{CallLimits, Outcome},
    },
    sandbox::process::{Sandbox, SandboxSettings},
};
use hivewright_actors::ids::TeamName;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    process,
    report::{Bound, Report},
};

const TEAMS: usize = 20;
const CALLS: usize = 300;

const SOURCE: &str = "export const execute = ({ a, b }) => ({ sum: a + b });";

pub(crate) fn measure(report: &mut Report) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut cold, mut warm) = runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = SandboxSettings {
            launcher: process::binary(),
            memory: 1 << 30,
            scratch: folder.path().join("scratch"),
            private: Vec::new(),
        };
        let hosts = Hosts::new(Arc::new(Sandbox::new(settings).await));
        let mut cold = Vec::new();
        for number in 0..TEAMS {
            cold.push(call(&hosts, &format!("team-{number}")).await);
        }
        let mut warm = Vec::new();
        for _ in 0..CALLS {
            warm.push(call(&hosts, "team-0").await);
        }
        hosts.end().await;
        (cold, warm)
    });
    report.figure(
        "scripts: a first call, which starts a host, median",
        median(&mut cold),
        "ms",
        Bound::AtMost(50.0),
    );
    report.figure(
        "scripts: a call of a tool in a host that runs, median",
        median(&mut warm),
        "ms",
        Bound::AtMost(1.0),
    );
}

async fn call(hosts: &Hosts, team: &str) -> Duration {
    let limits = CallLimits { time_ms: 10_000, cpu_ms: 10_000, fetches: 0 };
    let call = Call { source: SOURCE.into(), input: Some(json!({ "a": 20, "b": 22 })), limits };
    let began = Instant::now();
    let done =
        hosts.call(&TeamName::from(team), call, Arc::new(Offline), CancellationToken::new()).await;
    let took = began.elapsed();
    assert_eq!(done.expect("an end").outcome, Outcome::Returned(r#"{"sum":42}"#.to_owned()));
    took
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
