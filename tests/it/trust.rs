//! Who gets in: over real sockets, with the real settings files.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Error;

use crate::service::{Client, Service, until};

const CHANNELS: &str = "data/config/channels.yaml";

/// A service whose channels are under this section `trust`.
async fn under(trust: &str) -> Service {
    let service = Service::prepare();
    service.write(CHANNELS, &file(trust));
    service.started().await
}

fn file(trust: &str) -> String {
    format!("ws: {{enabled: true}}\ntrust: {trust}\n")
}

/// A token of somebody who may chat, and more.
async fn token(service: &Service, name: &str, scopes: &[&str]) -> String {
    let wish = json!({"name": name, "scopes": scopes});
    let (status, answer) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    assert_eq!(status, 201, "{answer}");
    answer["data"]["token"].as_str().unwrap().to_owned()
}

/// A connection of somebody who may chat.
async fn connect(service: &Service, name: &str) -> Client {
    Client::connect(&service.url(), &token(service, name, &["chat"]).await).await
}

/// The decisions, once there are so many: whoever is refused may hear of it first.
async fn decisions(service: &Service, query: &str, count: usize) -> Vec<String> {
    let path = format!("/api/v1/trust/audit?limit=200&{query}");
    let has_all = |rows: &Value| rows.as_array().is_some_and(|rows| rows.len() >= count);
    let rows = service.until(&path, has_all).await;
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let rows = rows.as_array().unwrap().iter().rev();
    rows.map(|row| {
        let [kind, sender, decision, reason] =
            ["channel_type", "sender", "decision", "reason"].map(|field| text(row, field));
        format!("{kind}:{sender} {decision} {reason}")
    })
    .collect()
}

fn assert_not_authorized(frame: &Value) {
    assert_eq!(
        [&frame["type"], &frame["code"], &frame["error"]],
        ["error", "not_authorized", "Not authorized."]
    );
}

/// CH-39, CH-109 to CH-117, CH-120
#[actix::test]
async fn senders_are_let_in_told_or_cut_off_as_the_policy_says() {
    let service =
        under("{channels: {ws: {sender_allowlist: [ann], sender_denylist: [bob], policy: deny}}}")
            .await;
    let mut ann = connect(&service, "ann").await;
    let mut bob = connect(&service, "bob").await;
    let mut carl = connect(&service, "carl").await;

    let answer = ann.ask("#reply Come in.").await;
    bob.say("m1", "#reply Come in.").await;
    let closed = bob.try_frame().await.unwrap_err();
    carl.say("m1", "#reply Come in.").await;
    let refused = carl.frame().await;
    carl.say("m2", "#reply Come in.").await;
    let again = carl.frame().await;

    assert_eq!(answer["content"], "Come in.");
    assert_eq!(u16::from(closed.unwrap().code), 4403);
    assert_not_authorized(&refused);
    assert_eq!((&refused["message_id"], &again["message_id"]), (&json!("m1"), &json!("m2")));
    assert_eq!(
        decisions(&service, "", 4).await,
        [
            "ws:ann allowed sender_allowlist",
            "ws:bob denied sender_denylist",
            "ws:carl denied channel_policy_deny",
            "ws:carl denied channel_policy_deny",
        ]
    );
}

/// CH-107, CH-115: also the operator is under the policy, except on the command line.
#[actix::test]
async fn the_command_line_is_always_let_in() {
    let service = under("{}").await;
    let mut operator = service.connect().await;

    operator.say("m1", "#reply Come in.").await;
    let refused = operator.frame().await;
    let sent = service.run(&["send", "#reply Come in."], "").await;

    assert_not_authorized(&refused);
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Come in.\n"), "{sent:?}");
    assert_eq!(
        decisions(&service, "", 2).await,
        ["ws:operator denied default_policy_deny", "cli:operator allowed cli_bypass"]
    );
}

/// CH-116: as it was before there was a policy.
#[actix::test]
async fn without_a_policy_whoever_has_a_token_is_let_in() {
    let service = Service::start().await;
    let mut ann = connect(&service, "ann").await;

    let answer = ann.ask("#reply Come in.").await;

    assert_eq!(answer["content"], "Come in.");
    assert_eq!(decisions(&service, "sender=ann", 1).await, ["ws:ann allowed no_trust_config"]);
}

