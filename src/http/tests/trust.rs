//! Grants of trust, decisions of the trust gate, and senders who are principals.

use hivewright_actors::{
    channel_type::ChannelType,
    identities::{Identities as _, Linked, Owner},
    ids::ChannelId,
    router::{Close, Inbound, Open, Receive, granting::ListGrants, sender::Sender},
};
use serde_json::json;

use super::*;

/// Says something to the spine as a sender, and leaves once it was heard.
async fn say(bench: &Bench, sender: &str, content: &str) {
    let router = &bench.state.spine.router;
    let channel = ChannelId::from(format!("ws:{sender}"));
    let socket = Arc::new(hivewright_actors::channel::socket::Socket::new(1));
    router.do_send(Open {
        channel: channel.clone(),
        owner: Owner {
            principal: sender.into(),
            grant: sender.into(),
            since: Timestamp::default(),
        },
        sender: Sender {
            asserted_by: Some("bridge".into()),
            ..Sender::of(&sender.into(), ChannelType::Ws)
        },
        socket,
    });
    router.do_send(Receive {
        channel: channel.clone(),
        connection: 1,
        inbound: Inbound::Message {
            content: content.to_owned(),
            topic: None,
            id: None,
            notify: None,
            files: Vec::new(),
        },
    });
    router.do_send(Close { channel, connection: 1 });
    router.send(ListGrants).await.unwrap().unwrap();
}

/// OP-31, OP-06, CH-119
#[actix::test]
async fn a_grant_is_made_shown_and_taken_back() {
    let bench = Bench::new().await;
    let operator = bench.token("ops", only(Scope::Operate)).await;
    let wish = json!({"channel_type": "discord", "sender_id": "42", "channel_id": "discord:7"});

    let made = bench.post("/api/v1/trust", &operator, wish.clone()).await;
    let again = bench.post("/api/v1/trust", &operator, wish).await;
    let other = json!({"channel_type": "ws", "sender_id": "bob", "trust_level": "denied"});
    bench.post("/api/v1/trust", &operator, other).await;
    let listed = bench.get("/api/v1/trust", &operator).await;
    let denied = bench.get("/api/v1/trust?trust_level=denied", &operator).await;
    let of_type = bench.get("/api/v1/trust?channel_type=api", &operator).await;
    let page = bench.get("/api/v1/trust?limit=1&offset=1", &operator).await;
    let id = made.json()["data"]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/trust/{id}");
    let removed =
        [bench.delete(&path, &operator).await.status, bench.delete(&path, &operator).await.status];

    assert_eq!(
        (made.status, made.json()["data"].clone()),
        (
            201,
            json!({
                "id": id, "channel_type": "discord", "sender_id": "42", "channel_id": "7",
                "trust_level": "trusted", "granted_by": "ops",
                "granted_at": "2023-11-14T22:13:20.000Z",
            })
        )
    );
    assert_eq!(again.json(), made.json());
    let senders = |answer: &Answer| {
        let rows = answer.json()["data"].as_array().unwrap().clone();
        rows.iter().map(|row| row["sender_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((listed.json()["total"].clone(), senders(&listed).len()), (json!(2), 2));
    assert_eq!(senders(&denied), ["bob"]);
    assert_eq!(senders(&of_type), Vec::<Value>::new());
    assert_eq!((page.json()["total"].clone(), senders(&page).len()), (json!(2), 1));
    assert_eq!(removed, [204, 404]);
}

/// TO-130, OP-01
#[actix::test]
async fn a_grant_that_cannot_be_meant_is_refused_with_its_field() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let cases = [
        (json!({"channel_type": "slack", "sender_id": "b"}), "channel_type", "`discord`"),
        (json!({"channel_type": "ws", "sender_id": "b c"}), "sender_id", "128"),
        (
            json!({"channel_type": "ws", "sender_id": "b", "trust_level": "friend"}),
            "trust_level",
            "`trusted`, `denied`",
        ),
        (json!({"channel_type": "ws", "sendr_id": "b"}), "sendr_id", "did you mean"),
    ];

    for (wish, field, reason) in cases {
        let answer = bench.post("/api/v1/trust", &operator, wish).await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["field"]), (400, &json!(field)));
        assert!(error["message"].as_str().unwrap().contains(reason), "{error}");
    }
    let unknown = bench.get("/api/v1/trust?channel_type=slack", &operator).await;
    assert_eq!((unknown.refusal().0, unknown.field()), (400, "channel_type".to_owned()));
    assert!(unknown.body.contains("`discord`"), "{}", unknown.body);
    for query in ["decision=maybe", "since=yesterday", "cursor=none", "limit=0", "sort=x"] {
        let path = format!("/api/v1/trust/audit?{query}");
        assert_eq!(bench.get(&path, &operator).await.status, 400, "{query}");
    }
}

