//! The listener of a service that is still starting: it says that it lives and what it does, nothing else.
//!
//! A store may take minutes to be upgraded or recovered. Whoever watches the process must not take it for dead
//! meanwhile, and whoever wants something of it is told to come back.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    ops::ControlFlow,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    HttpRequest, HttpResponse,
    dev::ServerHandle,
    http::{KeepAlive, header},
    web,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::{
    certificate::Certificate,
    error::{ServiceError, machine},
    serving::Serving,
    systemd,
};
use crate::{
    settings::{config::Server, home::Home, replace::replace},
    storage::{Progress, Unit},
};

/// How long somebody who was told to come back should wait.
const RETRY_AFTER_S: &str = "1";
/// By then the server lets nobody in, and knows whom it let in.
const PAUSING: Duration = Duration::from_millis(5);
/// How long those have who are being answered when the service takes over.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// How often a line says how far an upgrade of the store has come.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// What a service that is starting does at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase(Arc<Mutex<Doing>>);

#[derive(Debug, Default)]
struct Doing {
    what: String,
    /// When a line was last written of an upgrade.
    told: Option<Instant>,
}

impl Phase {
    pub(super) fn set(&self, doing: impl Into<String>) {
        self.0.lock().what = doing.into();
    }

    /// An upgrade of the store has come this far: nothing else of opening it tells.
    pub(super) fn upgrading(&self, progress: Progress) -> ControlFlow<()> {
        if let Some(doing) = self.advance(progress, Instant::now()) {
            tracing::info!("{doing}; the service starts when that is done");
            systemd::starts_longer();
        }
        ControlFlow::Continue(())
    }

    /// The same at a moment. Returns what a line is to say.
    fn advance(&self, Progress { done, total, unit }: Progress, now: Instant) -> Option<String> {
        let upgrading = match unit {
            Unit::Records => "upgrading the store",
            Unit::Files | Unit::Bytes => "backing up before the upgrade of the store",
        };
        let mut doing = self.0.lock();
        doing.what = format!("{upgrading}: {done} of {total} {unit}");
        let is_due = doing.told.is_none_or(|told| now.duration_since(told) >= LINE_INTERVAL);
        is_due.then(|| {
            doing.told = Some(now);
            doing.what.clone()
        })
    }

    fn now(&self) -> String {
        self.0.lock().what.clone()
    }
}

/// What answers until the service does.
pub(super) struct Starting {
    /// Where it listens, and the service after it.
    pub(super) address: SocketAddr,
    pub(super) phase: Phase,
    listener: TcpListener,
    server: ServerHandle,
    connections: TaskTracker,
}

impl Starting {
    pub(super) fn open(
        server: &Server,
        certificate: Option<&Arc<Certificate>>,
    ) -> Result<Self, ServiceError> {
        let address = SocketAddr::new(server.bind, server.port);
        let failed = |source| ServiceError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let phase = Phase::default();
        let told = web::Data::new(phase.clone());
        let routes = move |app: &mut web::ServiceConfig| {
            app.app_data(told.clone()).default_service(web::to(answer));
        };
        let connections = TaskTracker::new();
        let tracker = connections.clone();
        let serving = Serving {
            routes: Arc::new(routes),
            // Goes when the connection does.
            on_connect: Box::new(move |_, data| drop(data.insert(tracker.token()))),
            workers: 1,
            // Whoever comes again meets the service.
            keep_alive: KeepAlive::Disabled,
            last_requests_s: LAST_REQUESTS.as_secs(),
        };
        let ours = listener.try_clone().map_err(failed)?;
        let server = serving.start(ours, certificate.cloned(), None, &failed)?;
        Ok(Self { address, phase, listener, server, connections })
    }

    pub(super) fn listener(&self) -> Result<TcpListener, ServiceError> {
        let cloned = self.listener.try_clone();
        cloned.map_err(|error| machine("the listener cannot be handed over", error))
    }

    /// Answers no more. Whoever connects from now on waits for the service.
    pub(super) async fn end(self) {
        self.server.pause().await;
        tokio::time::sleep(PAUSING).await;
        self.connections.close();
        let answered = tokio::time::timeout(LAST_REQUESTS, self.connections.wait()).await;
        // The server itself would look once a second only whether they are.
        self.server.stop(answered.is_ok()).await;
    }
}

async fn answer(request: HttpRequest, phase: web::Data<Phase>) -> HttpResponse {
    let doing = phase.now();
    let mut unavailable = HttpResponse::ServiceUnavailable();
    unavailable.insert_header((header::RETRY_AFTER, RETRY_AFTER_S));
    match request.path() {
        "/healthz" => HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("starting"),
        "/readyz" => unavailable.json(json!({ "ready": false, "starting": doing })),
        _ => unavailable.json(json!({ "error": {
            "code": "starting",
            "message": format!("the service is starting ({doing}); try again in a moment"),
        } })),
    }
}

/// The file in which commands of this machine look up how to reach the service. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct AddressFile(PathBuf);

impl AddressFile {
    pub(super) fn write(home: &Home, url: &str) -> Result<Self, ServiceError> {
        write_address(home, url)
            .map_err(|error| machine("the address file cannot be written", error))?;
        Ok(Self(home.address_file()))
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        // Whoever finds it next sees from the lock that nobody is there.
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Tells commands of this machine how to reach the service. Blocks.
pub(super) fn write_address(home: &Home, url: &str) -> io::Result<()> {
    let text = json!({ "pid": std::process::id(), "url": url }).to_string();
    replace(&home.address_file(), home.run(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-104: nobody takes a long upgrade for a hanging start, and no log is filled by it.
    #[test]
    fn an_upgrade_says_every_few_seconds_how_far_it_has_come() {
        let (phase, start) = (Phase::default(), Instant::now());
        let come = |done, seconds| {
            let progress = Progress { done, total: 200, unit: Unit::Records };
            phase.advance(progress, start + Duration::from_secs(seconds))
        };

        let told = [(0, 0), (10, 1), (50, 4), (60, 5), (61, 5), (150, 12)];
        let told = told.map(|(done, seconds)| come(done, seconds));

        let line = |done| Some(format!("upgrading the store: {done} of 200 records"));
        assert_eq!(told, [line(0), None, None, line(60), None, line(150)]);
        assert_eq!(phase.now(), "upgrading the store: 150 of 200 records");
    }
}
