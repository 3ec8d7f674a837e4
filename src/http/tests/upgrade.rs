//! What is asked of a request before it becomes a WebSocket.

use serde_json::json;

use super::*;

const ORIGIN: (&str, &str) = ("Origin", "http://localhost:8080");

fn upgrade() -> TestRequest {
    request(Method::GET, "/ws").insert_header(("Upgrade", "websocket"))
}

/// CH-31, CH-39
#[actix::test]
async fn a_token_or_a_session_with_scope_chat_connects_as_its_principal() {
    let bench = Bench::new().await;
    let chatter = bench.token("chatter", only(Scope::Chat)).await;
    let browser = bench.auth().log_in(&chatter).await.unwrap();
    let cookie = format!("hw_session={}", browser.cookie.expose());
    let own = json!({"principal": "chatter", "sender": "chatter", "asserted_by": null});

    let by_token = bench.call(upgrade().insert_header(bearer(&chatter))).await;
    let by_cookie =
        bench.call(upgrade().insert_header(("Cookie", cookie)).insert_header(ORIGIN)).await;

    assert_eq!((by_token.status, by_token.json()), (200, own.clone()));
    assert_eq!((by_cookie.status, by_cookie.json()), (200, own));
}

/// CH-31, CH-32, CH-33
#[actix::test]
async fn a_refused_connection_is_told_why() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let reader = bench.token("reader", only(Scope::Read)).await;
    let browser = bench.auth().log_in(&operator).await.unwrap();
    let cookie = format!("hw_session={}", browser.cookie.expose());
    let with_cookie = || upgrade().insert_header(("Cookie", cookie.as_str()));
    let foreign = ("Origin", "https://evil.example.org");
    let cases = [
        (upgrade(), 401, "unauthenticated"),
        (upgrade().insert_header(bearer("hwt_x")), 401, "unauthenticated"),
        (upgrade().insert_header(bearer(&reader)), 403, "forbidden"),
        (with_cookie(), 403, "origin"),
        (with_cookie().insert_header(foreign), 403, "origin"),
        (upgrade().insert_header(bearer(&operator)).insert_header(foreign), 403, "origin"),
        (
            with_cookie().insert_header(ORIGIN).insert_header(("Sec-Fetch-Site", "cross-site")),
            200,
            "",
        ),
        (
            upgrade().insert_header(bearer(&operator)).insert_header(("Host", "evil.example.org")),
            421,
            "unknown_host",
        ),
        (upgrade().insert_header(bearer(&operator)).uri("/ws?token=x"), 400, "token_in_url"),
    ];
    for (request, status, code) in cases {
        let answer = bench.call(request).await;

        match code {
            "" => assert_eq!(answer.status, status),
            code => assert_eq!(answer.refusal(), (status, code.to_owned())),
        }
    }
}

/// CH-40
#[actix::test]
async fn another_sender_is_claimed_only_by_right_and_on_record() {
    let bench = Bench::new().await;
    let scopes = [Scope::Chat, Scope::AssertSender].into_iter().collect();
    let bridge = bench.token("bridge", scopes).await;
    let chatter = bench.token("chatter", only(Scope::Chat)).await;
    let claim = |token: &str, sender: &str| {
        upgrade().insert_header(bearer(token)).insert_header(("X-Sender-Id", sender))
    };

    let claimed = bench.call(claim(&bridge, " ann@example.org ")).await;
    let refused = bench.call(claim(&chatter, "ann")).await;
    let own_name = bench.call(claim(&chatter, "chatter")).await;

    assert_eq!(
        claimed.json(),
        json!({"principal": "bridge", "sender": "ann@example.org", "asserted_by": "bridge"})
    );
    for answer in [refused, own_name] {
        assert_eq!(answer.refusal(), (403, "sender_not_allowed".to_owned()));
    }
    for sender in ["", " ", "a b", "\t", &"x".repeat(129)] {
        let answer = bench.call(claim(&bridge, sender)).await;
        assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()), "{sender:?}");
    }
}

/// CH-107: only the operator's own token makes a command line of it, and nobody else's name.
#[actix::test]
async fn a_connection_is_a_command_line_only_with_the_operator_token() {
    let bench = Bench::new().await;
    let other = bench.token("other", Scopes::all()).await;
    let browser = bench.auth().log_in(&bench.operator()).await.unwrap();
    let cookie = format!("hw_session={}", browser.cookie.expose());
    let cli = ("X-Client", "cli");
    let operator = || upgrade().insert_header(bearer(&bench.operator()));
    let sender = |request: TestRequest| {
        let upgrade = bench.state.access.upgrade(&request.to_http_request());
        let sender = upgrade.unwrap().sender();
        (sender.channel_type.to_string(), sender.id, sender.is_operator)
    };
    let ws = |name: &str, is_operator| ("ws".to_owned(), name.to_owned(), is_operator);

    let by_cli = sender(operator().insert_header(cli));
    let by_cookie = upgrade().insert_header(("Cookie", cookie)).insert_header(ORIGIN);

    assert_eq!(by_cli, ("cli".to_owned(), "operator".to_owned(), true));
    assert_eq!(sender(operator()), ws("operator", true));
    assert_eq!(sender(operator().insert_header(("X-Client", "web"))), ws("operator", true));
    assert_eq!(sender(by_cookie.insert_header(cli)), ws("operator", true));
    let claimed = operator().insert_header(cli).insert_header(("X-Sender-Id", "ann"));
    assert_eq!(sender(claimed), ws("ann", false));
    let foreign = upgrade().insert_header(bearer(&other)).insert_header(cli);
    assert_eq!(sender(foreign), ws("other", false));
}
