//! What only a real connection shows.

use actix_web::HttpServer;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;
use crate::http::app::SLOWEST_HEADER;

/// Sends the bytes, and returns what comes back until the connection ends or has been quiet.
async fn talk(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = async {
        let mut chunk = [0; 4096];
        while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(count) => answer.extend_from_slice(&chunk[..count]),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), read).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn serve(bench: &Bench) -> std::net::SocketAddr {
    let state = bench.state.clone();
    let server = HttpServer::new(move || App::new().configure(configure(state.clone(), others)))
        .workers(1)
        .client_request_timeout(SLOWEST_HEADER)
        .disable_signals()
        .bind("127.0.0.1:0")
        .unwrap();
    let address = server.addrs()[0];
    actix::spawn(server.run());
    address
}

/// OP-01, OP-99, SC-74: ten megabytes are announced, none is sent, and the answer comes.
#[actix::test]
async fn a_body_that_is_too_long_is_refused_before_it_is_read() {
    let bench = Bench::new().await;
    let address = serve(&bench);
    for (method, path) in [
        ("POST", "/api/v1/session"),
        ("POST", "/api/v1/tokens"),
        ("POST", "/api/v1/backups"),
        ("POST", "/api/v1/session/links"),
        ("POST", "/api/v1/tokens/operator/rotate"),
        ("DELETE", "/api/v1/session"),
        ("DELETE", "/api/v1/tokens/token-1"),
        ("GET", "/api/v1/overview"),
        ("GET", "/api/v1/jobs/job-1"),
        ("GET", "/metrics"),
        ("GET", "/healthz"),
        ("GET", "/"),
    ] {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: 10485760\r\n\r\n"
        );

        let answer = talk(address, request.as_bytes()).await;

        assert!(answer.starts_with("HTTP/1.1 413 "), "{method} {path}: {answer}");
    }
    let alive = talk(address, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(alive.starts_with("HTTP/1.1 200 "));
}

/// OP-01
#[actix::test]
async fn a_body_of_unknown_length_is_cut_off() {
    let bench = Bench::new().await;
    let address = serve(&bench);
    let mut request = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n\
        Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        .to_vec();
    for _ in 0..17 {
        request.extend(b"10000\r\n");
        request.extend(vec![b' '; 0x10000]);
        request.extend(b"\r\n");
    }

    let answer = talk(address, &request).await;

    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

/// SC-74
#[actix::test]
async fn nonsense_on_the_wire_harms_nobody() {
    let bench = Bench::new().await;
    let address = serve(&bench);

    let nonsense = talk(address, b"\x16\x03\x01 what\r\n\r\n").await;
    let headers = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        (0..200).map(|number| format!("X-{number}: x\r\n")).collect::<String>()
    );
    let many = talk(address, headers.as_bytes()).await;
    let alive = talk(address, b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;

    assert!(nonsense.starts_with("HTTP/1.1 400 "), "{nonsense}");
    assert!(many.starts_with("HTTP/1.1 431 "), "{many}");
    assert!(alive.starts_with("HTTP/1.1 200 "), "{alive}");
}
