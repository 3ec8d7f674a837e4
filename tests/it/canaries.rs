//! Canaries: secrets of every kind in a full run. None is in a log line, frame, journal, row, answer,
//! error or prompt, whichever way it is written.

use std::{fs, ops::ControlFlow, path::Path, sync::LazyLock};

use aho_corasick::AhoCorasick;
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hivewright::{
    settings::config::Durability,
    storage::{self, open::open},
};
use hivewright_actors::{
    storage::{Order, Storage as _},
    store::keys::printable,
};
use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service},
};

/// Of a team, by the operator. Its special characters look different in a URL, and which do differs
/// from encoder to encoder; in base64 it takes more than one line.
const OF_TEAM: &str = "canary+team/7f3a9e51=c2d8b640!(a$b&c)*d,e;f:g@h~i 'j' \
                       0123456789abcdef0123456789abcdef0123456789abcdef";
/// Of the service.
const OF_SERVICE: &str = "canary+service/92be07d4=415fa3c8";
/// Given by a model to a team that it makes.
const OF_SPAWN: &str = "canary+spawn/0d51e6aa=83b7f219";
/// Said in a conversation, and a secret only later.
const SAID_FIRST: &str = "canary+said/5b0c77e9=1fa6d024";
/// The same, given by the conversation to a team that it makes.
const SAID_TO_SPAWN: &str = "canary+asked/e4410b9d=6c82f73a";

/// The ways in which a secret must not be seen.
pub(crate) fn forms(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.as_bytes().to_vec()];
    forms.extend(percents(secret).into_iter().map(String::into_bytes));
    for before in 0..3 {
        // What is the same for any text before and after it.
        let padded = [vec![b'x'; before], secret.as_bytes().to_vec()].concat();
        for encoded in [STANDARD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            let from = if before == 0 { 0 } else { 4 };
            let to = encoded.trim_end_matches('=').len() - 4;
            forms.push(encoded.as_bytes()[from..to].to_vec());
        }
    }
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    forms.push(hex.to_uppercase().into_bytes());
    forms.push(hex.into_bytes());
    forms.extend(lines_of(secret).into_iter().map(String::into_bytes));
    forms
}

/// What encoders leave as it is, beside letters and digits: those of RFC 3986, of JavaScript, of
/// paths, of forms, and of whole addresses.
const LEFT: [&str; 5] = ["-._~", "-._~!'()*", "-._~!$&'()*+,;=:@", "-._*", "-._~!$&'()*+,;=:@/"];

/// A text as encoders of URLs and forms write it.
fn percents(text: &str) -> Vec<String> {
    let mut encodings = Vec::new();
    for left in LEFT {
        for space in ["%20", "+"] {
            let encoded = |upper: bool| -> String {
                let bytes = text.bytes().map(|byte| match byte {
                    b' ' => space.to_owned(),
                    byte if byte.is_ascii_alphanumeric() || left.as_bytes().contains(&byte) => {
                        char::from(byte).to_string()
                    }
                    byte if upper => format!("%{byte:02X}"),
                    byte => format!("%{byte:02x}"),
                });
                bytes.collect()
            };
            encodings.extend([encoded(true), encoded(false)]);
        }
    }
    encodings
}

/// A text in base64 that is cut into lines, if it is long enough for that: whole lines of it.
fn lines_of(text: &str) -> Vec<String> {
    let mut wrapped = Vec::new();
    for width in [76, 64] {
        for line_end in ["\n", "\r\n", "\\n", "\\r\\n"] {
            let encoded = STANDARD.encode(text);
            if encoded.len() > width {
                wrapped.push(format!("{}{line_end}", &encoded[..width]));
            }
        }
    }
    wrapped
}

/// A text in base64 as programs print it.
fn printed(text: &str) -> String {
    let encoded = STANDARD.encode(text);
    let (first, rest) = encoded.split_at(76.min(encoded.len()));
    let (mail, more) = encoded.split_at(64.min(encoded.len()));
    format!("{first}\n{rest} or {mail}\r\n{more}")
}

fn percent(text: &str) -> String {
    percents(text).join(" or ")
}

/// All forms of all secrets, and whose each is.
static FORMS: LazyLock<(AhoCorasick, Vec<&str>)> = LazyLock::new(|| {
    let secrets = [OF_TEAM, OF_SERVICE, OF_SPAWN, SAID_FIRST, SAID_TO_SPAWN];
    let forms = secrets
        .into_iter()
        .flat_map(|secret| forms(secret).into_iter().map(move |form| (form, secret)));
    let (forms, secrets): (Vec<_>, Vec<_>) = forms.unzip();
    (AhoCorasick::new(forms).unwrap(), secrets)
});

/// Which secret some bytes hold, in any form.
fn contained(bytes: &[u8]) -> Option<&'static str> {
    let (search, secrets) = &*FORMS;
    let found = search.find(bytes)?;
    Some(secrets[found.pattern().as_usize()])
}

