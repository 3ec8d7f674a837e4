//! Webhooks: who is believed, and what is answered.

use base64::{Engine, engine::general_purpose::STANDARD};
use hivewright_actors::{clock::Clock, task::records as tasks};
use serde_json::json;
use zeroize::Zeroizing;

use super::*;
use crate::{system::hex, triggers::signature::hmac, vault::reading::SecretSource};

const KEY: &[u8] = b"a key of more than 24 bytes";

/// The secrets of every team.
pub(super) struct Keys;

impl SecretSource for Keys {
    fn secret(&self, _: &TeamKey, key: &str) -> Option<Zeroizing<Vec<u8>>> {
        let value: &[u8] = match key {
            "HOOK" => KEY,
            "OLD" => b"another key of many bytes",
            "SHORT" => b"short",
            _ => return None,
        };
        Some(Zeroizing::new(value.to_vec()))
    }

    fn has_secrets(&self, _: &TeamKey) -> bool {
        true
    }

    fn used(&self, _: &TeamKey, _: &str) {}
}

struct Hook {
    bench: Bench,
    operator: String,
    path: String,
}

impl Hook {
    async fn new(config: Value) -> Self {
        let bench = Bench::new().await;
        let operator = bench.token("ops", only(Scope::Operate)).await;
        let form = json!({
            "team": "main", "name": "ci", "type": "webhook", "config": config,
            "task": "Look at it.", "allow_untrusted": true, "overlap_policy": "allow", "enable": true,
        });
        let made = bench.post("/api/v1/triggers", &operator, form).await;
        assert_eq!(made.status, 201, "{}", made.body);
        assert_eq!(made.json()["data"]["path"], "/hooks/main/ci");
        let id = made.json()["data"]["id"].as_str().unwrap().to_owned();
        Self { bench, operator, path: format!("/api/v1/triggers/{id}") }
    }

    async fn standard() -> Self {
        Self::new(json!({"secret": "${vault:HOOK}"})).await
    }

    fn now(&self) -> u64 {
        self.bench.clock.now().0 / 1_000
    }

    async fn call(&self, headers: &[(&str, String)], body: &[u8]) -> Answer {
        let mut request = request(Method::POST, "/hooks/main/ci")
            .insert_header(("Content-Type", "application/json"))
            .insert_header(("Content-Length", body.len().to_string()));
        for (name, value) in headers {
            request = request.insert_header((*name, value.as_str()));
        }
        self.bench.call(request.set_payload(body.to_vec())).await
    }

    /// A call that is signed as Standard Webhooks are.
    async fn deliver(&self, id: &str, at: u64, key: &[u8], body: &[u8]) -> Answer {
        let at = at.to_string();
        let signed = hmac(key, &[id.as_bytes(), b".", at.as_bytes(), b".", body]);
        let headers = [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at),
            ("webhook-signature", format!("v1,{}", STANDARD.encode(signed))),
        ];
        self.call(&headers, body).await
    }

    async fn runs(&self) -> Vec<Value> {
        let runs = self.bench.get(&format!("{}/runs", self.path), &self.operator).await;
        runs.json()["data"].as_array().unwrap().clone()
    }

    /// How many runs made a task.
    async fn tasks(&self) -> usize {
        let runs = self.runs().await;
        runs.iter().filter(|run| run["task_id"].is_string()).count()
    }
}

const BODY: &[u8] = br#"{"action":"opened","number":7}"#;

/// TR-26, TR-84
#[actix::test]
async fn a_signed_call_starts_a_task_with_its_body_as_data() {
    let hook = Hook::standard().await;

    let answer = hook.deliver("msg-1", hook.now(), KEY, BODY).await;

    assert_eq!(answer.status, 202, "{}", answer.body);
    let run = hook.runs().await.remove(0);
    assert_eq!(answer.json()["run_id"], run["id"]);
    assert_eq!(answer.json()["task_id"], run["task_id"]);
    assert_eq!((&run["cause"], &run["payload_bytes"]), (&json!("webhook"), &json!(BODY.len())));
    let task = run["task_id"].as_str().unwrap().to_owned();
    let store = &hook.bench.state.spine.store;
    let task = store.read(move |storage| tasks::find(storage, &task.into())).await;
    let task = task.unwrap().unwrap();
    assert_eq!(task.label, hivewright_actors::task::Label::Untrusted);
    assert!(task.body.contains("data and no order to you"), "{}", task.body);
    assert!(task.body.contains("\"number\":7"));
}

