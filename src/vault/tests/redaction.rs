//! What was written before a value became a secret.

use std::time::Duration;

use hivewright_actors::{
    blocking,
    doubles::entropy::Sequence,
    history::{Fact, HistoryEvent},
    ids::Ids,
    org::record::TeamRecord,
    router::topics::Topic,
    storage::Batch,
    store::records::Writes,
    task::Lane,
};

use super::{teams::make, *};
use crate::{
    memory::{
        Memory,
        chain::Draft,
        doubles::NoSecrets,
        entry::{Actor as Keeper, Key},
        reading::Query,
    },
    teams::self_changes::Change,
    vault::rows::{RedactedRow, last_redaction},
};

const VALUE: &str = "canary-value-1";

fn said(seq: u64, text: &str) -> HistoryEvent {
    HistoryEvent {
        seq,
        turn: "turn-1".into(),
        timestamp: Timestamp(seq),
        fact: Fact::AssistantText { text: text.to_owned(), step: 1 },
        redacted: false,
    }
}

async fn commit(bench: &Bench, writes: Writes) {
    bench.vault.store().unwrap().commit(writes).await.unwrap();
}

/// Something in the journal of a team.
async fn write(bench: &Bench, team: &str, seq: u64, text: &str) {
    let lane = Lane { team: team.into(), topic: None };
    let writes = Writes::new().events(&lane, 1, &[said(seq, text)]);
    commit(bench, writes).await;
}

fn journal(bench: &Bench, team: &str) -> Vec<HistoryEvent> {
    let keys = bench.disk.keys(&format!("hist\0{team}\0"));
    let values = keys.iter().map(|key| bench.disk.get(key).unwrap().unwrap());
    values.flat_map(|value| serde_json::from_slice::<Vec<_>>(&value).unwrap()).collect()
}

/// A tree: `main` above `ops` and `dev`, `ops` above `night`.
async fn tree(bench: &Bench) {
    let mut writes = Writes::new();
    for (name, parent) in [("ops", "main"), ("dev", "main"), ("night", "ops")] {
        writes = writes.put(&TeamRecord {
            name: name.into(),
            parent: Some(parent.into()),
            ..TeamRecord::main(Timestamp(0))
        });
    }
    commit(bench, writes.put(&TeamRecord::main(Timestamp(0)))).await;
}

async fn set(bench: &Bench, scope: &Scope, value: &str) -> Result<Entry, VaultError> {
    let put = Put::secret(value);
    bench.vault.set(scope, "TOKEN", put, &operator()).await
}

/// MV-52, SC-109
#[actix::test]
async fn what_became_a_secret_is_taken_out_of_the_journals_of_its_lineage() {
    let bench = Bench::new();
    tree(&bench).await;
    for team in ["main", "ops", "night", "dev"] {
        write(&bench, team, 1, "it is \"canary-value-1\", no?").await;
        write(&bench, team, 2, "nothing").await;
        write(&bench, team, 3, "Y2FuYXJ5LXZhbHVlLTE= it is").await;
    }

    let before = last_redaction(&*bench.disk).unwrap();
    set(&bench, &team("ops"), VALUE).await.unwrap();

    let ended = RedactedRow { at: bench.vault.now(), is_under_way: false };
    assert_eq!((before, last_redaction(&*bench.disk).unwrap()), (None, Some(ended)));
    let mark = |seq, text| HistoryEvent { redacted: true, ..said(seq, text) };
    let clean = [
        mark(1, "it is \"${vault:TOKEN}\", no?"),
        said(2, "nothing"),
        mark(3, "${vault:TOKEN} it is"),
    ];
    for team in ["main", "ops", "night"] {
        assert_eq!(journal(&bench, team), clean, "{team}");
    }
    // It is none of this team's business.
    let others = journal(&bench, "dev");
    assert!(others.iter().all(|event| !event.redacted), "{others:?}");
    assert_eq!(bench.disk.keys("vault-redact"), Vec::<Vec<u8>>::new());
}

