//! A racer that swaps a folder with a link that leads out, as fast as it can, while a team reads, writes
//! and looks through its workspace.

use std::{
    fs,
    io::Read,
    ops::ControlFlow,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use hivewright::sandbox::workspace::{Workspace, WorkspaceError};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Whoever wins the race, no file is labelled here.
fn unguarded(_: &Path) -> Result<(), WorkspaceError> {
    Ok(())
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Race {
    /// Reads that found what is inside.
    pub(crate) inside: usize,
    /// Reads that were refused.
    pub(crate) refused: usize,
    /// Reads and looks that saw what is outside, and writes that got there: none may.
    pub(crate) escapes: usize,
}

/// So often a round also writes and looks through the folder.
const WRITES: usize = 200;

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ways to name the file that is swapped, and files that are not the team's.
fn names(root: &Path) -> Vec<String> {
    let root = root.display();
    let mut names = vec![
        "flip/a".to_owned(),
        "flip/./a".to_owned(),
        "notes/../flip/a".to_owned(),
        format!("{root}/team/flip/a"),
        // These lead out, or nowhere.
        "../other/a".to_owned(),
        "flip/../../other/a".to_owned(),
        "flip/../other/a".to_owned(),
        "evil/a".to_owned(),
        format!("{root}/other/a"),
        format!("{root}/team/../other/a"),
        format!("/proc/self/root{root}/other/a"),
        format!("/proc/{}/root{root}/other/a", std::process::id()),
        "/proc/self/cwd/../other/a".to_owned(),
        "/proc/self/environ".to_owned(),
        "magic/a".to_owned(),
        "magic/environ".to_owned(),
        "flip/a\0b".to_owned(),
        "\0".to_owned(),
        format!("flip/{}", "x".repeat(4096)),
        "flip/".repeat(1000),
    ];
    // A link to each open handle of this process, other folders among them.
    names.extend((0..16).map(|number| format!("/proc/self/fd/{number}/../other/a")));
    names
}

/// Runs so many rounds.
pub(crate) fn race(rounds: usize) -> Race {
    let dir = tempfile::tempdir().expect("a folder");
    let root = dir.path();
    for folder in ["team/flip", "team/notes", "other"] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
    }
    fs::write(root.join("team/flip/a"), "inside").expect("a file");
    fs::write(root.join("other/a"), "outside").expect("a file");
    symlink("../other", root.join("team/evil")).expect("a link");
    symlink("/proc/self", root.join("team/magic")).expect("a link");
    let workspace = Workspace::open(&root.join("team"), &[]).expect("a workspace");
    let names = names(root);
    let (stop, mut race) = (AtomicBool::new(false), Race::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [flip, evil] = ["flip", "evil"].map(|name| root.join("team").join(name));
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &flip, CWD, &evil, RenameFlags::EXCHANGE).expect("a swap");
            }
        });
        // Also when something below fails: the scope waits for the racer.
        let _stop = Stop(&stop);
        for round in 0..rounds {
            // Mostly the file that is swapped, now and then one of the others.
            let name = match round % 4 {
                0 => &names[round / 4 % names.len()],
                _ => &names[0],
            };
            let mut text = String::new();
            let read = workspace.open_file(name, &unguarded).ok();
            match read.and_then(|mut opened| opened.file.read_to_string(&mut text).ok()) {
                Some(_) if text == "inside" => race.inside += 1,
                Some(_) => race.escapes += 1,
                None => race.refused += 1,
            }
            if round % WRITES == 0 {
                race.escapes += look_and_write(&workspace);
            }
        }
    });
    let others = fs::read_dir(root.join("other")).expect("a folder").flatten();
    race.escapes += others.filter(|entry| entry.file_name() != "a").count();
    let untouched = fs::read_to_string(root.join("other/a")).expect("a file") == "outside";
    race.escapes += usize::from(!untouched);
    race
}

/// Writes by way of the folder that is swapped, and looks through all there is: what was seen outside.
fn look_and_write(workspace: &Workspace) -> usize {
    let mut escapes = 0;
    let _ = workspace.write("flip/w", b"inside", &unguarded);
    let _ = workspace.write("flip/new/w", b"inside", &unguarded);
    if let Ok(folder) = workspace.open_dir(".", &unguarded) {
        folder.walk(&|_| true, &mut |found| {
            let mut text = String::new();
            if let Ok((mut file, _)) = found.open()
                && file.read_to_string(&mut text).is_ok()
                && text == "outside"
            {
                escapes += 1;
            }
            ControlFlow::Continue(())
        });
    }
    escapes
}

/// SC-07, SC-63, TO-48: whatever a racer swaps in and whatever the name, no read sees and no write changes
/// what is outside. `cargo bench --bench figures -- racer` runs a million rounds.
#[test]
fn links_swapped_by_a_racer_never_lead_out() {
    let race = race(20_000);

    assert_eq!(race.escapes, 0, "{race:?}");
    assert!(race.inside > 0 && race.refused > 0, "{race:?}");
}
