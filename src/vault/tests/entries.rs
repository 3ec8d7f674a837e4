//! Setting, looking, listing, deleting, and who may.

use super::*;

/// MV-35, MV-37, MV-38
#[actix::test]
async fn what_a_team_sets_it_can_read_again() {
    let bench = Bench::new();
    let (ops, by) = (team("ops"), actor("ops"));

    let set = bench.vault.set(&ops, "PLACE", Put::public("Rome"), &by);
    let first = set.await.unwrap();
    let set = bench.vault.set(&ops, "PLACE", Put::public("Oslo"), &by);
    let second = set.await.unwrap();
    let seen = bench.vault.get(&ops, "PLACE", &by).await.unwrap();

    assert_eq!((first.version, second.version), (1, 2));
    assert_eq!((second.secret, &*second.updated_by), (false, "team:ops"));
    assert_eq!(second.tools, ["*"]);
    assert_eq!(seen.value.unwrap().text(), Some("Oslo"));
    assert_eq!(seen.entry, second);
}

/// SC-39: what two people decide at once counts both, and so does a list that was made shorter before.
#[actix::test]
async fn hosts_that_are_added_at_once_are_all_there() {
    let bench = Bench::new();
    let (ops, by) = (team("ops"), operator());
    let with = |hosts: &[&str]| Some(hosts.iter().map(|host| (*host).to_owned()).collect());
    let put = Put { hosts: with(&["old.example"]), ..Put::secret("canary-value-1") };
    bench.vault.set(&ops, "TOKEN", put, &by).await.unwrap();
    let narrower = Put { hosts: with(&[]), ..Put::default() };
    let add = |host| bench.vault.add_host(&ops, "TOKEN", host, &by);

    let (narrowed, one, other) = tokio::join!(
        bench.vault.set(&ops, "TOKEN", narrower, &by),
        add("one.example"),
        add("other.example"),
    );

    assert!(narrowed.is_ok() && one.is_ok() && other.is_ok());
    let seen = bench.vault.get(&ops, "TOKEN", &by).await.unwrap();
    assert_eq!(seen.entry.hosts, ["one.example", "other.example"]);
}

/// MV-38, MV-62
#[actix::test]
async fn the_value_of_a_secret_is_shown_to_nobody_and_stored_nowhere() {
    let mut bench = Bench::new();
    let ops = team("ops");
    let put = Put {
        note: Some("for the forge".to_owned()),
        hosts: Some(vec!["*.example.org".to_owned()]),
        ..Put::secret("canary-value-1")
    };
    bench.vault.set(&ops, "TOKEN", put, &operator()).await.unwrap();

    bench.restart();
    let seen = bench.vault.get(&ops, "TOKEN", &operator()).await.unwrap();
    let of_team = bench.vault.get(&ops, "TOKEN", &actor("ops")).await.unwrap();

    assert_eq!((seen.value, of_team.value), (None, None));
    assert_eq!(seen.entry.note, "for the forge");
    assert_eq!(seen.entry.updated_by, "operator:operator");
    assert_eq!(bench.scrubbed(&ops, "it is canary-value-1"), "it is ${vault:TOKEN}");
    let masks = bench.vault.secrets_of(|scope| *scope == ops);
    let stored = bench.disk.text();
    assert!(!crate::scrub::Scrubber::with(masks).knows(&stored));
}

/// MV-37, MV-40, MV-80
#[actix::test]
async fn a_team_can_neither_change_nor_delete_a_secret() {
    let bench = Bench::new();
    let (ops, by) = (team("ops"), actor("ops"));
    let secret = Put::secret("canary-value-1");
    bench.vault.set(&ops, "TOKEN", secret, &operator()).await.unwrap();

    let set = bench.vault.set(&ops, "TOKEN", Put::public("other"), &by).await;
    let deleted = bench.vault.delete(&ops, "TOKEN", &by).await;
    let missing = bench.vault.delete(&ops, "OTHER", &by).await;

    let (set, deleted) = (set.unwrap_err(), deleted.unwrap_err());
    assert_eq!([set.code(), deleted.code()], ["is_secret"; 2]);
    let way_out = "`hivewright vault set TOKEN --team ops`";
    assert!(set.to_string().contains(way_out), "{set}");
    assert!(!missing.unwrap());
    assert_eq!(bench.scrubbed(&ops, "canary-value-1"), "${vault:TOKEN}");
}

