//! The listener: where requests come in, over TLS if configured.

use std::{
    any::Any,
    fs, io,
    net::{IpAddr, Ipv4Addr, TcpListener},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    HttpRequest, HttpResponse,
    dev::{Extensions, ServerHandle},
    rt::net::{TcpStream, UnixStream},
    web,
};
use hivewright_actors::channel_type::ChannelType;

use super::{
    certificate::Certificate,
    error::{ServiceError, machine},
    http::Served,
    serving::Serving,
};
use crate::{
    channels::websocket::{self, Door, Guest},
    http::{
        self,
        kit::{
            connections::{self, Connections},
            error::ApiError,
        },
        routes::tasks::giving,
    },
    logging::throttle::Throttle,
    removal::if_there,
    settings::channels::WebSocket,
};

/// A client that neither reads nor answers for this long is given up by the kernel.
const DEAF: Duration = Duration::from_secs(30);
/// How long requests under way have to end when the service stops.
const LAST_REQUESTS_S: u64 = 2;

/// Serves from now on, on a socket that listens.
pub(super) fn serve(
    listener: TcpListener,
    served: Served,
    certificate: Option<Arc<Certificate>>,
    socket: Option<UnixListener>,
) -> Result<ServerHandle, ServiceError> {
    let refused = |error| machine("the listener cannot be taken over", error);
    let door = web::Data::new(served.door);
    let routes = http::app::configure(web::Data::new(served.state), move |app| {
        app.app_data(door.clone()).route("/ws", web::get().to(connect));
    });
    let connections = Connections::default();
    let on_connect = move |connection: &dyn Any, data: &mut Extensions| {
        if let Some(stream) = tcp_stream(connection) {
            prepare(stream, DEAF, &connections, data);
        } else if let Some(stream) = connection.downcast_ref::<UnixStream>() {
            connections.check_user(stream, data);
        }
    };
    let serving = Serving {
        routes: Arc::new(routes),
        on_connect: Box::new(on_connect),
        workers: workers(),
        keep_alive: http::app::KEEP_ALIVE.into(),
        last_requests_s: LAST_REQUESTS_S,
    };
    serving.start(listener, certificate, socket, &refused)
}

/// Listens on a Unix socket of the run dir, for commands of the same user. One that a killed process
/// left behind is replaced: the run dir is ours.
pub(super) fn listen_locally(path: &Path) -> io::Result<UnixListener> {
    if_there(fs::remove_file(path))?;
    let socket = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// Sockets and REST share the machine with the teams.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.div_ceil(2)
}

async fn connect(
    request: HttpRequest,
    payload: web::Payload,
    state: web::Data<http::state::State>,
    door: web::Data<Door>,
) -> Result<HttpResponse, actix_web::Error> {
    // The operator's command line comes in this way too, and is no WebSocket channel.
    let upgrade = state.access.upgrade(&request);
    let is_cli = matches!(&upgrade, Ok(upgrade) if upgrade.channel_type == ChannelType::Cli);
    let websocket = state.service.websocket();
    let client = if connections::is_local(&request) {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    } else {
        state.access.gate.client(&request)
    };
    if !is_cli && !websocket.admits(client) {
        let reason = match websocket {
            WebSocket::Loopback => {
                "without `config/channels.yaml` the WebSocket channel is open to this machine alone: set `ws.enabled` there"
            }
            _ => "the WebSocket channel is off: see `ws.enabled` in `config/channels.yaml`",
        };
        return Err(ApiError::not_found(reason).into());
    }
    if state.service.is_draining() {
        return Err(ApiError::draining().into());
    }
    let upgrade = upgrade?;
    let notify = giving::source_channel(&state, &upgrade.principal, &request).await?;
    let guest = Guest {
        notify,
        ended: Box::pin(upgrade.principal.ended()),
        owner: upgrade.principal.owner(),
        sender: upgrade.sender(),
    };
    websocket::upgrade(&request, payload, door.into_inner(), guest)
}

fn tcp_stream(connection: &dyn Any) -> Option<&TcpStream> {
    use actix_web::rt::net::TcpStream as Plain;
    type Encrypted = actix_tls::accept::rustls_0_23::TlsStream<TcpStream>;
    connection
        .downcast_ref::<Plain>()
        .or_else(|| Some(connection.downcast_ref::<Encrypted>()?.get_ref().0))
}

fn prepare(stream: &TcpStream, deaf: Duration, connections: &Connections, data: &mut Extensions) {
    if let Ok(peer) = stream.peer_addr() {
        connections.count(peer.ip(), data);
    }
    let deaf = u32::try_from(deaf.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(stream, deaf) {
        static TOLD: Throttle = Throttle::new();
        if let Some(times) = TOLD.due() {
            tracing::warn!(%error, times, "a client that stops to read may hold its connection for long");
        }
    }
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "small frames of a connection may be sent late");
    }
}

#[cfg(test)]
mod tests {

    use std::io::{Read, Write};

    use actix_web::{App, HttpServer, web::Bytes};
    use futures_util::{StreamExt, stream};
    use tokio::sync::mpsc;

    use super::*;

    /// Says when it is dropped.
    struct Guard(mpsc::UnboundedSender<&'static str>);

    impl Drop for Guard {
        fn drop(&mut self) {
            let _gone = self.0.send("closed");
        }
    }

    /// OP-43, CH-71: who does not read for so long is given up, though their side stays open; who reads
    /// is not.
    #[actix::test]
    async fn a_client_that_does_not_read_is_given_up() {
        let (told, mut heard) = mpsc::unbounded_channel();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Connections::default();
        let server = HttpServer::new(move || {
            let told = told.clone();
            let endless = web::get().to(move || {
                let guard = Guard(told.clone());
                told.send("open").unwrap();
                async move {
                    let words = stream::repeat(Bytes::from_static(&[b'x'; 4_096]));
                    let words = words.map(move |words| {
                        let _held = &guard;
                        Ok::<_, std::convert::Infallible>(words)
                    });
                    HttpResponse::Ok().streaming(words)
                }
            });
            App::new().route("/", endless)
        });
        let server = server
            .workers(1)
            .disable_signals()
            .on_connect(move |connection, data| {
                let stream = tcp_stream(connection).unwrap();
                prepare(stream, Duration::from_secs(1), &connections, data);
            })
            .listen(listener)
            .unwrap()
            .run();
        let handle = server.handle();
        actix::spawn(server);
        let client = || {
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            client
        };
        let mut next = async || {
            let next = tokio::time::timeout(Duration::from_secs(60), heard.recv());
            next.await.unwrap().unwrap()
        };

        let deaf = client();
        let opened = next().await;
        let closed = next().await;
        let mut keen = client();
        let opened_again = next().await;
        let read = tokio::task::spawn_blocking(move || {
            let (mut read, began) = (0, std::time::Instant::now());
            let mut bytes = [0; 4_096];
            // For longer than anyone may be deaf.
            while began.elapsed() < Duration::from_secs(3) {
                read += keen.read(&mut bytes).unwrap();
            }
            read
        });
        let read = read.await.unwrap();
        handle.stop(false).await;

        assert_eq!((opened, closed, opened_again), ("open", "closed", "open"));
        assert!(read > 0);
        drop(deaf);
    }
}