fn leaks(folder: &Path, found: &mut Vec<String>) {
    each_file(folder, &mut |path, content| {
        found.extend(contained(content).map(|secret| format!("{secret} in {}", path.display())));
    });
}

/// The files below a folder that hold one of these.
pub(crate) fn files_with(forms: &[Vec<u8>], folder: &Path) -> Vec<String> {
    let search = AhoCorasick::new(forms).unwrap();
    let mut found = Vec::new();
    each_file(folder, &mut |path, content| {
        found.extend(search.is_match(content).then(|| path.display().to_string()));
    });
    found
}

fn each_file(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_file(&path, look);
        } else {
            look(&path, &fs::read(&path).unwrap_or_default());
        }
    }
}

/// Says something and hears the end of it, and all that was told until then; nothing holds a secret.
async fn safely(client: &mut Client, content: &str) -> Value {
    client.send(json!({ "content": content })).await;
    let frames = client.exchange().await;
    frames.iter().for_each(holds_no_secret);
    frames[frames.len() - 1].clone()
}

/// The same of a message that makes a team: the end of it, and how the team's setup ended, which may
/// be told before.
async fn making_a_team_safely(client: &mut Client, content: &str) -> (Value, Value) {
    client.send(json!({ "content": content })).await;
    let (mut end, mut setup) = (None, None);
    loop {
        let frame = client.frame().await;
        holds_no_secret(&frame);
        if frame["kind"] == "bootstrap" {
            setup = Some(frame);
        } else if frame["type"] == "response" || frame["type"] == "error" {
            end = Some(frame);
        }
        if let (Some(end), Some(setup)) = (&end, &setup) {
            return (end.clone(), setup.clone());
        }
    }
}

fn holds_no_secret(frame: &Value) {
    let text = frame.to_string();
    assert_eq!(contained(text.as_bytes()), None, "{frame}");
    // A topic that was named after one is not called so any more.
    assert!(!text.contains("5b0c77e9"), "{frame}");
}

const TEAM: &str = "allowed_tools: [\"@org\", \"@vault\", \"@memory\", \"@shell\", \"@files\"]\n";
const CHANNELS: &str = "ws: {enabled: true}\ntopics: {model: never}\n";

/// Routes that might show a secret.
const PATHS: [&str; 9] = [
    "/metrics",
    "/api/v1/overview",
    "/api/v1/vault",
    "/api/v1/vault/audit",
    "/api/v1/teams",
    "/api/v1/tasks",
    "/api/v1/memories",
    "/api/v1/approvals",
    "/api/v1/inbox",
];