/// MV-35, MV-63, MV-64
#[actix::test]
async fn an_entry_can_become_a_secret_and_never_public_again() {
    let bench = Bench::new();
    let ops = team("ops");
    let (vault, by) = (&bench.vault, operator());
    vault.set(&ops, "K", Put::public("canary-value-1"), &actor("ops")).await.unwrap();
    assert!(!vault.has_secrets(&ops));
    let change = |secret, tools: Option<&str>| Put {
        secret,
        tools: tools.map(|tool| vec![tool.to_owned()]),
        ..Put::default()
    };

    let raised = vault.set(&ops, "K", change(Some(true), Some("bash")), &by).await.unwrap();
    let narrowed = vault.set(&ops, "K", change(None, Some("web_fetch")), &by).await.unwrap();
    let lowered = vault.set(&ops, "K", change(Some(false), None), &by).await.unwrap_err();
    let replaced = vault.set(&ops, "K", Put::secret("canary-value-2"), &by).await.unwrap();

    assert_eq!((raised.secret, raised.version), (true, 1));
    assert_eq!(narrowed.tools, ["web_fetch"]);
    assert_eq!(lowered.code(), "is_secret");
    assert!(lowered.to_string().contains("delete it"), "{lowered}");
    assert_eq!((replaced.version, &*replaced.tools[0]), (2, "web_fetch"));
    assert_eq!(bench.scrubbed(&ops, "canary-value-1 canary-value-2"), "canary-value-1 ${vault:K}");
}

/// MV-80
#[actix::test]
async fn what_is_not_there_is_told_with_keys_of_the_same_scope() {
    let bench = Bench::new();
    let by = operator();
    for (scope, key) in [(team("ops"), "GITHUB_TOKEN"), (team("dev"), "GITHUB_TOKEM")] {
        bench.vault.set(&scope, key, Put::secret("canary-value-1"), &by).await.unwrap();
    }

    let missing = bench.vault.get(&team("ops"), "GITHUB_TOKE", &by).await.unwrap_err();
    let without_value =
        bench.vault.set(&team("ops"), "NEW", Put::default(), &by).await.unwrap_err();

    assert_eq!(
        missing.to_string(),
        "vault key \"GITHUB_TOKE\" not found; there are \"GITHUB_TOKEN\""
    );
    assert_eq!(without_value.code(), "not_found");
}

/// MV-36
#[actix::test]
async fn a_scope_has_room_for_so_many_entries() {
    let bench = Bench::new();
    let (ops, by) = (team("ops"), actor("ops"));
    for number in 0..500 {
        let key = format!("K{number}");
        bench.vault.set(&ops, &key, Put::public("x"), &by).await.unwrap();
    }

    let another = bench.vault.set(&ops, "K500", Put::public("x"), &by).await;
    let same = bench.vault.set(&ops, "K499", Put::public("y"), &by).await;
    bench.vault.delete(&ops, "K0", &by).await.unwrap();
    let after = bench.vault.set(&ops, "K500", Put::public("x"), &by).await;

    assert_eq!(another.unwrap_err().code(), "limit_entries");
    assert!(same.is_ok() && after.is_ok());
    assert_eq!(entry::most_entries(&Scope::System), 1_000);
}

