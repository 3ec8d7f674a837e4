//! The master key: missing, wrong, replaced, cut off on the way; and records that were tampered with.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    escrow::Origin,
    rotate::{Rotation, Step, rotate_at_rest},
    *,
};

async fn filled() -> Bench {
    let bench = Bench::new();
    let by = operator();
    for (scope, key, put) in [
        (Scope::System, "PROVIDER", Put::secret("canary-value-0")),
        (team("ops"), "TOKEN", Put::secret("canary-value-1")),
        (team("ops"), "PLACE", Put::public("Rome, of course")),
        (team("dev"), "TOKEN", Put::secret("canary-value-2")),
    ] {
        bench.vault.set(&scope, key, put, &by).await.unwrap();
    }
    bench
}

/// Every value is there and can be used.
async fn assert_whole(bench: &Bench, when: &str) {
    assert_eq!(bench.vault.locked(), None, "{when}");
    let text = "canary-value-0 canary-value-1 canary-value-2";
    for (scope, expected) in [
        (Scope::System, "[REDACTED] canary-value-1 canary-value-2"),
        (team("ops"), "canary-value-0 ${vault:TOKEN} canary-value-2"),
        (team("dev"), "canary-value-0 canary-value-1 ${vault:TOKEN}"),
    ] {
        assert_eq!(bench.scrubbed(&scope, text), expected, "{when}");
    }
    let seen = bench.vault.get(&team("ops"), "PLACE", &operator()).await;
    let value = seen.unwrap().value.unwrap();
    assert_eq!(value.text(), Some("Rome, of course"), "{when}");
}

/// MV-57, MV-61
#[actix::test]
async fn without_its_key_the_vault_is_locked_and_no_key_is_made() {
    let mut bench = filled().await;
    let file = bench.key_file("");
    let right = fs::read(&file).unwrap();
    let cases: [(&str, Option<String>, &str); 3] = [
        ("missing", None, "there is no master key in"),
        ("wrong", Some("00".repeat(32)), "does not fit this store"),
        ("no key", Some("hello".to_owned()), "holds no key"),
    ];
    for (case, content, reason) in cases {
        match &content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }

        bench.restart();

        let vault = &bench.vault;
        let (ops, by) = (team("ops"), operator());
        let given = [("K".to_owned(), "canary-value-3".to_owned())].into();
        let locked = vault.locked().unwrap().to_string();
        assert!(locked.contains(reason), "{case}: {locked}");
        assert!(locked.contains("master.key"), "{case}: {locked}");
        let refused = [
            vault.set(&ops, "NEW", Put::public("x"), &by).await.err(),
            vault.get(&ops, "PLACE", &by).await.err(),
            vault.list(&ops, "", &by).await.err(),
            vault.delete(&ops, "PLACE", &by).await.err(),
            vault.rotate_master(&by).await.err(),
            vault
                .escrow(
                    &Origin { team: key("main", 1), task: "task-1".into(), call: "call".into() },
                    &given,
                )
                .err(),
        ];
        for error in refused {
            assert_eq!(error.unwrap().code(), "vault_locked", "{case}");
        }
        assert_eq!(fs::read_to_string(&file).ok(), content, "{case}");
    }
    assert_eq!(bench.vault.audit_of(Action::Lock).await.len(), 3);

    fs::write(&file, right).unwrap();
    bench.restart();

    assert_whole(&bench, "with its key again").await;
}

/// MV-56, MV-57
#[actix::test]
async fn a_key_file_that_is_there_is_used_and_a_broken_one_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("master.key");
    fs::write(&file, "broken").unwrap();

    let vault = start(&Arc::default(), &folder, &Arc::default());

    assert!(vault.locked().is_some());
    assert_eq!(fs::read_to_string(&file).unwrap(), "broken");
    fs::write(&file, STANDARD.encode([7; 32])).unwrap();
    let vault = start(&Arc::default(), &folder, &Arc::default());
    assert_eq!(vault.locked(), None);
}

