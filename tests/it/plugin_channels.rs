//! Channels by plugin: the shipped one, the one of the documentation, and one that stumbles.

use std::{collections::BTreeMap, fs};

use futures_util::future::join_all;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    cli_follow::Following,
    kill_switch::until_there_are,
    plugins::{is_nowhere, row, set, until_status},
    service::{Service, http, until},
};

const CONFIG: &str = "store: {durability: process}\n";
const CHANNELS: &str = "
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
trust:
  channels:
    ws: {policy: allow}
    plugin.echo-channel: {sender_allowlist: [ann]}
    plugin.carrier: {sender_allowlist: [ann]}
    plugin.doorbell: {sender_allowlist: [ann]}
";
const CARRIER: &str = include_str!("plugin_channels/carrier.py");
const DOCUMENTATION: &str = include_str!("../../docs/plugins.md");
/// What callers sign with, and nobody may see.
const SECRET: &str = "canary-channel-93d0a7c51be24f68";

/// HMAC-SHA-256 as its standard says, for keys that are not longer than a block.
fn signature(body: &str) -> String {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(SECRET.bytes()).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    let digits: String = outer.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digits}")
}

/// Calls a webhook; with what is signed, if it is.
pub(crate) async fn call(
    service: &Service,
    path: &str,
    signed: Option<(&str, &str)>,
    body: &str,
) -> (u16, String) {
    let mut request =
        http().post(format!("{}/hooks/channels/{path}", service.url())).body(body.to_owned());
    if let Some((header, signature)) = signed {
        request = request.header(header, signature);
    }
    let response = request.send().await.expect("an answer");
    (response.status().as_u16(), response.text().await.unwrap_or_default())
}

async fn echo(service: &Service, event: &str, text: &str) -> (u16, String) {
    let body = json!({"event_id": event, "from": "ann", "text": text}).to_string();
    call(service, "main/echo-channel", Some(("x-echo-signature", &signature(&body))), &body).await
}

/// What the shipped channel has sent, by the message that it answers.
async fn sent(service: &Service) -> Vec<(String, String)> {
    let row = row(service, "echo-channel").await;
    let sent = row["runtime_state"]["sent"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    sent.iter().map(|one| (text(&one["reply_to"]), text(&one["content"]))).collect()
}

async fn until_sent(service: &Service, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(event, text)| ((*event).to_owned(), (*text).to_owned())).collect();
    until(&format!("sent: {expected:?}"), async || sent(service).await == expected).await;
}

pub(crate) async fn setup(service: &Service, key: &str, step: &str, body: Value) -> (u16, Value) {
    let path = format!("/api/v1/teams/main/plugins/{key}/setup/{step}");
    let (status, answer) = service.api("POST", &path, Some(body)).await;
    (status, if status == 200 { answer["data"].clone() } else { answer["error"].clone() })
}

async fn is_set_up(service: &Service) {
    // Over REST: one that is left is not gone on with, one that ends in an error has changed nothing.
    let (_, first) = setup(service, "echo-channel", "begin", json!({})).await;
    let (_, second) = setup(service, "echo-channel", "begin", json!({})).await;
    let values = json!({"session": first["session"], "values": {"secret": SECRET}});
    let left = setup(service, "echo-channel", "submit", values).await.0;
    let setting_up = row(service, "echo-channel").await;
    let values = json!({"session": second["session"], "values": {}});
    let (unfit, reason) = setup(service, "echo-channel", "submit", values).await;
    let values = json!({"session": second["session"], "values": {"secret": "short"}});
    let (_, refused) = setup(service, "echo-channel", "submit", values).await;
    // By the command line, with the secret on its standard input.
    let words = ["channel", "setup", "echo-channel", "--team", "main", "--set", "secret=-"];
    let silent = service.run(&words[..5], "").await;
    let done = service.run(&words, &format!("{SECRET}\n")).await;
    let listed = service.run(&["channel", "list"], "").await;

    assert_eq!(left, 404);
    assert_eq!(first["state"]["fields"][0]["type"], "password", "{first}");
    assert_eq!(
        (&setting_up["status"], &setting_up["setup"]["session"]),
        (&json!("setup"), &second["session"])
    );
    assert_eq!((unfit, &reason["field"]), (422, &json!("values.secret")), "{reason}");
    assert_eq!(refused["state"]["kind"], "error", "{refused}");
    assert!(silent.code == Some(2) && silent.stderr.contains("--set secret=…"), "{silent:?}");
    assert_eq!(done.code, Some(0), "{done:?}\n{}", service.log());
    assert!(
        listed.stdout.contains("echo-channel") && !listed.stdout.contains("guard"),
        "{listed:?}"
    );
    let stands = until_status(service, "echo-channel", "running").await;
    assert_eq!(
        stands["config"]["channel"]["secret"],
        "${vault:plugin.echo-channel.channel.secret}"
    );
    let url = format!("{}/hooks/channels/main/echo-channel", service.url().trim_end_matches('/'));
    assert_eq!(stands["webhook_url"], url, "{stands}");
}

