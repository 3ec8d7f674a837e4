//! Bounds of what callers name: references, paths, templates.

use serde_json::json;

use super::*;

async fn put(bench: &Bench, path: &str, token: &str, body: Value) -> Answer {
    let request = request(Method::PUT, path).insert_header(bearer(token));
    bench.call(request.set_json(body)).await
}

/// SC-05: an `admin` token learns nothing of the machine from trying out settings.
#[actix::test]
async fn settings_that_are_tried_out_show_no_file_and_no_variable() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let secret = bench.folder.path().join("operator-token");
    let reference = format!("${{file:{}}}", secret.display());

    for (file, content) in [
        ("config", format!("timezone: \"{reference}\"\n")),
        ("config", format!("log: {{level: \"{reference}\"}}\n")),
        ("config", format!("policy: [{{resource: \"{reference}\", effect: deny}}]\n")),
        (
            "providers",
            format!("profiles: {{default: {{api_key: k, fallbacks: [\"{reference}\"]}}}}\n"),
        ),
        ("channels", format!("trust: {{default_policy: \"{reference}\"}}\n")),
    ] {
        let tried = |content: String| json!({"file": file, "content": content});
        let path = "/api/v1/config/validate";
        let there = bench.post(path, &admin, tried(content.clone())).await;
        let absent = content.replace("operator-token", "absent");
        let absent = bench.post(path, &admin, tried(absent)).await;

        assert_eq!(there.status, 200, "{}", there.body);
        assert!(!there.body.contains("hwo_"), "{}", there.body);
        assert_eq!(there.json(), absent.json(), "{content}");
    }
}

/// SC-05: `read` is enough to see the settings, and never shows what they refer to.
#[actix::test]
async fn the_settings_are_shown_without_what_they_refer_to() {
    let bench = Bench::new().await;
    let reader = bench.token("reader", only(Scope::Read)).await;
    let secret = bench.folder.path().join("operator-token");
    std::fs::create_dir_all(bench.home.config_file().parent().unwrap()).unwrap();
    let reference = format!("${{file:{}}}", secret.display());
    let content = format!("profiles: {{default: {{api_key: k, fallbacks: [\"{reference}\"]}}}}\n");
    std::fs::write(bench.home.providers_file(), content).unwrap();

    let shown = bench.get("/api/v1/config", &reader).await;

    let problems = shown.json()["data"]["problems"].clone();
    assert_eq!(problems[0]["path"], "profiles.default");
    assert!(shown.body.contains(&reference), "{}", shown.body);
    assert!(!shown.body.contains("hwo_"), "{}", shown.body);
}

/// SC-05: a team's file is stored as it was sent.
#[actix::test]
async fn a_team_file_takes_no_reference_to_the_machine() {
    let bench = Bench::new().await;
    for reference in ["${env:HOME}", "${file:/etc/hostname}"] {
        let content = format!("description: \"{reference}\"\n");
        let path = "/api/v1/teams/main/config";
        let refused = put(&bench, path, &bench.operator(), json!({"content": content})).await;

        assert_eq!(refused.refusal(), (422, "config_invalid".to_owned()));
    }
}

/// SC-110: over the API a backup has a name, and a place of its own.
#[actix::test]
async fn a_backup_that_is_asked_for_over_the_api_is_a_name_and_no_path() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let make = async |body: Value| bench.post("/api/v1/backups", &admin, body).await;

    for name in [
        "/tmp/x",
        "../x",
        "a/b",
        "..",
        ".",
        "",
        ".hidden",
        "a b",
        "x\0",
        "-x",
        "hivewright-20260101T000000Z",
        &"x".repeat(65),
    ] {
        let refused = make(json!({"name": name})).await;
        assert_eq!((refused.status, refused.field()), (400, "name".to_owned()));
    }
    let path = make(json!({"file": "/tmp/anywhere.tar.zst"})).await;
    assert_eq!((path.status, path.field()), (400, "file".to_owned()));
    assert_eq!(make(json!({"name": "before-2.0"})).await.status, 202);
}