/// The service with a secret of a team and one of its own.
async fn started(model: &FakeModel) -> Service {
    let providers = format!(
        "profiles:\n  default: {{provider: openai, api_url: \"{0}/v1\", api_key: {KEY}, model: m}}\n  \
         other: {{provider: anthropic, api_url: \"{0}\", api_key: \"${{vault:OTHER_KEY}}\", model: m}}\n",
        model.url()
    );
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("data/config/config.yaml", "log: {level: trace}\n")
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await;
    let kept = [
        (&["vault", "set", "DB", "--team", "main", "--tool", "bash"][..], OF_TEAM),
        (&["vault", "set", "OTHER_KEY", "--system"], OF_SERVICE),
    ];
    for (arguments, secret) in kept {
        let done = service.run(arguments, secret).await;
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    service
}

/// MV-45, MV-48 to MV-53, MV-62, MV-71, OR-61, SC-05, SC-138
#[actix::test]
async fn no_secret_is_seen_anywhere_in_a_full_run() {
    let model = FakeModel::start();
    let service = started(&model).await;
    let mut client = service.connect().await;

    // A tool that really gets the value, and says it in every way it can.
    let say = "echo \"$PW\"; printf %s \"$PW\" | base64; printf %s \"x$PW\" | base64; \
               printf %s \"xx$PW\" | base64; printf %s \"$PW\" | base64 -w 64; printf %s \"$PW\" | od -An -tx1 | tr -d ' \\n'; \
               printf %s ${#PW} > length";
    model.say([
        Reply::call("bash", json!({ "command": say, "env": { "PW": "${vault:DB}" } })),
        Reply::call("vault_get", json!({ "key": "DB" })),
        Reply::call("memory_save", json!({ "key": "pw", "content": OF_TEAM })),
        Reply::call("write", json!({ "file_path": "pw", "content": OF_TEAM })),
        Reply::text(&format!(
            "The password is {OF_TEAM}, or {}, or {}.",
            percent(OF_TEAM),
            printed(OF_TEAM)
        )),
    ]);
    let answer = safely(&mut client, "tulips in the garden").await;
    // A team that is made with a credential, which its context repeats.
    model.say([
        Reply::call(
            "spawn_team",
            json!({
                "name": "forge",
                "description": "works at the forge",
                "scope_accepts": ["forge"],
                "init_context": format!("Log in with {OF_SPAWN}."),
                "credentials": { "FORGE_TOKEN": OF_SPAWN },
            }),
        ),
        Reply::text("It is being set up."),
    ]);
    model.otherwise(Reply::text(&format!("I know {OF_SPAWN} and {OF_SERVICE}.")));
    let (spawned, told) = making_a_team_safely(&mut client, "tulips in the garden").await;
    let commands = [
        &["vault", "list"][..],
        &["vault", "list", "--json"],
        &["vault", "show", "DB", "--team", "main"],
        &["vault", "audit"],
        &["memory", "list", "--team", "main"],
        &["doctor"],
        &["status", "--json"],
    ];
    let shown = told.to_string() + &service.shown(&commands, &PATHS).await;
    let backup = service.path("backup.tar.zst");
    let made = service.run(&["backup", backup.to_str().unwrap()], "").await;

    assert!(answer["content"].as_str().unwrap().contains("${vault:DB}"), "{answer}");
    assert_eq!(spawned["type"], "response", "{spawned}");
    assert_eq!(contained(shown.as_bytes()), None, "{shown}");
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut found = Vec::new();
    leaks(service.home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    for request in model.requests() {
        assert_eq!(contained(&request.bytes), None, "a secret went into a prompt");
    }
    // The tool was really given the value, and the team really has its own.
    let length = fs::read_to_string(service.path("run/teams/main/length")).unwrap();
    assert_eq!(length, OF_TEAM.len().to_string());
    let entry = service.run(&["vault", "show", "FORGE_TOKEN", "--team", "forge"], "").await;
    assert_eq!(entry.code, Some(0), "{entry:?}");
    let context = service.path("run/teams/forge/team-rules/team-context.md");
    let context = fs::read_to_string(context).unwrap();
    assert!(context.contains("${vault:FORGE_TOKEN}"), "{context}");
}

/// The records of a stopped service that fit.
pub(crate) fn records(service: &Service, fits: impl Fn(&[u8]) -> bool) -> Vec<String> {
    let layout = storage::Home::new(&service.path("data"), &service.path("run"));
    let storage = open(&layout, Durability::Process, &storage::unwatched).unwrap();
    let mut found = Vec::new();
    storage
        .scan(&[], &[u8::MAX], Order::Rising, &mut |key, value| {
            if fits(value.unwrap()) {
                found.push(printable(key));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// MV-52, MV-53
#[actix::test]
async fn what_was_said_before_it_became_a_secret_is_nowhere_any_more() {
    let model = FakeModel::start();
    let providers = format!(
        "profiles:\n  default: {{provider: openai, api_url: \"{}/v1\", api_key: {KEY}, model: m}}\n",
        model.url()
    );
    let mut service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await;
    let mut client = service.connect().await;
    model.say([
        Reply::call("memory_save", json!({ "key": "pw", "content": SAID_FIRST })),
        Reply::call("vault_set", json!({ "key": "PW", "value": SAID_FIRST })),
        Reply::call("bash", json!({ "command": format!("printf %s '{SAID_FIRST}' | base64 -w0") })),
        Reply::text(&format!("I know {SAID_FIRST}, or {}.", percent(SAID_FIRST))),
    ]);
    let said = client.ask(&format!("the password is {SAID_FIRST}")).await;
    assert!(said.to_string().contains(SAID_FIRST), "{said}");

    // The operator makes it a secret, and a model gives the other one to a team.
    let set = &["--yes", "vault", "set", "PW", "--team", "main"];
    let set = service.run(set, SAID_FIRST).await;
    assert_eq!(set.code, Some(0), "{set:?}");
    model.say([
        Reply::call(
            "spawn_team",
            json!({
                "name": "forge",
                "description": "works at the forge",
                "scope_accepts": ["forge"],
                "credentials": { "FORGE_TOKEN": SAID_TO_SPAWN },
            }),
        ),
        Reply::text("It is being set up."),
    ]);
    model.otherwise(Reply::text("Well."));
    let asked = format!("make a team for the forge, which takes {SAID_TO_SPAWN}");
    let (spawned, _) = making_a_team_safely(&mut client, &asked).await;
    let before = model.requests().len();
    let answer = safely(&mut client, "what is the password?").await;
    let mut shown = String::new();
    for path in ["/api/v1/tasks", "/api/v1/memories", "/api/v1/inbox", "/api/v1/vault"] {
        let (_, body) = service.api("GET", path, None).await;
        shown.push_str(&body.to_string());
    }
    service.signal("TERM");
    assert_eq!(service.ended().await, Some(0));

    assert_eq!(spawned["type"], "response", "{spawned}");
    assert_eq!(answer["type"], "response", "{answer}");
    assert_eq!(contained(shown.as_bytes()), None, "{shown}");
    let held = records(&service, |value| contained(value).is_some());
    assert_eq!(held, Vec::<String>::new());
    assert_eq!(contained(service.log().as_bytes()), None);
    let later = &model.requests()[before..];
    assert!(!later.is_empty());
    for request in later {
        let text = String::from_utf8_lossy(&request.bytes).into_owned();
        assert_eq!(contained(&request.bytes), None, "{text}");
        // A topic that was named after it is not called so any more.
        assert!(!text.contains("5b0c77e9"), "{text}");
    }
}
