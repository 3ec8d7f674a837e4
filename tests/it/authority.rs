//! Who may do what to the machine, seen from outside: files, folders, names, and what is written down of it.

use std::fs;

use serde_json::{Value, json};

use crate::service::{PATIENCE, Service};

/// SC-110: nothing that is there is replaced, be it by the API or on the command line, with the service
/// running or stopped.
#[actix::test]
async fn a_backup_replaces_no_file() {
    let mut service = Service::start().await;
    let key = service.path("data/secrets/master.key");
    let before = fs::read(&key).unwrap();
    let mine = service.path("mine.tar.zst");
    fs::write(&mine, "mine").unwrap();
    let leftover = service.path("mine.tar.zst.partial");
    fs::write(&leftover, "mine too").unwrap();
    let elsewhere = service.path("elsewhere.tar.zst");
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();

    let over_rest = json!({"file": text(&key)});
    let (path, answer) = service.api("POST", "/api/v1/backups", Some(over_rest)).await;
    let up = json!({"name": "../../data/secrets/master.key"});
    let (up, _) = service.api("POST", "/api/v1/backups", Some(up)).await;
    let taken = service.run(&["backup", &text(&mine)], "").await;
    let made = service.run(&["backup", &text(&elsewhere)], "").await;
    let named = json!({"name": "kept"});
    let (first, _) = service.api("POST", "/api/v1/backups", Some(named.clone())).await;
    service.wait_for_job().await;
    let kept = fs::read(service.path("run/backups/kept.tar.zst")).unwrap();
    let (again, _) = service.api("POST", "/api/v1/backups", Some(named)).await;
    let failed = service.wait_for_job().await;
    service.kill();
    let stopped = service.run(&["backup", &text(&mine)], "").await;
    let other = service.path("other.tar.zst");
    let made_stopped = service.run(&["backup", &text(&other)], "").await;

    assert_eq!((path, &answer["error"]["field"]), (400, &json!("file")));
    assert_eq!(up, 400);
    for refused in [&taken, &stopped] {
        assert_ne!(refused.code, Some(0), "{refused:?}");
        assert!(refused.stderr.contains("is there already"), "{refused:?}");
    }
    assert_eq!((made.code, made_stopped.code), (Some(0), Some(0)), "{made:?}");
    assert!(elsewhere.exists() && other.exists());
    assert_eq!((first, again), (202, 202));
    assert_eq!(failed["state"], "failed", "{failed}");
    let now = fs::read(service.path("run/backups/kept.tar.zst")).unwrap();
    assert!(now == kept, "the named backup was replaced");
    assert_eq!(fs::read(&key).unwrap(), before);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(fs::read_to_string(&leftover).unwrap(), "mine too");
    let names = fs::read_dir(service.path("run/backups")).unwrap();
    let names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().all(|name| !name.contains("moving")), "{names:?}");
}

impl Service {
    /// The newest job, once it is over.
    async fn wait_for_job(&self) -> Value {
        let over = async {
            loop {
                let (_, jobs) = self.api("GET", "/api/v1/jobs?sort=-started_at", None).await;
                let rows = jobs["data"].as_array().cloned().unwrap_or_default();
                if rows.iter().all(|job| job["state"] != "running") && !rows.is_empty() {
                    return rows[0].clone();
                }
            }
        };
        tokio::time::timeout(PATIENCE, over).await.expect("an end")
    }
}

/// SC-05: the operator's token does not leave by what an `admin` token may try out.
#[actix::test]
async fn an_admin_token_reads_no_file_of_the_machine() {
    let service = Service::start().await;
    let made = service.run(&["token", "create", "admin", "--scope", "admin"], "").await;
    let admin = made.stdout.trim().to_owned();
    let secret = service.path("data/secrets/operator-token");
    let told = fs::read_to_string(&secret).unwrap().trim().to_owned();
    for (file, text) in [
        ("config", "timezone: @"),
        ("config", "server: {bind: @}"),
        ("providers", "profiles: {default: {api_key: k, fallbacks: [@]}}"),
        ("channels", "trust: {default_policy: @}"),
    ] {
        let reference = format!("\"${{file:{}}}\"", secret.display());
        let body = json!({"file": file, "content": text.replace('@', &reference)});

        let answer = crate::service::http()
            .post(format!("{}/api/v1/config/validate", service.url()))
            .bearer_auth(&admin)
            .json(&body)
            .send()
            .await
            .unwrap();

        assert_eq!(answer.status(), 200);
        let said = answer.text().await.unwrap();
        assert!(!said.contains(&told), "{said}");
        assert!(!said.contains("No such file"), "{said}");
    }
}

