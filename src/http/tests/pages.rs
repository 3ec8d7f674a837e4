//! The web page, and whose pages may read answers.

use super::*;

/// OP-64
#[actix::test]
async fn the_page_comes_with_headers_that_keep_it_to_itself() {
    let bench = Bench::new().await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/ui/index.html", "text/html; charset=utf-8"),
        ("/ui/app.js", "text/javascript; charset=utf-8"),
        ("/ui/css/base.css", "text/css; charset=utf-8"),
    ] {
        let answer = bench.call(request(Method::GET, path)).await;

        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)));
        for (name, value) in super::super::ui::security_headers() {
            assert_eq!(answer.header(name), Some(value), "{path}");
        }
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("strict-transport-security"), None);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

/// OP-64: the page is asked for each time, and names its files by their version.
#[actix::test]
async fn a_file_of_this_version_is_kept_for_good() {
    let bench = Bench::new().await;
    let page = bench.call(request(Method::GET, "/")).await;
    let (_, rest) = page.body.split_once("<script type=\"module\" src=\"").unwrap();
    let (path, _) = rest.split_once('"').unwrap();
    let plain = bench.call(request(Method::GET, "/ui/app.js")).await;
    let earlier = bench.call(request(Method::GET, "/ui/v-0/app.js")).await;

    let file = bench.call(request(Method::GET, path)).await;

    assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(file.body, plain.body);
    assert_eq!(plain.header("cache-control"), Some("no-cache"));
    // A page of another version learns that it is one.
    assert_eq!(earlier.status, 404);
}

#[actix::test]
async fn a_known_file_is_not_sent_again() {
    let bench = Bench::new().await;
    let first = bench.call(request(Method::GET, "/ui/app.js")).await;
    let etag = first.header("etag").unwrap();
    let again =
        |tag: &str| request(Method::GET, "/ui/app.js").insert_header(("If-None-Match", tag));

    let known = bench.call(again(&format!("\"x\", W/{etag}"))).await;
    let unknown = bench.call(again("\"x\"")).await;

    assert_eq!((known.status, known.body.as_str()), (304, ""));
    assert_eq!(known.header("etag"), Some(etag));
    assert_eq!((unknown.status, unknown.body), (200, first.body));
}

#[actix::test]
async fn a_file_is_compressed_for_who_can_read_it() {
    let bench = Bench::new().await;
    let app = App::new().configure(configure(bench.state.clone(), others));
    let app = test::init_service(app).await;
    let plain = bench.call(request(Method::GET, "/ui/app.js")).await;
    let request = request(Method::GET, "/ui/app.js").insert_header(("Accept-Encoding", "gzip"));

    let response = test::call_service(&app, request.to_request()).await;

    let header = |name: &str| response.headers().get(name).unwrap().to_str().unwrap();
    assert_eq!(header("content-encoding"), "gzip");
    assert_eq!(header("vary"), "Accept-Encoding");
    assert_ne!(Some(header("etag")), plain.header("etag"));
    assert!(test::read_body(response).await.len() < plain.body.len() / 2);
}

/// OP-17
#[actix::test]
async fn under_tls_browsers_are_told_to_stay_with_it() {
    let bench = Bench::with(Server {
        tls: Some(crate::settings::config::Tls { cert: "cert.pem".into(), key: "key.pem".into() }),
        ..Server::default()
    })
    .await;

    for path in ["/", "/healthz", "/nowhere"] {
        let answer = bench.call(request(Method::GET, path)).await;
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=31536000"), "{path}");
    }
}

/// OP-16
#[actix::test]
async fn only_origins_named_in_the_settings_may_read_answers() {
    let guest = "https://tools.example.net";
    let bench = Bench::with(Server {
        public_url: Some("https://hive.example.org".parse().unwrap()),
        allowed_origins: vec![guest.parse().unwrap()],
        ..Server::default()
    })
    .await;
    let token = bench.operator();
    let from = |origin: &str| {
        request(Method::GET, "/api/v1/overview")
            .insert_header(bearer(&token))
            .insert_header(("Origin", origin))
    };
    let ask = |origin: &str| {
        request(Method::OPTIONS, "/api/v1/tokens")
            .insert_header(("Origin", origin))
            .insert_header(("Access-Control-Request-Method", "POST"))
    };

    let named = bench.call(from(guest)).await;
    let asked = bench.call(ask(guest)).await;

    assert_eq!(named.header("access-control-allow-origin"), Some(guest));
    assert_eq!(named.header("vary"), Some("Origin"));
    assert_eq!(asked.status, 204);
    assert_eq!(asked.header("access-control-allow-origin"), Some(guest));
    for other in ["https://evil.example.org", "https://hive.example.org", "null"] {
        for answer in [bench.call(from(other)).await, bench.call(ask(other)).await] {
            let cors = answer
                .headers
                .iter()
                .filter(|(name, _)| name.as_str().starts_with("access-control"));
            assert_eq!(cors.count(), 0, "{other}");
        }
    }
}

/// OP-16, SC-02
#[actix::test]
async fn a_foreign_name_or_page_reaches_no_route() {
    let bench = Bench::new().await;
    let rebound = |path| TestRequest::with_uri(path).insert_header(("Host", "evil.example.org"));
    for path in ["/", "/healthz", "/api/v1/session", "/nowhere"] {
        let answer = bench.call(rebound(path)).await;
        assert_eq!(answer.refusal(), (421, "unknown_host".to_owned()), "{path}");
    }
    let login = request(Method::POST, "/api/v1/session")
        .insert_header(("Origin", "https://evil.example.org"))
        .set_json(serde_json::json!({"token": bench.operator()}));
    let answer = bench.call(login).await;
    assert_eq!(answer.refusal(), (403, "origin".to_owned()));
    assert_eq!(answer.header("set-cookie"), None);
}
