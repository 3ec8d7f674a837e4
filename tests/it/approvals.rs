//! What a person decides: over chat, command line and REST, across restarts, and in races.

use futures_util::future::join;
use serde_json::{Value, json};

use crate::service::{Client, Service, until};

/// Writing asks; nobody may use `bash` but for looking.
const CONFIG: &str = "
store: {durability: process}
policy:
  - id: ask-write
    effect: require_approval
    resource: tool:write
    note: files are seen by everyone
  - id: no-shell
    effect: deny
    resource: class:exec
";

const TEAM: &str = "allowed_tools: [\"@files\", \"@shell\", \"@org\", \"@vault\"]\n";

fn home() -> Service {
    Service::prepare()
        .with_file("data/config/config.yaml", CONFIG)
        .with_file("run/teams/main/config.yaml", TEAM)
}

fn write(path: &str) -> String {
    let file = json!({"file_path": path, "content": "written"});
    format!("#call write {file}\n#reply {{result}}")
}

/// The one thing that waits, once it does.
async fn waiting(service: &Service) -> Value {
    let is_one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    service.until("/api/v1/approvals?status=pending", is_one).await[0].take()
}

async fn decide(service: &Service, held: &Value, decision: &str, note: &str) -> (u16, Value) {
    let path = format!("/api/v1/approvals/{}", held["id"].as_str().unwrap());
    let word = json!({"decision": decision, "digest": held["digest"], "note": note});
    service.api("POST", &path, Some(word)).await
}

fn is_written(service: &Service, path: &str) -> bool {
    service.path("run/teams/main").join(path).exists()
}

/// PL-79, PL-82, PL-85: the card, the commands, the effect.
#[actix::test]
async fn a_call_is_decided_in_the_chat() {
    let service = home().started().await;
    let mut client = service.connect().await;

    client.say("m1", &write("a.txt")).await;
    let card = client.until(|frame| frame["type"] == "notification").await;
    let held = waiting(&service).await;
    let name = held["short_id"].as_str().unwrap().to_owned();
    let before = is_written(&service, "a.txt");
    client.say("m2", &format!("/approve {name}")).await;
    let answer = client.end_of("m2").await;
    let end = client.end_of("m1").await;
    client.say("m3", &write("b.txt")).await;
    let second = waiting(&service).await;
    let other = second["short_id"].as_str().unwrap();
    client.say("m4", &format!("/deny {other} not in this folder")).await;
    client.end_of("m4").await;
    let denied = client.end_of("m3").await;

    assert_eq!(card["kind"], "approval");
    assert_eq!(card["ref_id"], held["id"]);
    let content = card["content"].as_str().unwrap();
    let digest = &held["digest"].as_str().unwrap()[..8];
    for part in ["write", "a.txt", &name, digest, "files are seen by everyone"] {
        assert!(content.contains(part), "{part}: {content}");
    }
    assert!(!before);
    assert_eq!(answer["content"], "Approved: write.");
    assert!(end["content"].as_str().unwrap().starts_with("Wrote"), "{end}");
    assert!(is_written(&service, "a.txt"));
    assert_eq!(denied["content"], "denied by operator: not in this folder");
    assert!(!is_written(&service, "b.txt"));
}

/// PL-85, OP-79, OP-85
#[actix::test]
async fn a_call_is_decided_on_the_command_line() {
    let service = home().started().await;
    let mut client = service.connect().await;
    client.say("m1", &write("a.txt")).await;
    let held = waiting(&service).await;
    let name = held["short_id"].as_str().unwrap();

    let listed = service.run(&["approvals", "list"], "").await;
    let shown = service.run(&["approvals", "show", name], "").await;
    let unasked = service.run(&["approvals", "approve", name], "").await;
    let status = service.run(&["status"], "").await;
    let approved = service.run(&["approvals", "approve", name, "--yes", "--json"], "").await;
    let end = client.end_of("m1").await;
    let late = service.run(&["approvals", "deny", name, "too late"], "").await;
    let unknown = service.run(&["approvals", "show", "zzzzzz"], "").await;

    assert!(listed.stdout.contains(name), "{listed:?}");
    assert!(shown.stdout.contains(held["digest"].as_str().unwrap()), "{shown:?}");
    assert!(shown.stdout.contains("a.txt"), "{shown:?}");
    assert_eq!(unasked.code, Some(2), "{unasked:?}");
    assert!(status.stdout.contains("1 approval,"), "{status:?}");
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let answer: Value = serde_json::from_str(&approved.stdout).unwrap();
    assert_eq!(answer["data"]["resolved_via"], "cli");
    assert!(end["content"].as_str().unwrap().starts_with("Wrote"), "{end}");
    // The operator said yes before, and cannot say no now.
    assert_eq!((late.code, unknown.code), (Some(6), Some(5)), "{late:?} {unknown:?}");
}

