//! Packages of plugins: written, looked over, installed, changed behind the service's back, and taken away.

use std::fs;

use serde_json::{Value, json};

use crate::service::{Done, Service, http, until};

async fn plugin(service: &Service, words: &[&str]) -> Done {
    let words: Vec<&str> = ["plugin"].iter().chain(words).copied().collect();
    service.run(&words, "").await
}

async fn row(service: &Service, key: &str) -> Value {
    let (_, answer) = service.api("GET", &format!("/api/v1/plugins/{key}"), None).await;
    answer["data"].clone()
}

/// Waits until a plugin stands so.
async fn until_state(service: &Service, key: &str, state: &str) {
    until(state, async || row(service, key).await["state"] == state).await;
}

/// PL-10, PL-17, PL-18, PL-20, PL-21, PL-34, PL-56, PL-57, PL-64, PL-96
#[actix::test]
async fn a_plugin_is_written_installed_changed_and_taken_away() {
    let service = Service::start().await;
    let folder = service.path("weather");
    let dir = folder.to_str().unwrap();

    for language in ["js", "python"] {
        let _ = fs::remove_dir_all(&folder);
        let made =
            plugin(&service, &["new", "my-weather", "--language", language, "--dir", dir]).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        let sound = plugin(&service, &["doctor", dir]).await;
        assert!(sound.stdout.contains("my-weather 0.1.0 is sound"), "{sound:?}");
    }
    let again = plugin(&service, &["new", "my-weather", "--dir", dir]).await;
    assert_eq!(again.code, Some(6), "{again:?}");

    let asked = plugin(&service, &["install", dir]).await;
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.stderr.contains("tools `myweather.*`, at most 64"), "{asked:?}");
    assert_eq!(row(&service, "my-weather").await, Value::Null);
    let installed = plugin(&service, &["install", dir, "--yes"]).await;
    assert_eq!(installed.code, Some(0), "{installed:?}");
    let shown = row(&service, "my-weather").await;
    assert_eq!((&shown["state"], &shown["origin"]), (&json!("loaded"), &json!("installed")));
    assert_eq!(shown["capabilities"]["tools"]["effects"], json!({"greet": "pure"}));
    let field = "/config_schema/properties/tools/properties/greeting/type";
    assert_eq!(shown.pointer(field), Some(&json!("string")));

    let (refused, answer) = service
        .api("POST", "/api/v1/teams", Some(json!({"name": "myweather", "scope_accepts": ["x"]})))
        .await;
    assert_eq!((refused, &answer["error"]["code"]), (400, &json!("name_reserved")), "{answer}");

    service.write("data/plugins/my-weather/main.py", "print('other')\n");
    until_state(&service, "my-weather", "failed").await;
    let inbox =
        service.until("/api/v1/inbox", |rows| rows.to_string().contains("my-weather")).await;
    assert!(inbox.to_string().contains("plugin_failed"), "{inbox}");
    let found = plugin(&service, &["doctor"]).await;
    assert_eq!(found.code, Some(9), "{found:?}");
    assert!(found.stderr.contains("digest_mismatch") && found.stderr.contains("plugin approve"));
    let stale = json!({"digest": shown["digest"]});
    let path = "/api/v1/plugins/my-weather/approve";
    let (refused, answer) = service.api("POST", path, Some(stale)).await;
    assert_eq!((refused, &answer["error"]["code"]), (409, &json!("digest_mismatch")));
    let agreed = plugin(&service, &["approve", "my-weather", "--yes"]).await;
    assert_eq!(
        (agreed.code, row(&service, "my-weather").await["state"].clone()),
        (Some(0), json!("loaded"))
    );

    let manifest = folder.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap().replace("0.1.0", "0.2.0");
    fs::write(
        &manifest,
        text + "\n[sandbox]\nnetwork = \"broker\"\nhosts = [\"api.example.org\"]\n",
    )
    .unwrap();
    let archive = service.path("weather.tar.gz");
    let packed = std::process::Command::new("tar")
        .arg("-czf")
        .arg(&archive)
        .arg("-C")
        .arg(&folder)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    let sent = http()
        .post(format!("{}/api/v1/plugins", service.url()))
        .bearer_auth(service.token())
        .body(fs::read(&archive).unwrap())
        .send()
        .await
        .unwrap();
    let status = sent.status().as_u16();
    let answer: Value = sent.json().await.unwrap();
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("asks_for_more")), "{answer}");
    assert_eq!(row(&service, "my-weather").await["version"], "0.1.0");
    let updated = plugin(&service, &["install", archive.to_str().unwrap(), "--yes"]).await;
    assert_eq!(updated.code, Some(0), "{updated:?}");
    assert!(
        updated.stderr.contains("asks for more:\n  network: reaches `api.example.org`"),
        "{updated:?}"
    );
    assert_eq!(row(&service, "my-weather").await["version"], "0.2.0");

    for (words, reason) in [
        (vec!["https://example.org/a.zip"], "--sha256"),
        (vec!["http://example.org/a.zip", "--sha256", &"0".repeat(64)], "https://"),
        (vec!["https://127.0.0.1/a.zip", "--sha256", &"0".repeat(64)], "private"),
        (vec!["Cargo.toml"], "neither"),
    ] {
        let words: Vec<&str> = ["install", "--yes"].into_iter().chain(words).collect();
        let refused = plugin(&service, &words).await;
        assert!(refused.code != Some(0) && refused.stderr.contains(reason), "{refused:?}");
    }
    let served = plugin(
        &service,
        &["install", "--yes", "--mcp", "clock", "--", "/opt/clock/bin/clock", "--utc"],
    )
    .await;
    assert_eq!(served.code, Some(0), "{served:?}");
    assert_eq!(row(&service, "clock").await["capabilities"]["tools"]["namespace"], "clock");

    let gone = plugin(&service, &["uninstall", "my-weather", "--purge", "--yes"]).await;
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!(row(&service, "my-weather").await, Value::Null);
    assert!(!service.path("data/plugins/my-weather").exists());
    fs::remove_dir_all(service.path("data/plugins/clock")).unwrap();
    until_state(&service, "clock", "missing").await;
    let forgotten = plugin(&service, &["uninstall", "clock", "--yes"]).await;
    assert_eq!(
        (forgotten.code, row(&service, "clock").await),
        (Some(0), Value::Null),
        "{forgotten:?}"
    );
}

/// PL-07, PL-10: a folder that is worked on counts as it is, from the moment the settings name it.
#[actix::test]
async fn a_folder_that_is_worked_on_is_read_again_when_it_changes() {
    let service = Service::start().await;
    let manifest = include_str!("plugin_packages/greeter/plugin.toml");
    service.write("work/greeter/plugin.toml", manifest);
    service.write("work/greeter/main.js", "export {};\n");
    service.write("work/broken/plugin.toml", "key = 5\n");
    let work = service.path("work");

    service
        .write("data/config/config.yaml", &format!("plugins: {{paths: [{}]}}\n", work.display()));
    until_state(&service, "greeter", "loaded").await;
    let broken = row(&service, "broken").await;
    let before = row(&service, "greeter").await["digest"].clone();
    service.write("work/greeter/main.js", "export const more = 1;\n");
    until("another digest", async || row(&service, "greeter").await["digest"] != before).await;

    assert_eq!(
        (&broken["state"], &broken["fault"]["code"]),
        (&json!("failed"), &json!("key_invalid"))
    );
    assert_eq!(row(&service, "greeter").await["state"], "loaded");
    let refused = plugin(&service, &["uninstall", "greeter", "--yes"]).await;
    assert!(refused.stderr.contains("not installed"), "{refused:?}");
}
