//! Messages over REST to other teams than the main one: the same way in as all others.

use serde_json::{Value, json};

use crate::service::{Service, http};

const CHANNELS: &str =
    "ws: {enabled: true}\ntrust: {channels: {api: {sender_allowlist: [ann], policy: deny}}}\n";

/// A token of somebody who may talk to every team.
async fn token(service: &Service, name: &str, more: &[&str]) -> String {
    let scopes = [&["chat", "operate", "read"], more].concat();
    let wish = json!({"name": name, "scopes": scopes});
    let (status, answer) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    assert_eq!(status, 201, "{answer}");
    answer["data"]["token"].as_str().unwrap().to_owned()
}

/// Says something to a team, in the name of somebody else if one is named.
async fn say(service: &Service, token: &str, sender: Option<&str>, words: &str) -> (u16, Value) {
    let body = json!({"team": "ops", "content": words, "wait_s": 30});
    let mut request =
        http().post(format!("{}/api/v1/messages", service.url())).bearer_auth(token).json(&body);
    if let Some(sender) = sender {
        request = request.header("X-Sender-Id", sender);
    }
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("JSON"))
}

/// OP-33, CH-40, CH-111: the trust gate decides on who really writes, and each decision is written down.
#[actix_web::test]
async fn a_message_to_any_team_passes_the_trust_gate() {
    let service =
        Service::prepare().with_file("data/config/channels.yaml", CHANNELS).started().await;
    service.make_team("ops", "operations").await;
    let ann = token(&service, "ann", &[]).await;
    let carl = token(&service, "carl", &[]).await;
    let bridge = token(&service, "bridge", &["assert_sender"]).await;

    let let_in = say(&service, &ann, None, "#reply Come in.").await;
    let kept_out = say(&service, &carl, None, "#reply Come in.").await;
    let unnamed = say(&service, &carl, Some("ann"), "#reply Come in.").await;
    let claimed = say(&service, &bridge, Some("ann"), "#reply For ann.").await;
    let denied = say(&service, &bridge, Some("carl"), "#reply For carl.").await;

    assert_eq!(let_in.0, 200, "{let_in:?}");
    assert_eq!(let_in.1["data"]["reply"]["text"], "Come in.");
    let code = |answer: &(u16, Value)| (answer.0, answer.1["error"]["code"].clone());
    assert_eq!(code(&kept_out), (403, json!("not_authorized")));
    assert_eq!(code(&unnamed), (403, json!("sender_not_allowed")));
    assert_eq!(claimed.1["data"]["reply"]["text"], "For ann.", "{claimed:?}");
    assert_eq!(code(&denied), (403, json!("not_authorized")));
    let (_, audit) = service.api("GET", "/api/v1/trust/audit?limit=200", None).await;
    let rows = audit["data"].as_array().unwrap().iter().rev();
    let rows: Vec<[Value; 3]> = rows
        .map(|row| ["sender", "decision", "asserted_by"].map(|field| row[field].clone()))
        .collect();
    assert_eq!(
        rows,
        [
            [json!("ann"), json!("allowed"), Value::Null],
            [json!("carl"), json!("denied"), Value::Null],
            [json!("ann"), json!("allowed"), json!("bridge")],
            [json!("carl"), json!("denied"), json!("bridge")],
        ]
    );
    let (_, tasks) = service.api("GET", "/api/v1/tasks?team=ops", None).await;
    assert!(!tasks.to_string().contains("For carl"), "{tasks}");
    let id = let_in.1["data"]["message_id"].as_str().unwrap();
    let shown = http()
        .get(format!("{}/api/v1/messages/{id}", service.url()))
        .bearer_auth(&ann)
        .send()
        .await
        .expect("an answer");
    let shown: Value = shown.json().await.expect("JSON");
    assert_eq!(shown["data"]["task_id"], let_in.1["data"]["task_id"], "{shown}");
}