/// MV-58
#[actix::test]
async fn a_rotation_replaces_the_key_and_keeps_the_old_one() {
    let mut bench = filled().await;
    let old = fs::read(bench.key_file("")).unwrap();
    let before = bench.disk.text();

    let rotated = bench.vault.rotate_master(&operator()).await.unwrap();
    assert_whole(&bench, "after the rotation").await;
    // What is set afterwards is under the new key.
    bench.vault.set(&team("new"), "K", Put::secret("canary-value-3"), &operator()).await.unwrap();
    bench.restart();

    assert_eq!(rotated.data_keys, 3);
    assert_whole(&bench, "after a restart").await;
    assert!(bench.vault.has_secrets(&team("new")));
    assert_ne!(fs::read(bench.key_file("")).unwrap(), old);
    assert_eq!(fs::read(bench.key_file(".old")).unwrap(), old);
    assert!(!bench.key_file(".new").exists());
    let check =
        |text: &str| text.lines().find(|line| line.contains("vault-check")).map(str::to_owned);
    assert_ne!(check(&bench.disk.text()), check(&before));
    assert!(bench.vault.forget_old_master(&operator()).await.unwrap());
    assert!(!bench.key_file(".old").exists());
    assert!(!bench.vault.forget_old_master(&operator()).await.unwrap());
}

/// MV-58, MV-74: whatever step a crash comes after, every value is readable afterwards.
#[actix::test]
async fn a_rotation_that_is_cut_off_after_any_step_loses_nothing() {
    for done in 0..=Step::ALL.len() {
        // The first rotation has no replaced key beside it, the second one has.
        for earlier in 0..2 {
            let mut bench = filled().await;
            for _ in 0..earlier {
                bench.vault.rotate_master(&operator()).await.unwrap();
            }
            let vault = &bench.vault;
            let row = vault.row(&Scope::System, None, Action::Rotate, &operator());
            let mut rotation = Rotation::new(&vault.state(), &bench.files(), &row).unwrap();
            for step in &Step::ALL[..done] {
                let commit = async |writes| vault.store_writes(writes).await;
                rotation.perform(*step, commit).await.unwrap();
            }

            bench.restart();

            let when = format!("after {done} steps and {earlier} rotations");
            assert_whole(&bench, &when).await;
            assert!(!bench.key_file(".new").exists(), "{when}");
            bench.vault.rotate_master(&operator()).await.unwrap();
            bench.restart();
            assert_whole(&bench, &format!("{when}, and another")).await;
        }
    }
}

/// MV-58, MV-74: the new key may be written in part, and its commit may never arrive.
#[actix::test]
async fn a_rotation_that_is_cut_off_within_a_step_loses_nothing() {
    for length in [0, 1, 31, 63, 64, 65] {
        let mut bench = filled().await;
        let text = "ab".repeat(32) + "\n";
        fs::write(bench.key_file(".new"), &text[..length]).unwrap();

        bench.restart();

        assert_whole(&bench, &format!("{length} bytes of the new key")).await;
        bench.vault.rotate_master(&operator()).await.unwrap();
    }
    let mut bench = filled().await;
    bench.disk.lose_after(0);
    let by = operator();
    let rotation = bench.vault.rotate_master(&by);
    // A store that failed answers nobody any more: the process ends here.
    let stuck = tokio::time::timeout(std::time::Duration::from_secs(1), rotation).await;
    bench.disk.mend();

    bench.restart();

    assert!(!matches!(stuck, Ok(Ok(_))));
    assert_whole(&bench, "without the commit").await;
}

/// MV-58, MV-74: a rotation whose files could not be put in place is ended by the next one, before that
/// writes a key of its own.
#[actix::test]
async fn a_rotation_whose_files_were_stuck_is_ended_by_the_next() {
    let mut bench = filled().await;
    let in_the_way = bench.key_file(".old");
    fs::create_dir(&in_the_way).unwrap();
    fs::write(in_the_way.join("file"), "").unwrap();
    let by = operator();

    let stuck = bench.vault.rotate_master(&by).await;
    assert_whole(&bench, "while its files are stuck").await;
    fs::remove_dir_all(&in_the_way).unwrap();
    bench.disk.lose_after(0);
    let next = bench.vault.rotate_master(&by);
    let next = tokio::time::timeout(std::time::Duration::from_secs(1), next).await;
    bench.disk.mend();
    bench.restart();

    assert!(stuck.is_err());
    assert!(!matches!(next, Ok(Ok(_))));
    assert_whole(&bench, "after the next was cut off").await;
}

/// MV-58: a backup from before a rotation can still be used.
#[actix::test]
async fn a_store_from_before_the_rotation_opens_with_the_replaced_key() {
    let mut bench = filled().await;
    let records: Vec<_> = [bench.disk.keys("vault-check"), bench.disk.keys("vault-key")]
        .concat()
        .into_iter()
        .map(|key| (key.clone(), bench.disk.get(&key).unwrap()))
        .collect();
    bench.vault.rotate_master(&operator()).await.unwrap();
    for (key, value) in records {
        bench.disk.put(key, value);
    }

    bench.restart();

    assert_whole(&bench, "restored").await;
    let again = bench.vault.rotate_master(&operator()).await.unwrap_err();
    assert!(again.to_string().contains("master.key.old"), "{again}");
}

