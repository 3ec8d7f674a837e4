//! How long a frame takes to become a request to a model.

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
/// Each connection says something this often, so that the machine is busy but not full.
const PACE: Duration = Duration::from_millis(500);

/// When each message reached the model.
type Arrivals = Arc<Mutex<HashMap<String, Instant>>>;

pub(crate) fn measure(report: &mut Report) {
    let mut took = actix::System::new().block_on(talk());
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    report.figure("overhead: frame sent → model request received, p50", at(0.5), "ms", Bound::None);
    report.figure(
        "overhead: frame sent → model request received, p99",
        at(0.99),
        "ms",
        Bound::AtMost(5.0),
    );
}

async fn talk() -> Vec<Duration> {
    let arrivals = Arrivals::default();
    let model = serve_model(arrivals.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    process::write(
        home,
        "data/config/providers.yaml",
        &format!("profiles:\n  default: {{provider: openai, api_url: \"{model}\", model: m}}\n"),
    );
    process::write(
        home,
        "data/config/channels.yaml",
        "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\ntopics: {model: never}\n",
    );
    let service = Process::serve(home);
    let url = process::address(home, &service);
    let token = process::token(home);
    let talks = (0..CONNECTIONS).map(|number| {
        let (url, token, arrivals) = (url.clone(), token.clone(), arrivals.clone());
        async move {
            let mut talk = Talk::connect(&url, &token).await;
            let mut took = Vec::new();
            // Spread over the pace, so that they do not all speak at once.
            tokio::time::sleep(PACE.mul_f64(number as f64 / CONNECTIONS as f64)).await;
            for round in 0..=MESSAGES {
                let content = format!("message {number} {round}");
                let sent = Instant::now();
                talk.ask(&content).await;
                let arrived = arrivals.lock().expect("a lock").remove(&content);
                // The first one opens topic, lane and connection.
                if round > 0 {
                    took.push(arrived.expect("it reached the model") - sent);
                }
                tokio::time::sleep(PACE.saturating_sub(sent.elapsed())).await;
            }
            took
        }
    });
    future::join_all(talks).await.concat()
}

/// A model that notes when it is asked, and says hello.
fn serve_model(arrivals: Arrivals) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = HttpServer::new(move || {
        let arrivals = arrivals.clone();
        let answer = move |body: web::Json<Value>| {
            let now = Instant::now();
            let last = body["messages"].as_array().and_then(|messages| messages.last());
            let content = last.and_then(|message| message["content"].as_str());
            if let Some(content) = content {
                let mut arrivals = arrivals.lock().expect("a lock");
                arrivals.insert(content.to_owned(), now);
            }
            async { HttpResponse::Ok().content_type("text/event-stream").body(ANSWER) }
        };
        App::new().route("/v1/chat/completions", web::post().to(answer))
    });
    let server = server.workers(1).disable_signals();
    actix::spawn(server.listen(listener).expect("it listens").run());
    format!("http://{address}")
}

const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello.\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n\
    data: [DONE]\n\n";