/// CH-40, CH-42: a claim needs a scope, is recorded as one, and does not make somebody of nobody.
#[actix::test]
async fn a_claimed_sender_is_judged_and_recorded_as_claimed() {
    let service = under("{channels: {ws: {sender_allowlist: [ann, bridge]}}}").await;
    let plain = token(&service, "plain", &["chat"]).await;
    let bridge = token(&service, "bridge", &["chat", "assert_sender"]).await;
    let url = service.url();
    let claim = async |token: &str, sender: &str| {
        Client::connect_with(&url, token, &[("x-sender-id", sender)]).await
    };

    let not_allowed = claim(&plain, "ann").await;
    let mut ann = claim(&bridge, " ann ").await.unwrap();
    let answer = ann.ask("#reply Come in.").await;
    let mut nobody = claim(&bridge, "ws-client").await.unwrap();
    nobody.say("m1", "#reply Come in.").await;
    let refused = nobody.frame().await;

    let Err(Error::Http(refusal)) = not_allowed else {
        panic!("connected");
    };
    let body = String::from_utf8_lossy(refusal.body().as_deref().unwrap_or_default()).into_owned();
    assert_eq!(refusal.status(), 403);
    assert!(body.contains("sender_not_allowed"), "{body}");
    assert_eq!(answer["content"], "Come in.");
    assert_not_authorized(&refused);
    let (_, audit) = service.api("GET", "/api/v1/trust/audit", None).await;
    assert_eq!(audit["data"][0]["reason"], "sender_missing");
    let claims = audit["data"].as_array().unwrap().iter();
    assert!(claims.clone().all(|row| row["asserted_by"] == "bridge"), "{audit}");
}

/// CH-26: whoever is kept out can neither stop nor resume what was begun.
#[actix::test]
async fn control_frames_pass_the_gate_too() {
    let service = under("{channels: {ws: {policy: allow}}}").await;
    let key = token(&service, "ann", &["chat"]).await;
    let mut ann = Client::connect(&service.url(), &key).await;
    ann.say("m1", "#wait 3000\n#reply Done.").await;
    let ack = ann.frame().await;
    let (channel, topic) = (ack["channel_id"].clone(), ack["topic_id"].clone());
    let deny = json!({"channel_type": "ws", "sender_id": "ann", "trust_level": "denied"});

    service.api("POST", "/api/v1/trust", Some(deny)).await;
    ann.send(json!({"type": "cancel", "topic_id": topic})).await;
    let cancelled = ann.closed().await;
    let mut next = Client::connect(&service.url(), &key).await;
    next.resume(channel.as_str().unwrap(), 0).await;
    let resumed = next.closed().await;

    assert_eq!((cancelled, resumed), (Some(4403), Some(4403)));
    assert_eq!(
        decisions(&service, "sender=ann", 3).await,
        [
            "ws:ann allowed channel_policy_allow",
            "ws:ann denied grant_denied",
            "ws:ann denied grant_denied",
        ]
    );
}

/// CH-119, OP-31: a grant counts from the next message, and after a restart.
#[actix::test]
async fn a_grant_lets_in_at_once_and_is_kept() {
    let mut service = under("{}").await;
    let key = token(&service, "ann", &["chat"]).await;
    let mut ann = Client::connect(&service.url(), &key).await;
    ann.say("m1", "#reply Come in.").await;
    let before = ann.frame().await;

    let added = service.run(&["trust", "add", "ws:ann"], "").await;
    let granted = ann.ask("#reply Come in.").await;
    service.kill();
    service.launch().await;
    let mut ann = Client::connect(&service.url(), &key).await;
    let restarted = ann.ask("#reply Come in.").await;
    let listed = service.run(&["trust", "list"], "").await;
    let revoked = service.run(&["trust", "revoke", "ws:ann"], "").await;
    ann.say("m4", "#reply Come in.").await;
    let after = ann.frame().await;
    let gone = service.run(&["trust", "revoke", "ws:ann"], "").await;
    let audit = service.run(&["trust", "audit", "--sender", "ann", "--limit", "1"], "").await;

    assert_not_authorized(&before);
    assert_eq!(
        (added.code, &*added.stderr),
        (Some(0), "ws:ann is trusted from the next message on\n")
    );
    assert_eq!(
        (&granted["content"], &restarted["content"]),
        (&json!("Come in."), &json!("Come in."))
    );
    assert!(listed.stdout.contains("ws:ann  all      trusted  operator"), "{listed:?}");
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_not_authorized(&after);
    assert_eq!(gone.code, Some(5), "{gone:?}");
    assert!(audit.stdout.contains("denied    default_policy_deny  ws:ann"), "{audit:?}");
}

