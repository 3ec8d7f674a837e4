//! Entries that come and go with a team.

use std::collections::BTreeMap;

use hivewright_actors::{
    approvals::{
        ports::{SecretSink, SecretText},
        record::Decider,
    },
    ids::TaskId,
};

use super::*;
use crate::vault::{
    escrow::{Escrow, Origin},
    teams::Pending,
};

fn credentials(values: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = values.iter();
    pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A call of a team.
fn origin(team: &str, task: &str, call: &str) -> Origin {
    Origin { team: key(team, 1), task: task.into(), call: call.into() }
}

fn first_call() -> Origin {
    origin("main", "task-1", "call 1")
}

/// Makes what was taken out of a call durable, as its turn does.
async fn keep(bench: &Bench, aside: Escrow) {
    let mut pending = aside.keep().await.unwrap();
    let store = bench.vault.store().unwrap();
    store.commit(pending.take_writes()).await.unwrap();
    pending.committed().await;
}

/// Takes credentials out of a call, as its turn does.
async fn put_aside_of(bench: &Bench, of: &Origin, values: &[(&str, &str)]) -> Vec<String> {
    let values = credentials(values);
    keep(bench, bench.vault.escrow(of, &values).unwrap()).await;
    values.into_keys().collect()
}

async fn escrow(bench: &Bench, values: &[(&str, &str)]) -> Vec<String> {
    put_aside_of(bench, &first_call(), values).await
}

async fn hand_over(bench: &Bench, keys: &[String], generation: u32) -> Result<Pending, VaultError> {
    let team = key("ops", generation);
    bench.vault.hand_over(&first_call(), keys, &team).await
}

/// Waits until so many secrets are known.
async fn await_secrets(bench: &Bench, count: usize) {
    let known = async {
        while bench.vault.all_secrets().len() != count {
            tokio::task::yield_now().await;
        }
    };
    let patience = std::time::Duration::from_secs(10);
    tokio::time::timeout(patience, known).await.unwrap();
}

/// Makes a team with credentials.
pub(super) async fn make(bench: &Bench, values: &[(&str, &str)]) {
    let keys = escrow(bench, values).await;
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
    make(&bench, &[("TOKEN", "canary-value-1"), ("OTHER", "canary-value-2")]).await;
    let store = bench.vault.store().unwrap().clone();
    let public = Put::public("Rome");
    bench.vault.set(&team("ops"), "PLACE", public, &actor("ops")).await.unwrap();
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
    let error = bench.vault.escrow(&first_call(), &short).err().unwrap();
    assert_eq!(error.code(), "too_short");
    assert_eq!(bench.vault.all_secrets().len(), 0);
    let keys = escrow(&bench, &values).await;
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
    let listed: Vec<_> = entries.iter().map(|seen| (&*seen.entry.key, seen.entry.secret)).collect();
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

/// OR-61, MV-48: while they wait, the team that asked does not see them, and nobody outside. What other
/// teams write is none of their business.
#[actix::test]
async fn credentials_that_wait_are_scrubbed_for_the_team_that_asked_and_at_the_borders() {
    let bench = Bench::new();
    escrow(&bench, &[("ENV", "production")]).await;
    let scrubbers = super::scrubbers::Scrubbers::new(bench.vault.clone(), []);

    let shown = |scrubber: crate::scrub::Scrubber| scrubber.scrub("in production").into_owned();

    assert_eq!(shown(scrubbers.of(&"main".into())), "in [REDACTED]");
    assert_eq!(shown(scrubbers.of(&"ops".into())), "in production");
    assert_eq!(shown(scrubbers.everything()), "in [REDACTED]");
    assert!(!bench.disk.text().contains("production"));
}

/// MV-36, MV-80: a team whose calls wait takes no room from others.
#[actix::test]
async fn each_team_has_room_of_its_own_for_credentials_that_wait() {
    let bench = Bench::new();
    let many: Vec<String> = (0..50).map(|number| format!("KEY_{number}")).collect();
    let many: Vec<_> = many.iter().map(|key| (&**key, "canary-value-1")).collect();
    for call in 0..4 {
        let of = origin("main", "task-1", &format!("call {call}"));
        put_aside_of(&bench, &of, &many).await;
    }
    let one = credentials(&[("A", "canary-value-2")]);

    let full = bench.vault.escrow(&origin("main", "task-1", "next"), &one);
    let again = bench.vault.escrow(&origin("main", "task-1", "call 0"), &credentials(&many[..1]));
    let other = bench.vault.escrow(&origin("ops", "task-2", "call 0"), &one);

    assert_eq!(full.err().unwrap().code(), "limit_entries");
    assert!(again.is_ok(), "the same call made again");
    assert!(other.is_ok());
}

/// A call that has its result, or a task that has its outcome, leaves nothing; others are left alone.
#[actix::test]
async fn credentials_go_with_their_call_and_their_task() {
    let mut bench = Bench::new();
    let calls = [
        origin("main", "task-1", "call 1"),
        origin("main", "task-1", "call 2"),
        origin("main", "task-2", "call 1"),
        origin("ops", "task-3", "call 1"),
    ];
    for (number, of) in calls.iter().enumerate() {
        put_aside_of(&bench, of, &[("A", &format!("canary-value-{number}"))]).await;
    }

    bench.vault.release_call(&calls[0]);
    await_secrets(&bench, 3).await;
    bench.vault.release_task(&"task-2".into());
    await_secrets(&bench, 2).await;
    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 2);
    assert_eq!(bench.disk.keys("vault\0aside").len(), 2);
    let store = bench.vault.store().unwrap().clone();
    for writes in bench.vault.forget_team(&key("ops", 1), &operator()).await {
        store.commit(writes).await.unwrap();
    }
    bench.restart();
    assert_eq!(bench.vault.all_secrets().len(), 1);
    assert_eq!(bench.disk.keys("aside:ops"), Vec::<Vec<u8>>::new());
}

/// SC-08: whatever a crash cut off, what an open task waits for is there after a start, and what nobody
/// will come for is not.
#[actix::test]
async fn a_start_keeps_the_credentials_of_open_tasks_alone() {
    let mut bench = Bench::new();
    let [open, ended] = ["task-1", "task-2"].map(|task| origin("main", task, "call 1"));
    let keys = put_aside_of(&bench, &open, &[("A", "canary-value-1")]).await;
    put_aside_of(&bench, &ended, &[("A", "canary-value-2")]).await;
    // Taken out, and the process dies before that is durable.
    let cut_off = credentials(&[("A", "canary-value-3")]);
    let of = origin("main", "task-1", "call 2");
    drop(bench.vault.escrow(&of, &cut_off).unwrap());

    bench.restart();
    let disk = bench.disk.clone();
    let tasks = [TaskId::from("task-1")].into();
    bench.vault.release_at_rest(&*disk, &tasks).unwrap();
    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 1);
    let pending = hand_over(&bench, &keys, 1).await;
    assert!(pending.is_ok(), "{pending:?}");
}

