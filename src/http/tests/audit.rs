//! The audit of what is done over HTTP, and the notice of a token that was seen.

use hivewright_actors::{
    approvals::{Ask, question::AnswerKind},
    audit::{Audit, CallAudit, Decision},
    queue::Drain,
    store::reads::{Range, scan},
};
use serde_json::json;

use super::{approvals::question, contract::filled, *};
use crate::http::routes::table::table;

/// All lines, oldest first.
async fn lines(bench: &Bench) -> Vec<Audit> {
    let read = bench.state.spine.store.read(|storage| scan(storage, Range::all()));
    read.await.unwrap()
}

/// OP-18, SC-30
#[actix::test]
async fn every_act_leaves_a_line_with_who_what_from_where_and_outcome() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let reader = bench.token("reader", only(Scope::Read)).await;
    let login = |token: &str| {
        let body = json!({ "token": token });
        request(Method::POST, "/api/v1/session").set_json(body)
    };

    bench.call(login(&operator)).await;
    bench.call(login("hwo_wrong")).await;
    let wish = json!({"name": "ci", "scopes": ["read"]});
    let made = bench.post("/api/v1/tokens", &operator, wish.clone()).await;
    let ended = format!("ci {}", made.json()["data"]["id"].as_str().unwrap());
    bench.post("/api/v1/tokens", &reader, wish).await;
    bench.delete("/api/v1/tokens/ci", &operator).await;
    let cancel = "/api/v1/tasks/task-0/cancel";
    bench.post(cancel, &operator, json!({})).await;
    let put = request(Method::PUT, "/api/v1/vault/system/API_KEY").insert_header(bearer(&operator));
    bench.call(put.set_json(json!({"value": "a-secret-value"}))).await;
    bench.get("/api/v1/tokens", &operator).await;
    bench.get("/api/v1/audit", &reader).await;
    bench.get("/api/v1/overview", "hwt_wrong").await;
    bench.call(request(Method::GET, "/api/v1/session")).await;

    let lines = lines(&bench).await;
    let shown: Vec<(&str, &str, &str, &str)> = lines
        .iter()
        .map(|line| {
            assert_eq!(line.from, "api 127.0.0.1");
            // A made token is named by its id, which nobody can foresee.
            let made = line.target.split_once(' ').filter(|(id, _)| id.starts_with("token-"));
            (
                line.actor.as_str(),
                line.action.as_str(),
                made.map_or(line.target.as_str(), |(_, rest)| rest),
                line.outcome.as_str(),
            )
        })
        .collect();
    let mut expected = vec![
        ("operator", "session.create", "", "ok"),
        ("nobody", "session.create", "", "401"),
        ("operator", "tokens.create", "ci read", "ok"),
        ("reader", "tokens.create", "", "403"),
        ("operator", "tokens.delete", &ended, "ok"),
        ("reader", "audit.read", "", "403"),
        ("nobody", "overview.read", "", "401"),
        ("operator", "tasks.cancel", "task-0", "404"),
        ("operator", "vault.set", "system/API_KEY", "ok"),
    ];
    // The clock stands: lines of one moment have no order.
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert!(!format!("{lines:?}").contains("a-secret-value"));
}

/// OP-18: what is written down with the answer itself is not written down again as a request.
#[actix::test]
async fn an_answer_to_a_question_leaves_one_line() {
    let bench = Bench::new().await;
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let spine = &bench.state.spine;
    // The answer becomes a task, and nobody here works.
    spine.queue.do_send(Drain);
    spine.approvals.send(Ask(question(&bench, AnswerKind::Text))).await.unwrap().unwrap();
    let path = "/api/v1/questions/qst-1/answer";

    let unfit = bench.post(path, &bob, json!({"selected": ["green"]})).await;
    let answered = bench.post(path, &bob, json!({"text": "blue"})).await;

    let lines = lines(&bench).await;
    let of_question = lines.iter().filter(|line| line.target.starts_with("qst-1"));
    let mut acts: Vec<_> =
        of_question.map(|line| (line.action.as_str(), line.outcome.as_str())).collect();
    acts.sort_unstable();
    assert_eq!([unfit.status, answered.status], [422, 200]);
    assert_eq!(acts, [("question.answer", "answered"), ("questions.answer", "422")]);
    assert!(lines.iter().all(|line| line.from == "api 127.0.0.1"), "{lines:?}");
}

/// OP-18: nothing that can be changed is changed without a line, and neither is what was refused.
#[actix::test]
async fn every_operation_that_changes_something_leaves_a_line() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let operator = bench.operator();
    let mut seen = 0;
    for resource in table() {
        for (method, operation) in &resource.operations {
            let is_api = resource.path.starts_with("/api/v1/");
            if !is_api || [Method::GET, Method::HEAD].contains(method) {
                continue;
            }
            if operation.only_looks {
                continue;
            }
            // It ends what all the others are asked with.
            if resource.path == "/api/v1/tokens/operator/rotate" {
                continue;
            }
            let case = format!("{method} {}", resource.path);
            let body =
                operation.example.map_or(json!({}), |text| serde_json::from_str(text).unwrap());
            let before = lines(&bench).await.len();
            let act = request(method.clone(), &filled(resource.path))
                .insert_header(bearer(&operator))
                .set_json(body);

            let answered = answer(&app, act).await;

            let after = lines(&bench).await.len();
            assert!(after > before, "{case} leaves no line ({})", answered.status);
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
    let rotate = "/api/v1/tokens/operator/rotate";
    bench.post(rotate, &operator, json!({})).await;
    let last = lines(&bench).await;
    assert!(last.iter().any(|line| line.action == "tokens.operator.rotate"));
    assert!(last.iter().all(|line| line.from == "api 127.0.0.1"), "{last:?}");
}

/// OP-18: strangers cannot fill the store.
#[actix::test]
async fn strangers_leave_few_lines() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    for _ in 0..200 {
        let login = request(Method::POST, "/api/v1/session").set_json(json!({"token": "x"}));
        assert_eq!(answer(&app, login).await.status, 401);
    }

    assert_eq!(lines(&bench).await.len(), 30);
}

