//! Tests of the routes over a real spine, with a storage in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use actix_http::Request;
use actix_web::{
    App, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{self, ServiceResponse},
    http::{
        Method,
        header::{HeaderMap, HeaderName, HeaderValue},
    },
    test::{self, TestRequest},
    web,
};
use futures_util::FutureExt;
use hivewright_actors::{
    clock::Timestamp,
    doubles::{clock::ManualClock, disk::MemoryStorage},
    ids::{Ids, TeamKey},
    queue::schedule::Limits,
    store::{keys::key_of, records::Writes},
    task::outcome::Code,
};
use serde_json::Value;
use tempfile::TempDir;

use self::fixture::Fixture;
use super::{
    app::configure,
    auth::{authenticator::Authenticator, identities::Identities, operator},
    kit::error::ApiError,
    ports::Service,
    state::State,
};
use crate::{
    api::{
        scope::{Scope, Scopes},
        tokens::NewToken,
        when::Expiry,
    },
    logging::Secrets,
    settings::{channels::WebSocket, config::Server, home::Home},
    system::{Randomness, sha256},
};

mod approvals;
mod audit;
mod bounds;
mod changes;
mod contract;
mod documents;
mod events;
mod fixture;
mod fold;
mod grants;
mod history;
mod input;
mod instructions;
mod lists;
mod log;
mod login;
mod me;
mod memories;
mod messages;
mod operating;
mod origins;
mod pages;
mod repeats;
mod rights;
mod tasks;
mod teams;
mod teams_of_tokens;
mod tokens;
mod triggers;
mod trust;
mod upgrade;
mod vault;
mod watch;
mod webhooks;
mod wire;

const HOST: (&str, &str) = ("Host", "localhost:8080");

#[derive(Default)]
struct Surroundings {
    draining: AtomicBool,
    /// Its settings files are wrong.
    faulty: AtomicBool,
}

impl Surroundings {
    fn fault(&self) -> Option<String> {
        let faulty = self.faulty.load(Ordering::SeqCst);
        faulty.then(|| "line 1 is wrong".to_owned())
    }
}

impl Service for Surroundings {
    fn is_demo(&self) -> bool {
        true
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    fn websocket(&self) -> WebSocket {
        WebSocket::On
    }

    fn channels_fault(&self) -> Option<String> {
        self.fault()
    }

    fn settings_fault(&self) -> Option<String> {
        self.fault()
    }

    fn providers_fault(&self) -> Option<String> {
        self.fault()
    }

    fn store_bytes(&self) -> u64 {
        4_096
    }

    fn team(&self, name: &str) -> Option<TeamKey> {
        (name == "main").then(|| TeamKey::first(name))
    }
}

/// A service without a socket.
struct Bench {
    state: web::Data<State>,
    storage: Arc<MemoryStorage>,
    clock: Arc<ManualClock>,
    surroundings: Arc<Surroundings>,
    folder: TempDir,
    home: Home,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    /// Status and code of a refusal, whose form is checked.
    fn refusal(&self) -> (u16, String) {
        let json = self.json();
        let error = json["error"].as_object().unwrap();
        assert_eq!(error["request_id"], self.header("x-request-id").unwrap());
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
        assert_eq!(self.header("content-type"), Some("application/json"));
        let known = ["code", "message", "field", "details", "request_id"];
        assert!(error.keys().all(|key| known.contains(&key.as_str())));
        (self.status, error["code"].as_str().unwrap().to_owned())
    }

