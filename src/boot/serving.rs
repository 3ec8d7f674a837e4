//! HTTP serving: a server of some routes, on a port and on the socket for commands.

use std::{any::Any, io, net::TcpListener, os::unix::net::UnixListener, sync::Arc};

use actix_web::{
    App, HttpServer,
    dev::{Extensions, ServerHandle},
    http::KeepAlive,
    web,
};

use super::{certificate::Certificate, error::ServiceError};
use crate::http;

/// Notes what a connection is, where its requests can see it.
type OnConnect = Box<dyn Fn(&dyn Any, &mut Extensions) + Send + Sync>;

/// How HTTP is served. It knows no routes, so that it is compiled once and not for each that serves some.
pub(super) struct Serving {
    pub(super) routes: Arc<dyn Fn(&mut web::ServiceConfig) + Send + Sync>,
    pub(super) on_connect: OnConnect,
    pub(super) workers: usize,
    pub(super) keep_alive: KeepAlive,
    pub(super) last_requests_s: u64,
}

impl Serving {
    pub(super) fn start(
        self,
        listener: TcpListener,
        certificate: Option<Arc<Certificate>>,
        socket: Option<UnixListener>,
        refused: &dyn Fn(io::Error) -> ServiceError,
    ) -> Result<ServerHandle, ServiceError> {
        let Self { routes, on_connect, workers, keep_alive, last_requests_s } = self;
        let http = HttpServer::new(move || App::new().configure(|app| routes(app)))
            .workers(workers)
            .keep_alive(keep_alive)
            .client_request_timeout(http::app::SLOWEST_HEADER)
            .shutdown_timeout(last_requests_s)
            .disable_signals()
            .on_connect(on_connect);
        let http = match socket {
            Some(socket) => http.listen_uds(socket).map_err(refused)?,
            None => http,
        };
        let http = match certificate {
            Some(certificate) => http.listen_rustls_0_23(listener, certificate.settings()?),
            None => http.listen(listener),
        };
        let server = http.map_err(refused)?.run();
        let handle = server.handle();
        actix::spawn(server);
        Ok(handle)
    }
}