/// MV-58: a backup from before any rotation can still be used.
#[actix::test]
async fn every_replaced_key_is_kept_and_opens_its_own_store() {
    let mut bench = filled().await;
    let records = |bench: &Bench| -> Vec<_> {
        [bench.disk.keys("vault-check"), bench.disk.keys("vault-key")]
            .concat()
            .into_iter()
            .map(|key| (key.clone(), bench.disk.get(&key).unwrap()))
            .collect()
    };
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(records(&bench));
        bench.vault.rotate_master(&operator()).await.unwrap();
    }

    for (age, store) in stores.into_iter().enumerate() {
        for (key, value) in store {
            bench.disk.put(key, value);
        }
        bench.restart();

        assert_whole(&bench, &format!("before rotation {age}")).await;
        let used = bench.vault.health().replaced_key.unwrap();
        let again = bench.vault.rotate_master(&operator()).await.unwrap_err();
        assert!(used.starts_with("master.key.old"), "{used}");
        assert!(again.to_string().contains(&used), "{again}");
    }
}

/// MV-58, OP-86
#[actix::test]
async fn a_stopped_service_can_get_another_key_too() {
    let mut bench = filled().await;
    let old = fs::read(bench.key_file("")).unwrap();

    let steps = std::sync::Mutex::new(Vec::new());
    let told = |done, total| steps.lock().unwrap().push((done, total));
    let rotated = rotate_at_rest(&*bench.disk, bench.files(), bench.clock.clone(), &told).await;
    bench.restart();

    // OP-83
    assert_eq!(*steps.lock().unwrap(), [(0, 4), (1, 4), (2, 4), (3, 4)]);
    assert_eq!(rotated.unwrap().data_keys, 3);
    assert_whole(&bench, "rotated at rest").await;
    assert_eq!(fs::read(bench.key_file(".old")).unwrap(), old);
}

/// MV-60, MV-75
#[actix::test]
async fn a_record_that_was_changed_or_moved_is_corrupt_and_others_are_fine() {
    let by = operator();
    let cases: [(&str, &str, Option<Vec<u8>>); 4] = [
        ("a byte flipped", "ops~1/TOKEN", None),
        ("no record at all", "ops~1/TOKEN", Some(b"{".to_vec())),
        ("copied to another key", "ops~1/COPY", None),
        ("copied to another team", "dev~1/COPY", None),
    ];
    for (case, place, content) in cases {
        let mut bench = filled().await;
        let (name, record) = bench.disk.record("edge\0vault\0ops~1/TOKEN");
        let text = String::from_utf8(record.clone()).unwrap();
        let at = text.find("\"sealed\":\"").unwrap() + 60;
        let mut changed = text.into_bytes();
        if case == "a byte flipped" {
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        }
        let name = String::from_utf8(name).unwrap().replace("ops~1/TOKEN", place);
        bench.disk.put(name.into_bytes(), Some(content.unwrap_or(changed)));

        bench.restart();

        let (tag, key) = place.split_once('/').unwrap();
        let scope = Scope::of_tag(tag).unwrap();
        let error = bench.vault.get(&scope, key, &by).await.unwrap_err();
        assert_eq!(error.code(), "corrupt", "{case}");
        let said = error.to_string();
        assert!(said.contains(key) && said.contains(&scope.to_string()), "{said}");
        let other = bench.vault.get(&team("dev"), "TOKEN", &by).await;
        assert!(other.is_ok(), "{case}");
        // Setting it anew cures it.
        bench.vault.set(&scope, key, Put::secret("canary-value-9"), &by).await.unwrap();
        bench.restart();
        assert!(bench.vault.get(&scope, key, &by).await.is_ok(), "{case}");
    }
}

/// MV-55, MV-60
#[actix::test]
async fn the_data_key_of_one_team_opens_nothing_of_another() {
    let mut bench = filled().await;
    let (ops, _) = bench.disk.record("vault-key\0ops~1");
    let (_, of_dev) = bench.disk.record("vault-key\0dev~1");
    bench.disk.put(ops, Some(of_dev));

    bench.restart();

    let by = operator();
    let error = bench.vault.get(&team("ops"), "TOKEN", &by).await.unwrap_err();
    assert_eq!(error.code(), "corrupt");
    assert!(bench.vault.get(&team("dev"), "TOKEN", &by).await.is_ok());
}