/// Nobody comes any more for what waits longer than any decision does, also while the service runs.
#[actix::test]
async fn credentials_that_wait_for_ever_are_forgotten() {
    let mut bench = Bench::new();
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    escrow(&bench, &[("A", "canary-value-1")]).await;

    bench.clock.advance(30 * day);
    bench.vault.release_forgotten().await.unwrap();
    assert_eq!(bench.vault.all_secrets().len(), 1);
    bench.clock.advance(2 * day);
    bench.vault.release_forgotten().await.unwrap();

    assert_eq!(bench.vault.all_secrets().len(), 0);
    assert_eq!(bench.disk.keys("vault\0aside"), Vec::<Vec<u8>>::new());
    bench.restart();
    assert_eq!(bench.vault.all_secrets().len(), 0);
}

/// MV-55: the first two calls of a team at the same time are sealed under one data key.
#[actix::test]
async fn two_first_calls_make_one_data_key() {
    let mut bench = Bench::new();
    let [one, other] = ["call 1", "call 2"].map(|call| {
        let values = credentials(&[("A", &format!("canary-value of {call}"))]);
        let of = origin("main", "task-1", call);
        bench.vault.escrow(&of, &values).unwrap()
    });

    tokio::join!(keep(&bench, one), keep(&bench, other));
    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 2);
}