    fn field(&self) -> String {
        self.json()["error"]["field"].as_str().unwrap_or_default().to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The session cookie that was set.
    fn cookie(&self) -> String {
        let cookie = self.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

/// Stands for the WebSocket, which lives elsewhere.
async fn socket(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let upgrade = state.access.upgrade(&request)?;
    Ok(HttpResponse::Ok().json(serde_json::json!({
        "principal": upgrade.principal.id,
        "sender": upgrade.sender,
        "asserted_by": upgrade.asserted_by,
    })))
}

/// Work that never ends by itself.
async fn endless() -> HttpResponse {
    std::future::pending().await
}

/// Does something, and then loses its patience.
async fn late(state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let name = format!("{:016x}", getrandom::u64().unwrap());
    let row = Writes::new().put_json(key_of("edge\0late", &name), &1);
    state.spine.store.commit(row).await.unwrap();
    Err(ApiError::internal("too late"))
}

/// Does something, and takes a moment to answer.
async fn slow(state: web::Data<State>) -> HttpResponse {
    let row = Writes::new().put_json(key_of("edge\0slow", &"once".to_owned()), &1);
    state.spine.store.commit(row).await.unwrap();
    tokio::task::yield_now().await;
    HttpResponse::Created().json("done")
}

fn others(app: &mut web::ServiceConfig) {
    let endless = web::get().to(endless);
    let late = web::post().to(late);
    app.route("/late", late.wrap(actix_web::middleware::from_fn(super::kit::idempotency::pass)));
    let slow = web::post().to(slow);
    app.route("/slow", slow.wrap(actix_web::middleware::from_fn(super::kit::idempotency::pass)));
    app.route("/ws", web::get().to(socket)).route(
        "/endless",
        endless.wrap(actix_web::middleware::from_fn(super::kit::revocation::pass)),
    );
}

impl Bench {
    async fn new() -> Self {
        Self::with(Server::default()).await
    }

    async fn with(server: Server) -> Self {
        let fixture = Fixture::new().await;
        let surroundings = Arc::new(Surroundings::default());
        let state = web::Data::new(fixture.state(surroundings.clone(), &server).await);
        let Fixture { storage, clock, folder, home, .. } = fixture;
        Self { state, storage, clock, surroundings, folder, home }
    }

    /// All that is stored, as text.
    fn stored(&self) -> String {
        self.storage.text()
    }

    fn auth(&self) -> &Authenticator {
        &self.state.access.auth
    }

    fn operator(&self) -> String {
        let token = operator::read(self.folder.path()).unwrap().unwrap();
        token.expose().to_owned()
    }

    /// A token with these scopes.
    async fn token(&self, name: &str, scopes: Scopes) -> String {
        let operator = self.auth().token(&self.operator()).unwrap();
        let wish = NewToken {
            name: name.to_owned(),
            scopes: scopes.into(),
            teams: None,
            expires: Some(Expiry::Never),
        };
        let minted = self.auth().mint(wish, &operator).await.unwrap();
        minted.text.expose().to_owned()
    }

    /// All routes, for many requests.
    async fn app(
        &self,
    ) -> impl dev::Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>
    {
        let app = App::new().configure(configure(self.state.clone(), others));
        test::init_service(app).await
    }

    async fn call(&self, request: TestRequest) -> Answer {
        answer(&self.app().await, request).await
    }

    async fn get(&self, path: &str, token: &str) -> Answer {
        self.call(request(Method::GET, path).insert_header(bearer(token))).await
    }

    async fn delete(&self, path: &str, token: &str) -> Answer {
        self.call(request(Method::DELETE, path).insert_header(bearer(token))).await
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> Answer {
        let request = request(Method::POST, path).insert_header(bearer(token));
        self.call(request.set_json(body)).await
    }
}

async fn answer<S>(app: &S, request: TestRequest) -> Answer
where
    S: dev::Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    let request = request.peer_addr("127.0.0.1:9".parse().unwrap());
    let response = test::call_service(app, request.to_request()).await;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let ends = headers.contains_key("content-disposition");
    // What streams without an end is read where it is tested.
    let bytes = match response.into_body().try_into_bytes() {
        Err(body) if ends => actix_web::body::to_bytes(body).await.unwrap(),
        bytes => bytes.unwrap_or_default(),
    };
    Answer { status, headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}

fn request(method: Method, path: &str) -> TestRequest {
    TestRequest::with_uri(path).method(method).insert_header(HOST)
}

fn bearer(token: &str) -> (HeaderName, HeaderValue) {
    (
        actix_web::http::header::AUTHORIZATION,
        HeaderValue::try_from(format!("Bearer {token}")).unwrap(),
    )
}

fn only(scope: Scope) -> Scopes {
    [scope].into_iter().collect()
}