/// SC-14: whoever may change one team gives it nothing of the machine.
#[actix::test]
async fn a_token_for_one_team_gives_it_no_folder_of_the_machine() {
    let bench = Bench::new().await;
    let admin = bench.token_for("own", "main").await;
    let operator = bench.operator();
    let path = "/api/v1/teams/main/config";
    let outside = tempfile::tempdir().unwrap();
    let with = |mode: &str| {
        let folder = outside.path().display();
        json!({"content": format!("allowed_dirs: [{{path: {folder}, mode: {mode}}}]\n")})
    };

    let server = json!({"content": "mcp_servers: {a: {command: sh, network: on}}\n"});
    let served = put(&bench, path, &admin, server).await;
    let refused = put(&bench, path, &admin, with("ro")).await;
    let given = put(&bench, path, &operator, with("ro")).await;
    let wider = put(&bench, path, &admin, with("rw")).await;
    let kept = put(&bench, path, &admin, with("ro")).await;
    let none = put(&bench, path, &admin, json!({"content": "max_steps: 5\n"})).await;
    let back = put(&bench, path, &admin, with("ro")).await;

    assert_eq!(served.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(given.status, 200, "{}", given.body);
    assert_eq!(wider.status, 403, "{}", wider.body);
    assert_eq!(kept.status, 200, "{}", kept.body);
    assert_eq!(none.status, 200, "{}", none.body);
    assert_eq!(back.status, 403, "{}", back.body);
}

/// OP-11, PL-69: whoever says where a server is says where its key goes.
#[actix::test]
async fn a_token_without_secrets_sends_none_elsewhere() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let path = "/api/v1/teams/main/config";
    let server = |host: &str, more: &str| {
        let header = "{authorization: \"Bearer ${vault:KEY}\"}";
        let server = format!("{{url: \"https://{host}/mcp\", headers: {header}}}");
        json!({"content": format!("mcp_servers: {{a: {server}}}\n{more}")})
    };

    let refused = put(&bench, path, &admin, server("good.example", "")).await;
    let given = put(&bench, path, &bench.operator(), server("good.example", "")).await;
    let moved = put(&bench, path, &admin, server("evil.example", "")).await;
    let kept = put(&bench, path, &admin, server("good.example", "max_steps: 5\n")).await;

    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(given.status, 200, "{}", given.body);
    assert_eq!(moved.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(kept.status, 200, "{}", kept.body);
}

/// SC-14, TO-74: nor does it open a private network to it.
#[actix::test]
async fn a_token_for_one_team_gives_it_no_host_of_a_private_network() {
    let bench = Bench::new().await;
    let admin = bench.token_for("own", "main").await;
    let operator = bench.operator();
    let path = "/api/v1/teams/main/config";
    let with = |pairs: &str| json!({"content": format!("egress: {{allow_private: [{pairs}]}}\n")});

    let refused = put(&bench, path, &admin, with("\"wiki.internal:80\"")).await;
    let given = put(&bench, path, &operator, with("\"wiki.internal:80\"")).await;
    let kept = put(&bench, path, &admin, with("\"wiki.internal:80\"")).await;
    let another = put(&bench, path, &admin, with("\"wiki.internal:81\"")).await;
    let narrower = json!({"content": "egress: {allowed_domains: [example.org]}\n"});
    let narrower = put(&bench, path, &admin, narrower).await;

    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(given.status, 200, "{}", given.body);
    assert_eq!(kept.status, 200, "{}", kept.body);
    assert_eq!(another.status, 403, "{}", another.body);
    assert_eq!(narrower.status, 200, "{}", narrower.body);
}

/// OP-13: however it is written, a token in a URL is one.
#[actix::test]
async fn a_token_in_a_url_is_seen_through_its_encoding() {
    let bench = Bench::new().await;
    let token = bench.token("ci", only(Scope::Read)).await;
    let encoded: String = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for query in [
        format!("q={}", token.replace('_', "%5F")),
        format!("q={}", token.replace("hwt", "h%77t")),
        format!("q={encoded}"),
        format!("q={}", encoded.replace('%', "%25")),
        "tok%65n=x".to_owned(),
    ] {
        let path = format!("/api/v1/overview?{query}");

        let refused = bench.call(request(Method::GET, &path)).await;

        assert_eq!(refused.refusal(), (400, "token_in_url".to_owned()), "{query}");
    }
    let inbox = bench.get("/api/v1/inbox", &bench.operator()).await.json();
    assert_eq!(inbox["data"][0]["count"], 4, "{inbox}");
}

/// OP-08: repeating under a key is asking, too.
#[actix::test]
async fn a_repeat_under_the_same_key_counts_against_the_limit() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let operator = bench.operator();
    let ask = || {
        request(Method::POST, "/api/v1/memories")
            .insert_header(bearer(&operator))
            .insert_header(("Idempotency-Key", "again"))
            .set_json(json!({"team": "main", "key": "a", "content": "b", "type": "context"}))
    };
    assert_eq!(answer(&app, ask()).await.status, 201);

    let mut replayed = 0;
    let refused = loop {
        let answered = answer(&app, ask()).await;
        match answered.header("idempotency-replayed") {
            Some(_) if replayed < 3_100 => replayed += 1,
            _ => break answered,
        }
    };

    assert_eq!(refused.status, 429, "{}", refused.body);
    assert_eq!(replayed, 2_999);
}
