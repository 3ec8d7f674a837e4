//! The promise that nothing answered is lost, under a power cut: what was not synced is gone.
//!
//! A preloaded library keeps what each file held when it was last synced. After a kill the files of the store are put
//! back to that.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::{
    archiving::{self, Cuts, Moment},
    crash,
    service::{PATIENCE, Service, rounds, until},
    shown::{self, Known, Shown},
};

/// How often the power is cut, unless `HIVEWRIGHT_ROUNDS` says so.
const ROUNDS: usize = 3;
/// Who talks to the service meanwhile.
const CLIENTS: usize = 4;

/// A disk that forgets what was not synced, for one service.
struct Disk {
    folder: TempDir,
}

impl Disk {
    /// Makes the disk, and a service whose store is on it.
    fn below(service: Service) -> (Self, Service) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = folder.path().join("synced.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/power/synced.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([library.as_path(), Path::new(source)])
            .status();
        assert!(built.expect("a C compiler").success());
        let synced = folder.path().join("synced");
        fs::create_dir(&synced).expect("a folder");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let run = service.path("run");
        fs::create_dir_all(&run).expect("a folder");
        let run = run.canonicalize().expect("a folder");
        let service = service
            .with_variable("LD_PRELOAD", &text(&library))
            .with_variable("POWER_DISK", &text(&run))
            .with_variable("POWER_SYNCED", &text(&synced));
        (Self { folder }, service)
    }

    /// Ends the service and leaves of its store and its history what was synced.
    fn cut(&self, service: &mut Service) {
        service.kill();
        self.revert(&service.path("run/store"));
    }

    fn revert(&self, folder: &Path) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let found = fs::symlink_metadata(&path).expect("a file");
            if found.is_dir() {
                self.revert(&path);
                continue;
            }
            let made = found.created().ok();
            let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok());
            let made = made.unwrap_or_default();
            let name = format!("{}-{}-{}", found.ino(), made.as_secs(), made.subsec_nanos());
            let synced = self.folder.path().join("synced").join(name);
            if synced.exists() {
                // Into the same file, so that it is known again at the next cut.
                _ = fs::copy(synced, path).expect("what was synced")
            } else {
                fs::remove_file(path).expect("it can be removed")
            }
        }
    }
}

/// SC-105, SC-135
#[actix::test]
async fn nothing_acknowledged_is_lost_or_done_twice_when_the_power_is_cut() {
    let service = Service::prepare()
        .with_file("data/config/channels.yaml", crash::CHANNELS)
        .with_file("run/teams/main/config.yaml", crash::TEAM)
        .with_file("run/teams/main/effects/log", "");
    let (disk, service) = Disk::below(service);
    let mut service = service.started().await;
    let (tell, address) = watch::channel((service.url(), service.token()));
    let stop = Arc::new(AtomicBool::new(false));
    let known = Known::default();
    let talk = |number| crash::talk(number, address.clone(), stop.clone(), known.clone());
    let clients: Vec<_> = (0..CLIENTS).map(|number| actix::spawn(talk(number))).collect();
    let trigger = archiving::trigger(&service).await;
    let (searching, firing) = archiving::keep_busy(&trigger, &address, &stop, &known);

    let (rounds, mut shown, mut cuts) = (rounds(ROUNDS), Shown::new(&trigger), Cuts::default());
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(220 + 70 * (round as u64 % 3))).await;
        cuts.cut(&mut service, Moment::of(round), |service| disk.cut(service)).await;
        let cut_off = known.open();
        if round + 1 == rounds {
            service.forget_variable("LD_PRELOAD");
        }
        service.launch().await;
        tell.send_replace((service.url(), service.token()));
        // A task has three attempts: nothing disturbs the second.
        let ended = async || known.open().is_disjoint(&cut_off);
        until("what was acknowledged is there, and ends", ended).await;
        shown.look(&service, &known).await;
    }
    stop.store(true, Ordering::SeqCst);

    let mut said = 0;
    for client in clients {
        let ledger = tokio::time::timeout(PATIENCE, client).await;
        said += ledger.expect("every message ends").unwrap().check();
    }
    assert!(said > CLIENTS, "hardly anything was said");
    let searches = searching.await.unwrap();
    firing.await.unwrap();
    shown::nothing_else(&service, &trigger, &known).await;
    crash::no_effect_is_repeated(&service);
    let found = cuts.found().await;
    println!("{said} messages, {} runs, {searches} searches, {found:?}", known.count_ran());
    assert!(searches > 0 && known.count_ran() > 0, "nothing was searched for, or no trigger ran");
    found.check();
}

/// Whether a message that was answered is known after the power was cut.
async fn is_known_after_a_cut(durability: &str) -> bool {
    let config = format!("store: {{durability: {durability}}}\n");
    let service = Service::prepare().with_file("data/config/config.yaml", &config);
    let (disk, service) = Disk::below(service);
    let mut service = service.started().await;
    let mut client = service.connect().await;
    let end = client.ask("#reply remembered").await;
    assert_eq!(end["type"], "response", "{end}");

    disk.cut(&mut service);
    service.forget_variable("LD_PRELOAD");
    service.launch().await;

    let (status, tasks) = service.api("GET", "/api/v1/tasks", None).await;
    assert_eq!(status, 200, "{tasks}");
    let rows = tasks["data"].as_array().cloned().unwrap_or_default();
    rows.iter().any(|row| row["state"] == json!("done"))
}

/// SC-101, SC-105: the disk above does forget, and the setting is what it depends on.
#[actix::test]
async fn only_with_the_sync_an_answer_outlives_a_power_cut() {
    let known = [is_known_after_a_cut("power").await, is_known_after_a_cut("process").await];

    assert_eq!(known, [true, false]);
}
