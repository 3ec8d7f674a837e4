//! How soon something ends: the connections of a revoked token, and what the kill switch stops.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    kill_switch,
    report::{Bound, Report},
    service::{Client, Service},
};

/// How often each is measured.
const ROUNDS: usize = 20;

pub(crate) fn measure(report: &mut Report) {
    actix::System::new().block_on(async {
        let service = Service::start_working().await;
        let (closed, exchanges) = revoked(&service).await;
        let stopped = killed(&service).await;
        for (what, times) in [
            ("from a revocation to the end of its connection", &closed),
            ("from the kill switch to the end of a command", &stopped),
        ] {
            report.figure(
                &format!("stops: slowest of {ROUNDS}, {what}"),
                millis(slowest(times)),
                "ms",
                Bound::AtMost(1_000.0),
            );
            report.figure(
                &format!("stops: median {what} / a chat turn"),
                median(times).as_secs_f64() / median(&exchanges).as_secs_f64(),
                "×",
                Bound::None,
            );
        }
    });
}

/// From a revocation to the close of the connection, and what a chat turn takes beside it.
async fn revoked(service: &Service) -> (Vec<Duration>, Vec<Duration>) {
    let (mut closed, mut exchanges) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let wish = json!({"name": format!("guest-{round}"), "scopes": ["chat"]});
        let (_, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
        let token = made["data"]["token"].as_str().expect("a token");
        let mut guest = Client::connect(&service.url(), token).await;
        guest.ask("#reply Welcome.").await;
        let began = Instant::now();
        guest.ask("#reply Still welcome.").await;
        exchanges.push(began.elapsed());
        let path = format!("/api/v1/tokens/{}", made["data"]["id"].as_str().expect("an id"));
        let began = Instant::now();
        service.api("DELETE", &path, None).await;
        assert_eq!(guest.closed().await, Some(4401));
        closed.push(began.elapsed());
    }
    (closed, exchanges)
}

/// From the kill switch to the end of the command that ran.
async fn killed(service: &Service) -> Vec<Duration> {
    let mut stopped = Vec::new();
    let mut client = service.connect().await;
    for round in 0..ROUNDS {
        // A number that no other process has.
        let seconds = format!("{}", 1_000_000 + std::process::id() as usize * 100 + round);
        let command = json!({"command": format!("sleep {seconds}; true"), "timeout": 600});
        let id = format!("m-{round}");
        client.say(&id, &format!("#call bash {command}\n#reply It went on.")).await;
        kill_switch::until_there_are(1, &seconds).await;
        let began = Instant::now();
        let now = Some(json!({ "now": true }));
        service.api("POST", "/api/v1/pause", now).await;
        kill_switch::until_there_are(0, &seconds).await;
        stopped.push(began.elapsed());
        service.api("POST", "/api/v1/resume", Some(json!({}))).await;
        client.end_of(&id).await;
    }
    stopped
}

fn slowest(times: &[Duration]) -> Duration {
    times.iter().copied().max().unwrap_or_default()
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
