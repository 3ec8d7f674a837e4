//! The files that tell teams what they are, and the settings files, as operators edit them.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;

use super::*;

async fn put(bench: &Bench, path: &str, body: Value) -> Answer {
    let request = request(Method::PUT, path).insert_header(bearer(&bench.operator()));
    bench.call(request.set_json(body)).await
}

/// OP-53, SC-42: whatever a team made of its folders, nothing outside of them is read, written or removed.
#[actix::test]
async fn instructions_are_read_written_and_removed_where_they_are() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let folder = bench.home.team("main");
    let base = "/api/v1/teams/main/instructions";
    let elsewhere = bench.folder.path().join("elsewhere");
    fs::create_dir_all(folder.join("team-rules")).unwrap();
    fs::create_dir_all(elsewhere.join("deep")).unwrap();
    fs::write(elsewhere.join("a.md"), "not for you").unwrap();
    fs::write(elsewhere.join("deep/SKILL.md"), "not for you").unwrap();
    fs::create_dir_all(bench.home.trash()).unwrap();
    let _ = fs::remove_dir(folder.join("skills"));
    symlink(&elsewhere, folder.join("skills")).unwrap();

    let new = json!({"content": "Be kind.\n", "revision": ""});
    let made = put(&bench, &format!("{base}/team-rules/kind"), new.clone()).await;
    let again = put(&bench, &format!("{base}/team-rules/kind"), new.clone()).await;
    let rows = bench.get(base, &operator).await.json()["data"].clone();
    let wrong = json!({"content": "---\naudience: nobody\n---\nA"});
    let wrong = put(&bench, &format!("{base}/team-rules/kind"), wrong).await;

    assert_eq!(made.status, 200, "{}", made.body);
    assert_eq!(again.status, 409, "{}", again.body);
    assert_eq!(rows[0]["file"], "team-rules/kind.md");
    assert_eq!(rows[0]["description"], "Be kind.");
    assert_eq!(wrong.refusal(), (422, "config_invalid".to_owned()));
    assert_eq!(wrong.json()["error"]["details"]["problems"][0]["line"], 2);
    for name in
        ["skills/deep", "skills/a", "team-rules/..%2Fkind", "team-rules/.hidden", "plugins/kind"]
    {
        let path = format!("{base}/{name}");
        let shown = bench.get(&path, &operator).await.status;
        let written = put(&bench, &path, new.clone()).await.status;
        let removed = bench.delete(&path, &operator).await.status;
        for status in [shown, written, removed] {
            assert!((400..500).contains(&status), "{name}: {shown} {written} {removed}");
        }
    }
    assert_eq!(fs::read_to_string(elsewhere.join("deep/SKILL.md")).unwrap(), "not for you");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2);
    assert_eq!(bench.delete(&format!("{base}/team-rules/kind"), &operator).await.status, 204);
    assert!(!folder.join("team-rules/kind.md").exists());
    let mut buried = fs::read_dir(bench.home.trash()).unwrap();
    let buried = buried.next().unwrap().unwrap().file_name().into_string().unwrap();
    assert!(buried.starts_with("main-team-rules-kind-"), "{buried}");
}

/// OP-63, SC-05: every settings file is replaced by whoever may do everything, from the state that they saw.
#[actix::test]
async fn settings_files_are_replaced_from_the_state_that_was_seen() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;

    for (name, content) in
        [("config", "log: {level: debug}\n"), ("channels", "ws: {enabled: true}\n")]
    {
        let path = format!("/api/v1/config/{name}");
        let before = bench.get(&path, &bench.operator()).await.json()["data"].clone();
        let body = json!({"content": content, "revision": before["revision"]});
        let lesser = bench
            .call(request(Method::PUT, &path).insert_header(bearer(&admin)).set_json(&body))
            .await;
        let written = put(&bench, &path, body.clone()).await;
        let stale = put(&bench, &path, body).await;
        let leak = put(&bench, &path, json!({"content": "timezone: ${env:HOME}\n"})).await;

        assert_eq!(lesser.status, 403, "{name}");
        assert_eq!(written.json()["data"]["content"], content);
        assert_eq!(stale.status, 409, "{name}");
        assert_eq!((leak.status, leak.field()), (422, "content".to_owned()));
    }
    let unknown = bench.get("/api/v1/config/secrets", &bench.operator()).await;
    assert_eq!(unknown.status, 404);
}
