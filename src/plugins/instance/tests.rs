//! Plugins of teams in a world of their own.

use std::{collections::BTreeSet, path::Path};

use hivewright_actors::{
    doubles::disk::MemoryStorage,
    org::belongings::Belongings,
    store::{Store, StoreParts},
};
use serde_json::json;
use tempfile::TempDir;

use super::{
    setup::{
        SetupProgress, SetupStep,
        state::{SetupError, SetupState},
    },
    *,
};
use crate::{
    files::FileStore,
    plugins::{
        catalogue::{Loaded, Sources},
        hooks::{Hooks, Veto},
        lock::Lock,
        package::{Files, Origin},
    },
    settings::{home::Flags, plugins::PluginSwitch, references::Environment},
    system::Randomness,
};

/// Plugins in a folder, on the thread of the test.
fn scratch(folder: &Path) -> (Instances, Arc<MemoryStorage>) {
    let flags = Flags { home: Some(folder.to_owned()), ..Flags::default() };
    let home = Home::new(&flags, &Environment::fixed([])).unwrap();
    let storage = Arc::new(MemoryStorage::default());
    let store = Store::start(&Arbiter::new().handle(), StoreParts::of(storage.clone()));
    let files = FileStore::open(
        folder.join("files"),
        &*storage,
        store.clone(),
        Arc::new(WallClock),
        Ids::new(Arc::new(Randomness)),
        Live::new(home.clone(), Environment::fixed([])),
    )
    .unwrap();
    let instances = Instances::unused(&home, &store, &Vault::absent(), &files);
    instances.0.thread.set(Arbiter::current()).unwrap();
    (instances, storage)
}

/// PL-15: what was about to be written when the team went is not written afterwards.
#[actix::test]
async fn nothing_is_written_of_a_plugin_whose_team_is_gone() {
    let folder = TempDir::new().unwrap();
    let (instances, storage) = scratch(folder.path());
    let store = instances.0.grounds.store.clone();
    let (team, other) = (TeamKey::first("ops"), TeamKey::first("crew"));
    let (plugin, kept) = (instances.get(&team, "probe"), instances.get(&other, "probe"));
    std::fs::create_dir_all(plugin.data()).unwrap();

    plugin.keep("k".to_owned(), 1.into()).await.unwrap();
    plugin.fail("it hurts");
    kept.fail("it hurts");
    for gone in instances.forget(&team).await {
        store.commit(gone).await.unwrap();
    }
    let late = plugin.keep("k".to_owned(), 2.into()).await;
    // Both are written by one thread, in the order in which they changed.
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let rows = loop {
        let rows = scan::<Row>(&*storage, Range::all()).unwrap();
        if rows.iter().any(|row| row.team == other) {
            break rows;
        }
        assert!(std::time::Instant::now() < deadline, "nothing was written");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };

    assert!(late.is_err() && !plugin.data().exists());
    assert_eq!(rows.iter().map(|row| &row.team).collect::<Vec<_>>(), [&other]);
    assert_eq!(scan::<PluginState>(&*storage, Range::all()).unwrap(), []);
}

/// PL-55: ten minutes after what was done last in it, a wizard is over, and its child with it.
#[actix::test]
async fn a_wizard_that_nobody_goes_on_with_ends_after_ten_minutes() {
    const MANIFEST: &str = "manifest_version = 1\nkey = \"probe\"\nversion = \"1.0.0\"\ndisplay_name = \"Probe\"\n\
        description = \"Is set up.\"\n[run]\nkind = \"builtin\"\n[channel]\nsetup = true\n";
    let folder = TempDir::new().unwrap();
    let (instances, _) = scratch(folder.path());
    std::fs::write(folder.path().join("plugin.toml"), MANIFEST).unwrap();
    let files = Files::Folder(folder.path().to_owned());
    let package = Arc::new(Package::load(files, Origin::Development).unwrap());
    let plugin = instances.get(&TeamKey::first("ops"), "probe");
    let SetupProgress { session, .. } = plugin.begin_setup(&package).await.unwrap();
    let waits = Map::from_iter([("secret".to_owned(), "wait".into())]);
    let went_on = plugin.go_on_with_setup(&session, SetupStep::Submit(waits)).await.unwrap();
    // All of it is on this thread: nothing happens but by the clock, or because it is waited for.
    tokio::time::pause();
    let settled = async |passed: Duration| {
        tokio::time::advance(passed).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        plugin.setup().is_some()
    };
    let ten_minutes = Duration::from_secs(600);

    let just_before = settled(ten_minutes - Duration::from_secs(1)).await;
    let polled = plugin.go_on_with_setup(&session, SetupStep::Poll).await.map(|it| it.state);
    let after_another = settled(ten_minutes - Duration::from_secs(1)).await;
    let after_ten = settled(Duration::from_secs(2)).await;
    let over = plugin.go_on_with_setup(&session, SetupStep::Poll).await.unwrap_err();

    assert!(matches!(went_on.state, SetupState::AwaitingExternal { .. }), "{went_on:?}");
    assert_eq!(polled, Ok(went_on.state));
    assert_eq!((just_before, after_another, after_ten), (true, true, false));
    assert_eq!(over, SetupError::Unknown);
}

