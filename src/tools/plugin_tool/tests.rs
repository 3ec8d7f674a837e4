use std::{fs, path::PathBuf, sync::Arc};

use actix::Arbiter;
use hivewright_actors::{
    clock::Timestamp,
    doubles::{clock::ManualClock, disk::MemoryStorage},
    ids::{Ids, TeamKey},
    notice::Notice,
    store::{Store, StoreParts, reads::scan},
};
use tempfile::TempDir;

use super::*;
use crate::{
    settings::{home::Flags, references::Environment},
    system::Randomness,
};

struct Bench {
    tools: PluginTools,
    storage: Arc<MemoryStorage>,
    team: TeamKey,
    _folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
        let home = Home::new(&flags, &Environment::fixed([])).unwrap();
        fs::create_dir_all(home.team("ops")).unwrap();
        let storage = Arc::new(MemoryStorage::default());
        let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
        let (clock, ids) = (Arc::new(ManualClock::default()), Ids::new(Arc::new(Randomness)));
        let tools = PluginTools::open(&*storage, store, clock, ids, home, Hosts::unused()).unwrap();
        Self { tools, storage, team: TeamKey::first("ops"), _folder: folder }
    }

    async fn adopt(&self, tool: &str, source: &str) -> Result<Arc<PluginTool>, ToolStateError> {
        let (declared, verification) = (Declared::default(), Verification::default());
        self.tools.adopt(&self.team, tool, source, declared, verification, "a test").await
    }

    /// Why a turn has not got a tool, if it has not.
    fn missing(&self, tool: &str) -> Option<String> {
        let workspace = self.tools.workspace(&self.team.name).unwrap();
        let loaded = self.tools.load(&self.team.name, &workspace, [tool]);
        loaded.missing.into_iter().next().map(|(_, reason)| reason)
    }

    fn status(&self, tool: &str) -> Status {
        self.tools.find(&self.team.name, tool).unwrap().status
    }

    fn file(&self, path: &str) -> PathBuf {
        self.tools.0.home.team("ops").join("plugins").join(path)
    }

    /// A tool that others see, without its files.
    fn know(&self, tool: String, status: Status, at: u64) {
        let change = Change { at: Timestamp(at), by: String::new(), to: status, version: 1 };
        let row = PluginTool { tool, status, changes: vec![change], ..PluginTool::default() };
        self.tools.know(&self.team, row);
    }
}

/// TO-119: a source that cannot be read now is no other source, and what is said of an earlier version takes no later
/// one out of use.
#[actix::test]
async fn only_a_tool_whose_source_is_another_is_withheld() {
    let bench = Bench::new();
    let first = bench.adopt("add", "one").await.unwrap();
    let (file, aside) = (bench.file("add.js"), bench.file("aside"));

    fs::rename(&file, &aside).unwrap();
    fs::create_dir(&file).unwrap();
    let unreadable = (bench.missing("add"), bench.status("add"));
    bench.missing("add");
    fs::remove_dir(&file).unwrap();
    fs::rename(&aside, &file).unwrap();
    let again = bench.missing("add");
    bench.adopt("add", "two").await.unwrap();
    let notices = scan::<Notice>(&*bench.storage, Range::all()).unwrap();
    bench.tools.withhold(&bench.team.name, &first, "it was another");
    let late = (bench.missing("add"), bench.status("add"));
    fs::remove_file(&file).unwrap();
    let gone = (bench.missing("add").is_some(), bench.status("add"));

    assert_eq!(unreadable.1, Status::Active);
    assert!(unreadable.0.unwrap().contains("cannot be read: is no file"));
    assert_eq!(again, None);
    // The operator is told once of each reason.
    let told: Vec<_> = notices.into_iter().map(|notice| notice.text).collect();
    assert_eq!(
        told,
        ["The tool `ops.add` cannot be used now: `plugins/add.js` cannot be read: is no file."]
    );
    assert_eq!(late, (None, Status::Active));
    assert_eq!(gone, (true, Status::FailedVerification));
}

/// TO-118: a team cannot fill the disk with tools, versions of one, or what became of it.
#[actix::test]
async fn tools_versions_and_changes_are_bounded() {
    let bench = Bench::new();
    let ops = &bench.team.name;

    for version in 1..=MOST_VERSIONS + 2 {
        bench.adopt("add", &format!("source {version}")).await.unwrap();
    }
    let kept = fs::read_dir(bench.file("versions")).unwrap().count();
    for round in 0..MOST_CHANGES {
        bench.tools.deprecate(ops, "add", &format!("reason {round}"), "ann").await.unwrap();
    }
    (1..MOST_TOOLS).for_each(|number| bench.know(format!("t{number}"), Status::Active, 1));
    let another = bench.adopt("another", "source").await;
    let update = bench.adopt("add", "source").await.unwrap();
    (1..=MOST_TOOLS)
        .for_each(|number| bench.know(format!("r{number:03}"), Status::Removed, number as u64));
    bench.tools.deprecate(ops, "add", "done", "ann").await.unwrap();
    bench.tools.remove(ops, "add", "ann").await.unwrap();

    let refusal = another.unwrap_err();
    assert!(matches!(refusal, ToolStateError::TooMany), "{refusal}");
    assert_eq!((update.version, update.changes.len()), (MOST_VERSIONS + 3, MOST_CHANGES));
    assert_eq!(update.changes.last().map(|last| last.version), Some(MOST_VERSIONS + 3));
    assert_eq!(kept, MOST_VERSIONS as usize);
    assert_eq!(fs::read_dir(bench.file("versions")).unwrap().count(), 0);
    let known = |tool| bench.tools.find(ops, tool).is_some();
    assert_eq!([known("r001"), known("r002"), known("add")], [false, true, true]);
    let stored = scan::<PluginTool>(&*bench.storage, Range::all()).unwrap();
    assert_eq!(stored.into_iter().map(|row| row.tool).collect::<Vec<_>>(), ["add"]);
}