/// CH-118, OR-24: nobody is let in by a fault, but the operator can still work.
#[actix::test]
async fn a_fault_in_the_policy_lets_only_the_command_line_in_until_it_is_cured() {
    let service = under("{default_polcy: allow}").await;
    let mut ann = connect(&service, "ann").await;

    ann.say("m1", "#reply Come in.").await;
    let refused = ann.frame().await;
    let sent = service.run(&["send", "#reply Come in."], "").await;
    let doctor = service.run(&["doctor"], "").await;
    let (_, overview) = service.api("GET", "/api/v1/overview", None).await;
    service.write(CHANNELS, &file("{default_policy: allow}"));
    let_in(&mut ann).await;
    let (_, after) = service.api("GET", "/api/v1/overview", None).await;

    assert_not_authorized(&refused);
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Come in.\n"), "{sent:?}");
    let problem =
        "channels.yaml:2:9: trust.default_polcy: unknown key (did you mean \"default_policy\"?)";
    assert_eq!(doctor.code, Some(9));
    assert!(doctor.stdout.contains(problem), "{}", doctor.stdout);
    let logged = problem.split(" (did").next().unwrap();
    assert!(service.log().contains(logged), "{}", service.log());
    let shown = overview["data"]["channels"][0]["error"].as_str().unwrap();
    assert!(shown.contains(problem), "{shown}");
    assert_eq!(after["data"]["channels"][0]["error"], Value::Null);
    assert_eq!(
        decisions(&service, "sender=ann", 1).await.first().unwrap(),
        "ws:ann denied trust_config_invalid"
    );
}

/// CH-118, OR-24: a file that is wrong elsewhere closes the WebSocket, and not the command line.
#[actix::test]
async fn a_channels_file_with_any_other_fault_leaves_the_command_line() {
    let service = Service::prepare().with_file(CHANNELS, "ws: {enabled: maybe}\n").started().await;

    let refused = Client::try_connect(&service.url(), &service.token()).await;
    let sent = service.run(&["send", "#reply Come in."], "").await;

    let error = refused.err().expect("no connection").to_string();
    assert!(error.contains("404"), "{error}");
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Come in.\n"), "{sent:?}");
}

/// CH-118, OR-22, OR-23
#[actix::test]
async fn a_changed_policy_counts_at_once_and_a_wrong_one_not_at_all() {
    let service = under("{default_policy: allow}").await;
    let mut ann = connect(&service, "ann").await;
    let_in(&mut ann).await;

    service.write(CHANNELS, &file("{default_policy: deny}"));
    kept_out(&mut ann).await;
    service.write(CHANNELS, &file("{default_policy: open}"));
    service.until_logged("expected one of allow, deny").await;
    ann.say("still", "#reply Come in.").await;
    let still = ann.frame().await;
    service.write(CHANNELS, &file("{channels: {ws: {policy: allow}}}"));
    let_in(&mut ann).await;

    assert_not_authorized(&still);
}

