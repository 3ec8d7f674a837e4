//! Entries that come and go with a team.

use super::*;

fn credentials(values: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = values.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// MV-73, MV-55
#[actix::test]
async fn a_team_that_is_made_again_inherits_nothing() {
    let mut bench = Bench::new();
    let by = operator();
    let first = key("ops", 1);
    let made = credentials(&[("TOKEN", "canary-value-1"), ("OTHER", "canary-value-2")]);
    let mut pending = bench.vault.new_team(&first, None, made, &by).await.unwrap();
    let store = bench.vault.store().unwrap().clone();
    store.commit(pending.take_writes()).await.unwrap();
    pending.committed().await;
    let public = Put::public("Rome");
    bench
        .vault
        .set(&team("ops"), "PLACE", public, &actor("ops"))
        .await
        .unwrap();
    assert!(bench.vault.has_secrets(&team("ops")));

    let writes = bench.vault.forget_team(&first, &by).await;
    // A crash after the first commit leaves nothing that could be read, and the rest is repeated.
    let mut writes = writes.into_iter();
    store.commit(writes.next().unwrap()).await.unwrap();
    bench.restart();
    let locked_in = bench.vault.get(&team("ops"), "TOKEN", &by).await;
    assert_eq!(locked_in.unwrap_err().code(), "corrupt");
    let store = bench.vault.store().unwrap().clone();
    for writes in bench.vault.forget_team(&first, &by).await {
        store.commit(writes).await.unwrap();
    }

    for when in ["at once", "after a restart"] {
        let gone = bench.vault.list(&team("ops"), "", &by).await.unwrap();
        let again = Scope::Team(key("ops", 2));
        let fresh = bench.vault.list(&again, "", &by).await.unwrap();
        assert_eq!((gone, fresh), (vec![], vec![]), "{when}");
        assert_eq!(bench.vault.all_secrets().len(), 0, "{when}");
        assert_eq!(bench.disk.keys("vault-key\0ops"), Vec::<Vec<u8>>::new());
        assert_eq!(bench.disk.keys("vault\0ops"), Vec::<Vec<u8>>::new());
        bench.restart();
    }
}

/// OR-60
#[actix::test]
async fn the_credentials_of_a_team_are_there_with_it_or_not_at_all() {
    let mut bench = Bench::new();
    let by = operator();
    let made = || credentials(&[("A", "canary-value-1"), ("B", "canary-value-2")]);

    // Prepared, and the spawn fails.
    drop(
        bench
            .vault
            .new_team(&key("ops", 1), None, made(), &by)
            .await
            .unwrap(),
    );
    assert_eq!(bench.vault.list(&team("ops"), "", &by).await.unwrap(), []);
    // One of them is no good.
    let short = credentials(&[("A", "canary-value-1"), ("B", "short")]);
    let error = bench
        .vault
        .new_team(&key("ops", 1), None, short, &by)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "too_short");
    assert!(!error.to_string().contains("short;"), "{error}");
    // Committed, and the process dies before it is told.
    let mut pending = bench
        .vault
        .new_team(&key("ops", 1), None, made(), &by)
        .await
        .unwrap();
    let store = bench.vault.store().unwrap().clone();
    store.commit(pending.take_writes()).await.unwrap();
    drop(pending);
    bench.restart();

    let entries = bench.vault.list(&team("ops"), "", &by).await.unwrap();
    let keys: Vec<_> = entries
        .iter()
        .map(|entry| (&*entry.key, entry.secret))
        .collect();
    assert_eq!(keys, [("A", true), ("B", true)]);
    assert_eq!(
        bench.scrubbed(&team("ops"), "canary-value-1 canary-value-2"),
        "${vault:A} ${vault:B}"
    );
}

/// MV-58: a team that is made during a rotation is under the new key, or under the old one that is
/// replaced after it.
#[actix::test]
async fn a_rotation_waits_for_a_team_that_is_being_made() {
    let mut bench = Bench::new();
    let by = operator();
    let made = credentials(&[("A", "canary-value-1")]);
    let mut pending = bench
        .vault
        .new_team(&key("ops", 1), None, made, &by)
        .await
        .unwrap();
    let vault = bench.vault.clone();
    let rotation = actix::spawn(async move { vault.rotate_master(&operator()).await });

    let store = bench.vault.store().unwrap().clone();
    store.commit(pending.take_writes()).await.unwrap();
    assert!(!rotation.is_finished());
    pending.committed().await;
    let rotated = rotation.await.unwrap().unwrap();
    bench.restart();

    assert_eq!(rotated.data_keys, 1);
    assert_eq!(bench.scrubbed(&team("ops"), "canary-value-1"), "${vault:A}");
}

/// OR-61, MV-71: what stands in a call is gone from it before it is journalled, and there when it
/// runs, also in another process.
#[actix::test]
async fn credentials_wait_in_the_stash_until_their_team_is_made() {
    let mut bench = Bench::new();
    let (by, root) = (actor("main"), key("main", 1));
    let given = [("TOKEN", "canary-value-1"), ("OTHER", "canary-value-2")];

    let stashed = bench.vault.stash(&root, given, &by).unwrap();
    assert!(!bench.disk.text().contains("stash."));
    let scrubbed = bench.scrubbed(&team("main"), "canary-value-1");
    assert_eq!(scrubbed, stashed.references[0]);
    let store = bench.vault.store().unwrap().clone();
    store.commit(stashed.writes).await.unwrap();
    bench.restart();
    let names = ["TOKEN", "OTHER"].map(str::to_owned);
    let references = names.into_iter().zip(stashed.references.clone());
    let (ops, dev) = (key("ops", 1), key("dev", 1));
    let made = bench
        .vault
        .new_team(&ops, Some(&root), references.clone(), &by);
    let mut made = made.await.unwrap();
    let store = bench.vault.store().unwrap().clone();
    store.commit(made.take_writes()).await.unwrap();
    made.committed().await;

    for when in ["at once", "after a restart"] {
        assert_eq!(
            bench.scrubbed(&team("ops"), "canary-value-1 canary-value-2"),
            "${vault:TOKEN} ${vault:OTHER}",
            "{when}"
        );
        assert!(!bench.vault.has_secrets(&team("main")), "{when}");
        bench.restart();
    }
    // Nobody else's reference, and none twice.
    let again = bench
        .vault
        .new_team(&dev, Some(&root), references.clone(), &by);
    assert_eq!(again.await.unwrap_err().code(), "not_found");
    let foreign = bench.vault.new_team(&ops, Some(&dev), references, &by);
    assert_eq!(foreign.await.unwrap_err().code(), "not_found");
    assert!(!bench.disk.text().contains("canary"));
}

/// MV-58: a stash does not wait for a rotation; what it wraps under the key before is found by the
/// next start.
#[actix::test]
async fn a_data_key_that_was_left_behind_by_a_rotation_is_wrapped_anew() {
    let mut bench = Bench::new();
    let (by, root) = (actor("main"), key("main", 1));
    let stashed = bench
        .vault
        .stash(&root, [("T", "canary-value-1")], &by)
        .unwrap();
    bench.vault.rotate_master(&operator()).await.unwrap();
    let store = bench.vault.store().unwrap().clone();
    store.commit(stashed.writes).await.unwrap();

    bench.restart();
    std::fs::remove_file(bench.key_file(".old")).unwrap();
    bench.restart();

    assert!(bench.vault.has_secrets(&team("main")));
}