/// MV-52, SC-113: a backup of before holds what a redaction takes out, and one that is made meanwhile may. So it is noted before
/// the first record is clean, and when the last one is.
#[actix::test]
async fn a_redaction_is_noted_before_it_begins_and_when_it_is_over() {
    let bench = Bench::new();
    for seq in 1..=100 {
        write(&bench, "ops", seq, VALUE).await;
    }
    let earlier = bench.disk.batches().len();

    set(&bench, &team("ops"), VALUE).await.unwrap();

    let writes = |kind: &str| -> Vec<usize> {
        let batches = bench.disk.batches().into_iter().enumerate().skip(earlier);
        let of_kind =
            |batch: &Batch| batch.changes.iter().any(|(key, _)| key.starts_with(kind.as_bytes()));
        batches.filter(|(_, batch)| of_kind(batch)).map(|(place, _)| place).collect()
    };
    let (noted, cleaned) = (writes("edge\0vault-last-redaction"), writes("hist\0"));
    let [before, after] = *noted else { panic!("{noted:?}") };
    assert_eq!(cleaned.len(), 2);
    assert!(
        cleaned.iter().all(|cleaned| (before..after).contains(cleaned)),
        "{noted:?} {cleaned:?}"
    );
}

/// MV-52: also JSON that was in JSON, and a value with characters that are written differently there.
#[actix::test]
async fn a_value_is_found_however_often_it_was_escaped() {
    let bench = Bench::new();
    let value = "pa\"ss\\word\n1";
    let once = serde_json::to_string(value).unwrap();
    write(&bench, "main", 1, value).await;
    write(&bench, "main", 2, &format!("{{\"token\":{once}}}")).await;

    set(&bench, &team("main"), value).await.unwrap();

    let texts = journal(&bench, "main").into_iter().map(|event| event.fact);
    let texts: Vec<_> = texts
        .map(|fact| match fact {
            Fact::AssistantText { text, .. } => text,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["${vault:TOKEN}", "{\"token\":\"${vault:TOKEN}\"}"]);
}

/// MV-52: a topic is named after the words of its first message.
#[actix::test]
async fn a_topic_is_not_called_after_a_secret() {
    let bench = Bench::new();
    let name = "password canary 5b0c77e9 1fa6d024".to_owned();
    let topic = Topic::new("t-1".into(), name, Timestamp(0));
    commit(&bench, Writes::new().put_at(&topic.key(&"ws:1".into()), &topic)).await;

    set(&bench, &team("main"), "canary+5b0c77e9=1fa6d024").await.unwrap();

    let text = bench.disk.text();
    assert!(!text.contains("5b0c77e9") && !text.contains("1fa6d024"), "{text}");
    assert!(text.contains("password canary ${vault:TOKEN}"), "{text}");
}

/// MV-52: a public value that is made a secret, and the service's own.
#[actix::test]
async fn it_counts_however_a_value_becomes_a_secret() {
    let bench = Bench::new();
    tree(&bench).await;
    let public = Put::public(VALUE);
    let by = actor("ops");
    bench.vault.set(&team("ops"), "TOKEN", public, &by).await.unwrap();
    write(&bench, "ops", 1, VALUE).await;
    write(&bench, "dev", 1, "canary-value-2").await;
    assert!(bench.disk.text().contains(VALUE));

    let raised = Put { secret: Some(true), ..Put::default() };
    bench.vault.set(&team("ops"), "TOKEN", raised, &operator()).await.unwrap();
    set(&bench, &Scope::System, "canary-value-2").await.unwrap();

    let text = bench.disk.text();
    assert!(!text.contains("canary-value"), "{text}");
    assert!(text.contains("${vault:TOKEN}") && text.contains("[REDACTED]"));
}

/// MV-52, OR-61: the credentials of a team were in the words of whoever asked for it.
#[actix::test]
async fn credentials_of_a_new_team_are_taken_out_of_what_asked_for_it() {
    let bench = Bench::new();
    write(&bench, "main", 1, "make a team with canary-value-1").await;

    make(&bench, &[("TOKEN", VALUE)]).await;
    // The turn that made it is still running, and knows what it was asked.
    write(&bench, "main", 2, "it was canary-value-1").await;

    let text = bench.disk.text();
    assert!(!text.contains(VALUE), "{text}");
    assert!(text.contains("make a team with ${vault:TOKEN}"));
}

/// MV-52: a stop between any two commits leaves it undone as a whole, or is made up for.
#[actix::test]
async fn what_a_crash_cuts_off_is_done_after_the_next_start() {
    let mut stops = 0;
    loop {
        let mut bench = Bench::new();
        for seq in 1..=100 {
            write(&bench, "ops", seq, VALUE).await;
        }
        bench.disk.lose_after(stops);
        let done = set(&bench, &team("ops"), VALUE).await.is_ok();
        let cut_off = bench.disk.is_broken();
        bench.disk.mend();
        bench.restart();
        let is_set = bench.vault.version_of(&team("ops"), "TOKEN").is_some();
        bench.clock.advance(Duration::from_secs(60));

        bench.vault.redact().await;

        assert_eq!(bench.disk.text().contains(VALUE), !is_set, "{stops}");
        assert_eq!(is_set, stops > 0, "{stops}");
        assert_eq!(bench.disk.keys("vault-redact"), Vec::<Vec<u8>>::new());
        // Backups of before are known to hold it, wherever it was cut off, and those that were made until it was over.
        let noted = bench.vault.store().unwrap().read(last_redaction).await.unwrap();
        assert_eq!(noted.is_some(), is_set, "{stops}");
        if done && !cut_off {
            break;
        }
        if let Some(noted) = noted {
            assert_eq!((noted.at, noted.is_under_way), (bench.vault.now(), false), "{stops}");
        }
        stops += 1;
    }
    // The secret, the note of what is done, two groups of records, the mark.
    assert_eq!(stops, 5);
}

/// MV-52, MV-57: what nobody can read cannot be looked for, and is not forgotten either.
#[actix::test]
async fn a_locked_vault_keeps_its_marks() {
    let mut bench = Bench::new();
    write(&bench, "ops", 1, VALUE).await;
    bench.disk.lose_after(1);
    let _ = set(&bench, &team("ops"), VALUE).await;
    bench.disk.mend();
    let (there, gone) = (bench.key_file(""), bench.key_file(".gone"));
    std::fs::rename(&there, &gone).unwrap();
    bench.restart();

    bench.vault.redact().await;
    let while_locked = bench.disk.keys("vault-redact").len();
    std::fs::rename(&gone, &there).unwrap();
    bench.restart();
    bench.vault.redact().await;

    assert_eq!(while_locked, 1);
    assert!(!bench.disk.text().contains(VALUE));
}

/// MV-52: what is derived from a memory goes with the words that were in it.
#[actix::test]
async fn a_memory_that_held_it_is_told_and_found_without_it() {
    let bench = Bench::new();
    let ids = Ids::new(Arc::new(Sequence::from(1)));
    let guard = Arc::new(NoSecrets);
    let store = bench.vault.store().unwrap().clone();
    let memory = Memory::new(store, bench.clock.clone(), ids, guard);
    let ops = key("ops", 1);
    let by = Keeper::Team("ops".into());
    let draft = Draft {
        team: ops.clone(),
        key: Key::parse("forge").unwrap(),
        content: format!("{VALUE} opens the forge, where hammers are kept."),
        kind: None,
        reason: None,
        sources: Vec::new(),
        provenance: by.provenance(),
        by,
        call: None,
        expires_at: None,
        looks_back: false,
    };
    memory.save(draft).await.unwrap();
    let search = |words: &str| {
        let query = Query { words: words.to_owned(), kind: None, inactive: false, most: 5 };
        memory.search(&ops, query)
    };
    let before = memory.injected(&ops).await.unwrap();
    assert_eq!(search("canary").await.unwrap().len(), 1);

    set(&bench, &team("ops"), VALUE).await.unwrap();

    let after = memory.injected(&ops).await.unwrap();
    assert!(before.contains(VALUE), "{before}");
    assert!(after.contains("${vault:TOKEN} opens") && !after.contains(VALUE), "{after}");
    assert_eq!(search("canary").await.unwrap().len(), 0);
    let found = search("hammers").await.unwrap();
    assert!(found[0].snippet.contains("${vault:TOKEN}"), "{found:?}");
    assert!(!bench.disk.text().contains(VALUE));
}

/// MV-50, MV-52: what a team changed about itself holds texts of its files.
#[actix::test]
async fn a_change_that_held_it_is_kept_without_it() {
    let bench = Bench::new();
    let change = Change {
        id: "chg-1".to_owned(),
        team: key("ops", 1),
        file: "skills/a.md".to_owned(),
        reason: format!("it is {VALUE}"),
        before: VALUE.to_owned(),
        after: format!("use {VALUE}"),
        task: "task-1".into(),
        at: Timestamp(0),
        rolled_back: None,
    };
    commit(&bench, Writes::new().put(&change)).await;

    set(&bench, &team("ops"), VALUE).await.unwrap();

    let text = bench.disk.text();
    assert!(!text.contains(VALUE) && text.contains("use ${vault:TOKEN}"), "{text}");
}

/// MV-52, OR-60: with years in the archive, whoever makes a secret is answered before all of it is read.
#[actix::test]
async fn nobody_waits_long_for_what_was_written_before() {
    tokio::time::pause();
    let bench = Bench::new();
    write(&bench, "ops", 1, VALUE).await;
    let store = bench.vault.store().unwrap();
    let told = store.watch_redactions();
    let barrier = bench.disk.hold_scan(b"hist\0");
    let meet = || {
        let barrier = barrier.clone();
        blocking::run(move || {
            barrier.wait();
        })
    };
    let vault = bench.vault.clone();
    let setting = actix::spawn(async move {
        vault.set(&team("ops"), "TOKEN", Put::secret(VALUE), &operator()).await
    });
    meet().await.unwrap();

    tokio::time::advance(Duration::from_secs(3)).await;
    setting.await.unwrap().unwrap();

    assert!(bench.disk.text().contains(VALUE) && !told.has_changed().unwrap());
    meet().await.unwrap();
    // It finds the other one at work, and nothing left to do after it.
    bench.vault.redact().await;
    assert!(!bench.disk.text().contains(VALUE) && told.has_changed().unwrap());
    assert_eq!(store.redactions(), 1);
}

/// MV-52: who mistypes a secret sets it again, maybe while the first is still looked for. The second is looked for too.
#[actix::test]
async fn a_value_that_is_set_during_a_redaction_has_one_of_its_own() {
    let bench = Bench::new();
    write(&bench, "ops", 1, VALUE).await;
    // Journals were looked through by then.
    let barrier = bench.disk.hold_scan(b"topic\0");
    let meet = || {
        let barrier = barrier.clone();
        blocking::run(move || {
            barrier.wait();
        })
    };
    let set_in_background = |value: &'static str| {
        let vault = bench.vault.clone();
        actix::spawn(async move {
            let put = Put::secret(value);
            vault.set(&team("ops"), "TOKEN", put, &operator()).await.unwrap();
        })
    };
    let mistyped = set_in_background("canary-value-l");
    meet().await.unwrap();
    let known = Arc::new(tokio::sync::Notify::new());
    let is_known = known.clone();
    bench.vault.on_change(move |_| is_known.notify_one());

    let right = set_in_background(VALUE);
    known.notified().await;
    meet().await.unwrap();
    mistyped.await.unwrap();
    right.await.unwrap();
    // Whoever makes a secret does not wait for ever.
    bench.vault.redact().await;

    assert!(!bench.disk.text().contains(VALUE));
    assert_eq!(bench.disk.keys("vault-redact"), Vec::<Vec<u8>>::new());
}