/// Has the main team call a tool, decides for it if it asks, and reads the tool's answer.
async fn call(client: &mut Client, id: &str, tool: &str, args: Value) -> (Value, bool) {
    let text = format!("#call {tool} {args}\n#reply {{result}}");
    client.say(id, &text).await;
    let mut asked = false;
    loop {
        let frame = client.frame().await;
        let content = frame["content"].as_str().unwrap_or_default();
        if frame["kind"] == "approval" && frame["status"] == "pending" {
            let (_, command) = content.split_once("/approve ").expect("a command");
            let short = command.split(' ').next().unwrap();
            client.say(&format!("{id}-yes"), &format!("/approve {short}")).await;
            asked = true;
        }
        if frame["message_id"] == id && frame["type"] == "response" {
            let answer = serde_json::from_str(content);
            return (answer.unwrap_or_else(|_| json!(content)), asked);
        }
        assert_ne!(frame["type"], "error", "{frame}");
    }
}

/// TO-25, TO-127 to TO-130, OR-19: the tools of the main team; a change is asked for, a look is not.
#[actix::test]
async fn the_main_team_can_list_grant_and_revoke() {
    let service = Service::prepare()
        .with_file(CHANNELS, &file("{channels: {ws: {sender_allowlist: [operator]}}}"))
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@trust\"]\n")
        .started()
        .await;
    let mut operator = service.connect().await;
    let mut ann = connect(&service, "ann").await;
    let of_ann = || json!({"channel_type": "ws", "sender_id": "ann"});

    let added = call(&mut operator, "c1", "add_trusted_sender", of_ann()).await;
    let answer = ann.ask("#reply Come in.").await;
    let listed = call(&mut operator, "c2", "list_trusted_senders", json!({})).await;
    let removed = call(&mut operator, "c3", "revoke_sender_trust", of_ann()).await;
    let again = call(&mut operator, "c4", "revoke_sender_trust", of_ann()).await;
    let wrong = json!({"channel_type": "slack", "sender_id": "ann"});
    let wrong = call(&mut operator, "c5", "add_trusted_sender", wrong).await;

    let (added, was_asked) = added;
    assert!(was_asked, "nobody was asked");
    assert_eq!(
        (&added["success"], &added["sender"]["trust_level"]),
        (&json!(true), &json!("trusted"))
    );
    assert_eq!(answer["content"], "Come in.");
    let (listed, was_asked) = listed;
    assert!(!was_asked, "somebody was asked for a look");
    assert_eq!(listed["senders"][0]["sender_id"], "ann");
    assert_eq!(listed["senders"][0]["granted_by"], "operator");
    assert_eq!(removed, (json!({"success": true, "removed": 1}), true));
    assert_eq!(again.0, json!({"success": true, "removed": 0}));
    assert!(wrong.0.to_string().contains("`discord`"), "{wrong:?}");
}

/// SC-29, OP-79, OP-123
#[actix::test]
async fn identities_are_linked_listed_and_unlinked() {
    let mut service = Service::start().await;
    token(&service, "alice", &["chat", "approve"]).await;
    let run = async |service: &Service, words: &[&str]| service.run(words, "").await;

    let linked = run(&service, &["identity", "link", "discord:42", "alice"]).await;
    let unknown = run(&service, &["identity", "link", "discord:43", "nobody"]).await;
    service.kill();
    let stopped = run(&service, &["identity", "list"]).await;
    service.launch().await;
    let listed = run(&service, &["identity", "list", "--json"]).await;
    let unlinked = run(&service, &["identity", "unlink", "discord:42"]).await;
    let gone = run(&service, &["identity", "unlink", "discord:42"]).await;

    assert_eq!((linked.code, &*linked.stderr), (Some(0), "discord:42 is alice from now on\n"));
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("token list"), "{unknown:?}");
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
    let rows: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&rows["data"][0]["sender_id"], &rows["data"][0]["token"], &rows["data"][0]["live"]),
        (&json!("42"), &json!("alice"), &json!(true))
    );
    assert_eq!((unlinked.code, gone.code), (Some(0), Some(5)), "{gone:?}");
}

/// Says something until it is answered: a policy that lets them in counts.
async fn let_in(client: &mut Client) {
    let ask = async || client.ask("#reply Come in.").await["type"] == "response";
    until("what is said is answered", ask).await;
}

/// Says something until it is refused: a policy that keeps them out counts.
async fn kept_out(client: &mut Client) {
    let ask = async || client.ask("#reply Come in.").await["code"] == "not_authorized";
    until("what is said is refused", ask).await;
}
