//! The tools of the vault, and secrets in the arguments of all tools.

use hivewright_actors::storage::Storage as _;

use super::*;
use crate::{
    scrub::Scrubber,
    settings::tool_groups::ToolGroup,
    tools::vault::made,
    vault::{audit::Action, entry::Put, tests as doubles},
};

struct Desk {
    vault: doubles::Bench,
    tools: Bench,
}

impl Desk {
    fn new() -> Self {
        let vault = doubles::Bench::new();
        let toolbox = super::super::all().with(made());
        let tools = Bench::with_vault(toolbox, &["*"], vault.vault.clone());
        Self { vault, tools }
    }

    /// As an operator does.
    async fn set(&self, key: &str, put: Put) {
        let (scope, by) = (doubles::team("team"), doubles::operator());
        self.vault.vault.set(&scope, key, put, &by).await.unwrap();
    }

    async fn ask(&self, tool: &str, args: Value) -> Value {
        let reply = self.tools.call(tool, args).await;
        serde_json::from_str(&reply.content).unwrap_or_else(|_| panic!("{}", reply.content))
    }
}

/// TO-35, TO-98, OR-19
#[actix::test]
async fn the_vault_tools_declare_themselves() {
    let vault = doubles::Bench::new();
    let bench =
        Bench::with_vault(super::super::all().with(made()), &["@vault"], vault.vault.clone());
    let look = |name, args| bench.look(&call(name, args)).unwrap();
    let checked = |effect| Checked::allowed(effect, false, Duration::from_secs(30));

    let specs = bench.tools.specs();
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();

    assert_eq!(names, REGISTRY.members(ToolGroup::Vault).collect::<Vec<_>>());
    for spec in specs.iter() {
        assert!((1..=1024).contains(&spec.description.chars().count()));
    }
    let found = [
        Checked { stow: None, ..look("vault_set", json!({ "key": "a", "value": "b" })) },
        look("vault_delete", json!({ "key": "a" })),
        look("vault_get", json!({ "key": "a" })),
        look("vault_list", json!({})),
    ];
    let (idempotent, pure) = (checked(Effect::Idempotent), checked(Effect::Pure));
    assert_eq!(found, [idempotent.clone(), idempotent, pure.clone(), pure]);
}

/// MV-37 to MV-40, MV-80
#[actix::test]
async fn a_team_keeps_values_and_gets_references_to_secrets() {
    let desk = Desk::new();
    let secret = Put { note: Some("the forge".to_owned()), ..Put::secret("canary-value-1") };
    desk.set("TOKEN", secret).await;
    let long = "x".repeat(300);

    let set = desk.ask("vault_set", json!({ "key": "PLACE", "value": long })).await;
    let place = desk.ask("vault_get", json!({ "key": "PLACE" })).await;
    let token = desk.ask("vault_get", json!({ "key": "TOKEN" })).await;
    let listed = desk.ask("vault_list", json!({})).await;
    let prefixed = desk.ask("vault_list", json!({ "prefix": "T" })).await;

    assert_eq!(set, json!({ "success": true, "key": "PLACE", "version": 1 }));
    assert_eq!(place, json!({ "success": true, "value": long }));
    assert_eq!(
        token,
        json!({
            "success": true,
            "secret": true,
            "reference": "${vault:TOKEN}",
            "tools": ["*"],
            "hosts": [],
        })
    );
    let cut = "x".repeat(200) + r#" … [100 more characters: vault_get {"key":"PLACE"}]"#;
    let rows = json!([
        { "key": "PLACE", "secret": false, "note": "", "value": cut },
        { "key": "TOKEN", "secret": true, "note": "the forge" },
    ]);
    assert_eq!(listed, rows);
    assert_eq!(prefixed, json!([rows[1]]));
}

