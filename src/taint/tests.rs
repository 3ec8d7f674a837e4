//! Labels over restarts, and what is made of very many changes.

use std::fs;

use hivewright_actors::{
    doubles::disk::MemoryStorage,
    storage::Batch,
    store::{keys::key_of, records::Record},
};

use super::{label::Extent, window::MOST_CHANGED, *};
use crate::system::{Randomness, sha256};

fn worker() -> Worker {
    Worker { team: "team".into(), task: "task-1".into(), tool: "bash".to_owned() }
}

fn row(root: &Path) -> WindowRow {
    WindowRow {
        id: "w1".to_owned(),
        worker: worker(),
        roots: vec![root.to_owned()],
        since: seen::now(),
        sure: true,
    }
}

fn holds(taint: &Taint, path: &Path) -> bool {
    taint.holds(path, &Seen::path(path).unwrap())
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    (dir, real)
}

/// SC-20: a kill during a command of an untrusted turn forgets nothing: what has changed since counts.
#[test]
fn a_window_that_a_kill_left_open_still_stands_for_what_changed() {
    let (_dir, root) = folder();
    let old = root.join("old.md");
    fs::write(&old, "ours").unwrap();
    let before = Seen::path(&old).unwrap().changed;
    while seen::now() <= before {
        std::thread::yield_now();
    }
    let storage = MemoryStorage::default();
    let window = row(&root);
    storage.commit(&Writes::new().put(&window).batch().unwrap()).unwrap();
    fs::write(root.join("new.md"), "planted").unwrap();

    let taint = Taint::open(&storage, &root, None).unwrap();
    let while_open = (holds(&taint, &root.join("new.md")), holds(&taint, &old));
    let writes = taint.look_through(&window);
    storage.commit(&writes.batch().unwrap()).unwrap();
    let later = Taint::open(&storage, &root, None).unwrap();

    assert_eq!(while_open, (true, false));
    assert!(later.labels_at(&root.join("new.md")));
    assert_eq!(later.list(&"team".into()).len(), 1);
}

const FILE: &str = UntrustedFile::KIND;
const WINDOW: &str = WindowRow::KIND;

