//! What it takes to hand work to another team and hear its result; and that no end is lost.

use std::time::{Duration, Instant};

use crate::{
    chat::Talk,
    delegations::{self, Load},
    process::{self, Process},
    report::{Bound, Report},
};

/// Rounds that are measured, after these many that are not.
const ROUNDS: usize = 500;
const WARM_UP: usize = 50;

/// 10,000 pieces of work between 50 teams, while the process dies again and again. About a hundred
/// pieces end between two kills and forty are under way, so none meets the three that would end it
/// as `dead`.
const LONG: Load = Load { teams: 50, clients: 20, messages: 250, each: 2, kills: 100 };

pub(crate) fn measure(report: &mut Report) {
    latency(report);
    endurance(report);
}

/// From a message that delegates to the notification of its result, against two chat turns.
fn latency(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    process::write(
        home,
        "data/config/channels.yaml",
        "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n",
    );
    let process = Process::serve(home);
    let url = process::address(home, &process);
    let token = process::token(home);
    let (delegated, twice) = actix::System::new().block_on(async {
        let mut talk = Talk::connect(&url, &token).await;
        talk.ask("create team worker: works").await;
        talk.told("bootstrap").await;
        let (mut delegated, mut twice) = (Vec::new(), Vec::new());
        // In turns, so that whatever else the machine does hits both alike.
        for round in 0..WARM_UP + ROUNDS {
            let began = Instant::now();
            talk.delegate(&format!("delegate worker: #reply done {round}")).await;
            let one = began.elapsed();
            let began = Instant::now();
            talk.ask(&format!("hello, number {round}")).await;
            talk.ask(&format!("hello again, number {round}")).await;
            if round >= WARM_UP {
                delegated.push(one);
                twice.push(began.elapsed());
            }
        }
        (p99(delegated), p99(twice))
    });
    report.figure("delegate: message to notification, p99", millis(delegated), "ms", Bound::None);
    report.figure("delegate: two chat turns, p99", millis(twice), "ms", Bound::None);
    report.figure(
        "delegate: message to notification / two chat turns, p99",
        delegated.as_secs_f64() / twice.as_secs_f64(),
        "×",
        Bound::AtMost(3.0),
    );
}

fn endurance(report: &mut Report) {
    let told = actix::System::new().block_on(delegations::run(LONG));
    let missing = LONG.delegations() - told.len().min(LONG.delegations());
    let twice = told.values().filter(|times| **times > 1).count();
    report.figure(
        "delegate: ends missing of 10,000, over 100 kills",
        missing as f64,
        "",
        Bound::AtMost(0.0),
    );
    report.figure(
        "delegate: ends told twice of 10,000, over 100 kills",
        twice as f64,
        "",
        Bound::AtMost(0.0),
    );
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