/// OP-13
#[actix::test]
async fn a_token_in_a_url_is_told_to_the_operator() {
    let bench = Bench::new().await;
    let token = bench.token("ci", only(Scope::Read)).await;

    bench.call(request(Method::GET, "/api/v1/overview?token=nothing-of-ours")).await;
    let refused =
        bench.call(request(Method::GET, &format!("/api/v1/overview?token={token}"))).await;

    assert_eq!(refused.refusal(), (400, "token_in_url".to_owned()));
    let inbox = bench.get("/api/v1/inbox", &bench.operator()).await;
    let rows = inbox.json()["data"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1, "{}", inbox.body);
    assert_eq!(rows[0]["kind"], "token_exposed");
    let text = rows[0]["text"].as_str().unwrap();
    assert!(text.contains("`ci`") && text.contains("hivewright token revoke ci"));
    assert!(!bench.stored().contains(&token));
}

/// OP-18: an act that was done is not called undone because it could not be written down.
#[actix::test]
async fn an_act_without_its_line_is_said_to_be_done() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    bench.storage.refuse("audit");

    let wish = serde_json::json!({"name": "ci", "scopes": ["read"]});
    let made = bench.post("/api/v1/tokens", &operator, wish).await;

    assert_eq!(made.refusal(), (500, "internal".to_owned()));
    assert!(made.body.contains("this was done"), "{}", made.body);
    assert!(bench.auth().grants().iter().any(|grant| grant.name == "ci"));
}

/// OP-18: a line names what was made.
#[actix::test]
async fn what_is_made_is_named_by_its_id() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    bench.token("ann", only(Scope::Chat)).await;
    let wishes = [
        (
            "/api/v1/tokens",
            json!({"name": "ci", "scopes": ["read", "chat"], "teams": ["main"]}),
            "id",
        ),
        (
            "/api/v1/identities",
            json!({"channel_type": "discord", "sender_id": "42", "token": "ann"}),
            "id",
        ),
        ("/api/v1/trust", json!({"channel_type": "discord", "sender_id": "42"}), "id"),
        ("/api/v1/backups", json!({"name": "before"}), "job_id"),
        (
            "/api/v1/memories",
            json!({"team": "main", "key": "a", "content": "b", "type": "context"}),
            "id",
        ),
    ];
    for (path, wish, field) in wishes {
        let made = bench.post(path, &operator, wish).await;
        assert!([201, 202].contains(&made.status), "{path} {}", made.body);
        let id = made.json()["data"][field].as_str().unwrap().to_owned();

        let lines = lines(&bench).await;

        let named = lines.iter().find(|line| line.target.starts_with(&id));
        let named = named.unwrap_or_else(|| panic!("{path} {id}: {lines:?}"));
        if path == "/api/v1/tokens" {
            assert!(named.target.ends_with("ci read,chat for main"), "{named:?}");
        }
    }
}

/// SC-30: whoever is denied many reads fills nothing.
#[actix::test]
async fn denied_reads_of_one_token_leave_few_lines() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let reader = bench.token("reader", only(Scope::Read)).await;
    for _ in 0..100 {
        let look = request(Method::GET, "/api/v1/audit").insert_header(bearer(&reader));
        assert_eq!(answer(&app, look).await.status, 403);
    }

    assert_eq!(lines(&bench).await.len(), 30);
}

/// TO-17: tool calls are found by team, tool, decision and time.
#[actix::test]
async fn tool_calls_are_found_by_what_they_are() {
    let bench = Bench::new().await;
    let call = |place: u64, team: &str, tool: &str, decision| Audit {
        id: format!("turn-{place}-c"),
        at: Timestamp(1_700_000_000_000 + place * 1_000),
        actor: format!("team:{team}").into(),
        action: "tool.call".to_owned(),
        target: tool.to_owned(),
        from: "task-1".to_owned(),
        outcome: "ok".to_owned(),
        call: Some(Box::new(CallAudit {
            team: team.into(),
            task: "task-1".into(),
            turn: "turn-1".into(),
            tool: tool.to_owned(),
            decision,
            rule: None,
            duration_ms: 5,
            ok: true,
            arguments: "{}".to_owned(),
            result: "fine".to_owned(),
        })),
    };
    let rows = [
        call(1, "main", "read", Decision::Allow),
        call(2, "ops", "read", Decision::Deny),
        call(3, "ops", "bash", Decision::Allow),
    ];
    let writes = rows.iter().fold(Writes::new(), |writes, row| writes.put(row));
    bench.state.spine.store.commit(writes).await.unwrap();

    for (query, expected) in [
        ("team=ops", vec!["bash", "read"]),
        ("tool=read", vec!["read", "read"]),
        ("team=ops&tool=read", vec!["read"]),
        ("decision=deny", vec!["read"]),
        ("decision=allow&until=2023-11-14T22:13:21Z", vec!["read"]),
        ("action=tool&since=2023-11-14T22:13:23Z", vec!["bash"]),
        ("team=nobody", vec![]),
    ] {
        let path = format!("/api/v1/audit?{query}");
        let found = bench.get(&path, &bench.operator()).await.json();
        let tools = found["data"].as_array().unwrap().iter();
        let tools: Vec<_> = tools.map(|row| row["call"]["tool"].as_str().unwrap()).collect();
        assert_eq!(tools, expected, "{query}");
    }
}