/// TO-17: what a call keeps is not written down with it, and is there when it runs, be it again after a crash.
#[actix::test]
async fn the_value_that_a_call_sets_is_not_written_down_with_it() {
    let desk = Desk::new();
    let tools = &desk.tools.tools;
    let said = call("vault_set", json!({ "key": "PLACE", "value": "canary-place-1" }));
    let no_text = call("vault_set", json!({ "key": "PLACE", "value": ["canary-place-1"] }));
    let written = json!({ "key": "PLACE", "value": "[REDACTED]" });
    let run = async |cx: CallContext| {
        let reply = tools.run(call("vault_set", written.clone()), cx).await;
        serde_json::from_str::<Value>(&reply.content).unwrap()
    };

    let clean = tools.clean(&said);
    let kept = desk.tools.look(&said).unwrap().stow.unwrap().keep().await.unwrap();
    desk.vault.disk.commit(&kept.writes.batch().unwrap()).unwrap();
    kept.then.await;
    let first = run(context()).await;
    let again = run(CallContext { rerun: true, ..context() }).await;
    let place = desk.ask("vault_get", json!({ "key": "PLACE" })).await;
    let audit: Vec<_> = desk.vault.vault.audit().await.into_iter().map(|row| row.action).collect();
    tools.settled(&said.id, "vault_set", &caller());
    let mut gone = run(context()).await;
    for _ in 0..10_000 {
        if gone["success"] == false {
            break;
        }
        tokio::task::yield_now().await;
        gone = run(context()).await;
    }

    assert_eq!(clean, Some(written.clone()));
    assert_eq!(tools.clean(&no_text), Some(json!({ "key": "PLACE", "value": [] })));
    assert!(!desk.tools.look(&no_text).unwrap_err().content.contains("canary"));
    assert_eq!((&first["version"], &again["version"]), (&json!(1), &json!(2)));
    assert_eq!(place["value"], "canary-place-1");
    assert_eq!(audit, [Action::Get, Action::Set, Action::Set]);
    assert!(!desk.vault.disk.text().contains("canary-place"));
    assert_eq!(gone["error"], "invalid_input", "{gone}");
}

