//! Forward proxy: what a browser asks for goes through the guard, and to no address that the guard did not look up.

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyDataStream, BodyExt, Empty, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body as _, Bytes, Incoming},
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use reqwest::Url;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{
    CONNECT_TIMEOUT, EgressError, Guard,
    gate::Gate,
    passage::{Metered, Passage},
    request::cause,
};
use crate::logging::throttle::Throttle;

/// Connections at once.
const MOST_CONNECTIONS: usize = 64;
/// How long a connection may be open.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// How long a connection that cannot be taken holds up the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Fields that are about one connection, or that the next one has of its own.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
const OF_CONNECTION_TOO: [&str; 2] = ["keep-alive", "proxy-connection"];

type Body = UnsyncBoxBody<Bytes, reqwest::Error>;

/// Serves all who connect. Dropping the future closes all connections.
pub async fn serve(listener: TcpListener, guard: Guard, gate: Arc<dyn Gate>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            taken = listener.accept(), if connections.len() < MOST_CONNECTIONS => match taken {
                Ok((client, _)) => {
                    let passage = Arc::new(Passage::new(Arc::clone(&gate)));
                    let guard = guard.clone();
                    connections.spawn(async move {
                        let attending = attend(client, guard, Arc::clone(&passage));
                        if tokio::time::timeout(LONGEST, attending).await.is_err() {
                            passage.fail(EgressError::TooLong(LONGEST));
                        }
                    });
                }
                Err(error) => {
                    static TOLD: Throttle = Throttle::new();
                    if let Some(times) = TOLD.due() {
                        tracing::warn!(%error, times, "a connection of a team to the network cannot be taken, and is tried again");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

async fn attend(client: TcpStream, guard: Guard, passage: Arc<Passage>) {
    // A tunnel is part of the connection it came by, so that it ends with it.
    let (tunnels, mut opened) = tokio::sync::mpsc::unbounded_channel();
    let answering = service_fn(|request| {
        let (guard, passage, tunnels) = (guard.clone(), Arc::clone(&passage), tunnels.clone());
        async move {
            let url = target(&request)?;
            // The first is the only one.
            let _ = passage.target.set(url.clone());
            let answer = if let Err(error) = passage.count(0) {
                Err(error)
            } else if request.method() == Method::CONNECT {
                open_tunnel(request, &url, &guard, &*passage.gate).await.map(|(answer, tunnel)| {
                    // The other end is held below, for as long as there is a connection.
                    let _ = tunnels.send(tunnel);
                    answer
                })
            } else {
                forward(request, &url, &guard, &*passage.gate).await
            };
            // Words of ours would be shown as those of the host, so nothing is said.
            answer.map_err(|error| {
                passage.fail(error);
                Unanswered
            })
        }
    });
    let client = Metered { stream: client, passage: Arc::clone(&passage) };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(client), answering);
    // A connection that breaks off is seen by both sides.
    let _ = connection.with_upgrades().await;
    if let Ok((upgrade, mut server)) = opened.try_recv()
        && let Ok(upgraded) = upgrade.await
    {
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut server).await;
    }
}

/// Closes the connection without a word.
#[derive(Debug, thiserror::Error)]
#[error("not answered")]
struct Unanswered;

/// Where a request is to go.
fn target(request: &Request<Incoming>) -> Result<Url, Unanswered> {
    let uri = request.uri();
    let url = match (request.method(), uri.authority()) {
        (&Method::CONNECT, Some(authority)) => Url::parse(&format!("https://{authority}/")),
        _ => Url::parse(&uri.to_string()),
    };
    url.map_err(|_| Unanswered)
}

type Tunnel = (hyper::upgrade::OnUpgrade, TcpStream);

async fn open_tunnel(
    request: Request<Incoming>,
    url: &Url,
    guard: &Guard,
    gate: &dyn Gate,
) -> Result<(Response<Body>, Tunnel), EgressError> {
    let target = guard.locate(url, &gate.egress()).await?;
    gate.admit(&target.host).map_err(EgressError::Denied)?;
    let failed = |why: String| EgressError::Connection(target.host.clone(), why);
    let connecting = TcpStream::connect(&*target.addresses);
    let server = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected.map_err(|error| failed(error.to_string()))?,
        Err(_) => return Err(failed("it takes too long".to_owned())),
    };
    let empty = Empty::new().map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(empty);
    *answer.status_mut() = StatusCode::OK;
    Ok((answer, (hyper::upgrade::on(request), server)))
}

async fn forward(
    request: Request<Incoming>,
    url: &Url,
    guard: &Guard,
    gate: &dyn Gate,
) -> Result<Response<Body>, EgressError> {
    let target = guard.locate(url, &gate.egress()).await?;
    gate.admit(&target.host).map_err(EgressError::Denied)?;
    let client = guard.client(&target).await?;
    let (head, body) = request.into_parts();
    let mut sent = client.request(head.method, url.clone()).headers(passed_on(head.headers));
    if !body.is_end_stream() {
        sent = sent.body(reqwest::Body::wrap_stream(BodyDataStream::new(body)));
    }
    let failed =
        |error: reqwest::Error| EgressError::Connection(target.host.clone(), cause(&error));
    let answer: Response<reqwest::Body> = sent.send().await.map_err(failed)?.into();
    let (mut head, body) = answer.into_parts();
    head.headers = passed_on(head.headers);
    // The next request may be for another host, which is counted by itself.
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Ok(Response::from_parts(head, body.boxed_unsync()))
}

/// The fields of a message that go on with it.
fn passed_on(mut fields: HeaderMap) -> HeaderMap {
    OF_CONNECTION.iter().for_each(|name| drop(fields.remove(name)));
    OF_CONNECTION_TOO.iter().for_each(|name| drop(fields.remove(*name)));
    fields
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    };

    use hivewright_actors::ids::TeamName;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::{
        sandbox::egress::{
            passage::MOST_BYTES,
            tests::doubles::{Answers, Host},
        },
        settings::egress::Egress,
    };

    /// Lets one host and port of a private network through, and remembers what it did not.
    struct Narrow(Arc<Egress>, Mutex<Vec<String>>, AtomicU64);

    impl Gate for Narrow {
        fn team(&self) -> TeamName {
            "ops".into()
        }

        fn spend(&self, bytes: u64) -> u64 {
            self.2.fetch_add(bytes, Ordering::Relaxed) + bytes
        }

        fn egress(&self) -> Arc<Egress> {
            Arc::clone(&self.0)
        }

        fn admit(&self, host: &str) -> Result<(), String> {
            if host == "denied.example" { Err("a rule says no".to_owned()) } else { Ok(()) }
        }

        fn failed(&self, url: &Url, error: EgressError) {
            self.1.lock().unwrap().push(format!("{url} {error}"));
        }
    }

    /// What a proxy answers to these bytes, until it closes.
    async fn said(address: std::net::SocketAddr, request: &str) -> String {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// TO-72, TO-89, SC-61: each request and each tunnel is looked up anew and goes to what was checked; what is refused
    /// hears no word.
    #[tokio::test]
    async fn each_request_and_tunnel_of_a_browser_is_looked_up_anew() {
        let host = Host::saying("200 OK\r\nX-Own: yes\r\nProxy-Connection: x", "hello").await;
        let (_, port) = host.address.rsplit_once(':').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let exempt =
            ["good", "denied"].map(|name| format!("{name}.example:{port}").parse().unwrap());
        let egress = Egress { allow_private: exempt.to_vec(), ..Egress::default() };
        let gate = Arc::new(Narrow(Arc::new(egress), Mutex::default(), AtomicU64::new(0)));
        let guard = Guard::new(Answers::of(&["127.0.0.1"]));
        let serving = tokio::spawn(serve(listener, guard, gate.clone()));
        let good = format!("good.example:{port}");

        let plain = format!(
            "GET http://{good}/a?b#c HTTP/1.1\r\nHost: else.example\r\nProxy-Authorization: x\r\n\
             Connection: close\r\n\r\n"
        );
        let plain = said(proxy, &plain).await;
        let tunnel =
            format!("CONNECT {good} HTTP/1.1\r\nHost: {good}\r\n\r\nGET /inside HTTP/1.1\r\n\r\n");
        let tunnel = said(proxy, &tunnel).await;
        let mut refused = Vec::new();
        let denied = format!("denied.example:{port}");
        for target in ["rebound.example:443", &denied, "[::1]:443", "10.0.0.1:1"] {
            let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
            refused.push(said(proxy, &request).await);
        }
        let request = "GET http://rebound.example/x HTTP/1.1\r\nHost: rebound.example\r\n\r\n";
        refused.push(said(proxy, request).await);
        let moved = gate.2.load(Ordering::Relaxed);
        // No more than a call may move goes through, and nobody stays for ever.
        gate.2.store(MOST_BYTES, Ordering::Relaxed);
        let exceeding =
            said(proxy, &format!("CONNECT {good} HTTP/1.1\r\nHost: {good}\r\n\r\n")).await;
        tokio::time::pause();
        let silent = said(proxy, "").await;
        serving.abort();

        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n") && plain.ends_with("hello"), "{plain}");
        assert!(plain.contains("x-own: yes") && !plain.contains("proxy-connection"), "{plain}");
        assert!(
            tunnel.contains("\r\n\r\nHTTP/1.1 200 OK\r\n") && tunnel.ends_with("hello"),
            "{tunnel}"
        );
        assert_eq!(refused, [""; 5]);
        assert_eq!((exceeding, silent), (String::new(), String::new()));
        assert!(moved > (plain.len() + tunnel.len()) as u64, "{moved}");
        let asked = host.requests();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].starts_with("GET /a?b HTTP/1.1\r\n"), "{asked:?}");
        assert!(asked[0].contains(&format!("host: {good}\r\n")), "{asked:?}");
        assert!(!asked[0].contains("else.example") && !asked[0].contains("proxy-"), "{asked:?}");
        let failed = gate.1.lock().unwrap().clone();
        assert_eq!(failed.len(), 6, "{failed:?}");
        assert!(failed[5].ends_with(" the pages of one call may move 100MiB"), "{failed:?}");
        assert!(failed[1].ends_with(" a rule says no"), "{failed:?}");
        let private = failed.iter().filter(|line| line.contains("private or reserved")).count();
        assert_eq!(private, 4, "{failed:?}");
    }
}