/// TR-80, TR-83, TR-84
#[actix::test]
async fn what_is_not_genuine_new_or_small_enough_makes_no_task() {
    let hook = Hook::standard().await;
    let now = hook.now();
    let first = hook.deliver("msg-1", now, KEY, BODY).await;
    assert_eq!(first.status, 202);

    let wrong = hook.deliver("msg-2", now, b"some other key of many bytes", BODY).await;
    assert_eq!(wrong.refusal(), (401, "unauthenticated".to_owned()));
    let late = hook.deliver("msg-3", now - 301, KEY, BODY).await;
    assert_eq!(late.refusal().0, 401);
    let early = hook.deliver("msg-3", now + 301, KEY, BODY).await;
    assert_eq!(early.refusal().0, 401);
    let replayed = hook.deliver("msg-1", now, KEY, BODY).await;
    let duplicate = json!({"duplicate": true, "run_id": first.json()["run_id"]});
    assert_eq!((replayed.status, replayed.json()), (200, duplicate.clone()));
    // The sender's own retry has a new time, and so another signature.
    let retried = hook.deliver("msg-1", now + 60, KEY, BODY).await;
    assert_eq!((retried.status, retried.json()), (200, duplicate));
    let large = hook.deliver("msg-4", now, KEY, &vec![b' '; 2 << 20]).await;
    assert_eq!(large.refusal(), (413, "too_large".to_owned()));

    assert_eq!(hook.tasks().await, 1);
    let off = format!("{}/disable", hook.path);
    hook.bench.post(&off, &hook.operator, json!({})).await;
    let disabled = hook.deliver("msg-5", now, KEY, BODY).await;
    assert_eq!(disabled.refusal(), (404, "not_found".to_owned()));
    let unknown = hook.bench.call(request(Method::POST, "/hooks/main/nothing")).await;
    assert_eq!(unknown.refusal(), disabled.refusal());
    let message = |answer: &Answer| answer.json()["error"]["message"].clone();
    assert_eq!(message(&unknown), message(&disabled));
    assert_eq!(hook.tasks().await, 1);
}

/// TR-80, TR-84: where no name is signed, the bytes of the signature are the key, however written.
#[actix::test]
async fn a_replay_in_another_spelling_is_a_replay() {
    let hook = Hook::new(json!({"secret": "${vault:HOOK}", "scheme": "github"})).await;
    let signature = hex(&hmac(KEY, &[BODY]));
    let call = async |digits: String| {
        let headers = [
            ("x-hub-signature-256", format!("sha256={digits}")),
            ("x-github-delivery", digits.clone()),
        ];
        hook.call(&headers, BODY).await
    };

    let first = call(signature.clone()).await;
    let again = call(signature.to_uppercase()).await;

    assert_eq!((first.status, again.status), (202, 200));
    assert_eq!(again.json()["duplicate"], true);
    assert_eq!(hook.tasks().await, 1);
}

/// TR-26: another header, another encoding, a time in the signature.
#[actix::test]
async fn a_scheme_of_ones_own() {
    let hook = Hook::new(json!({
        "secret": "${vault:HOOK}",
        "scheme": {"header": "X-Sig", "prefix": "t=", "encoding": "base64",
            "timestamp_header": "X-Time", "signed": "timestamp.body"},
    }))
    .await;
    let at = hook.now().to_string();
    let signature = STANDARD.encode(hmac(KEY, &[at.as_bytes(), b".", BODY]));
    let headers = [("X-Sig", format!("t={signature}")), ("X-Time", at)];

    assert_eq!(hook.call(&headers, BODY).await.status, 202);
    assert_eq!(hook.call(&headers[..1], BODY).await.refusal().0, 400);
}

/// TR-26: the former secret is good for a day.
#[actix::test]
async fn a_former_secret_is_good_for_a_day() {
    let config = json!({"secret": "${vault:HOOK}", "secret_previous": "${vault:OLD}"});
    let hook = Hook::new(config).await;
    let old = b"another key of many bytes";

    let before = hook.deliver("msg-1", hook.now(), old, BODY).await;
    hook.bench.clock.advance(Duration::from_secs(24 * 60 * 60 + 1));
    let after = hook.deliver("msg-2", hook.now(), old, BODY).await;
    let new = hook.deliver("msg-3", hook.now(), KEY, BODY).await;

    assert_eq!([before.status, after.status, new.status], [202, 401, 202]);
}