/// OP-86: a second start finds what the first one left in order.
#[actix::test]
async fn a_second_start_logs_no_error() {
    let mut service = Service::start().await;
    let made = service.run(&["token", "create", "ci", "--scope", "read"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");

    service.kill();
    service.launch().await;

    let log = service.log();
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors, Vec::<&str>::new());
    let listed = service.run(&["token", "list"], "").await;
    assert!(listed.stdout.contains("ci"), "{listed:?}");
}

/// OP-115: a tool that the team cannot even see is denied, and the answer says by what.
#[actix::test]
async fn explaining_a_denied_tool_answers_the_decision_and_its_rule() {
    let service = Service::prepare()
        .with_file(
            "data/config/config.yaml",
            "policy: [{id: no-shell, resource: \"tool:bash\", effect: deny}]\n",
        )
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\", \"@shell\"]\n")
        .started()
        .await;
    let explain = async |tool: &str, args: Value| {
        let body = json!({"team": "main", "tool": tool, "args": args});
        service.api("POST", "/api/v1/policies/explain", Some(body)).await
    };

    let (status, denied) = explain("bash", json!({"command": "ls"})).await;
    let (bare_status, bare) = explain("bash", json!({})).await;
    let (left_out_status, left_out) = explain("list_teams", json!({})).await;
    let (unknown, answer) = explain("teleport", json!({})).await;
    let said = service.run(&["policy", "explain", "main", "bash"], "").await;

    assert_eq!(
        (status, bare_status, left_out_status),
        (200, 200, 200),
        "{denied} {bare} {left_out}"
    );
    for explained in [&denied, &bare] {
        let told = (&explained["data"]["decision"], &explained["data"]["rule"]);
        assert_eq!(told, (&json!("deny"), &json!("no-shell")));
    }
    let told = (&left_out["data"]["decision"], &left_out["data"]["reason"]);
    assert_eq!(told, (&json!("deny"), &json!("allowed_tools")));
    assert_eq!((unknown, &answer["error"]["field"]), (400, &json!("tool")));
    assert_eq!(said.stdout.trim(), "deny: rule no-shell");
}