/// PL-75, PL-76, OP-36
#[actix::test]
async fn a_call_is_decided_over_rest() {
    let service = home().started().await;
    let mut client = service.connect().await;
    client.say("m1", &write("a.txt")).await;
    let held = waiting(&service).await;
    let mut other = held.clone();
    other["digest"] = json!("0".repeat(64));

    let (mismatch, refusal) = decide(&service, &other, "approve", "").await;
    let (denied, row) = decide(&service, &held, "deny", "no").await;
    let end = client.end_of("m1").await;
    let (late, conflict) = decide(&service, &held, "approve", "").await;

    assert_eq!((mismatch, &refusal["error"]["code"]), (409, &json!("digest_mismatch")));
    assert_eq!((denied, &row["data"]["status"]), (200, &json!("denied")));
    assert_eq!(end["content"], "denied by operator: no");
    assert_eq!((late, &conflict["error"]["code"]), (409, &json!("already_resolved")));
    assert!(!is_written(&service, "a.txt"));
}

/// PL-76, SC-08: killed while it waits, and again between the decision and the effect.
#[actix::test]
async fn what_waits_survives_a_kill() {
    let mut service = home().started().await;
    let mut client = service.connect().await;
    client.say("m1", &write("a.txt")).await;
    let held = waiting(&service).await;
    let (channel, seq) = (client.channel.clone().unwrap(), client.last_seq);

    service.kill();
    service.launch().await;
    let again = waiting(&service).await;
    let (status, _) = decide(&service, &again, "approve", "").await;
    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seq).await;
    let end = client.end_of("m1").await;

    assert_eq!((&again["id"], &again["digest"]), (&held["id"], &held["digest"]));
    assert_eq!(status, 200);
    assert!(end["content"].as_str().unwrap().starts_with("Wrote"), "{end}");
    assert!(is_written(&service, "a.txt"));
    let path = format!("/api/v1/approvals/{}", held["id"].as_str().unwrap());
    let (_, row) = service.api("GET", &path, None).await;
    assert_eq!(row["data"]["execution"], "done");
}

/// PL-76: of two deciders one decides, and the other hears who.
#[actix::test]
async fn two_deciders_race_and_one_wins() {
    let service = home().started().await;
    let mut client = service.connect().await;
    let bob = token(&service, "bob", &["approve", "read"]).await;

    for round in 0..5 {
        let file = format!("{round}.txt");
        client.say(&format!("m{round}"), &write(&file)).await;
        let held = waiting(&service).await;
        let path = format!("{}/api/v1/approvals/{}", service.url(), held["id"].as_str().unwrap());
        let post = |token: String, decision: &str| {
            let word = json!({"decision": decision, "digest": held["digest"], "note": "raced"});
            crate::service::http().post(&path).bearer_auth(token).json(&word).send()
        };
        let (yes, no) = join(post(service.token(), "approve"), post(bob.clone(), "deny")).await;
        let (yes, no) = (yes.unwrap().status().as_u16(), no.unwrap().status().as_u16());
        client.end_of(&format!("m{round}")).await;

        let mut both = [yes, no];
        both.sort_unstable();
        assert_eq!(both, [200, 409]);
        assert_eq!(is_written(&service, &file), yes == 200);
    }
}

/// PL-77, PL-85: only who may, and only with the right scope.
#[actix::test]
async fn whoever_may_not_decide_decides_nothing() {
    let service = home().started().await;
    let ann = token(&service, "ann", &["chat", "read"]).await;
    let mut client = Client::connect(&service.url(), &ann).await;
    client.say("m1", &write("a.txt")).await;
    let held = waiting(&service).await;
    let name = held["short_id"].as_str().unwrap();

    client.say("m2", &format!("/approve {name}")).await;
    let in_chat = client.end_of("m2").await;
    let path = format!("{}/api/v1/approvals/{}", service.url(), held["id"].as_str().unwrap());
    let word = json!({"decision": "approve", "digest": held["digest"]});
    let over_rest = crate::service::http().post(path).bearer_auth(&ann).json(&word).send().await;

    assert_eq!(in_chat["content"], "Not authorized.");
    assert_eq!(over_rest.unwrap().status().as_u16(), 403);
    assert_eq!(waiting(&service).await["id"], held["id"]);
    assert!(!is_written(&service, "a.txt"));
}

