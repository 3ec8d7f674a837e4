//! The vault: secrets go in through a pipe and come out nowhere; without its key the service runs
//! and says so.

use std::{fs, path::Path, time::Duration};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, Reply},
    service::{Client, Done, PATIENCE, Service, http},
};

/// Looks like nothing in particular, so that only knowing it can hide it.
const CANARY: &str = "canary/value+7f3a \"9e51\"";
const SYSTEM: &str = "canary0system7f3a9e51c2d8b640";

/// What a value may look like on its way.
fn forms(value: &str) -> Vec<String> {
    let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    let quoted = Value::from(value).to_string();
    vec![
        value.to_owned(),
        quoted.trim_matches('"').to_owned(),
        hex.to_uppercase(),
        hex,
        percent,
        STANDARD.encode(value),
        URL_SAFE_NO_PAD.encode(value),
        // Inside something longer, at the other two alignments.
        STANDARD.encode(format!("x{value}"))[2..20].to_owned(),
        STANDARD.encode(format!("xy{value}"))[3..20].to_owned(),
    ]
}

fn leaked(bytes: &[u8]) -> Option<String> {
    let mut forms = forms(CANARY);
    forms.extend(self::forms(SYSTEM));
    forms.into_iter().find(|form| bytes.windows(form.len()).any(|part| part == form.as_bytes()))
}

/// Files below a folder that hold a value in any form.
fn leaks(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            leaks(&path, found);
        } else if let Some(form) = leaked(&fs::read(&path).unwrap_or_default()) {
            found.push(format!("{form} in {}", path.display()));
        }
    }
}

async fn set(service: &Service, key: &str, value: &str, more: &[&str]) -> Done {
    let arguments = [&["vault", "set", key], more].concat();
    service.run(&arguments, &format!("{value}\n")).await
}

/// Says something and hears the end of it; no frame holds a value.
async fn safely(client: &mut Client, content: &str) -> String {
    client.send(json!({ "content": content })).await;
    let frames = client.exchange().await;
    for frame in &frames {
        assert_eq!(leaked(frame.to_string().as_bytes()), None, "{frame}");
    }
    frames[frames.len() - 1]["content"].as_str().unwrap_or_default().to_owned()
}

/// A service whose main team may use `bash`, files and its vault.
async fn service(model: &FakeModel) -> Service {
    let providers = format!(
        "profiles:\n  default: {{provider: openai, api_url: \"{}/v1\", api_key: \"${{vault:MODEL_KEY}}\", model: m}}\n",
        model.url()
    );
    Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("data/config/config.yaml", "log: {level: trace}\n")
        .with_file(
            "run/teams/main/config.yaml",
            "allowed_tools: [\"@files\", \"@shell\", \"@vault\"]\n",
        )
        .started()
        .await
}

/// That the values really were where they were needed, and not in prompts.
fn was_needed(model: &FakeModel) {
    let requests = model.requests();
    let bearer = format!("Bearer {SYSTEM}");
    assert!(requests.iter().all(|request| request.header("authorization") == Some(&bearer)));
    let bodies: String = requests
        .iter()
        .map(|request| String::from_utf8_lossy(&request.bytes).into_owned())
        .collect();
    assert_eq!(leaked(bodies.as_bytes()), None, "a value went into a prompt");
    let told = |text: &str| assert!(bodies.contains(text), "{text} is not in {bodies}");
    told("secret_tool_denied");
    told("contains the value of vault secret FORGE");
    told(&sha256(CANARY));
}