/// PL-77: the one person of a service decides, knowing that they do it alone.
#[actix::test]
async fn a_lone_operator_decides_a_high_risk_call_by_its_short_id() {
    let service = Service::prepare()
        .with_file(
            "data/config/config.yaml",
            "policy: [{id: risky, resource: \"tool:write\", effect: require_approval, risk: high}]\n",
        )
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\"]\n")
        .started()
        .await;
    let mut client = service.connect().await;
    let write = |name: &str| {
        format!("#call write {{\"file_path\":\"{name}\",\"content\":\"x\"}}\n#reply Wrote it.")
    };
    let pending = async |client: &mut crate::service::Client, id: &str, words: &str| {
        client.say(id, words).await;
        let frame =
            client.until(|frame| frame["kind"] == "approval" && frame["status"] == "pending").await;
        let (_, command) = frame["content"].as_str().unwrap().split_once("/approve ").unwrap();
        let short = command.split(' ').next().unwrap().to_owned();
        (short, frame["ref_id"].as_str().unwrap().to_owned())
    };

    // In the chat.
    let (short, id) = pending(&mut client, "m1", &write("a.md")).await;
    client.say("m2", &format!("/approve {short}")).await;
    let asked =
        client.until(|frame| frame["message_id"] == "m2" && frame["type"] == "response").await;
    client.say("m3", &format!("/approve {short} alone")).await;
    client.until(|frame| frame["message_id"] == "m1" && frame["type"] == "response").await;
    let (_, in_chat) = service.api("GET", &format!("/api/v1/approvals/{id}"), None).await;

    // On the command line.
    let (short, _) = pending(&mut client, "m4", &write("b.md")).await;
    let named = format!("short id `{short}`");
    let refused = service.run(&["--yes", "approvals", "approve", &short], "").await;
    let decided =
        service.run(&["--yes", "approvals", "approve", &short, "--confirm", &short], "").await;
    client.until(|frame| frame["message_id"] == "m4" && frame["type"] == "response").await;

    // Once somebody else could, they must.
    let made = service.run(&["token", "create", "bob", "--scope", "approve"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let (short, id) = pending(&mut client, "m5", &write("c.md")).await;
    let (_, row) = service.api("GET", &format!("/api/v1/approvals/{id}"), None).await;
    let word = json!({"decision": "approve", "digest": row["data"]["digest"], "confirm": short});
    let (not_alone, _) = service.api("POST", &format!("/api/v1/approvals/{id}"), Some(word)).await;

    let asked = asked["content"].as_str().unwrap();
    assert!(asked.contains("nobody else could decide"), "{asked}");
    assert_eq!(in_chat["data"]["alone"], true);
    assert_eq!(in_chat["data"]["status"], "approved");
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(refused.stderr.contains(&named), "{refused:?}");
    assert!(decided.stderr.contains("approved, alone"), "{decided:?}");
    assert_eq!(not_alone, 403);
    let (_, lines) = service.api("GET", "/api/v1/audit?action=approval", None).await;
    assert!(lines.to_string().contains("approved alone"), "{lines}");
}

/// MV-45: a value is not lost by a slip.
#[actix::test]
async fn setting_a_secret_that_exists_asks_first_and_keeps_what_it_is_for() {
    let service = Service::start().await;
    let first = [
        "vault",
        "set",
        "FORGE",
        "--team",
        "main",
        "--tool",
        "bash",
        "--host",
        "forge.example.org",
        "--note",
        "For the forge.",
    ];
    let again = ["vault", "set", "FORGE", "--team", "main"];
    let path = "/api/v1/vault/team:main/FORGE";

    let set = service.run(&first, "first-value-1").await;
    let (_, before) = service.api("GET", path, None).await;
    let refused = service.run(&again, "second-value-2").await;
    let (_, kept) = service.api("GET", path, None).await;
    let yes = ["--yes", "vault", "set", "FORGE", "--team", "main"];
    let replaced = service.run(&yes, "second-value-2").await;
    let (_, after) = service.api("GET", path, None).await;

    assert_eq!(set.code, Some(0), "{set:?}");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(kept["data"]["version"], before["data"]["version"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    assert_eq!(after["data"]["version"], json!(2));
    for field in ["tools", "hosts", "note"] {
        assert_eq!(after["data"][field], before["data"][field], "{field}");
    }
}

/// TO-17, SC-30: what tools did and what they were denied is found afterwards.
#[actix::test]
async fn the_audit_tells_of_calls_and_refusals() {
    let service = Service::prepare()
        .with_file(
            "data/config/config.yaml",
            "policy:\n  - {id: no-notes, resource: \"tool:write\", effect: deny, when: [{pointer: /file_path, glob: \"secret*\"}]}\n  - {id: no-edits, resource: \"tool:edit\", effect: deny}\n",
        )
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\"]\n")
        .started()
        .await;
    let mut client = service.connect().await;
    let say = concat!(
        "#call write {\"file_path\":\"a.md\",\"content\":\"hello\"}\n",
        "#call write {\"file_path\":\"secret.md\",\"content\":\"x\"}\n",
        "#call read {\"file_path\":\"/etc/shadow\"}\n",
        "#call write {\"file_pth\":\"b.md\"}\n",
        "#call bash {\"command\":\"ls\"}\n",
        "#call edit {\"file_path\":\"a.md\"}\n",
        "#reply Tried."
    );
    let end = client.ask(say).await;
    assert_eq!(end["content"], "Tried.", "{end}");

    let (_, rows) = service.api("GET", "/api/v1/audit?team=main&action=tool", None).await;
    let (_, denied) = service.api("GET", "/api/v1/audit?decision=deny", None).await;
    let shown = service
        .run(&["audit", "--team", "main", "--tool", "write", "--decision", "deny"], "")
        .await;

    let rows = rows["data"].as_array().unwrap();
    let mut told: Vec<_> = rows
        .iter()
        .map(|row| {
            let call = &row["call"];
            let text = |field: &str| call[field].as_str().unwrap_or_default().to_owned();
            (text("tool"), text("decision"), text("rule"), call["ok"].as_bool().unwrap())
        })
        .collect();
    told.sort();
    let of = |tool: &str, decision: &str, rule: &str, ok| {
        (tool.to_owned(), decision.to_owned(), rule.to_owned(), ok)
    };
    assert_eq!(
        told,
        [
            of("bash", "refuse", "not_available", false),
            of("edit", "deny", "no-edits", false),
            of("read", "refuse", "outside_workspace", false),
            of("write", "allow", "", true),
            of("write", "deny", "no-notes", false),
            of("write", "refuse", "invalid_arguments", false),
        ]
    );
    assert_eq!(denied["total"], 2, "{denied}");
    let rows = denied["data"].as_array().unwrap();
    let mut shown_arguments = rows.iter().map(|row| row["call"]["arguments"].to_string());
    assert!(shown_arguments.any(|arguments| arguments.contains("secret.md")));
    assert!(shown.stdout.contains("deny by no-notes"), "{shown:?}");
}