fn switched(key: &str, enabled: bool) -> Plugins {
    let switch = PluginSwitch { enabled, ..PluginSwitch::default() };
    Plugins(BTreeMap::from([(key.to_owned(), switch)]))
}

/// Why a call is refused; none if it is not.
async fn refusal(hooks: &Hooks) -> Option<String> {
    match hooks.before("write", "call-1", json!({"args": {}}), &|_| Ok(())).await {
        Veto::Pass(_) => None,
        Veto::Deny { plugin, reason } => Some(format!("{plugin}: {reason}")),
    }
}

/// PL-40: turns may outlive their plugins, at the end of the service or while their team rests. What those guard stays
/// guarded until somebody switches them off.
#[actix::test]
async fn a_plugin_that_has_ended_guards_the_turns_that_go_on() {
    let folder = TempDir::new().unwrap();
    let (instances, ..) = scratch(folder.path());
    instances.catalogue().set(Loaded::read(&Sources::default(), &Lock::default()));
    let team = TeamKey::first("main");
    let hooks = Hooks::of(&instances.settle(&team, &switched("guard", true)));

    instances.end().await;
    let ended = (hooks.guard("write"), refusal(&hooks).await);
    instances.settle(&team, &switched("guard", false));
    let lifted = (hooks.guard("write"), refusal(&hooks).await);

    assert_eq!(ended, (true, Some("guard: plugin unavailable".to_owned())));
    assert_eq!(lifted, (false, None));
}

/// PL-40: a plugin that a team has switched on and that is not there might guard anything, unless an operator took it away.
#[actix::test]
async fn a_plugin_that_is_missed_lets_no_call_pass() {
    let folder = TempDir::new().unwrap();
    let (instances, ..) = scratch(folder.path());
    let team = TeamKey::first("main");
    let settled = instances.settle(&team, &switched("warden", true));
    let (hooks, offers) = (Hooks::of(&settled), Instances::offers(&settled));

    let missed = refusal(&hooks).await.unwrap();
    let taken_away = BTreeSet::from(["warden".to_owned()]);
    instances.catalogue().set(Loaded { taken_away, ..Loaded::default() });
    let after = instances.settle(&team, &switched("warden", true));

    let way_out = "`hivewright plugin disable warden --team main`";
    assert!(missed.starts_with("warden: plugin unavailable: it is switched on"), "{missed}");
    assert!(missed.ends_with(way_out), "{missed}");
    assert_eq!(offers.missing, ["warden"]);
    assert!(after.is_empty());
    assert_eq!(refusal(&hooks).await, None);
}

/// PL-10, PL-28: what a plugin that rests offered before it was changed is not what it offers now.
#[actix::test]
async fn a_plugin_that_is_changed_while_it_rests_is_asked_again_for_its_tools() {
    let folder = TempDir::new().unwrap();
    let (instances, ..) = scratch(folder.path());
    instances.catalogue().set(Loaded::read(&Sources::default(), &Lock::default()));
    let (team, mut wanted) = (TeamKey::first("main"), switched("http", true));
    let offers = |wanted: &Plugins| Instances::offers(&instances.settle(&team, wanted));
    offers(&wanted);
    instances.get(&team, "http").learn(Definitions::default());

    let known = offers(&wanted);
    wanted.0.get_mut("http").unwrap().config = json!({"tools": {"allow": ["example.org"]}});
    let changed = offers(&wanted);

    // It has its former tools until it says otherwise: a call tells what is wrong with it.
    assert_eq!([known.missing, changed.missing], [const { Vec::<String>::new() }; 2]);
    assert!(instances.get(&team, "http").state().is_outdated);
    instances.get(&team, "http").learn(Definitions::default());
    assert!(!instances.get(&team, "http").state().is_outdated);
}

/// PL-53: a signed call that is being answered is nobody else's, until it has an answer or none.
#[actix::test]
async fn a_call_of_a_webhook_is_claimed_once() {
    let folder = TempDir::new().unwrap();
    let (instances, ..) = scratch(folder.path());
    let plugin = instances.get(&TeamKey::first("main"), "echo-channel");

    let first = plugin.claim("call-1");
    let (again, other) = (plugin.claim("call-1").is_some(), plugin.claim("call-2").is_some());
    drop(first);

    assert_eq!((again, other), (false, true));
    assert!(plugin.claim("call-1").is_some());
}
