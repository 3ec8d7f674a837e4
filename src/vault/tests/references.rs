//! References in the arguments of calls, and scrubbers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{expand::Use, scrubbers::Scrubbers, seal::Plain, *};
use crate::scrub::Mask;

async fn filled() -> Bench {
    let bench = Bench::new();
    let for_bash = Put { tools: Some(vec!["bash".to_owned()]), ..Put::secret("canary-value-1") };
    let like_a_reference =
        Put { tools: Some(vec!["bash".to_owned()]), ..Put::secret("${vault:TOKEN}") };
    let public = Put { tools: Some(vec!["bash".to_owned()]), ..Put::public("Rome") };
    for (key, put) in [
        ("TOKEN", for_bash),
        ("DEFAULT", Put::secret("canary-value-2")),
        ("NESTED", like_a_reference),
        ("PLACE", public),
    ] {
        bench.vault.set(&team("ops"), key, put, &operator()).await.unwrap();
    }
    bench
}

async fn expand(bench: &Bench, scope: &Scope, args: Value) -> Result<Value, VaultError> {
    expand_approved(bench, scope, args, None).await
}

async fn expand_approved(
    bench: &Bench,
    scope: &Scope,
    mut args: Value,
    approved: Option<&BTreeMap<String, u64>>,
) -> Result<Value, VaultError> {
    let of = Use {
        approved,
        scope,
        actor: &actor("ops"),
        tool: "bash",
        places: &["env"],
        host: None,
        permitted: false,
        paths: &["file_path"],
        permits: &|tools| tools.iter().any(|tool| tool == "bash"),
    };
    bench.vault.expand(&of, &mut args).await?;
    Ok(args)
}

/// PL-75: a call gets the values that were approved, and no others.
#[actix::test]
async fn a_value_that_was_not_approved_is_not_expanded() {
    let bench = filled().await;
    let args = json!({ "env": { "A": "${vault:TOKEN}" } });
    let approved = [("TOKEN".to_owned(), 1)].into();
    let (ops, by) = (team("ops"), operator());
    let expand = || expand_approved(&bench, &ops, args.clone(), Some(&approved));
    let before = expand().await.unwrap();

    let other = Put { value: Some(Plain::new("canary-value-9")), ..Put::default() };
    let set = bench.vault.set(&ops, "TOKEN", other, &by);
    set.await.unwrap();

    assert_eq!(before["env"]["A"], "canary-value-1");
    assert_eq!(expand().await.unwrap_err().code(), "digest_mismatch");
}

/// MV-43, MV-45
#[actix::test]
async fn references_are_expanded_once_and_only_where_they_may_stand() {
    let bench = filled().await;
    let args = json!({
        "command": "echo ${vault:TOKEN}",
        "env": {
            "A": "Bearer ${vault:TOKEN}",
            "B": "${vault:NESTED} in ${vault:PLACE}",
            "C": "$${vault:TOKEN} ${HOME}",
        },
    });

    let expanded = expand(&bench, &team("ops"), args).await.unwrap();

    assert_eq!(
        expanded,
        json!({
            "command": "echo ${vault:TOKEN}",
            "env": {
                "A": "Bearer canary-value-1",
                "B": "${vault:TOKEN} in Rome",
                "C": "${vault:TOKEN} ${HOME}",
            },
        })
    );
    let seen = bench.vault.get(&team("ops"), "TOKEN", &operator()).await.unwrap();
    assert!(seen.entry.last_used_at.is_some());
    let other = bench.vault.get(&team("ops"), "DEFAULT", &operator()).await.unwrap();
    assert_eq!(other.entry.last_used_at, None);
}

/// MV-44, MV-65, MV-80
#[actix::test]
async fn a_reference_that_may_not_be_used_is_refused_and_recorded() {
    let bench = filled().await;
    let ops = team("ops");
    let env = |text: &str| json!({ "env": { "A": text } });
    let cases = [
        (&ops, env("${vault:DEFAULT}"), "secret_tool_denied"),
        (&ops, env("${vault:TOKE}"), "not_found"),
        (&ops, env("${vault:TOKEN"), "secret_not_allowed"),
        (&ops, json!({ "file_path": "a/${vault:TOKEN}" }), "secret_not_allowed"),
        (&team("dev"), env("${vault:TOKEN}"), "not_found"),
    ];
    for (scope, args, code) in cases.clone() {
        let error = expand(&bench, scope, args.clone()).await.unwrap_err();
        assert_eq!(error.code(), code, "{args}");
    }

    let denied = expand(&bench, &ops, env("${vault:DEFAULT}")).await.unwrap_err();
    let said = denied.to_string();
    assert!(
        said.contains("`DEFAULT`") && said.contains("--keep-value --tool '*' --tool 'bash'"),
        "{said}"
    );
    let rows = bench.vault.audit_of(Action::Expand).await;
    let outcomes: Vec<_> = rows.iter().rev().map(|row| &*row.outcome).collect();
    let mut expected: Vec<_> = cases.iter().map(|(_, _, code)| *code).collect();
    expected.push("secret_tool_denied");
    assert_eq!(outcomes, expected);
    assert!(rows.iter().all(|row| row.tool.as_deref() == Some("bash")));
}

/// MV-44, MV-57
#[actix::test]
async fn in_a_locked_vault_nothing_is_expanded() {
    let mut bench = filled().await;
    std::fs::remove_file(bench.key_file("")).unwrap();
    bench.restart();

    let args = json!({ "env": { "A": "${vault:TOKEN}" } });
    let error = expand(&bench, &team("ops"), args).await.unwrap_err();
    let plain = json!({ "env": { "A": "nothing" } });

    assert_eq!(error.code(), "vault_locked");
    assert_eq!(expand(&bench, &team("ops"), plain.clone()).await.unwrap(), plain);
}

/// MV-48
#[actix::test]
async fn a_team_is_kept_from_its_own_secrets_and_people_from_all() {
    let bench = filled().await;
    let by = operator();
    bench.vault.set(&team("dev"), "DEV", Put::secret("canary-value-3"), &by).await.unwrap();
    bench.vault.set(&Scope::System, "KEY", Put::secret("canary-value-4"), &by).await.unwrap();
    let scrubbers = Scrubbers::new(bench.vault.clone(), [Mask::hidden("provider-key")]);
    let text = "canary-value-1 canary-value-3 canary-value-4 provider-key canary-value-5";
    let scrub = |team: &str| scrubbers.of(&team.into()).scrub(text).into_owned();

    let before = [scrub("ops"), scrub("dev"), scrub("none")];
    let everything = scrubbers.everything().scrub(text).into_owned();
    bench.vault.set(&team("none"), "NEW", Put::secret("canary-value-5"), &by).await.unwrap();
    bench.vault.delete(&team("ops"), "TOKEN", &by).await.unwrap();
    let after = [scrub("ops"), scrub("none")];

    assert_eq!(
        before,
        [
            "${vault:TOKEN} canary-value-3 [REDACTED] [REDACTED] canary-value-5",
            "canary-value-1 ${vault:DEV} [REDACTED] [REDACTED] canary-value-5",
            "canary-value-1 canary-value-3 [REDACTED] [REDACTED] canary-value-5",
        ]
    );
    assert_eq!(everything, "${vault:TOKEN} ${vault:DEV} [REDACTED] [REDACTED] canary-value-5");
    assert_eq!(
        after,
        [
            "canary-value-1 canary-value-3 [REDACTED] [REDACTED] canary-value-5",
            "canary-value-1 canary-value-3 [REDACTED] [REDACTED] ${vault:NEW}",
        ]
    );
}