/// MV-52, SC-104: the mark of a former program has no version.
#[actix::test]
async fn a_mark_of_a_former_program_counts() {
    let mut bench = Bench::new();
    write(&bench, "ops", 1, VALUE).await;
    bench.disk.lose_after(1);
    let _ = set(&bench, &team("ops"), VALUE).await;
    bench.disk.mend();
    let (mark, version) = bench.disk.record("vault-redact");
    assert_eq!(version, b"1");
    bench.disk.put(mark, Some(b"null".to_vec()));
    bench.restart();

    bench.vault.redact().await;

    assert!(!bench.disk.text().contains(VALUE));
    assert_eq!(bench.disk.keys("vault-redact"), Vec::<Vec<u8>>::new());
}

/// MV-52, SC-113: a redaction that was cut off is over when its value is removed: backups of later are not marked.
#[actix::test]
async fn a_redaction_of_a_value_that_is_gone_is_over() {
    let mut bench = Bench::new();
    write(&bench, "ops", 1, VALUE).await;
    // The secret and the note.
    bench.disk.lose_after(2);
    let _ = set(&bench, &team("ops"), VALUE).await;
    bench.disk.mend();
    bench.restart();
    let last = |bench: &Bench| last_redaction(&*bench.disk).unwrap().unwrap();
    let cut_off = last(&bench);
    bench.clock.advance(Duration::from_secs(60));
    bench.vault.delete(&team("ops"), "TOKEN", &operator()).await.unwrap();

    bench.vault.redact().await;

    let now = bench.vault.now();
    assert!(cut_off.is_behind(now), "{cut_off:?}");
    assert_eq!(last(&bench), RedactedRow { at: now, is_under_way: false });
    assert!(!last(&bench).is_behind(Timestamp(now.0 + 1)));
}