/// MV-65
#[actix::test]
async fn every_act_and_every_refusal_is_in_the_audit() {
    let mut bench = Bench::new();
    let (ops, by) = (team("ops"), operator());
    let team_actor = actor("ops");
    bench.vault.set(&ops, "K", Put::secret("canary-value-1"), &by).await.unwrap();
    bench.vault.get(&ops, "K", &team_actor).await.unwrap();
    bench.vault.list(&ops, "", &by).await.unwrap();
    bench.vault.delete(&ops, "K", &team_actor).await.unwrap_err();
    bench.vault.get(&ops, "canary-value 2", &by).await.unwrap_err();
    bench.vault.delete(&ops, "K", &by).await.unwrap();
    bench.vault.rotate_master(&by).await.unwrap();
    bench.restart();

    let rows = bench.vault.audit().await;
    let later = rows[0].at + std::time::Duration::from_secs(1);
    let later =
        bench.vault.store().unwrap().read(move |storage| scan(storage, audit::since(later)));

    let shown = |row: &AuditRow| {
        let actor = row.actor.name();
        format!("{} {} {:?} {actor} {}", row.action.as_str(), row.scope, row.key, row.outcome)
    };
    let shown: Vec<_> = rows.iter().rev().map(shown).collect();
    assert_eq!(
        shown,
        [
            "set ops~1 Some(\"K\") operator:operator ok",
            "get ops~1 Some(\"K\") team:ops ok",
            "list ops~1 None operator:operator ok",
            "delete ops~1 Some(\"K\") team:ops is_secret",
            // What is no key is not repeated.
            "get ops~1 None operator:operator not_found",
            "delete ops~1 Some(\"K\") operator:operator ok",
            "rotate system None operator:operator ok",
        ]
    );
    let deleted = rows.iter().find(|row| row.action == Action::Delete).unwrap();
    assert_eq!(deleted.shown_scope(), "team:ops");
    assert!(!bench.disk.text().contains("canary"));
    assert_eq!(later.await.unwrap(), []);
}

/// MV-48, MV-64
#[actix::test]
async fn listeners_know_a_secret_before_whoever_set_it_hears_that_it_is_set() {
    let bench = Bench::new();
    let known = Arc::new(Mutex::new(Vec::new()));
    let told = known.clone();
    bench.vault.on_change(move |vault| {
        told.lock().push(vault.all_secrets().len());
    });
    let (ops, by) = (team("ops"), operator());

    let mut seen = Vec::new();
    for put in [Put::public("plain"), Put::public("plain too")] {
        bench.vault.set(&ops, "PLAIN", put, &by).await.unwrap();
        seen.push(known.lock().clone());
    }
    bench.vault.set(&ops, "K", Put::secret("canary-value-1"), &by).await.unwrap();
    seen.push(known.lock().clone());
    bench.vault.delete(&ops, "K", &by).await.unwrap();
    seen.push(known.lock().clone());

    assert_eq!(seen, [vec![0], vec![0], vec![0, 1], vec![0, 1, 0]]);
}

/// MV-54, PL-75: a version of a key means one value, for ever.
#[actix::test]
async fn an_entry_that_is_set_anew_gets_a_version_that_was_never_used() {
    let mut bench = Bench::new();
    let (ops, by) = (team("ops"), operator());
    let set = async |bench: &Bench, value: &str| {
        let set = bench.vault.set(&ops, "K", Put::secret(value), &by);
        set.await.unwrap().version
    };
    assert_eq!(set(&bench, "canary-value-1").await, 1);
    assert_eq!(set(&bench, "canary-value-2").await, 2);
    let (name, old) = bench.disk.record("vault\0ops");

    assert!(bench.vault.delete(&ops, "K", &by).await.unwrap());
    bench.restart();
    assert_eq!(set(&bench, "canary-value-3").await, 3);
    assert!(bench.vault.delete(&ops, "K", &by).await.unwrap());
    assert_eq!(set(&bench, "canary-value-4").await, 4);
    assert_eq!(set(&bench, "canary-value-5").await, 5);

    // A copy of a row from before does not open in its place.
    bench.disk.put(name, Some(old));
    bench.restart();
    let seen = bench.vault.get(&ops, "K", &by).await;
    assert_eq!(seen.unwrap_err().code(), "corrupt");
    assert_eq!(bench.vault.all_secrets().len(), 0);
    assert!(set(&bench, "canary-value-6").await > 3);
}