/// MV-37, MV-40, MV-80
#[actix::test]
async fn a_refusal_names_its_code_and_the_way_out() {
    let desk = Desk::new();
    desk.set("TOKEN", Put::secret("canary-value-1")).await;
    let cases = [
        ("vault_set", json!({ "key": "TOKEN", "value": "x" }), "is_secret", "an operator can"),
        (
            "vault_delete",
            json!({ "key": "TOKEN" }),
            "is_secret",
            "hivewright vault delete TOKEN --team team",
        ),
        (
            "vault_get",
            json!({ "key": "TOKE" }),
            "not_found",
            "vault key \"TOKE\" not found; there are \"TOKEN\"",
        ),
        ("vault_set", json!({ "key": "a b", "value": "x" }), "invalid_key", "3 characters"),
        ("vault_set", json!({ "key": "a", "value": "" }), "too_short", "at least one byte"),
        ("vault_set", json!({ "key": "a", "value": "x".repeat(65_537) }), "too_large", "65537"),
    ];
    for (tool, args, code, words) in cases {
        let reply = desk.tools.call(tool, args).await;

        let answer: Value = serde_json::from_str(&reply.content).unwrap();
        assert_eq!(reply.fault, Some(ToolFault::Refused), "{answer}");
        assert_eq!(answer["success"], false);
        assert_eq!(answer["error"], code);
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    let missing = desk.ask("vault_delete", json!({ "key": "NONE" })).await;
    assert_eq!(missing, json!({ "success": true, "deleted": false }));
    desk.ask("vault_set", json!({ "key": "A", "value": "b" })).await;
    let deleted = desk.ask("vault_delete", json!({ "key": "A" })).await;
    assert_eq!(deleted, json!({ "success": true, "deleted": true }));
}

/// MV-57, MV-80
#[actix::test]
async fn a_locked_vault_says_where_the_key_was_looked_for() {
    let vault = doubles::Bench::locked();
    let toolbox = super::super::all().with(made());
    let desk = Desk { tools: Bench::with_vault(toolbox, &["*"], vault.vault.clone()), vault };
    let env = json!({ "command": "true", "env": { "A": "${vault:TOKEN}" } });

    for (tool, args) in [
        ("vault_list", json!({})),
        ("vault_get", json!({ "key": "TOKEN" })),
        ("vault_set", json!({ "key": "TOKEN", "value": "x" })),
        ("vault_delete", json!({ "key": "TOKEN" })),
        ("bash", env),
    ] {
        let answer = desk.ask(tool, args).await;
        assert_eq!(answer["error"], "vault_locked", "{tool}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("master.key"), "{message}");
    }
}

/// TO-56
#[actix::test]
async fn the_value_of_a_secret_is_not_written_down() {
    let desk = Desk::new();
    desk.set("TOKEN", Put::secret("canary-value-1")).await;
    desk.tools.put("notes.md", "old");
    let coded = "Y2FuYXJ5LXZhbHVlLTE=";
    let cases = [
        ("write", json!({ "file_path": "a", "content": "x canary-value-1 y" })),
        ("write", json!({ "file_path": "a", "content": coded })),
        (
            "edit",
            json!({ "file_path": "notes.md", "old_string": "old", "new_string": "canary-value-1" }),
        ),
        ("bash", json!({ "command": "echo canary-value-1" })),
        ("bash", json!({ "command": "true", "env": { "A": "canary-value-1" } })),
    ];
    for (tool, args) in cases {
        let refused = ToolReply::failed(
            ToolFault::SecretNotAllowed,
            "contains the value of vault secret TOKEN; use its reference `${vault:TOKEN}`",
        );
        let checked = desk.tools.look(&call(tool, args.clone()));
        let ran = desk.tools.call(tool, args).await;
        assert_eq!((checked, ran), (Err(refused.clone()), refused), "{tool}");
    }
    assert!(!desk.tools.path("a").exists());
    assert_eq!(fs::read_to_string(desk.tools.path("notes.md")).unwrap(), "old");
    // A reference is plain text in a file.
    let args = json!({ "file_path": "a", "content": "${vault:TOKEN}" });
    desk.tools.call("write", args).await;
    assert_eq!(fs::read_to_string(desk.tools.path("a")).unwrap(), "${vault:TOKEN}");
}

/// MV-50, MV-45: what is journalled of a call holds the reference.
#[actix::test]
async fn arguments_are_kept_with_references_in_place_of_values() {
    let desk = Desk::new();
    desk.set("TOKEN", Put::secret("canary-value-1")).await;
    let args =
        json!({ "pattern": ["a canary-value-1", { "canary-value-1": 7 }], "path": "hunter2" });

    let clean = desk.tools.tools.clean(&call("grep", args));
    let untouched = desk.tools.tools.clean(&call("grep", json!({ "pattern": "x" })));

    assert_eq!(
        clean,
        Some(
            json!({ "pattern": ["a ${vault:TOKEN}", { "${vault:TOKEN}": 7 }], "path": "[REDACTED]" })
        )
    );
    assert_eq!(untouched, None);
}

/// MV-44, MV-72, TO-69, TO-103
#[actix::test]
async fn a_reference_is_refused_where_it_may_not_be_expanded() {
    let desk = Desk::new();
    desk.set("TOKEN", Put::secret("canary-value-1")).await;
    let cases = [
        (
            "bash",
            json!({ "command": "true", "env": { "A": "${vault:TOKEN}" } }),
            "secret_tool_denied",
            "`TOKEN` may not be used in `bash`",
        ),
        (
            "bash",
            json!({ "command": "true", "env": { "A": "${vault:NONE}" } }),
            "not_found",
            "NONE",
        ),
        (
            "read",
            json!({ "file_path": "${vault:TOKEN}" }),
            "secret_not_allowed",
            "not expanded in `file_path`",
        ),
    ];
    for (tool, args, code, words) in cases {
        let answer = desk.ask(tool, args).await;

        assert_eq!(answer["error"], code, "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
    let literal = desk.tools.call("bash", json!({ "command": "echo ${vault:TOKEN}" }));
    let literal = literal.await;
    assert_eq!(literal.fault, Some(ToolFault::InvalidArguments));
    assert!(literal.content.contains("put `${vault:KEY}` into `env`"), "{}", literal.content);
    assert_eq!(desk.vault.vault.audit_of(Action::Expand).await.len(), 3);
}

/// MV-50, MV-64: what comes back is scrubbed by what is secret now, not when the turn began.
#[actix::test]
async fn a_secret_that_is_set_during_a_turn_is_scrubbed_from_its_next_result() {
    let desk = Desk::new();
    desk.tools.put("notes.md", "it is canary-value-1");
    let read = || desk.tools.call("read", json!({ "file_path": "notes.md" }));

    let before = read().await.content;
    desk.set("TOKEN", Put::secret("canary-value-1")).await;
    let after = read().await.content;

    assert!(before.contains("canary-value-1"), "{before}");
    assert!(after.contains("it is ${vault:TOKEN}"), "{after}");
    assert!(!Scrubber::new(["canary-value-1"]).knows(&desk.vault.disk.text()));
}
