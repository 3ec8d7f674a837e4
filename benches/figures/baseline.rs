//! The least that a chat costs on this stack: an echo over WebSocket and one HTTP request each.

use actix::{Actor, ActorFutureExt, AsyncContext, StreamHandler, WrapFuture};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use actix_web_actors::ws;

/// The role of this program in which it is the baseline.
pub(crate) const ARGUMENT: &str = "baseline";

struct Echo {
    client: reqwest::Client,
    url: String,
}

impl Actor for Echo {
    type Context = ws::WebsocketContext<Self>;
}

impl StreamHandler<Result<ws::Message, ws::ProtocolError>> for Echo {
    fn handle(&mut self, message: Result<ws::Message, ws::ProtocolError>, ctx: &mut Self::Context) {
        if let Ok(ws::Message::Text(text)) = message {
            let request = self.client.post(&self.url).body(text.to_string()).send();
            let answer = async move { request.await.expect("an answer").text().await };
            ctx.spawn(answer.into_actor(self).map(|answer, _, ctx| {
                ctx.text(answer.expect("a text"));
            }));
        }
    }
}

/// Serves until it is killed. Prints its address.
pub(crate) fn serve() {
    actix::System::new().block_on(async {
        let client = hivewright::providers::client::build().expect("a client");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = HttpServer::new(move || {
            let client = client.clone();
            let connect = move |request: HttpRequest, payload: web::Payload| {
                let url = format!("http://{address}/model");
                let echo = Echo { client: client.clone(), url };
                async move { ws::start(echo, &request, payload) }
            };
            let model = |body: String| async move { HttpResponse::Ok().body(body) };
            App::new().route("/ws", web::get().to(connect)).route("/model", web::post().to(model))
        });
        println!("http://{address}");
        let server = server.workers(1).listen(listener).expect("it listens");
        server.run().await.expect("it serves");
    });
}