/// PL-66, PL-71, OP-115
#[actix::test]
async fn rules_of_settings_and_command_line_count_at_once() {
    let service = home().started().await;
    let mut client = service.connect().await;

    let hidden = client.ask("#call bash {\"command\": \"ls\"}\n#reply {result}").await;
    let added = service
        .run(&["policy", "add", "deny", "file:secret", "--id", "closed", "--note", "why"], "")
        .await;
    let denied = client.ask("#call read {\"file_path\": \"secret/a\"}\n#reply {result}").await;
    let listed = service.run(&["policy", "list"], "").await;
    let explained = service
        .run(&["policy", "explain", "main", "read", "{\"file_path\": \"secret/a\"}"], "")
        .await;
    let asks = service
        .run(
            &["policy", "explain", "main", "write", "{\"file_path\": \"a\", \"content\": \"\"}"],
            "",
        )
        .await;
    let wrong = service.run(&["policy", "add", "perhaps", "tool:bash"], "").await;
    let settled = service.run(&["policy", "rm", "no-shell"], "").await;
    let removed = service.run(&["policy", "rm", "closed"], "").await;
    let open = client.ask("#call read {\"file_path\": \"secret/a\"}\n#reply {result}").await;

    assert_eq!(hidden["content"], "tool not available to this team");
    assert_eq!(added.code, Some(0), "{added:?}");
    let content = denied["content"].as_str().unwrap();
    assert!(content.contains("denied by the operator's rule `closed`"), "{content}");
    for part in ["ask-write", "no-shell", "settings", "closed", "stored"] {
        assert!(listed.stdout.contains(part), "{part}: {listed:?}");
    }
    assert_eq!(explained.stdout.trim(), "deny: rule closed");
    assert!(asks.stdout.starts_with("require_approval: rule ask-write"), "{asks:?}");
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("[possible values: allow, deny"), "{wrong:?}");
    assert_eq!(settled.code, Some(6), "{settled:?}");
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(open["content"].as_str().unwrap().contains("does not exist"), "{open}");
}

/// PL-88, OP-116
#[actix::test]
async fn an_answer_comes_back_to_the_team_that_asked() {
    let service = home().started().await;
    let mut client = service.connect().await;
    let question = json!({"question": "Which colour?", "options": ["red", "blue"]});

    let script = format!("#call ask_operator {question}\n#reply {{result}}");
    client.say("m1", &script).await;
    let card = client.until(|frame| frame["kind"] == "question").await;
    let asked = client.end_of("m1").await;
    let id = card["ref_id"].as_str().unwrap().to_owned();
    let listed = service.run(&["questions", "list"], "").await;
    let wrong = service.run(&["questions", "answer", &id, "--select", "green"], "").await;
    client.say("m2", &format!("/answer {id} the blue one")).await;
    let answered = client.end_of("m2").await;
    let told = client.until(|frame| frame["kind"] == "task").await;
    let late = service.run(&["questions", "answer", &id, "--text", "red"], "").await;

    let asked: Value = serde_json::from_str(asked["content"].as_str().unwrap()).unwrap();
    assert_eq!((&asked["success"], &asked["question_id"]), (&json!(true), &json!(id)));
    assert!(listed.stdout.contains("Which colour? [red | blue]"), "{listed:?}");
    assert!(wrong.stderr.contains("`green` is no option"), "{wrong:?}");
    assert_eq!(answered["content"], "Answered; main goes on with it.");
    assert!(told["content"].as_str().unwrap().contains("the blue one"), "{told}");
    assert_eq!(late.code, Some(6), "{late:?}");
}

