//! How long the first text of a model takes to become the first frame at the client.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use actix_web::{App, HttpResponse, HttpServer, web};
use futures_util::{StreamExt, future, stream};
use serde_json::Value;

use crate::{
    chat::Talk,
    process::{self, Process},
    report::{Bound, Report},
};

const CONNECTIONS: usize = 100;
const MESSAGES: usize = 20;
/// The model thinks for this long, …
const FIRST_TEXT: Duration = Duration::from_millis(200);
/// … then says a word after each such pause, …
const EACH_WORD: Duration = Duration::from_millis(20);
/// … so many in all.
const WORDS: u32 = 11;
/// Each connection says something this often: twice as long as its answer takes, so that half of them
/// are being answered.
const PACE: Duration = Duration::from_millis(800);

/// When the model wrote the first text of its answer to each message.
type FirstTexts = Arc<Mutex<HashMap<String, Instant>>>;

pub(crate) fn measure(report: &mut Report) {
    let mut took = actix::System::new().block_on(talk());
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    report.figure("first word: model's first text → first frame, p50", at(0.5), "ms", Bound::None);
    report.figure(
        "first word: model's first text → first frame, p99",
        at(0.99),
        "ms",
        Bound::AtMost(35.0),
    );
}

async fn talk() -> Vec<Duration> {
    let first_texts = FirstTexts::default();
    let model = serve_model(first_texts.clone());
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
        let (url, token, first_texts) = (url.clone(), token.clone(), first_texts.clone());
        async move {
            let mut talk = Talk::connect(&url, &token).await;
            let mut took = Vec::new();
            // Spread over the pace, so that they do not all speak at once.
            tokio::time::sleep(PACE.mul_f64(number as f64 / CONNECTIONS as f64)).await;
            for round in 0..=MESSAGES {
                let content = format!("message {number} {round}");
                let sent = Instant::now();
                let framed = talk.first_frame(&content).await;
                let written = first_texts.lock().expect("a lock").remove(&content);
                // The first one opens topic, lane and connection.
                if round > 0 {
                    took.push(framed - written.expect("the model has answered it"));
                }
                tokio::time::sleep(PACE.saturating_sub(sent.elapsed())).await;
            }
            took
        }
    });
    future::join_all(talks).await.concat()
}

/// A model that takes its time, and notes when it writes the first text.
fn serve_model(first_texts: FirstTexts) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = HttpServer::new(move || {
        let first_texts = first_texts.clone();
        let answer = move |body: web::Json<Value>| {
            let last = body["messages"].as_array().and_then(|messages| messages.last());
            let content = last.and_then(|message| message["content"].as_str());
            let answer = stream_answer(content.unwrap_or_default().to_owned(), first_texts.clone());
            async move { answer }
        };
        App::new().route("/v1/chat/completions", web::post().to(answer))
    });
    let server = server.workers(1).disable_signals();
    actix::spawn(server.listen(listener).expect("it listens").run());
    format!("http://{address}")
}

fn stream_answer(content: String, first_texts: FirstTexts) -> HttpResponse {
    let words = stream::iter(0..WORDS).then(move |number| {
        let (content, first_texts) = (content.clone(), first_texts.clone());
        async move {
            tokio::time::sleep(if number == 0 { FIRST_TEXT } else { EACH_WORD }).await;
            if number == 0 {
                first_texts.lock().expect("a lock").insert(content, Instant::now());
            }
            Ok::<_, std::io::Error>(web::Bytes::from_static(WORD.as_bytes()))
        }
    });
    let end = stream::iter([Ok(web::Bytes::from_static(END.as_bytes()))]);
    HttpResponse::Ok().content_type("text/event-stream").streaming(words.chain(end))
}

const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n";

const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n\
    data: [DONE]\n\n";
