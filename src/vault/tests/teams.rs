//! Entries that come and go with a team.

use std::collections::BTreeMap;

use super::*;
use crate::vault::teams::Pending;

const NAME: &str = "task-1/call 1";

fn credentials(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = values.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Takes credentials out of a call, as the journal does.
async fn put_aside(bench: &Bench, values: &[(&str, &str)]) -> Vec<String> {
    let values = credentials(values);
    let writes = bench
        .vault
        .put_aside(NAME, &values, &actor("main"))
        .unwrap();
    bench.vault.store().unwrap().commit(writes).await.unwrap();
    values.into_keys().collect()
}

async fn hand_over(bench: &Bench, keys: &[String], generation: u32) -> Result<Pending, VaultError> {
    let (team, by) = (key("ops", generation), actor("main"));
    bench.vault.hand_over(NAME, keys, &team, &by).await
}

/// Makes a team with credentials.
pub(super) async fn make(bench: &Bench, values: &[(&str, &str)]) {
    let keys = put_aside(bench, values).await;
    let mut pending = hand_over(bench, &keys, 1).await.unwrap();
    let store = bench.vault.store().unwrap();
    store.commit(pending.take_writes()).await.unwrap();
    pending.committed().await;
}

/// MV-73, MV-55
#[actix::test]
async fn a_team_that_is_made_again_inherits_nothing() {
    let mut bench = Bench::new();
    let by = operator();
    let first = key("ops", 1);
    make(
        &bench,
        &[("TOKEN", "canary-value-1"), ("OTHER", "canary-value-2")],
    )
    .await;
    let store = bench.vault.store().unwrap().clone();
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

/// OR-60, OR-61
#[actix::test]
async fn the_credentials_of_a_team_are_there_with_it_or_not_at_all() {
    let mut bench = Bench::new();
    let by = operator();
    let values = [("A", "canary-value-1"), ("B", "canary-value-2")];

    // One of them is no good: none is kept.
    let short = credentials(&[("A", "canary-value-1"), ("B", "short")]);
    let error = bench.vault.put_aside(NAME, &short, &by).unwrap_err();
    assert_eq!(error.code(), "too_short");
    assert_eq!(bench.vault.all_secrets().len(), 0);
    let keys = put_aside(&bench, &values).await;
    // Prepared, and the spawn fails.
    drop(hand_over(&bench, &keys, 1).await.unwrap());
    assert_eq!(bench.vault.list(&team("ops"), "", &by).await.unwrap(), []);
    // Prepared again, maybe days later, in another process. Committed, and the process dies before
    // it hears of that.
    bench.restart();
    let mut pending = hand_over(&bench, &keys, 1).await.unwrap();
    let store = bench.vault.store().unwrap().clone();
    store.commit(pending.take_writes()).await.unwrap();
    drop(pending);
    bench.restart();

    let entries = bench.vault.list(&team("ops"), "", &by).await.unwrap();
    let listed: Vec<_> = entries
        .iter()
        .map(|entry| (&*entry.key, entry.secret))
        .collect();
    assert_eq!(listed, [("A", true), ("B", true)]);
    assert_eq!(
        bench.scrubbed(&team("ops"), "canary-value-1 canary-value-2"),
        "${vault:A} ${vault:B}"
    );
    // They were handed over once.
    let again = hand_over(&bench, &keys, 2).await.unwrap_err();
    assert_eq!(again.code(), "not_found");
    assert_eq!(bench.vault.all_secrets().len(), 2);
    assert!(!bench.disk.text().contains("canary"));
}

/// OR-61, MV-48: while they wait, nobody sees them.
#[actix::test]
async fn credentials_that_wait_are_scrubbed_for_everyone() {
    let bench = Bench::new();
    put_aside(&bench, &[("A", "canary-value-1")]).await;
    let scrubbers = super::scrubbers::Scrubbers::new(bench.vault.clone(), []);

    let shown = scrubbers
        .of(&"main".into())
        .scrub("a canary-value-1 b")
        .into_owned();

    assert_eq!(shown, "a [REDACTED] b");
    assert!(!bench.disk.text().contains("canary"));
}

/// Nobody comes any more for what waits longer than any decision does.
#[actix::test]
async fn credentials_that_wait_for_ever_are_forgotten() {
    let mut bench = Bench::new();
    put_aside(&bench, &[("A", "canary-value-1")]).await;
    bench
        .clock
        .turn(std::time::Duration::from_secs(30 * 24 * 60 * 60));
    bench.restart();
    assert_eq!(bench.vault.all_secrets().len(), 1);
    bench
        .clock
        .turn(std::time::Duration::from_secs(2 * 24 * 60 * 60));

    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 0);
    assert_eq!(bench.disk.keys("vault\0aside"), Vec::<Vec<u8>>::new());
}

/// MV-58: a rotation waits for a team that is being made.
#[actix::test]
async fn a_rotation_waits_for_a_team_that_is_being_made() {
    let mut bench = Bench::new();
    let keys = put_aside(&bench, &[("A", "canary-value-1")]).await;
    let mut pending = hand_over(&bench, &keys, 1).await.unwrap();
    let vault = bench.vault.clone();
    let rotation = actix::spawn(async move { vault.rotate_master(&operator()).await });

    let store = bench.vault.store().unwrap().clone();
    store.commit(pending.take_writes()).await.unwrap();
    assert!(!rotation.is_finished());
    pending.committed().await;
    let rotated = rotation.await.unwrap().unwrap();
    bench.restart();

    assert_eq!(rotated.data_keys, 2);
    assert_eq!(bench.scrubbed(&team("ops"), "canary-value-1"), "${vault:A}");
}

/// MV-58: what is put aside does not wait for a rotation. What was wrapped under the key before is
/// found by the next start.
#[actix::test]
async fn a_data_key_that_was_left_behind_by_a_rotation_is_wrapped_anew() {
    let mut bench = Bench::new();
    let values = credentials(&[("T", "canary-value-1")]);
    let writes = bench.vault.put_aside(NAME, &values, &operator()).unwrap();
    bench.vault.rotate_master(&operator()).await.unwrap();
    bench.vault.store().unwrap().commit(writes).await.unwrap();

    bench.restart();
    std::fs::remove_file(bench.key_file(".old")).unwrap();
    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 1);
}