/// PL-88, PL-87: a secret goes into the vault, and nowhere else.
#[actix::test]
async fn a_secret_answer_is_seen_nowhere_but_in_the_vault() {
    let service = home().started().await;
    let mut client = service.connect().await;
    let question = json!({"question": "The key?", "kind": "secret", "key": "API_KEY"});
    let script = format!("#call ask_operator {question}");
    client.say("m1", &script).await;
    let card = client.until(|frame| frame["kind"] == "question").await;
    client.end_of("m1").await;
    let id = card["ref_id"].as_str().unwrap().to_owned();

    client.say("m2", &format!("/answer {id} canary-in-the-chat")).await;
    let in_chat = client.end_of("m2").await;
    let on_line = service.run(&["questions", "answer", &id, "--text", "x"], "").await;
    let given = service.run(&["questions", "answer", &id], "canary-4f1c9d7e\n").await;
    let closed = client.until(|frame| frame["status"] == "answered").await;
    let told = client.until(|frame| frame["kind"] == "task").await;
    let (_, questions) = service.api("GET", "/api/v1/questions", None).await;

    assert!(in_chat["content"].as_str().unwrap().contains("asks for a secret"), "{in_chat}");
    assert_eq!(on_line.code, Some(2), "{on_line:?}");
    assert_eq!(given.code, Some(0), "{given:?}");
    assert!(told["content"].as_str().unwrap().contains("${vault:API_KEY}"), "{told}");
    // Whoever was shown the question hears that it waits no more.
    assert_eq!((&closed["kind"], &closed["ref_id"]), (&json!("question"), &json!(id)), "{closed}");
    for shown in [closed, told, questions.clone()] {
        assert!(!shown.to_string().contains("canary-4f1c9d7e"), "{shown}");
    }
    for text in [service.log(), given.stdout] {
        assert!(!text.contains("canary-4f1c9d7e"), "{text}");
    }
    assert_eq!(questions["data"][0]["status"], "answered");
}

/// A token with some scopes.
async fn token(service: &Service, name: &str, scopes: &[&str]) -> String {
    let wish = json!({"name": name, "scopes": scopes});
    let (status, answer) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    assert_eq!(status, 201, "{answer}");
    answer["data"]["token"].as_str().unwrap().to_owned()
}

/// Whoever makes teams asks.
const TEAMS_ASK: &str = "
store: {durability: process}
policy:
  - {id: ask-teams, effect: require_approval, resource: \"tool:spawn_team\"}
";

fn spawn(name: &str, value: &str) -> String {
    let team = json!({
        "name": name, "scope_accepts": [name], "credentials": {"TOKEN": value},
    });
    format!("#call spawn_team {team}\n#reply {{result}}")
}

/// What the audit tells of credentials that main gave to teams that are not made, oldest first.
async fn aside(service: &Service) -> Vec<String> {
    let path = "/api/v1/vault/audit?scope=aside:main";
    let (_, rows) = service.api("GET", path, None).await;
    let rows = rows["data"].as_array().unwrap().iter().rev();
    let told = |row: &Value| format!("{} {} {}", row["action"], row["key"], row["actor"]["kind"]);
    rows.map(|row| told(row).replace('"', "")).collect()
}

/// OR-61, MV-65, PL-76, PL-86: credentials of a call that waits survive a kill and go into the vault of
/// the team; those of a call that is denied go at once; what cannot be a secret is refused unasked.
#[actix::test]
async fn credentials_wait_as_long_as_their_call_does() {
    let mut service = Service::prepare()
        .with_file("data/config/config.yaml", TEAMS_ASK)
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await;
    let mut client = service.connect().await;
    client.say("m1", &spawn("scouts", "short")).await;
    let refused = client.end_of("m1").await;
    client.say("m2", &spawn("scouts", "canary-value-of-m2")).await;
    let held = waiting(&service).await;
    service.kill();
    service.launch().await;
    let mut client = service.connect().await;

    let (approved, _) = decide(&service, &held, "approve", "").await;
    let show = async || service.run(&["vault", "show", "TOKEN", "--team", "scouts"], "").await;
    until("the entry is there", async || show().await.code == Some(0)).await;
    let entry = show().await;
    client.say("m3", &spawn("smiths", "canary-value-of-m3")).await;
    let held = waiting(&service).await;
    let kept = aside(&service).await;
    decide(&service, &held, "deny", "not now").await;
    client.end_of("m3").await;
    until("its credentials are gone", async || aside(&service).await.len() != kept.len()).await;

    let refused = refused["content"].as_str().unwrap();
    assert!(refused.contains("too_short"), "{refused}");
    assert_eq!(approved, 200);
    assert!(!entry.stdout.contains("canary"), "{entry:?}");
    let told = aside(&service).await;
    let expected = ["set TOKEN team", "set TOKEN team", "delete TOKEN system"];
    assert_eq!(told, expected);
    // It is a word like any other again.
    client.say("m4", "#reply canary-value-of-m3").await;
    let said = client.end_of("m4").await;
    assert_eq!(said["content"], "canary-value-of-m3");
}