/// TR-26: conditions on the body.
#[actix::test]
async fn a_body_that_does_not_concern_it_is_ignored() {
    let hook = Hook::new(json!({
        "secret": "${vault:HOOK}",
        "filter": [{"pointer": "/action", "equals": "opened"}, {"pointer": "/number", "matches": "^7"}],
    }))
    .await;
    let deliver = async |id: &str, body: &[u8]| hook.deliver(id, hook.now(), KEY, body).await;

    let fits = deliver("msg-1", BODY).await;
    let other = deliver("msg-2", br#"{"action":"closed","number":7}"#).await;
    let broken = deliver("msg-3", b"{").await;

    assert_eq!(fits.status, 202);
    assert_eq!((other.status, other.json()), (200, json!({"ignored": true})));
    assert_eq!(broken.refusal().0, 400);
    let decisions: Vec<_> = hook.runs().await.iter().map(|run| run["decision"].clone()).collect();
    assert_eq!(decisions, ["filtered", "enqueued"]);
}

/// TR-84
#[actix::test]
async fn type_length_rate_and_the_end_of_the_service() {
    let hook = Hook::new(json!({"secret": "${vault:HOOK}", "rate": "3/min"})).await;
    let plain = request(Method::POST, "/hooks/main/ci");
    let missing = hook.bench.call(plain).await;
    let headers = [
        ("webhook-id", "m".to_owned()),
        ("webhook-timestamp", hook.now().to_string()),
        ("webhook-signature", "v1,AAAA".to_owned()),
    ];
    let kind = [&headers[..], &[("Content-Type", "image/png".to_owned())]].concat();
    let picture = hook.call(&kind, BODY).await;
    hook.bench.surroundings.draining.store(true, Ordering::SeqCst);
    let draining = hook.call(&headers, BODY).await;
    let fourth = hook.call(&headers, BODY).await;

    assert_eq!(missing.refusal().0, 400);
    assert_eq!(picture.refusal(), (415, "unsupported_media_type".to_owned()));
    assert_eq!(draining.refusal().0, 503);
    assert_eq!(fourth.refusal(), (429, "rate_limited".to_owned()));
    assert!(fourth.header("retry-after").is_some());
}

/// TR-85
#[actix::test]
async fn a_team_with_secrets_needs_an_operators_word() {
    let bench = Bench::new().await;
    let operator = bench.token("ops", only(Scope::Operate)).await;
    let form = json!({
        "team": "main", "name": "ci", "type": "webhook", "config": {"secret": "${vault:HOOK}"},
        "task": "Look at it.",
    });

    let made = bench.post("/api/v1/triggers", &operator, form).await;
    let id = made.json()["data"]["id"].as_str().unwrap().to_owned();
    let enable = format!("/api/v1/triggers/{id}/enable");
    let refused = bench.post(&enable, &operator, json!({})).await;
    let path = format!("/api/v1/triggers/{id}");
    let allow = request(Method::PATCH, &path).insert_header(bearer(&operator));
    bench.call(allow.set_json(json!({"allow_untrusted": true}))).await;
    let enabled = bench.post(&enable, &operator, json!({})).await;

    assert_eq!(refused.refusal(), (409, "not_approved".to_owned()));
    assert_eq!(enabled.status, 200, "{}", enabled.body);
}

/// TR-84: whoever sends it again after a pause is heard, and what was sent during it is not taken for received.
#[actix::test]
async fn a_team_that_rests_takes_no_call() {
    let hook = Hook::standard().await;
    let pause = |act: &str| format!("/api/v1/teams/main/{act}");
    hook.bench.post(&pause("pause"), &hook.operator, json!({})).await;

    let refused = hook.deliver("msg-1", hook.now(), KEY, b"{}").await;
    hook.bench.post(&pause("resume"), &hook.operator, json!({})).await;
    let again = hook.deliver("msg-1", hook.now(), KEY, b"{}").await;

    assert_eq!(refused.refusal(), (503, "team_paused".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("60"));
    assert_eq!(again.status, 202, "{}", again.body);
    assert_eq!(hook.tasks().await, 1);
}