/// MV-38, MV-45, MV-50, MV-53, MV-62, MV-66, MV-72, MV-79, SC-05, SC-138, OR-20
#[actix::test]
async fn a_secret_is_used_and_seen_nowhere() {
    let model = FakeModel::start();
    let service = service(&model).await;
    let mut shown = String::new();
    for done in [
        set(&service, "MODEL_KEY", SYSTEM, &["--system"]).await,
        set(&service, "FORGE", CANARY, &["--team", "main", "--note", "the forge"]).await,
    ] {
        assert_eq!(done.code, Some(0), "{done:?}");
        shown.push_str(&(done.stdout + &done.stderr));
    }
    model.accept(SYSTEM);
    let mut client = service.connect().await;

    // `bash` gets it only by the operator's word, and then in its environment alone.
    let env =
        json!({ "command": "printf %s \"$T\" | sha256sum", "env": { "T": "${vault:FORGE}" } });
    model.say([
        Reply::call("vault_get", json!({ "key": "FORGE" })),
        Reply::call("bash", env.clone()),
        Reply::text("Refused."),
    ]);
    let refused = safely(&mut client, "tulips in the garden").await;
    let allowed = service
        .run(&["vault", "set", "FORGE", "--team", "main", "--keep-value", "--tool", "bash"], "")
        .await;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let print = "printf '%s\\n' \"$T\"; printf '%s' \"$T\" | base64 -w0; echo; printf 'xy%s' \"$T\" | base64 -w0; echo; \
        printf '%s' \"$T\" | od -An -tx1 -v | tr -d ' \\n'; cat /proc/self/environ; tr '\\0' '\\n' < /proc/*/environ; \
        cat /proc/*/cmdline; true";
    model.say([
        Reply::call("bash", env),
        Reply::call("bash", json!({ "command": print, "env": { "T": "${vault:FORGE}" } })),
        // What it could have learnt, it may not write down.
        Reply::call(
            "write",
            json!({ "file_path": "notes.md", "content": format!("it is {CANARY}") }),
        ),
        Reply::call("bash", json!({ "command": format!("echo '{CANARY}'") })),
        Reply::call("write", json!({ "file_path": "plain.md", "content": "use ${vault:FORGE}" })),
        Reply::text(&format!(
            "It is {CANARY}, or {}, or {}.",
            STANDARD.encode(CANARY),
            STANDARD.encode(format!("x{CANARY}"))
        )),
    ]);
    let answer = safely(&mut client, "tulips in the garden").await;
    // What a person types is theirs, and still no secret is kept of it.
    model.say([Reply::text("Thanks.")]);
    safely(&mut client, &format!("the key of the tulips in the garden is {CANARY}")).await;
    let commands = [
        &["vault", "list"][..],
        &["vault", "list", "--json"],
        &["vault", "show", "FORGE", "--team", "main"],
        &["vault", "audit", "--team", "main"],
        &["doctor"],
        &["status", "--json"],
    ];
    let paths = ["/api/v1/vault", "/api/v1/vault/team:main/FORGE", "/metrics", "/api/v1/overview"];
    shown.push_str(&service.shown(&commands, &paths).await);
    let backup = service.path("backup.tar.zst");
    let made = service.run(&["backup", backup.to_str().unwrap()], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");

    assert_eq!(refused, "Refused.");
    assert!(answer.starts_with("It is ${vault:FORGE}, or ${vault:FORGE}, or "), "{answer}");
    assert_eq!(leaked(shown.as_bytes()), None, "{shown}");
    let mut found = Vec::new();
    leaks(service.home(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    assert!(!service.path("run/teams/main/notes.md").exists());
    assert_eq!(
        fs::read_to_string(service.path("run/teams/main/plain.md")).unwrap(),
        "use ${vault:FORGE}"
    );
    was_needed(&model);
}

fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(text);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// MV-66, MV-62, OP-80, OP-84
#[tokio::test]
async fn a_secret_goes_in_through_a_pipe_and_is_listed_and_deleted() {
    let service = Service::start().await;

    let on_the_line = set(&service, "TOKEN", "", &["--team", "main", "canary0line"]).await;
    let nobody = set(&service, "TOKEN", CANARY, &["--team", "nobody"]).await;
    let short = set(&service, "TOKEN", "short", &["--team", "main"]).await;
    let made = set(&service, "TOKEN", CANARY, &["--team", "main", "--json"]).await;
    let public = set(&service, "PLACE", "Rome", &["--team", "main", "--public"]).await;
    let listed = service.run(&["vault", "list", "--team", "main", "--json"], "").await;
    let shown = service.run(&["vault", "show", "PLACE", "--team", "main"], "").await;
    let deleted = service.run(&["vault", "delete", "TOKEN", "--team", "main"], "").await;
    let again = service.run(&["vault", "delete", "TOKEN", "--team", "main"], "").await;
    let audit = service.run(&["vault", "audit", "--key", "TOKEN", "--json"], "").await;

    assert_eq!(on_the_line.code, Some(2));
    assert!(on_the_line.stderr.contains("may not stand on the command line"), "{on_the_line:?}");
    assert!(!on_the_line.stderr.contains("canary0line"), "{on_the_line:?}");
    assert_eq!((nobody.code, short.code), (Some(5), Some(2)));
    assert!(short.stderr.contains("too_short"), "{short:?}");
    let made: Value = serde_json::from_str(&made.stdout).unwrap();
    let expected = json!({ "scope": "team:main", "key": "TOKEN", "secret": true, "version": 1 });
    assert_eq!(made["data"], expected);
    assert_eq!(public.code, Some(0));
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let keys: Vec<_> = listed["data"].as_array().unwrap().iter().map(|row| &row["key"]).collect();
    assert_eq!(keys, ["PLACE", "TOKEN"]);
    assert!(shown.stdout.contains("value      Rome"), "{shown:?}");
    assert_eq!((deleted.code, again.code), (Some(0), Some(5)));
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    let acts: Vec<_> = audit["data"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|row| {
            format!("{} {}", row["action"].as_str().unwrap(), row["outcome"].as_str().unwrap())
        })
        .collect();
    assert_eq!(acts, ["set too_short", "set ok", "delete ok", "delete ok"]);
}

/// MV-57, MV-61: without its key the service runs, and says what is missing.
#[actix::test]
async fn a_service_without_the_key_of_its_vault_runs_and_says_so() {
    let model = FakeModel::start();
    let mut service = service(&model).await;
    set(&service, "MODEL_KEY", SYSTEM, &["--system"]).await;
    let file = service.path("data/secrets/master.key");
    let key = fs::read(&file).unwrap();
    let backup = service.path("backup.tar.zst");
    let made = service.run(&["backup", backup.to_str().unwrap()], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    service.kill();
    // As on another machine: the backup is there, the key is not.
    fs::remove_file(&file).unwrap();
    let restored = service.run(&["restore", backup.to_str().unwrap(), "--force"], "").await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
    let stopped = service.run(&["doctor"], "").await;

    service.launch().await;
    let (status, listed) = service.api("GET", "/api/v1/vault", None).await;
    let (_, ready) = service.api("GET", "/readyz", None).await;
    let doctor = service.run(&["doctor"], "").await;
    let mut client = service.connect().await;
    client.send(json!({ "content": "tulips in the garden" })).await;
    let frames = client.exchange().await;

    let missing = file.display().to_string();
    assert!(stopped.stdout.contains("vault      is locked"), "{}", stopped.stdout);
    assert_eq!((status, &listed["error"]["code"]), (409, &json!("vault_locked")));
    assert!(listed["error"]["message"].as_str().unwrap().contains(&missing), "{listed}");
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["checks"]["vault"], "locked");
    assert!(doctor.stdout.contains(&missing), "{}", doctor.stdout);
    assert!(service.log().contains("the vault is locked"));
    let end = frames[frames.len() - 1].to_string();
    assert!(end.contains("MODEL_KEY") && end.contains("locked"), "{end}");
    assert!(!file.exists(), "a key was made over existing data");
    service.kill();
    fs::write(&file, key).unwrap();
    restrict(&file);
    service.launch().await;
    let (status, _) = service.api("GET", "/api/v1/vault/system/MODEL_KEY", None).await;
    assert_eq!(status, 200);
}

fn restrict(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// MV-58, MV-74: killed anywhere in a rotation, every value is readable afterwards.
#[tokio::test]
async fn a_rotation_survives_being_killed() {
    let mut service = Service::start().await;
    for value in ["Rome, of course", "Oslo"] {
        let key = format!("K{}", value.len());
        let set = set(&service, &key, value, &["--team", "main", "--public"]).await;
        assert_eq!(set.code, Some(0), "{set:?}");
    }
    for round in 0_u64..16 {
        let request = http()
            .post(format!("{}/api/v1/vault/rotate", service.url()))
            .bearer_auth(service.token())
            .json(&json!({}));
        let rotation = tokio::spawn(request.send());
        tokio::time::sleep(Duration::from_micros(1_500 * round)).await;
        service.kill();
        // It may have been answered, or cut off: what counts is what is left.
        let _ = tokio::time::timeout(PATIENCE, rotation).await.unwrap();
        if round % 4 == 0 {
            // While it is stopped, the store is worked on directly.
            let rotated = service.run(&["vault", "rotate-master"], "").await;
            assert_eq!(rotated.code, Some(0), "{round}: {rotated:?}");
        }

        service.launch().await;

        for value in ["Rome, of course", "Oslo"] {
            let path = format!("/api/v1/vault/team:main/K{}", value.len());
            let (status, entry) = service.api("GET", &path, None).await;
            assert_eq!((status, &entry["data"]["value"]), (200, &json!(value)), "round {round}");
        }
        assert!(!service.path("data/secrets/master.key.new").exists(), "round {round}");
    }
}
