//! Backups and what is restored from them.

use std::{
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use hivewright_actors::{
    channel::{outbox, records as outboxes},
    clock::Clock,
    frame::{Body, Gap},
};

use super::*;
use crate::{
    storage::{
        Progress, Unit,
        archive::{self, ArchiveError, Manifest},
        backup, build,
        database::Database,
        restore::{self, RestoreError, restore, restore_newest},
    },
    system::WallClock,
    taint::{Taint, seen::Seen, stored::doubts},
};

/// A home with records, files of every kind, and secrets that must stay out.
fn lived_in() -> Place {
    let place = Place::new();
    for (path, content) in [
        ("run/teams/research/notes.md", "notes"),
        ("run/teams/research/deep/er/empty", ""),
        ("data/config/config.yaml", "teams: {}"),
        ("data/rules/10-basics.md", "be kind"),
        ("data/secrets/master.key", "SECRET-MASTER"),
        ("data/secrets/operator-token", "SECRET-TOKEN"),
        ("run/engines/research/home", "SECRET-ENGINE"),
    ] {
        let path = place.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let long = place.path(&format!("run/teams/research/{}", "long-name-".repeat(20)));
    fs::write(long, "long").unwrap();
    symlink("notes.md", place.path("run/teams/research/link")).unwrap();
    symlink(place.path("data/secrets"), place.path("run/teams/research/out")).unwrap();
    let run = fs::Permissions::from_mode(0o750);
    fs::set_permissions(place.path("run/teams/research/notes.md"), run).unwrap();
    let storage = place.open();
    commit(&storage, [put("a", "1"), put("b", noise(1, 100_000))]);
    place
}

fn back_up(place: &Place) -> PathBuf {
    backup::create(&place.open(), &place.home, None, &quiet).unwrap().file
}

/// The content of an archive, decompressed.
fn unpacked(file: &Path) -> Vec<u8> {
    zstd::decode_all(fs::File::open(file).unwrap()).unwrap()
}

/// SC-109, SC-110
#[test]
fn a_restored_home_is_the_one_that_was_backed_up() {
    let place = lived_in();
    let expected = all(&place.open());
    let file = back_up(&place);
    let other = Place::new();

    let restored = restore(&file, &other.home, false, &quiet).unwrap();

    assert_eq!(restored.kept, Vec::<PathBuf>::new());
    assert_eq!(all(&other.open()), expected);
    let below = |place: &Place, path: &str| {
        let root = place.path(path);
        let found = files(&root).into_iter();
        found
            .map(|(path, content)| (path.strip_prefix(&root).unwrap().to_owned(), content))
            .collect::<BTreeMap<_, _>>()
    };
    // The link that leads out of the folder would be followed by the comparison.
    fs::remove_file(place.path("run/teams/research/out")).unwrap();
    let out = other.path("run/teams/research/out");
    assert_eq!(fs::read_link(&out).unwrap(), place.path("data/secrets"));
    fs::remove_file(out).unwrap();
    for folder in ["run/teams", "data/config", "data/rules"] {
        assert_eq!(below(&other, folder), below(&place, folder));
    }
    let link = fs::read_link(other.path("run/teams/research/link")).unwrap();
    assert_eq!(link, Path::new("notes.md"));
    let notes = fs::metadata(other.path("run/teams/research/notes.md")).unwrap();
    assert_eq!(notes.permissions().mode() & 0o777, 0o750);
}

/// SC-109
#[test]
fn a_backup_holds_no_secret_and_is_private() {
    let place = lived_in();
    let file = back_up(&place);

    let content = unpacked(&file);
    let holds = |text: &str| content.windows(text.len()).any(|part| part == text.as_bytes());

    assert!(holds("be kind") && holds("notes"));
    assert!(!holds("SECRET-"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let names = fs::read_dir(&place.home.backups).unwrap().count();
    assert_eq!(names, 1, "nothing unfinished stays");
}

/// SC-109: what is redacted while a backup is written is in it, so it has to count as older than that.
#[test]
fn a_backup_bears_the_time_of_what_it_holds() {
    let place = lived_in();
    let meanwhile = std::cell::OnceCell::new();
    let slowly = |_: Progress| {
        if meanwhile.set(std::time::SystemTime::now()).is_ok() {
            // Times of files are rough.
            thread::sleep(std::time::Duration::from_millis(20));
        }
        std::ops::ControlFlow::Continue(())
    };

    let file = backup::create(&place.open(), &place.home, None, &slowly).unwrap().file;

    let borne = fs::metadata(file).unwrap().modified().unwrap();
    assert!(borne <= meanwhile.into_inner().unwrap());
}

/// SC-109
#[test]
fn the_newest_seven_backups_stay() {
    let place = Place::new();
    let storage = place.open();
    let mut made = Vec::new();
    for _ in 0..9 {
        made.push(backup::create(&storage, &place.home, None, &quiet).unwrap().file);
    }
    fs::write(place.home.backups.join("mine.tar.zst"), "kept").unwrap();
    let day = std::time::Duration::from_secs(24 * 60 * 60 + 1);
    for (name, age) in
        [("hivewright-1.tar.zst.partial", day), ("hivewright-2.tar.zst.partial", day / 2)]
    {
        let file = fs::File::create(place.home.backups.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - age).unwrap();
    }
    backup::create(&storage, &place.home, None, &quiet).unwrap();

    let left = backup::list(&place.home.backups).unwrap();

    assert_eq!(left.len(), 7);
    assert_eq!(left[1..], made.iter().rev().take(6).cloned().collect::<Vec<_>>());
    let exists = |name: &str| place.home.backups.join(name).exists();
    assert!(exists("mine.tar.zst"));
    assert!(!exists("hivewright-1.tar.zst.partial"), "abandoned");
    assert!(exists("hivewright-2.tar.zst.partial"), "perhaps at work");

    // Of a time when the clock was wrong.
    for file in backup::list(&place.home.backups).unwrap() {
        let later = place
            .home
            .backups
            .join(file.file_name().unwrap().to_str().unwrap().replace("-20", "-29"));
        fs::rename(file, &later).unwrap();
        let future = std::time::SystemTime::now() + 365 * day;
        fs::File::options().append(true).open(later).unwrap().set_modified(future).unwrap();
    }
    let newest = backup::create(&storage, &place.home, None, &quiet).unwrap().file;
    let left = backup::list(&place.home.backups).unwrap();
    assert_eq!((left.first(), left.len()), (Some(&newest), 7), "it is the newest by its name, too");
}

/// SC-109, SC-115: no team keeps a backup from being made or restored; what it lacks is listed.
#[test]
fn what_a_backup_cannot_hold_is_left_out_and_listed() {
    let (place, other) = (lived_in(), Place::new());
    let team = place.path("run/teams/research");
    let deep: PathBuf = std::iter::repeat_n("d", 200).collect();
    fs::create_dir_all(team.join(deep)).unwrap();
    let long: PathBuf = std::iter::repeat_n("n".repeat(240), 13).collect();
    fs::create_dir_all(team.join(long)).unwrap();
    fs::File::create(team.join("ho\nle")).unwrap().set_len(8 << 30).unwrap();
    let image = fs::File::create(team.join("image")).unwrap();
    std::os::unix::fs::FileExt::write_at(&image, b"end", 64 << 20).unwrap();
    let mut expected = vec![
        "teams/research/d/d",
        "teams/research/ho\\nle: it consists of holes",
        "teams/research/nnn",
    ];
    if !rustix::process::geteuid().is_root() {
        fs::write(team.join("locked"), "").unwrap();
        fs::set_permissions(team.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        expected.insert(2, "teams/research/locked: Permission denied");
    }

    let made = backup::create(&place.open(), &place.home, None, &quiet).unwrap();
    let restored = restore(&made.file, &other.home, false, &quiet).unwrap();

    let begins: Vec<_> = made
        .left_out
        .iter()
        .zip(&expected)
        .map(|(line, begins)| line.starts_with(begins))
        .collect();
    assert!(
        begins.iter().all(|begins| *begins) && made.left_out.len() == expected.len(),
        "{:?}",
        made.left_out
    );
    assert_eq!(restored.manifest.left_out, made.left_out);
    let image = other.path("run/teams/research/image");
    let found = image.metadata().unwrap();
    assert_eq!(found.len(), (64 << 20) + 3);
    assert!(std::os::unix::fs::MetadataExt::blocks(&found) * 512 < 1 << 20, "holes stay holes");
    assert!(fs::read(image).unwrap().ends_with(b"\0end"));
}

/// SC-109, SC-115
#[test]
fn a_backup_leaves_room_on_the_disk() {
    let place = lived_in();
    let home = Home { free_space: u64::MAX / 2, ..place.home.clone() };

    let failed = backup::create(&place.open(), &home, None, &quiet).unwrap_err().to_string();

    assert!(failed.contains("`limits.free_space`"), "{failed}");
    assert_eq!(fs::read_dir(&home.backups).unwrap().count(), 0);
}

/// SC-110: a restore that was killed between its renames is not taken for one that was made.
#[test]
fn a_half_restored_home_is_refused_until_it_is_restored_whole() {
    let place = lived_in();
    let file = back_up(&place);
    restore::Interrupted::begin(&place.home.store, &file).unwrap();

    let refused = place.try_open().unwrap_err().to_string();
    restore(&file, &place.home, true, &quiet).unwrap();

    assert!(
        refused.contains(&format!("`hivewright restore {} --force`", file.display())),
        "{refused}"
    );
    place.open();
}

/// SC-109: a backup that cannot be made keeps no commit out.
#[test]
fn commits_go_on_after_a_backup_that_cannot_read_the_archive() {
    let place = Place::new();
    let storage = Arc::new(place.open());
    let (archive, away) = (place.path("run/store/history.db"), place.path("run/away"));
    let (tell, told) = std::sync::mpsc::channel();

    fs::rename(&archive, &away).unwrap();
    let (shared, home) = (storage.clone(), place.home.clone());
    thread::spawn(move || {
        let failed = backup::create(&shared, &home, None, &quiet).unwrap_err();
        commit(&shared, [put("a", "1")]);
        tell.send(failed.to_string()).unwrap();
    });
    let failed = told.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
    fs::rename(&away, &archive).unwrap();

    assert!(failed.contains("history.db"), "{failed}");
    backup::create(&storage, &place.home, None, &quiet).unwrap();
}

/// SC-109: the copy is of one moment, though records before and behind it change meanwhile.
#[test]
fn a_backup_taken_while_commits_go_on_is_of_one_commit() {
    let place = Place::new();
    let storage = Arc::new(open(&place.home, Durability::Process, &quiet).unwrap());
    let key = |n: u64| format!("k/{:04}", n * 7919 % 2000);
    commit(&storage, (0..2000).map(|n| put(&key(n), "start")).collect::<Vec<_>>());
    let stop = Arc::new(AtomicBool::new(false));
    let history = Arc::new(Mutex::new(vec![all(&storage)]));
    let writer = thread::spawn({
        let (storage, stop, history) = (storage.clone(), stop.clone(), history.clone());
        move || {
            let mut state = history.lock().unwrap()[0].clone();
            for n in 0.. {
                // One changed, one removed, one added, spread over all keys; sometimes large.
                let value = noise(n, if n % 9 == 0 { 40_000 } else { 20 });
                let changes =
                    [put(&key(n), value), remove(&key(n + 1)), put(&format!("n/{n}"), "")];
                for (key, value) in &changes {
                    match value {
                        Some(value) => state.insert(key.clone(), value.clone()),
                        None => state.remove(key),
                    };
                }
                history.lock().unwrap().push(state.clone());
                commit(&storage, changes);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });

    let commits = || history.lock().unwrap().len();
    let mut spanned = 0;
    let mut made = Vec::new();
    for _ in 0..3 {
        let before = commits();
        let rounds = Mutex::new(0);
        let file = backup::create(&storage, &place.home, None, &|progress| {
            // Lets commits in between two rounds of the copy.
            if progress.unit == Unit::Records {
                let seen = commits();
                *rounds.lock().unwrap() += 1;
                while commits() < seen + 2 {
                    thread::yield_now();
                }
            }
            ControlFlow::Continue(())
        })
        .unwrap()
        .file;
        assert!(*rounds.lock().unwrap() > 5);
        spanned += commits() - before;
        made.push(file);
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();

    assert!(spanned > 30, "{spanned}");
    let history = history.lock().unwrap();
    for file in made {
        let other = Place::new();
        restore(&file, &other.home, false, &quiet).unwrap();
        let restored = all(&other.open());
        assert!(history.contains(&restored), "not a state that ever was");
    }
}

/// SC-110
#[test]
fn a_damaged_archive_is_refused_and_changes_nothing() {
    let place = lived_in();
    let file = back_up(&place);
    let good = fs::read(&file).unwrap();
    let before = files(&place.path("run"));
    let tampered = place.path("tampered.tar.zst");

    for sample in 0..40 {
        let mut content = good.clone();
        content[good.len() * sample / 40] ^= 0x10;
        fs::write(&tampered, content).unwrap();
        let error = restore(&tampered, &place.home, true, &quiet).unwrap_err();
        assert!(matches!(error, RestoreError::Archive(_)), "{error}");
        fs::write(&tampered, &good[..good.len() * sample / 40]).unwrap();
        let error = restore(&tampered, &place.home, true, &quiet).unwrap_err();
        assert!(matches!(error, RestoreError::Archive(_)), "{error}");
    }

    assert!(before == files(&place.path("run")));
}

/// SC-110: also where the compression's own checksum was made to fit.
#[test]
fn a_changed_member_does_not_match_its_sum() {
    let place = lived_in();
    let file = back_up(&place);
    let mut content = unpacked(&file);
    let at = content.windows(7).position(|part| part == b"be kind").unwrap();
    content[at] = b'B';
    let tampered = place.path("tampered.tar.zst");
    fs::write(&tampered, zstd::encode_all(content.as_slice(), 1).unwrap()).unwrap();

    let error = archive::verify(&tampered, &quiet).unwrap_err();

    assert_eq!(
        error.to_string(),
        "the archive is damaged: `rules/10-basics.md` does not match its sum"
    );
}

/// An archive with one member of our choice and a manifest that fits it.
fn crafted(
    place: &Place,
    path: &[u8],
    kind: tar::EntryType,
    earlier: Option<(&str, &str)>,
) -> PathBuf {
    let file = place.path("crafted.tar.zst");
    let out = zstd::Encoder::new(fs::File::create(&file).unwrap(), 1).unwrap();
    let mut tar = tar::Builder::new(out);
    if let Some((link, target)) = earlier {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, link, target).unwrap();
    }
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(4);
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_cksum();
    tar.append(&header, b"evil".as_slice()).unwrap();
    let (parts, left_out) = Default::default();
    let manifest = Manifest { format: 1, created: String::new(), records: 0, parts, left_out };
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let mut header = tar::Header::new_gnu();
    header.set_size(manifest.len() as u64);
    tar.append_data(&mut header, "manifest.json", manifest.as_slice()).unwrap();
    tar.into_inner().unwrap().finish().unwrap().flush().unwrap();
    file
}

/// SC-110
#[test]
fn members_that_lead_outside_are_refused() {
    use tar::EntryType::{Char, Link, Regular};
    let place = Place::new();
    for (path, kind, earlier) in [
        ("../escaped", Regular, None),
        ("teams/../../escaped", Regular, None),
        ("/escaped", Regular, None),
        ("teams/link/escaped", Regular, Some(("teams/link", "/"))),
        ("teams/link", Regular, Some(("teams/link", "/escaped"))),
        ("teams/harmless", Regular, Some(("teams", "/escaped"))),
        ("teams", Regular, None),
        ("teams/device", Char, None),
        ("teams/hard", Link, None),
    ] {
        let file = crafted(&place, path.as_bytes(), kind, earlier);

        let error = archive::verify(&file, &quiet).unwrap_err();

        assert!(matches!(error, ArchiveError::Refused { .. }), "{path}: {error}");
        assert!(restore(&file, &place.home, true, &quiet).is_err());
    }
    assert_eq!(place.names(), [""; 0]);
}

/// OP-81
#[test]
fn a_restore_replaces_a_store_only_when_forced_and_keeps_it() {
    let place = lived_in();
    let file = back_up(&place);
    let backed_up = all(&place.open());
    commit(&place.open(), [put("later", "lost?")]);
    fs::write(place.path("run/teams/research/later.md"), "kept").unwrap();
    let replaced = all(&place.open());

    let error = restore(&file, &place.home, false, &quiet).unwrap_err();
    assert!(matches!(error, RestoreError::NotEmpty), "{error}");
    assert_eq!(all(&place.open()), replaced);

    let restored = restore(&file, &place.home, true, &quiet).unwrap();

    assert_eq!(all(&place.open()), backed_up);
    assert!(!place.path("run/teams/research/later.md").exists());
    let kept = |name: &str| {
        let path = restored.kept.iter().find(|path| path.to_string_lossy().contains(name));
        path.unwrap().clone()
    };
    assert!(kept("teams.before-").join("research/later.md").exists());
    let mut old = place.home.clone();
    old.store = kept("store.before-");
    assert_eq!(all(&open(&old, Durability::Power, &quiet).unwrap()), replaced);
    assert_eq!(
        place.names(),
        ["backups", "engines", "store", "store.before", "teams", "teams.before"]
    );
}

/// OP-81
#[test]
fn a_store_in_use_is_not_restored_over() {
    let place = lived_in();
    let file = back_up(&place);
    let storage = place.open();

    for error in [
        restore(&file, &place.home, true, &quiet).unwrap_err(),
        restore_newest(&place.home, &doubts, &quiet).unwrap_err(),
    ] {
        assert!(matches!(error, RestoreError::InUse), "{error}");
    }
    commit(&storage, [put("still", "there")]);
}

/// SC-112
#[test]
fn a_bad_store_is_set_aside_and_rebuilt_from_the_newest_good_backup() {
    let place = lived_in();
    let expected = all(&place.open());
    back_up(&place);
    commit(&place.open(), [put("later", "x")]);
    let newest = back_up(&place);
    fs::write(&newest, &fs::read(&newest).unwrap()[..500]).unwrap();
    fs::write(place.home.store.join("db"), "damaged").unwrap();
    fs::write(place.path("run/teams/research/notes.md"), "newer").unwrap();
    place.try_open().map(drop).unwrap_err();
    let damaged = files(&place.home.store).into_values().collect::<Vec<_>>();

    let restored = restore_newest(&place.home, &doubts, &quiet).unwrap();

    let storage = place.open();
    let mut found = all(&storage);
    found.retain(|key, _| !key.starts_with(b"edge\0untrusted-window"));
    assert_eq!(found, expected);
    let notes = place.path("run/teams/research/notes.md").canonicalize().unwrap();
    let taint = Taint::open(&storage, &place.path("run/teams"), None).unwrap();
    assert!(taint.holds(&notes, &Seen::path(&notes).unwrap()), "nobody knows who changed it");
    drop(storage);
    let [aside] = restored.kept.as_slice() else { panic!("{:?}", restored.kept) };
    assert!(aside.to_string_lossy().contains("store.bad-"));
    assert!(files(aside).into_values().collect::<Vec<_>>() == damaged);
    assert_eq!(
        fs::read(place.path("run/teams/research/notes.md")).unwrap(),
        b"newer",
        "files are newer than any backup"
    );
}

/// SC-110: a restored channel goes on above all numbers that were given since the backup, also if the
/// backup is restored twice.
#[test]
fn a_restored_channel_begins_at_numbers_that_nobody_has_seen() {
    let place = lived_in();
    let frame = r#"{"topic":null,"ts":1,"body":{"type":"progress","content":"x","kind":"note"}}"#;
    let records = [
        put("chan\0ws:1", "{}"),
        put("chan\0ws:2", "{}"),
        put("out\0ws:2\0\0\0\0\0\0\0\0\u{7}", frame),
    ];
    commit(&place.open(), records);
    let file = back_up(&place);
    let before = WallClock.now().0 / 1_000;

    restore(&file, &place.home, true, &quiet).unwrap();

    let storage = place.open();
    for (channel, begins) in [("ws:1", 1), ("ws:2", 8)] {
        let frames = outboxes::outbox(&storage, &channel.into()).unwrap();
        let last = frames.last().unwrap();
        let Body::Progress(note) = &last.frame.body else {
            panic!("{last:?}");
        };
        let gap =
            Gap { from_seq: outbox::seq(begins), to_seq: outbox::seq(last.ordinal), dropped: 0 };
        assert!(last.ordinal >= before);
        assert!(outbox::seq(last.ordinal) < 1 << 53);
        assert_eq!(note.gap, Some(gap));
    }
}

/// SC-110: what waited for a chat network when the backup was made may have been sent since, and is not sent again.
#[test]
fn what_may_have_been_posted_is_not_posted_again() {
    let place = lived_in();
    let frame = r#"{"topic":null,"ts":1,"body":{"type":"progress","content":"x","kind":"note"}}"#;
    let records = [
        put("chan\0d17", "{}"),
        put("deliv\0d17", r#"{"seq":1}"#),
        put("out\0d17\0\0\0\0\0\0\0\0\u{7}", frame),
    ];
    commit(&place.open(), records);
    let file = back_up(&place);

    restore(&file, &place.home, true, &quiet).unwrap();

    let mark = outboxes::DeliveryMark::read(&place.open(), &"d17".into()).unwrap();
    assert_eq!((mark.seq, mark.partly), (outbox::seq(7), None));
}

/// SC-112, OP-81: what the backup does not hold is listed, as far as it can still be seen.
#[test]
fn what_a_rebuilt_store_lacks_is_listed() {
    let place = lived_in();
    back_up(&place);
    commit(&place.open(), [put("task/7", "later"), put("task/8", "x")]);
    let database = Database::open(&place.home.store).unwrap();
    database.remove(build::schema_key()).unwrap();
    drop(database);

    let restored = restore_newest(&place.home, &doubts, &quiet).unwrap();

    let lost = restored.lost.unwrap();
    assert_eq!(lost.records, [("task".to_owned(), 2)].into());
    assert_eq!((lost.unread, lost.until.is_some()), (None, true));
    let listed = fs::read_to_string(lost.list.unwrap()).unwrap();
    assert_eq!(listed, "task/7\ntask/8\n");

    fs::write(place.home.store.join("db"), "damaged").unwrap();
    let restored = restore_newest(&place.home, &doubts, &quiet).unwrap();

    assert!(restored.lost.unwrap().unread.is_some());
}

/// OP-83: a restore that is told to stop changes nothing and leaves nothing.
#[test]
fn a_restore_that_is_stopped_changes_nothing() {
    let place = lived_in();
    let file = back_up(&place);
    commit(&place.open(), [put("later", "x")]);
    let (before, names) = (all(&place.open()), place.names());
    let total = AtomicU64::new(0);
    let count = |_: Progress| {
        total.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    archive::verify(&file, &count).unwrap();
    let steps = 2 * total.load(Ordering::Relaxed);

    for stop_at in 0..steps - 1 {
        let seen = AtomicU64::new(0);
        let progress = |_: Progress| {
            let earlier = seen.fetch_add(1, Ordering::Relaxed);
            if earlier < stop_at { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let stopped = restore(&file, &place.home, true, &progress).unwrap_err();

        assert!(stopped.to_string().contains("stopped"), "{stopped}");
        assert_eq!(place.names(), names, "step {stop_at} of {steps}");
    }
    assert_eq!(all(&place.open()), before);
}

/// SC-112
#[test]
fn without_a_good_backup_a_bad_store_stays_where_it_is() {
    let place = lived_in();
    fs::write(place.home.store.join("db"), "damaged").unwrap();

    let error = restore_newest(&place.home, &doubts, &quiet).unwrap_err();

    assert!(matches!(error, restore::RestoreError::NoBackup(_)), "{error}");
    assert_eq!(fs::read(place.home.store.join("db")).unwrap(), b"damaged");
}

/// OP-83
#[test]
fn progress_runs_up_to_its_total() {
    let place = lived_in();
    let storage = place.open();
    let told = Mutex::new(Vec::new());

    let watching = |progress| {
        told.lock().unwrap().push(progress);
        ControlFlow::Continue(())
    };
    backup::create(&storage, &place.home, None, &watching).unwrap();

    let told = told.into_inner().unwrap();
    for unit in [Unit::Records, Unit::Files, Unit::Bytes] {
        let of_unit = || told.iter().filter(|progress| progress.unit == unit);
        assert!(of_unit().is_sorted_by_key(|progress| progress.done));
        let last = of_unit().next_back().unwrap();
        assert_eq!(last.done, last.total, "{unit:?}");
    }
}

/// OP-105: wherever a backup is told to stop, nothing of it is left, and the next one is whole.
#[test]
fn a_backup_that_is_stopped_leaves_nothing_behind() {
    let place = lived_in();
    let storage = place.open();
    let left = || fs::read_dir(&place.home.backups).unwrap().count();

    for unit in [Unit::Records, Unit::Files, Unit::Bytes] {
        let progress = |progress: Progress| {
            if progress.unit == unit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let stopped = backup::create(&storage, &place.home, None, &progress).unwrap_err();

        assert!(stopped.to_string().contains("stopped"), "{stopped}");
        assert_eq!(left(), 0, "{unit:?}");
    }
    let file = backup::create(&storage, &place.home, None, &quiet).unwrap().file;
    archive::verify(&file, &quiet).unwrap();
}