/// A store with the label of one file and a window, of which these rows cannot be read.
fn damaged_store(label_of: &Path, kinds: &[&'static str]) -> MemoryStorage {
    let storage = MemoryStorage::default();
    for (kind, name) in [(FILE, label_of.to_string_lossy().into_owned()), (WINDOW, "w1".to_owned())]
    {
        if kinds.contains(&kind) {
            let change =
                (key_of(kind, &sha256(name.as_bytes())), Some(b"{\"team\": \"te".to_vec()));
            let changes = vec![change];
            storage.commit(&Batch::from(changes)).unwrap();
        }
    }
    storage
}

/// SC-20, SC-112: a label that cannot be read counts, for its file alone, until a trusted turn writes the file anew.
#[tokio::test]
async fn a_file_with_a_damaged_label_is_untrusted() {
    let (_dir, root) = folder();
    let (planted, ours) = (root.join("team/notes/planted.md"), root.join("team/ours.md"));
    fs::create_dir_all(root.join("team/notes")).unwrap();
    for path in [&planted, &ours] {
        fs::write(path, "x").unwrap();
    }
    let storage = damaged_store(&planted, &[FILE]);

    let taint = Taint::open(&storage, &root, None).unwrap();
    let found = (holds(&taint, &planted), holds(&taint, &ours));
    let listed = taint.list(&"team".into());
    let unsearched = Taint::open(&storage, &root.join("none"), None).unwrap();
    let unfound = (holds(&unsearched, &planted), holds(&unsearched, &ours));
    let watch = unsearched.watch(worker(), vec![root.join("team")]).await;
    let may_have_read = watch.unwrap().end().await.unwrap();
    unsearched.written_anew(&planted).await.unwrap();

    assert_eq!(found, (true, false));
    assert_eq!(listed.len(), 1);
    assert_eq!((Path::new(&listed[0].path), listed[0].extent), (&*planted, Extent::File));
    assert_eq!(unfound, (true, false));
    assert!(may_have_read);
    assert!(!holds(&unsearched, &planted));
    assert!(unsearched.state().damaged.is_empty());
}

/// SC-20, SC-112: the damaged row is replaced by one that can be read, and the operator is told of the file.
#[test]
fn the_operator_is_told_of_a_damaged_label() {
    let (_dir, root) = folder();
    let planted = root.join("team/planted.md");
    fs::create_dir(root.join("team")).unwrap();
    fs::write(&planted, "x").unwrap();
    let storage = damaged_store(&planted, &[FILE, WINDOW]);
    let taint = Taint::open(&storage, &root, None).unwrap();

    let repairs = taint.state().repairs(Timestamp(7), &Ids::new(Arc::new(Randomness)));
    storage.commit(&repairs.unwrap().batch().unwrap()).unwrap();
    let later = Taint::open(&storage, &root, None).unwrap();

    let told = format!("who wrote `{}`: it counts as untrusted", planted.display());
    assert!(storage.text().contains(&told), "{}", storage.text());
    assert!(later.state().damaged.is_empty());
    let labels = later.list(&"team".into());
    let labels = labels.iter().map(|label| (Path::new(&label.path), label.at));
    let expected = [root.join("team"), planted];
    let expected = expected.iter().map(|path| (path.as_path(), Timestamp(7)));
    assert!(labels.eq(expected));
}

/// SC-20, SC-112: the label of a folder reaches as far when it is damaged.
#[test]
fn a_folder_with_a_damaged_label_is_untrusted() {
    let (_dir, root) = folder();
    let file = root.join("team/modules/deep/x.js");
    fs::create_dir_all(root.join("team/modules/deep")).unwrap();
    fs::write(&file, "x").unwrap();
    let storage = damaged_store(&root.join("team/modules"), &[FILE]);

    let opened =
        [&root, &root.join("none")].map(|teams| Taint::open(&storage, teams, None).unwrap());

    assert_eq!(opened.map(|taint| holds(&taint, &file)), [true, true]);
}

/// SC-20, SC-112: of a damaged window nobody knows what it was about: all teams' files count.
#[test]
fn a_damaged_window_makes_all_teams_files_untrusted() {
    let (_dir, root) = folder();
    let files = ["one/a.md", "two/b.md"].map(|name| root.join(name));
    for file in &files {
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(file, "x").unwrap();
    }
    let storage = damaged_store(&root, &[WINDOW]);

    let taint = Taint::open(&storage, &root, None).unwrap();

    assert_eq!(files.map(|file| holds(&taint, &file)), [true, true]);
    assert_eq!(taint.list(&"one".into())[0].extent, Extent::Workspace);
}

/// SC-42: a file that one command reached is not cleared by another one that begins.
#[tokio::test]
async fn a_file_in_doubt_is_not_cleared_by_the_next_command() {
    let (_dir, root) = folder();
    let config = root.join("config.yaml");
    let taint = Taint::default();
    let first = taint.begin(worker(), vec![root.clone()]).await.unwrap();
    fs::write(&config, "planted").unwrap();

    taint.trust_if_undoubted(&config);
    let second = taint.begin(worker(), vec![root.clone()]).await.unwrap();
    second.label_changes().await.unwrap();
    first.label_changes().await.unwrap();

    assert!(taint.labels_at(&config));
}

/// The number of labels is bounded: very many changes become labels of their folders.
#[test]
fn very_many_changes_become_labels_of_their_folders() {
    let (_dir, root) = folder();
    let window = row(&root);
    fs::create_dir_all(root.join("modules/deep")).unwrap();
    fs::create_dir(root.join("team-rules")).unwrap();
    for number in 0..=MOST_CHANGED {
        fs::write(root.join(format!("modules/deep/{number}")), "x").unwrap();
    }
    for name in ["top.md", "team-rules/planted.md"] {
        fs::write(root.join(name), "x").unwrap();
    }
    let taint = Taint::default();

    taint.look_through(&window);

    let labels = taint.list(&"team".into()).into_iter();
    let labels: Vec<_> = labels
        .map(|label| {
            let inside = Path::new(&label.path).strip_prefix(&root).unwrap();
            (inside.display().to_string(), label.extent)
        })
        .collect();
    assert_eq!(
        labels,
        [
            ("modules".to_owned(), Extent::Folder),
            ("team-rules/planted.md".to_owned(), Extent::File),
            ("top.md".to_owned(), Extent::File),
        ]
    );
    assert!(holds(&taint, &root.join("modules/deep/7")));
}

/// SC-20, SC-110: a backup may be restored into another home, and rows of former versions hold where they were made.
#[test]
fn labels_and_windows_hold_in_another_home() {
    let (_dir, root) = folder();
    let [old, new] = ["old", "new"].map(|home| root.join(home).join("teams"));
    let names = ["one/labelled.md", "two/changed.md"];
    for file in [&old, &new].iter().flat_map(|teams| names.map(|name| teams.join(name))) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "planted").unwrap();
    }
    let storage = MemoryStorage::default();
    let taint = Taint::open(&storage, &old, None).unwrap();
    let commit = |writes: Writes| storage.commit(&writes.batch().unwrap()).unwrap();
    let since_ever = |team: &str| WindowRow { since: (0, 0), ..row(&old.join(team)) };

    commit(taint.look_through(&since_ever("one")));
    commit(taint.teams().put_window(Writes::new(), &since_ever("two")));
    let restored = Taint::open(&storage, &new, None).unwrap();

    for name in names {
        assert!(holds(&restored, &new.join(name)), "{name}");
    }
    assert!(restored.labels_at(&new.join(names[0])));

    let whole_path = worker().label(&old.join(names[0]), None, Extent::File, Timestamp(1));
    let storage = MemoryStorage::default();
    storage.commit(&Writes::new().put(&whole_path).batch().unwrap()).unwrap();
    let taint = Taint::open(&storage, &old, None).unwrap();
    assert!(taint.labels_at(&old.join(names[0])));
    let dropped = taint.teams().delete(Writes::new(), &whole_path.path);
    storage.commit(&dropped.batch().unwrap()).unwrap();
    assert!(Taint::open(&storage, &old, None).unwrap().is_quiet());
}

