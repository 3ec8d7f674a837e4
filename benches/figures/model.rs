//! A model behind HTTP, in the wire format of a vendor.

use actix_web::{App, HttpResponse, HttpServer, web};
use serde_json::Value;

/// An event with a word of an answer, …
pub(crate) const WORD: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n";

/// … and those that end one.
pub(crate) const END: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n\
    data: [DONE]\n\n";

/// Serves a model in this process, which answers what was said last: its address.
pub(crate) fn serve(answer: impl Fn(String) -> HttpResponse + Clone + Send + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = HttpServer::new(move || {
        let answer = answer.clone();
        let answer = move |body: web::Json<Value>| {
            let last = body["messages"].as_array().and_then(|messages| messages.last());
            let content = last.and_then(|message| message["content"].as_str());
            let answer = answer(content.unwrap_or_default().to_owned());
            async move { answer }
        };
        App::new().route("/v1/chat/completions", web::post().to(answer))
    });
    let server = server.workers(1).disable_signals();
    actix::spawn(server.listen(listener).expect("it listens").run());
    format!("http://{address}")
}

/// An answer that is there at once.
pub(crate) fn stream(events: String) -> HttpResponse {
    HttpResponse::Ok().content_type("text/event-stream").body(events)
}