/// Whoever does not sign, or is not known, gets nowhere; a call that comes again does nothing again.
async fn takes_only_signed_calls(service: &Service) {
    let body = json!({"event_id": "e1", "from": "ann", "text": "#reply one"}).to_string();
    let good = signature(&body);
    let wrong = signature("other words");
    let path = "main/echo-channel";
    let header = "x-echo-signature";
    let refusals = [
        call(service, path, None, &body).await.0,
        call(service, path, Some((header, &wrong)), &body).await.0,
        call(service, "main/http", Some((header, &good)), &body).await.0,
        call(service, "nobody/echo-channel", Some((header, &good)), &body).await.0,
        call(service, path, Some((header, &good)), &"x".repeat((1 << 20) + 1)).await.0,
    ];
    let stranger = json!({"event_id": "e1", "from": "eve", "text": "#reply hers"}).to_string();
    let stranger = call(service, path, Some((header, &signature(&stranger))), &stranger).await;
    let accepted = call(service, path, Some((header, &good)), &body).await;
    let replayed = call(service, path, Some((header, &good)), &body).await;
    let spaced = body.replace(':', ": ");
    let repeated = call(service, path, Some((header, &signature(&spaced))), &spaced).await;

    assert_eq!(refusals, [400, 401, 404, 404, 413]);
    assert_eq!(stranger, (403, "Not authorized.".to_owned()));
    assert_eq!(accepted, (200, String::new()), "{}", service.log());
    assert_eq!(replayed, (200, r#"{"duplicate":true}"#.to_owned()));
    assert_eq!(repeated.0, 200, "{repeated:?}");
    until_sent(service, &[("e1", "one")]).await;
}

/// What was taken in is answered, though the service is killed at once; what was sent is not sent again.
async fn loses_and_repeats_nothing(service: &mut Service) {
    let body = json!({"event_id": "e1", "from": "ann", "text": "#reply one"}).to_string();
    let good = signature(&body);
    assert_eq!(echo(service, "e2", "#reply two").await.0, 200);
    service.kill();
    service.launch().await;
    until_sent(service, &[("e1", "one"), ("e2", "two")]).await;
    let after = [
        call(service, "main/echo-channel", Some(("x-echo-signature", &good)), &body).await,
        echo(service, "e2", "#reply two").await,
    ];
    // Of the same call many times at once one is answered; the others are asked to come later, or came later.
    let at_once = join_all((0..8).map(|_| echo(service, "e3", "#reply three"))).await;
    until_sent(service, &[("e1", "one"), ("e2", "two"), ("e3", "three")]).await;
    let is_repeat = |(status, answer): &(u16, String)| match status {
        503 => answer.contains("call_in_progress"),
        _ => answer == r#"{"duplicate":true}"#,
    };
    let answered: Vec<_> = at_once.iter().filter(|answer| !is_repeat(answer)).collect();
    assert_eq!(answered, [&(200, String::new())], "{at_once:?}");
    assert_eq!(after[0], (200, r#"{"duplicate":true}"#.to_owned()));
    assert_eq!(after[1].0, 200, "{after:?}");
    let tasks = service.until("/api/v1/tasks?limit=50", |tasks| tasks.is_array()).await;
    assert_eq!(tasks.as_array().map(Vec::len), Some(3), "{tasks}");
    let is_connected =
        |row: &Value| row["type"] == "plugin.echo-channel" && row["state"] == "connected";
    service
        .until("/api/v1/channels", |rows| {
            rows.as_array().is_some_and(|rows| rows.iter().any(is_connected))
        })
        .await;
}

/// PL-51 to PL-55, PL-60, PL-64, PL-91, PL-97: the shipped channel is set up step by step, takes signed calls alone, each
/// message once and its answer once, over a kill of the service, and its secret is in the vault and nowhere else.
#[actix::test]
async fn the_shipped_channel_is_set_up_and_loses_and_repeats_nothing() {
    let mut service = Service::prepare()
        .with_file("data/config/config.yaml", CONFIG)
        .with_file("data/config/channels.yaml", CHANNELS)
        .started()
        .await;
    let mut events = Following::start(&service, &["events", "--json"]);
    events.line().await;
    assert_eq!(echo(&service, "e0", "#reply too early").await.0, 404);

    is_set_up(&service).await;
    takes_only_signed_calls(&service).await;
    loses_and_repeats_nothing(&mut service).await;
    // Off is off.
    set(&service, "echo-channel", json!({"enabled": false})).await;
    assert_eq!(echo(&service, "e4", "#reply four").await.0, 404);
    set(&service, "echo-channel", json!({"enabled": true})).await;
    until_status(&service, "echo-channel", "running").await;
    is_nowhere(SECRET, &mut service, events).await;
}

/// A home with the plugin `carrier`, in Python, and the channel that the documentation shows.
fn home() -> Service {
    let service = Service::prepare().with_file("data/config/channels.yaml", CHANNELS);
    let manifest = format!(
        "manifest_version = 1\nkey = \"carrier\"\nversion = \"1.0.0\"\ndisplay_name = \"Test\"\n\
         description = \"Does what tests want.\"\n\
         [run]\nkind = \"process\"\ncommand = \"python3\"\nargs = [\"plugin.py\", \"{}\"]\n\
         [channel]\nsetup = true\n[channel.webhook]\nscheme = \"plugin\"\n\
         [config.schema]\ntype = \"object\"\n[config.schema.properties.channel]\ntype = \"object\"\n\
         properties = {{ note = {{ type = \"string\" }} }}\n",
        mark(&service)
    );
    service.write("work/carrier/plugin.toml", &manifest);
    service.write("work/carrier/plugin.py", CARRIER);
    let block = |first: &str| {
        let (_, rest) =
            DOCUMENTATION.split_once(first).unwrap_or_else(|| panic!("{first} is not shown"));
        rest.split_once("\n```").expect("an end").0.to_owned()
    };
    let manifest = block("```toml\n# doorbell/plugin.toml\n");
    let (main, steps) = (
        block("```js\n// doorbell/main.js\n"),
        block("```js\n// in channel({ … }) of doorbell/main.js\n"),
    );
    let manifest =
        manifest.replacen("[channel.webhook]", "[channel]\nsetup = true\n\n[channel.webhook]", 1);
    service.write("work/doorbell/plugin.toml", &manifest);
    service.write(
        "work/doorbell/main.js",
        &main.replacen("channel({", &format!("channel({{\n{steps}"), 1),
    );
    let paths = format!("plugins: {{paths: [{}]}}\n", service.path("work").display());
    service.write("data/config/config.yaml", &format!("{CONFIG}{paths}"));
    service
}

fn mark(service: &Service) -> String {
    let name = service.home().file_name().unwrap_or_default();
    format!("carrier-of-{}", name.to_string_lossy().trim_start_matches('.'))
}

/// What the carrier has written down.
fn written(service: &Service, name: &str) -> Vec<Value> {
    let path = service.path(&format!("run/plugins/main/carrier/{name}"));
    let text = fs::read_to_string(path).unwrap_or_default();
    // A line may be half there.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn until_carried(service: &Service, text: &str) {
    until(&format!("carried: {text}"), async || {
        written(service, "sent").iter().any(|row| row["content"] == text)
    })
    .await;
}

/// Lets the carrier bring a message, and tells what it was answered. One that is not ready is called again, as a network does:
/// it may have died just now.
async fn bring(service: &Service, message: Value) -> Value {
    let body = json!({"do": "inbound", "message": message}).to_string();
    let mut told = (503, String::new());
    until("the carrier is ready", async || {
        told = call(service, "main/carrier", None, &body).await;
        told.0 != 503
    })
    .await;
    let (status, answer) = told;
    assert_eq!(status, 200, "{answer}\n{}", service.log());
    serde_json::from_str(&answer).unwrap_or(Value::Null)
}

fn from_ann(event: &str, text: &str) -> Value {
    json!({"event_id": event, "conversation": "room-1", "sender": {"id": "ann", "name": "Ann"}, "text": text})
}

/// Killed while it sends: the process, and then the service.
async fn dies_while_it_sends(service: &mut Service) {
    bring(service, from_ann("k1", "#reply hold one")).await;
    until("it is being sent", async || {
        written(service, "tries").iter().any(|row| row["content"] == "hold one")
    })
    .await;
    let mark = mark(service);
    assert_eq!(crate::plugins::signal_marked(&mark, rustix::process::Signal::KILL), 1);
    until_carried(service, "hold one").await;
    until_status(service, "carrier", "running").await;
    bring(service, from_ann("k2", "#reply hold two")).await;
    until("it is being sent", async || {
        written(service, "tries").iter().any(|row| row["content"] == "hold two")
    })
    .await;
    service.kill();
    until_there_are(0, &mark).await;
    service.launch().await;
    until_carried(service, "hold two").await;
}

/// Nobody else's team, conversation or name.
async fn reaches_nobody_else(service: &Service) {
    until_status(service, "carrier", "running").await;
    let mut foreign = from_ann("x1", "#reply x");
    foreign["team"] = "other".into();
    let foreign = bring(service, foreign).await;
    let mut borrowed = from_ann("x2", "#reply borrowed");
    borrowed["conversation"] = "plugin.echo-channel:main~1:ann".into();
    let borrowed = bring(service, borrowed).await;
    until_carried(service, "borrowed").await;
    let link = json!({"channel_type": "plugin.carrier", "sender_id": "ann", "token": "operator"});
    let (linked, answer) = service.api("POST", "/api/v1/identities", Some(link)).await;
    assert_eq!(linked, 201, "{answer}");
    bring(service, from_ann("x3", "/approvals")).await;
    until_carried(service, "Not authorized.").await;
    assert_eq!(foreign["code"], -32602, "{foreign}");
    assert_eq!(borrowed["accepted"], true, "{borrowed}");
    let own = service
        .until("/api/v1/me/channels?limit=50", |rows| {
            rows.to_string().contains("borrowed") || rows.is_array()
        })
        .await;
    assert!(
        own.to_string().contains("plugin.carrier:main~1:plugin.echo-channel:main~1:ann"),
        "{own}"
    );
}

/// What it answers to its network is plain data, and no credential reaches it; a flood ends at the bound of the instance.
async fn answers_without_credentials(service: &Service) {
    let url = format!("{}/hooks/channels/main/carrier", service.url());
    let page = http()
        .post(url)
        .header("cookie", "c=1")
        .bearer_auth("t0ken")
        .body(r#"{"do": "page"}"#)
        .send()
        .await
        .unwrap();
    let kind = page.headers()["content-type"].to_str().unwrap().to_owned();
    let shown = page.text().await.unwrap();
    assert_eq!(kind, "text/plain; charset=utf-8");
    assert!(
        !shown.contains("t0ken") && !shown.contains("c=1") && shown.contains("content-length"),
        "{shown}"
    );
    assert_eq!(call(service, "main/carrier", None, r#"{"do": "leave"}"#).await.0, 502);

    // A flood ends at the bound of the instance, and nobody else feels it.
    call(service, "main/carrier", None, r#"{"do": "flood"}"#).await;
    until("the flood ends", async || written(service, "flood").len() == 8).await;
    assert_eq!(written(service, "flood"), [(); 8].map(|()| json!("rate_limited")));
    let mut client = service.connect().await;
    assert_eq!(client.ask("#reply fine").await["content"], "fine");
}

/// PL-28, PL-51, PL-53, PL-93: a channel that stumbles is tried again until a message is where it belongs, also over kills of
/// its process and of the service; what it carries is its own and no more, however much it brings.
#[actix::test]
async fn a_channel_that_stumbles_sends_everything_once_and_reaches_nobody_else() {
    let mut service = home().started().await;
    let stands = set(&service, "carrier", json!({"enabled": true})).await;
    until_status(&service, "carrier", "running").await;
    let texts = ["plain", "it comes later", "then die", "some rubbish", "after never", "at last"];

    for (number, text) in texts.iter().enumerate() {
        let taken =
            bring(&service, from_ann(&format!("m{number}"), &format!("#reply {text}"))).await;
        assert_eq!(
            (&taken["accepted"], &taken["duplicate"]),
            (&json!(true), &json!(false)),
            "{taken}"
        );
        until_carried(&service, text).await;
        until_status(&service, "carrier", "running").await;
    }
    let again = bring(&service, from_ann("m0", "#reply plain")).await;
    let other = bring(&service, from_ann("m0", "#reply other words")).await;
    assert_eq!((&again["accepted"], &again["duplicate"]), (&json!(true), &json!(true)), "{again}");
    assert_eq!(other["code"], "message_id_conflict", "{other}");
    let inbox = service
        .until("/api/v1/inbox", |rows| rows.to_string().contains("nobody lives there"))
        .await;
    assert!(inbox.to_string().contains("undelivered"), "{inbox}");

    dies_while_it_sends(&mut service).await;
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for row in written(&service, "sent") {
        *counted.entry(row["content"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        assert_eq!(
            (&row["recipient"], &row["kind"]),
            (&json!("room-1"), &json!("response")),
            "{row}"
        );
    }
    assert_eq!(counted.len(), texts.len() + 2, "{counted:?}");
    assert!(counted.values().all(|count| *count == 1), "{counted:?}");
    assert_eq!(written(&service, "started")[0], stands["webhook_url"]);

    reaches_nobody_else(&service).await;
    answers_without_credentials(&service).await;
    // A wizard that would put a password where everybody reads it is not believed.
    let mut events = Following::start(&service, &["events", "--json"]);
    events.line().await;
    let (_, begun) = setup(&service, "carrier", "begin", json!({})).await;
    let session = &begun["session"];
    let values = json!({"session": session, "values": {"password": SECRET}});
    let (early, refusal) = setup(&service, "carrier", "submit", values.clone()).await;
    let (_, asked) = setup(&service, "carrier", "poll", json!({"session": session})).await;
    let (_, leaks) = setup(&service, "carrier", "submit", values).await;
    assert_eq!(begun["state"]["poll_interval_ms"], 500, "{begun}");
    assert_eq!((early, &refusal["code"]), (409, &json!("wrong_state")), "{refusal}");
    assert_eq!(asked["state"]["kind"], "awaiting_user_input", "{asked}");
    assert_eq!(leaks["state"]["kind"], "error", "{leaks}");
    assert!(leaks.to_string().contains("/channel/note"), "{leaks}");
    service.until_logged("I was told").await;
    is_nowhere(SECRET, &mut service, events).await;
}

/// What the documentation shows is a channel: from its text to an answer.
#[actix::test]
async fn the_channel_of_the_documentation_carries_a_message() {
    let service = home().started().await;
    let words = ["channel", "setup", "doorbell", "--team", "main", "--set", "secret=-"];
    let done = service.run(&words, SECRET).await;
    assert_eq!(done.code, Some(0), "{done:?}\n{}", service.log());
    until_status(&service, "doorbell", "running").await;
    let body = json!({"id": "1", "from": "ann", "text": "#reply Who is there?"}).to_string();

    let called =
        call(&service, "main/doorbell", Some(("x-hub-signature-256", &signature(&body))), &body)
            .await;

    assert_eq!(called.0, 200, "{called:?}\n{}", service.log());
    until("its answer", async || {
        row(&service, "doorbell").await["runtime_state"]["ann"] == "Who is there?"
    })
    .await;
}