/// SC-20: what a team wrote into folders that others share is as untrusted after the team.
#[tokio::test]
async fn a_team_that_is_shut_down_leaves_the_labels_of_shared_folders() {
    let (_dir, root) = folder();
    let (own, shared) = (root.join("teams/team/a.md"), root.join("shared/b.md"));
    for file in [&own, &shared] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "planted").unwrap();
    }
    let storage = MemoryStorage::default();
    let taint = Taint::open(&storage, &root.join("teams"), None).unwrap();
    let window =
        WindowRow { since: (0, 0), roots: vec![own.clone(), shared.clone()], ..row(&root) };
    storage.commit(&taint.look_through(&window).batch().unwrap()).unwrap();

    for writes in taint.forget(&TeamKey::first("team")).await {
        storage.commit(&writes.batch().unwrap()).unwrap();
    }

    for taint in [taint, Taint::open(&storage, &root.join("teams"), None).unwrap()] {
        assert!(!holds(&taint, &own) && holds(&taint, &shared));
        let left: Vec<_> = taint.list(&MAIN.into()).into_iter().map(|label| label.path).collect();
        assert_eq!(left, [shared.to_string_lossy()]);
    }
}

/// Whoever accepts a file accepts what they saw: one that was changed again is refused.
#[tokio::test]
async fn a_file_is_accepted_as_it_was_seen_or_not_at_all() {
    let (_dir, root) = folder();
    let path = root.join("plan.md");
    let taint = Taint::default();
    let (team, by) = (TeamName::from("team"), PrincipalId::from("ann"));
    let plant = async |text: &str| {
        let window = taint.begin(worker(), vec![path.clone()]).await.unwrap();
        fs::write(&path, text).unwrap();
        window.label_changes().await.unwrap();
        taint.list(&team)[0].id()
    };

    let first = plant("one").await;
    let seen = Seen::path(&path).unwrap().changed;
    while seen::now() <= seen {
        std::thread::yield_now();
    }
    let second = plant("two").await;
    let stale = taint.accept(&team, &[first], &by, "api").await;
    let still = holds(&taint, &path);
    let fresh = taint.accept(&team, &[second], &by, "api").await;

    assert!(matches!(stale, Err(TaintError::Unknown(_))));
    assert!(still);
    assert_eq!(fresh.unwrap().len(), 1);
    assert!(!holds(&taint, &path));
}

impl Taint {
    fn labels_at(&self, path: &Path) -> bool {
        self.state().labels.contains_key(&*path.to_string_lossy())
    }
}
