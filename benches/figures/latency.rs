//! Latency of one stage of a turn, over many connections that keep a pace.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use actix_web::HttpResponse;
use futures_util::future;

use crate::{
    chat::Talk,
    model,
    process::{self, Process},
    report::Report,
};

const CONNECTIONS: usize = 100;
const MESSAGES: usize = 20;

/// When the model came to what is measured, by message.
#[derive(Clone, Default)]
pub(crate) struct Moments(Arc<Mutex<HashMap<String, Instant>>>);

impl Moments {
    pub(crate) fn note(&self, content: &str) {
        self.0.lock().expect("a lock").insert(content.to_owned(), Instant::now());
    }

    pub(crate) fn of(&self, content: &str) -> Instant {
        self.0.lock().expect("a lock").remove(content).expect("it has reached the model")
    }
}

/// A stage of a turn.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// Each connection says something this often.
    pub(crate) pace: Duration,
    /// What the model answers to a message.
    pub(crate) answer: fn(String, Moments) -> HttpResponse,
    /// The 99th percentile, in milliseconds.
    pub(crate) at_most: f64,
}

impl Stage {
    /// `say` says something and returns how long the stage took.
    pub(crate) fn measure(
        &self,
        report: &mut Report,
        say: impl AsyncFn(&mut Talk, &str, &Moments) -> Duration,
    ) {
        let took = actix::System::new().block_on(self.talk(say));
        report.percentiles(self.name, took, self.at_most);
    }

    async fn talk(
        &self,
        say: impl AsyncFn(&mut Talk, &str, &Moments) -> Duration,
    ) -> Vec<Duration> {
        let moments = Moments::default();
        let (answer, noted) = (self.answer, moments.clone());
        let model = model::serve(move |content| answer(content, noted.clone()));
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path();
        process::use_model(home, &model);
        process::write(
            home,
            "data/config/channels.yaml",
            "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\ntopics: {model: never}\n",
        );
        let service = Process::serve(home);
        let url = process::address(home, &service);
        let token = process::token(home);
        let (url, token, moments, say) = (&url, &token, &moments, &say);
        let talks = (0..CONNECTIONS).map(|number| async move {
            let mut talk = Talk::connect(url, token).await;
            let mut took = Vec::new();
            // Spread over the pace, so that they do not all speak at once.
            tokio::time::sleep(self.pace.mul_f64(number as f64 / CONNECTIONS as f64)).await;
            for round in 0..=MESSAGES {
                let sent = Instant::now();
                let stage = say(&mut talk, &format!("message {number} {round}"), moments).await;
                // The first one opens topic, lane and connection.
                if round > 0 {
                    took.push(stage);
                }
                tokio::time::sleep(self.pace.saturating_sub(sent.elapsed())).await;
            }
            took
        });
        future::join_all(talks).await.concat()
    }
}
