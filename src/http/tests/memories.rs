//! What teams remember, over HTTP.

use hivewright_actors::task::Label;
use serde_json::json;

use super::*;
use crate::memory::{
    chain::Draft,
    entry::{Actor, Key},
};

impl Bench {
    async fn remember(&self, body: Value) -> Value {
        let made = self.post("/api/v1/memories", &self.operator(), body).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.json()["data"].clone()
    }

    async fn patch(&self, id: &str, body: Value) -> Answer {
        let path = format!("/api/v1/memories/{id}");
        let request = request(Method::PATCH, &path).insert_header(bearer(&self.operator()));
        self.call(request.set_json(body)).await
    }

    async fn act(&self, id: &str, act: &str, body: Value) -> Answer {
        let path = format!("/api/v1/memories/{id}/{act}");
        self.post(&path, &self.operator(), body).await
    }

    async fn memories(&self, query: &str) -> Value {
        let path = format!("/api/v1/memories{query}");
        let answer = self.get(&path, &self.operator()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    /// As a turn saves that has read something from outside.
    async fn plant(&self, key: &str, content: &str) -> String {
        let by = Actor::Team("main".into());
        let mut provenance = by.provenance();
        provenance.label = Label::Untrusted;
        let saved = self.state.memory.save(Draft {
            team: TeamKey::first("main"),
            key: Key::parse(key).unwrap(),
            content: content.to_owned(),
            kind: None,
            reason: Some("found".to_owned()),
            sources: Vec::new(),
            provenance,
            by,
            call: None,
            expires_at: None,
            looks_back: false,
        });
        saved.await.unwrap().entry.id.to_string()
    }
}

fn id(row: &Value) -> &str {
    row["id"].as_str().unwrap()
}

fn keys(list: &Value) -> Vec<&str> {
    let rows = list["data"].as_array().unwrap();
    rows.iter().map(|row| row["key"].as_str().unwrap()).collect()
}

/// OP-28, MV-31
#[actix::test]
async fn an_entry_is_made_shown_edited_pinned_deleted_and_restored() {
    let bench = Bench::new().await;
    let body = json!({"team": "main", "key": "db", "content": "sled", "type": "choice"});
    let made = bench.remember(body.clone()).await;
    let path = format!("/api/v1/memories/{}", id(&made));

    let mut shown = bench.get(&path, &bench.operator()).await.json();
    let injection = shown["data"].as_object_mut().unwrap().remove("injection");
    let again = bench.post("/api/v1/memories", &bench.operator(), body).await;
    let pinned = bench.act(id(&made), "pin", json!({"pinned": true})).await;
    let edited = bench.patch(id(&made), json!({"content": "NATS", "type": "lesson"})).await;
    let edited = edited.json()["data"].clone();

    assert_eq!(shown["data"], made);
    assert_eq!(injection, Some(json!({"state": "whole"})));
    let provenance = json!({"origin": "operator", "ref": "operator", "label": "trusted"});
    assert_eq!(
        [&made["type"], &made["content"], &made["provenance"], &made["updated_by"]],
        [&json!("decision"), &json!("sled"), &provenance, &json!("operator:operator")]
    );
    assert_eq!((again.status, &again.json()["data"]["unchanged"]), (200, &json!(true)));
    assert_eq!(pinned.json()["data"]["pinned"], true);
    assert_eq!(
        [&edited["content"], &edited["type"], &edited["supersede_reason"], &edited["pinned"]],
        [&json!("NATS"), &json!("lesson"), &json!("edited by operator"), &json!(true)]
    );
    assert_eq!(edited["supersedes_id"], made["id"]);
    let stale = bench.patch(id(&made), json!({"content": "x"})).await;
    assert_eq!(stale.refusal(), (409, "conflict".to_owned()));

    let path = format!("/api/v1/memories/{}?note=wrong", id(&edited));
    let delete = request(Method::DELETE, &path).insert_header(bearer(&bench.operator()));
    assert_eq!(bench.call(delete).await.status, 204);
    assert_eq!(bench.memories("?active=true").await["total"], 0);
    let restored = bench.act(id(&made), "rollback", json!({})).await;
    assert_eq!(restored.status, 201);
    assert_eq!(restored.json()["data"]["content"], "sled");
    let chain =
        bench.get(&format!("/api/v1/memories/{}/chain", id(&made)), &bench.operator()).await.json();
    let versions: Vec<_> =
        chain["data"].as_array().unwrap().iter().map(|row| &row["version"]).collect();
    assert_eq!((versions, &chain["total"]), (vec![&json!(3), &json!(2), &json!(1)], &json!(3)));
    assert_eq!(chain["data"][1]["ended"]["note"], "wrong");
}

/// OP-02, OP-28
#[actix::test]
async fn a_list_is_filtered_and_paged() {
    let bench = Bench::new().await;
    for (key, kind, content) in [
        ("a", "lesson", "measure first"),
        ("b", "context", "first of all, first"),
        ("c", "context", "else"),
    ] {
        bench.clock.advance(Duration::from_secs(1));
        bench.remember(json!({"team": "main", "key": key, "content": content, "type": kind})).await;
    }
    bench.clock.advance(Duration::from_secs(1));
    bench.plant("d", &"ä".repeat(300)).await;

    let all = bench.memories("").await;
    let found = bench.memories("?q=first").await;
    let page = bench.memories("?limit=2&offset=1").await;

    assert_eq!((keys(&all), &all["total"]), (vec!["d", "c", "b", "a"], &json!(4)));
    assert_eq!(all["data"][0]["snippet"], "ä".repeat(199) + "…");
    assert!(all["data"][0].get("content").is_none());
    assert_eq!(keys(&found), ["b", "a"]);
    assert_eq!(found["data"][0]["score"], 1.0);
    assert_eq!((keys(&page), &page["total"]), (vec!["c", "b"], &json!(4)));
    for (query, expected) in [
        ("?type=warning", vec!["a"]),
        ("?review=pending", vec!["d"]),
        ("?team=main&active=true&type=context", vec!["d", "c", "b"]),
        ("?team=other", vec![]),
        ("?q=%3F", vec![]),
        ("?key=b", vec!["b"]),
    ] {
        assert_eq!(keys(&bench.memories(query).await), expected, "{query}");
    }
    for (query, field) in [
        ("?type=mood", "type"),
        ("?review=maybe", "review"),
        ("?active=yes", "active"),
        ("?limit=0", "limit"),
        ("?tem=main", "tem"),
    ] {
        let answer = bench.get(&format!("/api/v1/memories{query}"), &bench.operator()).await;
        assert_eq!(answer.refusal().0, 400, "{query}");
        assert_eq!(answer.field(), field);
    }
}

/// MV-15, MV-17
#[actix::test]
async fn a_review_shows_the_difference_and_is_made_once() {
    let bench = Bench::new().await;
    let good = bench.remember(json!({"team": "main", "key": "rule", "content": "ask first"})).await;
    let planted = bench.plant("rule", "never ask").await;
    let path = format!("/api/v1/memories/{planted}");

    let shown = bench.get(&path, &bench.operator()).await.json()["data"].clone();
    let reader = bench.token("reader", only(Scope::Read)).await;
    let forbidden =
        bench.post(&format!("{path}/review"), &reader, json!({"decision": "approve"})).await;
    let edited = bench.patch(&planted, json!({"content": "x"})).await;
    let rejected =
        bench.act(&planted, "review", json!({"decision": "reject", "note": "planted"})).await;
    let again = bench.act(&planted, "review", json!({"decision": "approve"})).await;

    assert_eq!([&shown["active"], &shown["proposal"]], [&json!(false), &json!(true)]);
    assert_eq!(shown["current"], json!({"id": good["id"], "content": "ask first"}));
    assert_eq!(shown["provenance"]["label"], "untrusted");
    assert_eq!(forbidden.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(edited.refusal(), (409, "conflict".to_owned()));
    let row = rejected.json()["data"].clone();
    assert_eq!(
        [&row["review"], &row["proposal"], &row["reviewed"]["note"], &row["reviewed"]["by"]],
        [&json!("rejected"), &json!(false), &json!("planted"), &json!("operator:operator")]
    );
    assert_eq!(again.refusal(), (409, "conflict".to_owned()));
    let unknown = bench.act(&planted, "review", json!({"decision": "maybe"})).await;
    assert_eq!((unknown.refusal().0, unknown.field()), (400, "decision".to_owned()));
}

/// MV-01, MV-31
#[actix::test]
async fn an_end_is_set_and_taken_away() {
    let bench = Bench::new().await;
    let body = json!({"team": "main", "key": "sale", "content": "on", "expires_at": "2023-11-14T23:14:20+01:00"});
    let made = bench.remember(body).await;

    let kept = bench.patch(id(&made), json!({"expires_at": null})).await;
    let moved = bench.patch(id(&made), json!({"expires_at": "2023-11-14T22:14:20Z"})).await;
    let wrong = bench.patch(id(&made), json!({"expires_at": "soon"})).await;
    bench.clock.advance(Duration::from_secs(60));

    assert_eq!(made["expires_at"], "2023-11-14T22:14:20.000Z");
    let row = kept.json()["data"].clone();
    assert_eq!([&row["expires_at"], &row["version"]], [&Value::Null, &json!(1)]);
    assert_eq!(moved.status, 200);
    assert_eq!((wrong.refusal().0, wrong.field()), (400, "expires_at".to_owned()));
    let over = bench.memories("").await["data"][0].clone();
    assert_eq!([&over["active"], &over["ended"]["note"]], [&json!(false), &json!("expired")]);
    assert_eq!(over["ended"]["by"], "system");
}

/// OP-01, OP-03
#[actix::test]
async fn what_cannot_be_saved_is_refused_with_its_field() {
    let bench = Bench::new().await;
    let body = |field: &str, value: Value| {
        let mut body = json!({"team": "main", "key": "k", "content": "c"});
        body[field] = value;
        body
    };
    for (body, field) in [
        (body("team", json!("nobody")), "team"),
        (body("key", json!("a b")), "key"),
        (body("content", json!("")), "content"),
        (body("type", json!("mood")), "type"),
        (body("supersede_reason", json!("x".repeat(501))), "supersede_reason"),
        (body("contents", json!("x")), "contents"),
        (body("pinned", json!(true)), "pinned"),
    ] {
        let answer = bench.post("/api/v1/memories", &bench.operator(), body).await;
        assert_eq!(
            (answer.refusal(), answer.field()),
            ((400, "invalid_input".to_owned()), field.to_owned())
        );
    }
    bench.remember(body("key", json!("k"))).await;
    let second =
        bench.post("/api/v1/memories", &bench.operator(), body("content", json!("other"))).await;
    assert_eq!(second.refusal(), (409, "conflict".to_owned()));
    for path in ["/api/v1/memories/mem-x", "/api/v1/memories/mem-x/chain"] {
        let answer = bench.get(path, &bench.operator()).await;
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()));
    }
}

/// OP-02: pages follow each other, by age and by how well they fit, whatever is added meanwhile.
#[actix::test]
async fn a_list_goes_on_where_it_was_left() {
    let bench = Bench::new().await;
    let save = async |key: &str| {
        bench.clock.advance(Duration::from_secs(1));
        let body = json!({"team": "main", "key": key, "content": "tea", "type": "context"});
        bench.remember(body).await;
    };
    for key in ["a", "b", "c", "d", "e"] {
        save(key).await;
    }
    let after = |list: &Value| list["next_cursor"].as_str().unwrap().to_owned();

    let first = bench.memories("?limit=2").await;
    save("f").await;
    let second = bench.memories(&format!("?limit=2&cursor={}", after(&first))).await;
    let last = bench.memories(&format!("?limit=2&cursor={}", after(&second))).await;
    let oldest = bench.memories("?limit=1&sort=updated_at").await;
    let best = bench.memories("?q=tea&limit=4").await;
    let others = bench.memories(&format!("?q=tea&limit=4&cursor={}", after(&best))).await;

    assert_eq!(keys(&first), ["e", "d"]);
    assert_eq!(keys(&second), ["c", "b"]);
    assert_eq!(keys(&last), ["a"]);
    assert_eq!(last["total"], 6);
    assert!(last.get("next_cursor").is_none());
    assert_eq!(keys(&oldest), ["a"]);
    let mut found = [keys(&best), keys(&others)].concat();
    found.sort_unstable();
    assert_eq!(found, ["a", "b", "c", "d", "e", "f"]);
    assert!(others.get("next_cursor").is_none());
}

/// OP-28, MV-17: each decision counts by itself.
#[actix::test]
async fn several_reviews_succeed_or_fail_alone() {
    let bench = Bench::new().await;
    let (one, other) = (bench.plant("a", "x").await, bench.plant("b", "y").await);
    let item = |id: &str, decision: &str| json!({"id": id, "decision": decision});
    let post = async |items: Vec<Value>| {
        let body = json!({"items": items});
        let path = "/api/v1/memories/review";
        bench.post(path, &bench.operator(), body).await
    };

    let answer =
        post(vec![item(&one, "approve"), item(&other, "reject"), item("mem-nothing", "approve")])
            .await;
    let none = post(Vec::new()).await;

    let rows = answer.json()["data"]["items"].clone();
    let statuses: Vec<_> = (0..3).map(|place| rows[place]["status"].clone()).collect();
    assert_eq!(statuses, [200, 200, 404]);
    assert_eq!(rows[0]["memory"]["review"], "approved");
    assert_eq!(rows[1]["memory"]["review"], "rejected");
    assert_eq!(rows[2]["error"]["code"], "not_found");
    assert_eq!((none.status, none.field()), (400, "items".to_owned()));
}

/// OP-28: a review can correct the text; a rejection has none.
#[actix::test]
async fn a_review_can_approve_other_words() {
    let bench = Bench::new().await;
    let planted = bench.plant("rule", "ask first, then pay").await;
    let content = "ask first";

    let body = json!({"decision": "reject", "content": content});
    let rejected = bench.act(&planted, "review", body).await;
    let body = json!({"decision": "approve", "content": content, "note": "the half of it"});
    let approved = bench.act(&planted, "review", body).await;
    let long = bench.plant("other", "x").await;
    let items = json!({"items": [{"id": long, "decision": "approve", "content": "y"}]});
    let several = bench.post("/api/v1/memories/review", &bench.operator(), items).await;

    assert_eq!((rejected.status, rejected.field()), (400, "content".to_owned()));
    let row = approved.json()["data"].clone();
    assert_ne!(row["id"], json!(planted));
    assert_eq!(
        [&row["content"], &row["review"], &row["reviewed"]["note"]],
        [&json!(content), &json!("approved"), &json!("the half of it")]
    );
    assert_eq!(row["provenance"]["origin"], "operator");
    let written = bench.memories("?key=rule&active=false").await;
    assert_eq!(written["data"][0]["review"], "rejected");
    let memory = &several.json()["data"]["items"][0]["memory"];
    assert_eq!(memory["content"], "y");
}

/// OP-57: what the next prompt holds of each entry is told by what chooses it, pinned or not.
#[actix::test]
async fn an_entry_says_whether_prompts_hold_it() {
    let bench = Bench::new().await;
    let make = async |key: String, kind: &str, content: String| {
        let body = json!({"team": "main", "key": key, "content": content, "type": kind});
        id(&bench.remember(body).await).to_owned()
    };
    for number in 0..49 {
        make(format!("old-{number}"), "lesson", "short".to_owned()).await;
    }
    let first = make("first".to_owned(), "lesson", "x".repeat(9_000)).await;
    make("book".to_owned(), "reference", "far away".to_owned()).await;
    bench.plant("hearsay", "planted").await;
    for number in 0..8 {
        let pinned = make(format!("pinned-{number}"), "lesson", "y".repeat(9_000)).await;
        bench.act(&pinned, "pin", json!({"pinned": true})).await;
    }

    let list = bench.memories("?limit=200").await;
    let team = TeamKey::first("main");
    let prompt = bench.state.memory.injected(&team).await.unwrap();
    let shown = bench.get(&format!("/api/v1/memories/{first}"), &bench.operator()).await;

    let rows = list["data"].as_array().unwrap();
    for row in rows {
        let key = row["key"].as_str().unwrap();
        let state = row["injection"]["state"].as_str().unwrap();
        let line = format!("[{key}]: ");
        let is_in = prompt.contains(&line);
        assert_eq!(matches!(state, "whole" | "cut"), is_in, "{key}: {state}");
    }
    let state_of = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        row["injection"]["state"].as_str().unwrap()
    };
    assert_eq!(state_of("book"), "type");
    assert_eq!(state_of("hearsay"), "review");
    // Pinned, and not for that in the prompt.
    let pinned = (0..8).map(|number| state_of(&format!("pinned-{number}")));
    let mut pinned: Vec<_> = pinned.collect();
    pinned.sort_unstable();
    pinned.dedup();
    assert_eq!(pinned, ["cut", "no_room"]);
    assert_eq!(shown.json()["data"]["injection"]["state"], state_of("first"));
}
