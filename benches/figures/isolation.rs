//! What a flood of work in one team costs the turns of another.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    report::{Bound, Report},
    service::{Client, Service},
};

/// Turns of the light team that are measured, alone and beside the flood.
const TURNS: usize = 300;
/// Tasks of the flood that wait at any time.
const WAITING: usize = 500;

pub(crate) fn measure(report: &mut Report) {
    actix::System::new().block_on(async {
        let service = Service::prepare()
            .with_file(
                "data/config/channels.yaml",
                "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n",
            )
            .with_file("data/config/config.yaml", "runtime: {max_running_turns: 4}\n")
            .started()
            .await;
        service.make_team("flood", "is busy").await;
        let mut client = service.connect().await;
        turns(&mut client, TURNS / 10).await;
        let alone = turns(&mut client, TURNS).await;
        for _ in 0..WAITING {
            let task = json!({"team": "flood", "task": "#wait 50\n#reply done"});
            service.api("POST", "/api/v1/tasks", Some(task)).await;
        }
        let beside = turns(&mut client, TURNS).await;
        let (_, overview) = service.api("GET", "/api/v1/overview", None).await;
        let left = &overview["data"]["tasks"]["queued"];
        assert!(left.as_u64() > Some(0), "the flood was over: {overview}");
        report.figure(
            "isolation: p99 of a light team's turns, alone",
            alone.as_secs_f64() * 1e3,
            "ms",
            Bound::None,
        );
        report.figure(
            "isolation: p99 of a light team's turns beside a flood / alone",
            beside.as_secs_f64() / alone.as_secs_f64(),
            "×",
            Bound::AtMost(1.5),
        );
    });
}

/// The 99th of a hundred turns, by how long they take.
async fn turns(client: &mut Client, count: usize) -> Duration {
    let mut times = Vec::with_capacity(count);
    for number in 0..count {
        let began = Instant::now();
        client.ask(&format!("#reply {number}")).await;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times[count * 99 / 100]
}