/// MV-65: who gave what when is written down, and that it was let go of.
#[actix::test]
async fn credentials_that_wait_leave_rows_with_who_gave_them() {
    let bench = Bench::new();
    escrow(&bench, &[("A", "canary-value-1")]).await;
    bench.vault.release_call(&first_call());
    await_secrets(&bench, 0).await;
    make(&bench, &[("B", "canary-value-2")]).await;

    let rows = bench.vault.audit().await;

    let mut told: Vec<_> =
        rows.iter().map(|row| (&*row.scope, row.key.as_deref(), row.action, &row.actor)).collect();
    told.reverse();
    let (main, system) = (actor("main"), Actor::System);
    let expected = [
        ("aside:main~1", Some("A"), Action::Set, &main),
        ("aside:main~1", Some("A"), Action::Delete, &system),
        ("aside:main~1", Some("B"), Action::Set, &main),
        ("ops~1", Some("B"), Action::Set, &main),
    ];
    assert_eq!(told, expected);
}

/// MV-65: an answer to a question is the person's doing.
#[actix::test]
async fn a_secret_answer_names_who_gave_it() {
    let bench = Bench::new();
    let by = Decider { credential: Some("token-0".to_owned()), ..Decider::new("operator") };
    let secret = SecretText::new("canary-value-1".to_owned());
    let kept = SecretSink::keep(&bench.vault, key("ops", 1), "A".to_owned(), secret, &by);
    kept.await.unwrap();

    let rows = bench.vault.audit().await;

    assert_eq!(rows[0].actor, operator());
}

/// MV-58: a rotation waits for a team that is being made.
#[actix::test]
async fn a_rotation_waits_for_a_team_that_is_being_made() {
    let mut bench = Bench::new();
    let keys = escrow(&bench, &[("A", "canary-value-1")]).await;
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

/// MV-58: what is put aside waits for a rotation, and a rotation for it.
#[actix::test]
async fn a_rotation_and_credentials_that_are_put_aside_wait_for_each_other() {
    let mut bench = Bench::new();
    let values = credentials(&[("T", "canary-value-1")]);
    let aside = bench.vault.escrow(&first_call(), &values).unwrap();
    let mut pending = aside.keep().await.unwrap();
    let vault = bench.vault.clone();
    let rotation = actix::spawn(async move { vault.rotate_master(&operator()).await });
    tokio::task::yield_now().await;

    assert!(!rotation.is_finished());
    let store = bench.vault.store().unwrap().clone();
    store.commit(pending.take_writes()).await.unwrap();
    pending.committed().await;
    rotation.await.unwrap().unwrap();
    std::fs::remove_file(bench.key_file(".old")).unwrap();
    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 1);
}

/// MV-58: a data key that is wrapped under the key before is found by the next start.
#[actix::test]
async fn a_data_key_that_was_left_behind_by_a_rotation_is_wrapped_anew() {
    let mut bench = Bench::new();
    escrow(&bench, &[("T", "canary-value-1")]).await;
    let (name, wrapped) = bench.disk.record("vault-key\0aside");
    bench.vault.rotate_master(&operator()).await.unwrap();
    bench.disk.put(name, Some(wrapped));

    bench.restart();
    std::fs::remove_file(bench.key_file(".old")).unwrap();
    bench.restart();

    assert_eq!(bench.vault.all_secrets().len(), 1);
}
