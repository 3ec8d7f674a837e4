//! The life of the service: how it stops, who may talk to it, and what its commands say.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::{connect_async, tungstenite::client::IntoClientRequest};

use crate::service::{Client, Service, WORKS_ITSELF, http, until};

const COUNTED: &str = "#say Begun.\n#call bash {\"command\": \"sleep 1; echo x >> count\"}\n\
     #then\n#call bash {\"command\": \"echo y >> count\"}\n#reply Counted.";

async fn status_of(url: String) -> Option<StatusCode> {
    let answer = http().get(url).send().await.ok()?;
    Some(answer.status())
}

/// CH-147, SE-133, OR-93
#[actix::test]
async fn a_stop_lets_a_turn_reach_its_next_step_and_the_next_start_ends_it_once() {
    let mut service = Service::prepare()
        .with_file("run/teams/main/count", "")
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .started()
        .await;
    let mut client = service.connect().await;
    client.say("m", COUNTED).await;
    client.until(|frame| frame["kind"] == "tool_call").await;
    let ready = format!("{}/readyz", service.url());

    service.signal("TERM");
    let stops = async || status_of(ready.clone()).await == Some(StatusCode::SERVICE_UNAVAILABLE);
    until("it stops", stops).await;
    let refused = Client::try_connect(&service.url(), &service.token()).await;
    let code = client.closed().await;
    let (channel, seen) = (client.channel.clone().unwrap(), client.last_seq);
    let exit = service.ended().await;
    let between = std::fs::read_to_string(service.path("run/teams/main/count")).unwrap();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seen).await;
    let end = client.terminal().await;

    assert!(refused.err().expect("no connection").to_string().contains("503"));
    assert_eq!((code, exit), (Some(1001), Some(0)), "{}", service.log());
    assert_eq!(between, "x\n", "the step ended, the next did not begin");
    assert_eq!([&end["message_id"], &end["content"]], [&json!("m"), &json!("Counted.")]);
    let count = std::fs::read_to_string(service.path("run/teams/main/count")).unwrap();
    assert_eq!(count, "x\ny\n");
}

/// SE-133: a stop is no attempt, however often it happens.
#[actix::test]
async fn stops_use_up_no_attempts() {
    let mut service = Service::start_working().await;
    let mut client = service.connect().await;
    let steps = "#call bash {\"command\": \"sleep 0.3\"}\n#then\n".repeat(5);
    client.say("m", &format!("#say Begun.\n{steps}#reply Done at last.")).await;
    client.until(|frame| frame["kind"] == "tool_call").await;
    let channel = client.channel.clone().unwrap();
    let mut seen = client.last_seq;

    // More often than a task has attempts.
    for _ in 0..4 {
        service.signal("TERM");
        assert_eq!(service.ended().await, Some(0));
        service.launch().await;
        client = service.connect().await;
        client.resume(&channel, seen).await;
        let frame =
            client.until(|frame| frame["kind"] == "tool_call" || frame["type"] == "response").await;
        seen = client.last_seq;
        if frame["type"] == "response" {
            break;
        }
    }
    let mut late = service.connect().await;
    late.resume(&channel, 0).await;
    let end = late.terminal().await;

    assert_eq!([&end["type"], &end["content"]], [&json!("response"), &json!("Done at last.")]);
}

