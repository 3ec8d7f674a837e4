//! What a quiet person waits for while another fills hundreds of topics of the same team.

use std::time::{Duration, Instant};

use futures_util::future;
use serde_json::json;

use crate::{
    chat::Talk,
    process::{self, Process},
    report::{Bound, Report},
    service,
};

/// Topics of the loud person …
const TOPICS: usize = 300;
/// … and messages in each, all at once.
const MESSAGES: usize = 20;
/// A turn takes about as long as one of a fast model.
const TURN: &str = "#wait 125\n#reply done";
/// The quiet person speaks so often, alone and beside the other.
const TRIES: usize = 5;

pub(crate) fn measure(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    process::write(
        home,
        "data/config/channels.yaml",
        "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\ntopics: {model: never}\n",
    );
    let (alone, beside) = actix::System::new().block_on(async {
        let process = Process::serve(home);
        let url = process::address(home, &process);
        let operator = process::token(home);
        let (loud, quiet) =
            (token(&url, &operator, "loud").await, token(&url, &operator, "quiet").await);
        let mut one = Talk::connect(&url, &quiet).await;
        // Opens its topic.
        one.ask(TURN).await;
        let alone = median(&mut one).await;
        let mut talks = Vec::new();
        for _ in 0..TOPICS {
            talks.push(Talk::connect(&url, &loud).await);
        }
        future::join_all(talks.iter_mut().map(|talk| talk.flood(TURN, MESSAGES))).await;
        let beside = median(&mut one).await;
        (alone, beside)
    });
    report.figure("fairness: a message alone", millis(alone), "ms", Bound::None);
    report.figure(
        "fairness: the same beside 300 topics × 20 messages of another",
        millis(beside),
        "ms",
        Bound::None,
    );
    report.figure(
        "fairness: beside another / alone",
        beside.as_secs_f64() / alone.as_secs_f64(),
        "×",
        Bound::AtMost(3.0),
    );
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

async fn median(talk: &mut Talk) -> Duration {
    let mut took = Vec::new();
    for _ in 0..TRIES {
        let began = Instant::now();
        talk.ask(TURN).await;
        took.push(began.elapsed());
    }
    took.sort();
    took[TRIES / 2]
}

/// A token of somebody who may chat.
async fn token(url: &str, operator: &str, name: &str) -> String {
    let made = service::http()
        .post(format!("{url}/api/v1/tokens"))
        .bearer_auth(operator)
        .json(&json!({ "name": name, "scopes": ["chat"] }))
        .send()
        .await
        .expect("an answer");
    let made: serde_json::Value = made.json().await.expect("JSON");
    made["data"]["token"].as_str().expect("a token").to_owned()
}
