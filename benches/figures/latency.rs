//! Latency of one stage of a turn, over many connections that keep a pace.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use actix_web::{App, HttpResponse, HttpServer, web};
use futures_util::future;
use serde_json::Value;

use crate::{
    chat::Talk,
    process::{self, Process},
    report::{Bound, Report},
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
        let mut took = actix::System::new().block_on(self.talk(say));
        took.sort_unstable();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        for (share, bound) in [(0.5, Bound::None), (0.99, Bound::AtMost(self.at_most))] {
            let name = format!("{}, p{}", self.name, share * 100.0);
            report.figure(&name, at(share), "ms", bound);
        }
    }

    async fn talk(
        &self,
        say: impl AsyncFn(&mut Talk, &str, &Moments) -> Duration,
    ) -> Vec<Duration> {
        let moments = Moments::default();
        let model = self.serve_model(moments.clone());
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path();
        process::write(
            home,
            "data/config/providers.yaml",
            &format!(
                "profiles:\n  default: {{provider: openai, api_url: \"{model}\", model: m}}\n"
            ),
        );
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

    fn serve_model(&self, moments: Moments) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = self.answer;
        let server = HttpServer::new(move || {
            let moments = moments.clone();
            let answer = move |body: web::Json<Value>| {
                let last = body["messages"].as_array().and_then(|messages| messages.last());
                let content = last.and_then(|message| message["content"].as_str());
                let answer = answer(content.unwrap_or_default().to_owned(), moments.clone());
                async move { answer }
            };
            App::new().route("/v1/chat/completions", web::post().to(answer))
        });
        let server = server.workers(1).disable_signals();
        actix::spawn(server.listen(listener).expect("it listens").run());
        format!("http://{address}")
    }
}