/// OP-31, OP-02, CH-120
#[actix::test]
async fn decisions_are_shown_newest_first_and_page_by_page() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let denied = json!({"channel_type": "ws", "sender_id": "bob", "trust_level": "denied"});
    bench.post("/api/v1/trust", &operator, denied).await;

    for sender in ["ann", "bob", "carl"] {
        bench.clock.advance(Duration::from_secs(60));
        say(&bench, sender, "/help").await;
    }
    let mut rows = Vec::new();
    let mut path = "/api/v1/trust/audit?limit=2".to_owned();
    // The commits of the router are not waited for above.
    let all = loop {
        let all = bench.get("/api/v1/trust/audit", &operator).await.json();
        if all["total"] == 3 {
            break all;
        }
        tokio::task::yield_now().await;
    };
    loop {
        let page = bench.get(&path, &operator).await.json();
        rows.extend(page["data"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/v1/trust/audit?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    let of_bob = bench.get("/api/v1/trust/audit?decision=denied&since=24h", &operator).await;

    assert_eq!(json!(rows), all["data"]);
    let senders: Vec<_> = rows.iter().map(|row| row["sender"].clone()).collect();
    assert_eq!(senders, ["carl", "bob", "ann"]);
    let id = rows[1]["id"].clone();
    assert_eq!(
        of_bob.json()["data"],
        json!([{
            "id": id, "time": "2023-11-14T22:15:20.000Z", "channel_type": "ws",
            "channel_id": "ws:bob", "sender": "bob", "asserted_by": "bridge",
            "decision": "denied", "reason": "grant_denied",
        }])
    );
}

/// OP-123, SC-29
#[actix::test]
async fn a_linked_sender_is_the_principal_until_link_or_token_end() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let scopes: Scopes = [Scope::Approve, Scope::Admin].into_iter().collect();
    bench.token("boss", scopes).await;
    let wish = |sender: &str, token: &str| json!({"channel_type": "discord", "sender_id": sender, "token": token});
    let linked = |sender: &str| bench.state.identities.linked(&ChannelType::Discord, sender);

    let made = bench.post("/api/v1/identities", &operator, wish("1", "boss")).await;
    let second = bench.post("/api/v1/identities", &operator, wish("2", "boss")).await;
    let own = bench.post("/api/v1/identities", &operator, wish("3", "operator")).await;
    let boss = Linked { principal: "boss".into(), chat: false, approve: true };
    assert_eq!(made.status, 201);
    assert_eq!((linked("1"), linked("4")), (Some(boss), None));
    assert_eq!(
        bench.state.identities.linked(&ChannelType::Ws, "1"),
        None,
        "a name on another channel is another sender"
    );

    let id = second.json()["data"]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/identities/{id}");
    let ended =
        [bench.delete(&path, &operator).await.status, bench.delete(&path, &operator).await.status];
    assert_eq!((ended, linked("2")), ([204, 404], None));

    let principal = bench.auth().token(&operator).unwrap();
    bench.auth().revoke("boss", false, &principal).await.unwrap();
    bench.token("boss", Scopes::all()).await;
    bench.auth().rotate_operator(&principal).await.unwrap();
    let rows = bench.get("/api/v1/identities", &bench.operator()).await;
    assert_eq!(linked("1"), None, "a new token of the same name inherits nothing");
    assert!(linked("3").is_some_and(|linked| linked.approve));
    assert_eq!(own.json()["data"]["live"], true);
    let lives: Vec<_> = rows.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["sender_id"].clone(), row["live"].clone()))
        .collect();
    assert!(lives.contains(&(json!("1"), json!(false))), "{lives:?}");
    assert!(lives.contains(&(json!("3"), json!(true))), "{lives:?}");
}

/// OP-123, SC-29: whoever loses a token keeps nothing that was made with it.
#[actix::test]
async fn a_link_ends_with_the_token_that_made_it() {
    let bench = Bench::new().await;
    bench.token("boss", only(Scope::Approve)).await;
    let leaver = bench.token("leaver", Scopes::all()).await;
    let wish = json!({"channel_type": "discord", "sender_id": "1", "token": "boss"});
    let link = async |by: &str| bench.post("/api/v1/identities", by, wish.clone()).await.json();
    let linked = || bench.state.identities.linked(&ChannelType::Discord, "1").is_some();
    let operator = bench.operator();

    let first = link(&leaver).await["data"]["id"].clone();
    let before = linked();
    let principal = bench.auth().token(&operator).unwrap();
    bench.auth().revoke("leaver", false, &principal).await.unwrap();
    let after = linked();
    let rows = bench.get("/api/v1/identities", &operator).await.json();
    let anew = link(&operator).await["data"]["id"].clone();

    assert_eq!((before, after, linked()), (true, false, true));
    assert_eq!((&rows["data"][0]["id"], &rows["data"][0]["live"]), (&first, &json!(false)));
    assert_ne!(anew, first);
    let rows = bench.get("/api/v1/identities", &operator).await.json();
    assert_eq!(rows["data"].as_array().map(Vec::len), Some(1));
}

/// OP-123
#[actix::test]
async fn a_sender_is_one_principal_at_most() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    bench.token("boss", only(Scope::Approve)).await;
    let link = async |token: &str| {
        let wish = json!({"channel_type": "discord", "sender_id": "1", "token": token});
        bench.post("/api/v1/identities", &operator, wish).await
    };

    let first = link("boss").await;
    let again = link("boss").await;
    let other = link("operator").await;
    let unknown = link("nobody").await;

    assert_eq!(again.json()["data"]["id"], first.json()["data"]["id"]);
    assert_eq!(other.refusal(), (409, "conflict".to_owned()));
    assert_eq!(unknown.refusal(), (400, "invalid_input".to_owned()));
    assert!(unknown.body.contains("token list"), "{}", unknown.body);
}

/// SC-29: also in the next process.
#[actix::test]
async fn links_are_stored() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let wish = json!({"channel_type": "ws", "sender_id": "ann", "token": "operator"});
    bench.post("/api/v1/identities", &operator, wish).await;
    let state = &bench.state;

    let next =
        Identities::open(state.access.auth.clone(), state.spine.store.clone(), bench.clock.clone());
    let next = next.await.unwrap();

    assert!(next.linked(&ChannelType::Ws, "ann").is_some());
}