/// OR-93
#[actix::test]
async fn a_second_signal_stops_at_once() {
    let mut service = Service::start_working().await;
    let mut client = service.connect().await;
    client.say("m", "#say Begun.\n#call bash {\"command\": \"sleep 20\"}\n#reply Late.").await;
    client.until(|frame| frame["kind"] == "tool_call").await;
    let ready = format!("{}/readyz", service.url());

    service.signal("TERM");
    let stops = async || status_of(ready.clone()).await == Some(StatusCode::SERVICE_UNAVAILABLE);
    until("it stops", stops).await;
    let begin = Instant::now();
    service.signal("TERM");
    let exit = service.ended().await;

    assert_eq!(exit, Some(1));
    // Long before the command ends.
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

/// OP-47, OP-48
#[actix::test]
async fn health_and_metrics_tell_the_truth() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;
    client.ask("#call bash {\"command\": \"true\"}\n#reply Done.").await;
    let get =
        async |path: &str| http().get(format!("{}{path}", service.url())).send().await.unwrap();

    let alive = get("/healthz").await;
    let ready: Value = get("/readyz").await.json().await.unwrap();
    let health: Value = get("/health").await.json().await.unwrap();
    let closed = get("/metrics").await.status();
    let metrics = http()
        .get(format!("{}/metrics", service.url()))
        .bearer_auth(service.token())
        .send()
        .await
        .unwrap();
    let kind = metrics.headers()["content-type"].clone();
    let text = metrics.text().await.unwrap();

    assert_eq!((alive.status().as_u16(), alive.text().await.unwrap().as_str()), (200, "ok"));
    assert_eq!(ready, json!({ "ready": true }));
    assert_eq!(
        health,
        json!({
            "storage": { "ok": true },
            "sessions": { "active": 0 },
            "triggers": { "registered": 0 },
            "channels": { "connected": 1 },
        })
    );
    assert_eq!(closed, StatusCode::UNAUTHORIZED);
    let kind = kind.to_str().unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    for line in [
        "hivewright_tool_calls_total{tool=\"bash\",outcome=\"ok\"} 1",
        "hivewright_ws_connections 1",
        "hivewright_tasks_queued{team=\"main\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    for name in
        ["build_info", "tasks_total", "turn_seconds", "store_commit_seconds", "model_tokens_total"]
    {
        assert!(text.contains(&format!("\nhivewright_{name}")), "{name} is not in\n{text}");
    }
    assert!(!text.contains("ws:"), "no ids in labels");
}

/// CH-34, OP-11, OP-12
#[actix::test]
async fn a_revoked_token_ends_its_connections() {
    let service = Service::start().await;

    let made = service.run(&["token", "create", "guest", "--scope", "chat"], "").await;
    let token = made.stdout.trim().to_owned();
    let mut guest = Client::connect(&service.url(), &token).await;
    let answered = guest.ask("#reply Welcome.").await;
    let forbidden = http()
        .get(format!("{}/api/v1/tokens", service.url()))
        .bearer_auth(&token)
        .send()
        .await
        .unwrap();
    let list = service.run(&["token", "list", "--json"], "").await;
    let listed: Value = serde_json::from_str(&list.stdout).unwrap();
    let row = listed["data"].as_array().unwrap().iter().find(|row| row["name"] == "guest").unwrap();
    let revoked = service.run(&["token", "revoke", row["id"].as_str().unwrap()], "").await;
    let code = guest.closed().await;

    assert!(token.starts_with("hwt_"), "{made:?}");
    assert_eq!(answered["content"], "Welcome.");
    assert_eq!(forbidden.status(), 403);
    assert!(!list.stdout.contains(&token));
    assert_eq!(row["scopes"], json!(["chat"]));
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_eq!(code, Some(4401));
    let refused = Client::try_connect(&service.url(), &token).await;
    assert!(refused.err().expect("no connection").to_string().contains("401"));
}

/// OP-10, CH-34
#[actix::test]
async fn a_rotated_operator_token_replaces_the_old_one() {
    let service = Service::start().await;
    let old = service.token();
    let mut client = service.connect().await;

    let rotated = service.run(&["token", "rotate-operator"], "").await;
    let code = client.closed().await;
    let refused = Client::try_connect(&service.url(), &old).await;
    let answer = service.connect().await.ask("#reply New.").await;

    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert_ne!(service.token(), old);
    assert!(!format!("{rotated:?}").contains(&service.token()));
    assert_eq!(code, Some(4401));
    assert!(refused.err().expect("no connection").to_string().contains("401"));
    assert_eq!(answer["content"], "New.");
}

/// CH-31, CH-33, OP-13
#[actix::test]
async fn a_token_in_the_address_is_refused_and_not_logged() {
    let service = Service::start().await;
    let token = service.token();

    let mut refusals = Vec::new();
    for path in ["/ws", "/api/v1/overview", "/readyz"] {
        let url = format!("{}{path}?token={token}", service.url());
        let answer = http().get(url).bearer_auth(&token).send().await.unwrap();
        let status = answer.status().as_u16();
        let body: Value = answer.json().await.unwrap();
        refusals.push((status, body["error"]["code"].clone()));
    }

    assert_eq!(refusals, vec![(400, json!("token_in_url")); 3]);
    assert!(!service.log().contains(&token));
}

/// CH-32, OP-16
#[actix::test]
async fn only_pages_and_names_of_our_own_are_served() {
    let service = Service::start().await;
    let url = service.url();
    let host = url.strip_prefix("http://").unwrap();
    let port = host.rsplit_once(':').unwrap().1;
    let request = |method: Method, path: &str, headers: &[(&str, String)]| {
        let mut request =
            http().request(method, format!("{url}{path}")).bearer_auth(service.token());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        async { request.send().await.unwrap().status().as_u16() }
    };
    let (get, post) = (Method::GET, Method::POST);
    let overview = "/api/v1/overview";
    let links = "/api/v1/session/links";

    assert_eq!(request(get.clone(), overview, &[]).await, 200);
    for (name, status) in [
        (format!("localhost:{port}"), 200),
        (format!("127.0.0.1:{port}"), 200),
        ("evil.example".to_owned(), 421),
        (format!("127.0.0.1.evil.example:{port}"), 421),
        (format!("localhost.evil.example:{port}"), 421),
    ] {
        assert_eq!(
            request(get.clone(), overview, &[("host", name.clone())]).await,
            status,
            "{name}"
        );
    }
    for (origin, status) in [
        (url.clone(), 201),
        ("https://evil.example".to_owned(), 403),
        (format!("http://127.0.0.1.evil.example:{port}"), 403),
        ("null".to_owned(), 403),
        (format!("https://{host}"), 403),
    ] {
        let made = request(post.clone(), links, &[("origin", origin.clone())]).await;
        assert_eq!(made / 100, status / 100, "{origin}: {made}");
    }
    let cross = [("sec-fetch-site", "cross-site".to_owned())];
    assert_eq!(request(get, overview, &cross).await, 403);
}

async fn upgrade(service: &Service, headers: &[(&'static str, String)]) -> u16 {
    let address = format!("{}/ws", service.url().replacen("http", "ws", 1));
    let mut request = address.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match connect_async(request).await {
        Ok((mut stream, _)) => {
            stream.close(None).await.unwrap();
            while stream.next().await.is_some() {}
            101
        }
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

/// CH-31 to CH-33, CH-40
#[actix::test]
async fn a_connection_is_made_only_for_those_who_may() {
    let service = Service::start().await;
    let url = service.url();
    let bearer = ("authorization", format!("Bearer {}", service.token()));
    let (_, reader) = service
        .api("POST", "/api/v1/tokens", Some(json!({"name": "reader", "scopes": ["read"]})))
        .await;
    let reader = ("authorization", format!("Bearer {}", reader["data"]["token"].as_str().unwrap()));
    let login = http()
        .post(format!("{url}/api/v1/session"))
        .json(&json!({ "token": service.token() }))
        .send()
        .await
        .unwrap();
    let cookie = login.headers()["set-cookie"].to_str().unwrap().to_owned();
    let cookie = ("cookie", cookie.split(';').next().unwrap().to_owned());
    let own = ("origin", url.clone());
    let evil = ("origin", "https://evil.example".to_owned());
    let sender = ("x-sender-id", "someone".to_owned());
    let wrong = ("authorization", "Bearer hwt_wrong".to_owned());
    let host = ("host", "evil.example".to_owned());

    let matrix = [
        (vec![], 401),
        (vec![wrong], 401),
        (vec![reader], 403),
        (vec![bearer.clone()], 101),
        (vec![bearer.clone(), own.clone()], 101),
        (vec![bearer.clone(), evil.clone()], 403),
        (vec![bearer.clone(), host], 421),
        (vec![bearer.clone(), sender.clone()], 101),
        (vec![cookie.clone()], 403),
        (vec![cookie.clone(), own], 101),
        (vec![cookie, evil], 403),
    ];
    for (headers, status) in matrix {
        assert_eq!(upgrade(&service, &headers).await, status, "{headers:?}");
    }
}

/// OP-74 to OP-80
#[actix::test]
async fn the_commands_talk_to_the_running_service() {
    let service = Service::start().await;

    let sent = service.run(&["send", "#reply Sent and answered."], "").await;
    let piped = service.run(&["send", "-"], "#reply From a pipe.").await;
    let late =
        service.run(&["send", "#say Slowly.\n#wait 20000\n#reply Late.", "--wait", "1"], "").await;
    let chat = service.run(&["chat"], "#reply First line.\n#reply Second line.\n").await;
    let status = service.run(&["status"], "").await;
    let status_json = service.run(&["status", "--json"], "").await;
    let doctor = service.run(&["doctor"], "").await;
    let nowhere = service.run(&["--url", "http://127.0.0.1:9", "status"], "").await;

    assert_eq!((sent.code, sent.stdout.trim()), (Some(0), "Sent and answered."), "{sent:?}");
    assert_eq!((piped.code, piped.stdout.trim()), (Some(0), "From a pipe."), "{piped:?}");
    assert_eq!(late.code, Some(8), "{late:?}");
    assert_eq!(chat.code, Some(0), "{chat:?}");
    assert!(chat.stdout.contains("First line."), "{chat:?}");
    assert!(chat.stdout.contains("Second line."), "{chat:?}");
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.stdout.starts_with("service          running, version "), "{}", status.stdout);
    assert!(status.stdout.contains("teams            1 total"), "{}", status.stdout);
    let overview: Value = serde_json::from_str(&status_json.stdout).unwrap();
    assert_eq!(overview["data"]["drain"], false);
    assert!(doctor.stdout.contains("runs and is ready at"), "{}", doctor.stdout);
    assert_eq!(nowhere.code, Some(7), "{nowhere:?}");
}
