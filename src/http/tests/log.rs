//! What is written to the log.

use std::{
    io,
    sync::{Mutex, MutexGuard},
};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

struct Pen<'a>(MutexGuard<'a, Vec<u8>>);

impl io::Write for Pen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Pen<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Pen(self.0.lock().unwrap())
    }
}

/// OP-03, OP-13: a credential may come in anywhere; the log has none of it, and the request's id.
#[actix::test]
async fn no_credential_reaches_the_log() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // While there is only one subscriber, a line that another test's thread reaches first is
    // switched off for this one as well.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let bench = Bench::new().await;
    let operator = bench.operator();
    let wish = json!({"name": "ci", "scopes": ["admin"]});
    let made = bench.post("/api/v1/tokens", &operator, wish).await.json();
    let token = made["data"]["token"].as_str().unwrap().to_owned();
    let link = bench.post("/api/v1/session/links", &operator, json!({})).await.json();
    let code = link["data"]["code"].as_str().unwrap().to_owned();
    let login = request(Method::POST, "/api/v1/session").set_json(json!({"code": code}));
    let login = bench.call(login).await;
    let cookie = login.cookie().replace("hw_session=", "");

    let misplaced = [
        bench.get(&format!("/api/v1/overview?token={token}"), &token).await,
        bench.get(&format!("/{token}"), &token).await,
        bench.get(&format!("/ui/{token}"), &token).await,
        bench.get(&format!("/api/v1/jobs/{token}"), &operator).await,
        bench.post("/api/v1/tokens", &operator, json!({"name": token, "scopes": ["read"]})).await,
        bench.post("/api/v1/tokens", &operator, json!({token.clone(): 1})).await,
        bench.post("/api/v1/session", "", json!({"token": format!("{token}x")})).await,
    ];
    let path = format!("/api/v1/tokens/{token}");
    let revoke = request(Method::DELETE, &path).insert_header(bearer(&operator));
    assert_eq!(bench.call(revoke).await.status, 404);
    bench.post("/api/v1/tokens/operator/rotate", &operator, json!({})).await;

    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    for answer in &misplaced {
        assert!((400..500).contains(&answer.status), "{}", answer.body);
        assert!(log.contains(answer.header("x-request-id").unwrap()));
    }
    let csrf = login.json()["data"]["csrf"].as_str().unwrap().to_owned();
    for secret in [operator, bench.operator(), token, code, cookie, csrf] {
        assert!(!log.contains(&secret[8..40]), "{log}");
    }
    assert!(log.contains("logged in") && log.contains("token made"));
}
