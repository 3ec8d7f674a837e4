//! Archiving while the service is killed: who keeps it going, and what a kill left of it in both files of the store.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::StatusCode;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    service::{PATIENCE, Service, http},
    shown::Known,
};

/// Between two questions about the same thing.
const PAUSE: Duration = Duration::from_millis(20);
/// So long a transaction is waited for.
const AIM: Duration = Duration::from_secs(2);
/// Of so many kills some leave records in both files.
const MANY: usize = 20;
/// The byte of SQLite's shared memory that whoever writes to the log has locked (`WAL_WRITE_LOCK`).
const WRITE_LOCK: &str = "120";
/// The segment of sled, without which it opens no database that was made with it.
const SEGMENT: usize = 2 << 20;
/// What stands before a value that sled holds.
const ENVELOPE: usize = 7;

/// A task for a trigger. Its words are none that messages are searched by.
const RUN: &str = "#reply noted";

/// Makes a trigger that fires when it is told to. Returns its runs' address.
pub(crate) async fn trigger(service: &Service) -> String {
    let form = json!({
        "team": "main", "name": "by-hand", "type": "schedule", "config": {"every": "24h"},
        "task": RUN, "overlap_policy": "allow", "enable": true,
    });
    let (status, made) = service.api("POST", "/api/v1/triggers", Some(form)).await;
    assert_eq!(status, 201, "{made}");
    format!("/api/v1/triggers/{}", made["data"]["id"].as_str().expect("an id"))
}

/// Where the service is, as long as it is not killed.
pub(crate) type Address = watch::Receiver<(String, String)>;

/// Asks something of the API. None if the service was killed meanwhile.
async fn ask(
    client: &reqwest::Client,
    address: &Address,
    method: &str,
    path: &str,
) -> Option<Value> {
    let (url, token) = address.borrow().clone();
    let method = method.parse().expect("a method");
    let mut request = client.request(method, format!("{url}{path}")).bearer_auth(token);
    if path.ends_with("/run") {
        request = request.json(&json!({}));
    }
    let response = request.send().await.ok()?;
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        // Its port is another service's by now.
        return None;
    }
    let answer: Value = response.json().await.ok()?;
    assert!(status.is_success(), "{path}: {status} {answer}");
    Some(answer)
}

/// Both of what follows.
pub(crate) fn keep_busy(
    trigger: &str,
    address: &Address,
    stop: &Arc<AtomicBool>,
    known: &Known,
) -> (JoinHandle<usize>, JoinHandle<()>) {
    let firing = keep_firing(trigger.to_owned(), address.clone(), stop.clone(), known.clone());
    (actix::spawn(keep_moving(address.clone(), stop.clone())), actix::spawn(firing))
}

/// Keeps the archivist at work until told to stop: a search waits until all that was written before it has moved. What lists
/// show meanwhile is there once. Tells how many searches were answered.
async fn keep_moving(address: Address, stop: Arc<AtomicBool>) -> usize {
    let (client, mut searches) = (http(), 0);
    while !stop.load(Ordering::SeqCst) {
        for (path, name) in
            [("/api/v1/search?q=hello&limit=5", "task_id"), ("/api/v1/tasks?limit=20", "id")]
        {
            let Some(answer) = ask(&client, &address, "GET", path).await else {
                break;
            };
            let rows = answer["data"].as_array().expect("rows").iter();
            let mut names: Vec<_> = rows.map(|row| row[name].as_str().expect("an id")).collect();
            let shown = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), shown, "shown twice in {path}: {answer}");
            searches += usize::from(name == "task_id");
        }
        tokio::time::sleep(PAUSE).await;
    }
    searches
}

/// Starts runs of a trigger, one after the other, until told to stop. Such a run is archived when it begins, and again when it
/// has ended.
async fn keep_firing(trigger: String, address: Address, stop: Arc<AtomicBool>, known: Known) {
    let client = http();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("run {number}");
        // Before it is asked for: a kill may come between the answer and the one who reads it.
        known.said(&name);
        let Some(made) = ask(&client, &address, "POST", &format!("{trigger}/run")).await else {
            known.unsaid(&name);
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (run, task) = (&made["data"]["id"], &made["data"]["task_id"]);
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "{made} does not end");
            tokio::time::sleep(PAUSE).await;
            let path = format!("{trigger}/runs?limit=20");
            let Some(runs) = ask(&client, &address, "GET", &path).await else { continue };
            let rows = runs["data"].as_array().expect("runs").iter();
            let shown: Vec<_> = rows.filter(|row| row["id"] == *run).collect();
            assert_eq!(shown.len(), 1, "times that {run} is shown: {runs}");
            if !shown[0]["outcome"].is_null() {
                assert_eq!(shown[0]["outcome"], "ok", "{}", shown[0]);
                break;
            }
        }
        known.ran(&name, run, task);
    }
}

/// Whether a process is in a transaction that writes to an archive.
fn is_writing(store: &Path, pid: u32) -> bool {
    let Ok(memory) = fs::metadata(store.join("history.db-shm")) else { return false };
    let (pid, inode) = (pid.to_string(), format!(":{}", memory.ino()));
    let locks = fs::read_to_string("/proc/locks").expect("the locks of this machine");
    locks.lines().any(|lock| {
        let fields: Vec<_> = lock.split_whitespace().collect();
        // 4: POSIX ADVISORY WRITE 10519 fe:00:10010673 120 120
        fields.len() == 8
            && fields[3] == "WRITE"
            && fields[4] == pid
            && fields[5].ends_with(&inode)
            && fields[6] == WRITE_LOCK
    })
}

/// When a service is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Any,
    InTransaction,
}

impl Moment {
    /// Every other kill is within a transaction, whatever it takes: some tests have few.
    pub(crate) fn of(round: usize) -> Self {
        if round.is_multiple_of(2) { Self::InTransaction } else { Self::Any }
    }
}

/// What kills left of archiving.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    looks: Vec<JoinHandle<Left>>,
    /// A transaction of the archive was cut off.
    in_transaction: usize,
}

/// What a kill left in the files.
#[derive(Debug, Default)]
struct Left {
    /// The archive has records that the store still holds.
    is_in_both: bool,
    /// The store holds records that are over.
    is_pending: bool,
}

/// How often each was found.
#[derive(Debug)]
pub(crate) struct Found {
    kills: usize,
    in_transaction: usize,
    in_both: usize,
    pending: usize,
}

impl Found {
    /// Many kills fell into archiving; where there were many, some of them into each part of it.
    pub(crate) fn check(&self) {
        let Self { kills, in_transaction, in_both, pending } = *self;
        let many = kills.div_ceil(4);
        assert!(in_transaction >= many && pending >= many, "{self:?}");
        assert!(in_both > 0 || kills < MANY, "{self:?}");
    }
}

impl Cuts {
    /// Ends the service, now or in a transaction of its archive. What it was at then is noted while it is stopped: no
    /// instruction of it runs between the look and the end.
    pub(crate) async fn cut(
        &mut self,
        service: &mut Service,
        when: Moment,
        end: impl FnOnce(&mut Service),
    ) {
        let store = service.path("run/store");
        let is_writing = |service: &Service| is_writing(&store, service.pid());
        let began = Instant::now();
        while when == Moment::InTransaction && began.elapsed() < AIM {
            if is_writing(service) {
                service.stop_at_once();
                if is_writing(service) {
                    break;
                }
                // It has just ended.
                service.go_on();
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        service.stop_at_once();
        self.in_transaction += usize::from(is_writing(service));
        end(service);
        let copy = Copy::of(&store);
        self.looks.push(tokio::task::spawn_blocking(move || copy.look()));
    }

    pub(crate) async fn found(self) -> Found {
        let Self { looks, in_transaction } = self;
        let mut found = Found { kills: looks.len(), in_transaction, in_both: 0, pending: 0 };
        for look in looks {
            let Left { is_in_both, is_pending } = look.await.expect("a look");
            found.in_both += usize::from(is_in_both);
            found.pending += usize::from(is_pending);
        }
        found
    }
}

/// The files of a store as a kill left them: whoever opens one repairs it.
struct Copy(TempDir);

impl Copy {
    fn of(store: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for entry in fs::read_dir(store).expect("a store") {
            let entry = entry.expect("an entry");
            let name = entry.file_name();
            // The shared memory of SQLite is none of what a process that is gone leaves to others.
            if entry.file_type().expect("a file").is_file() && name != "history.db-shm" {
                fs::copy(entry.path(), folder.path().join(name)).expect("a copy");
            }
        }
        Self(folder)
    }

    fn look(self) -> Left {
        let folder = self.0.path();
        let archive = Connection::open_with_flags(
            folder.join("history.db"),
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        );
        let taken: i64 = archive
            .and_then(|archive| {
                archive.query_row("SELECT number FROM standing", [], |row| row.get(0))
            })
            .expect("an archive");
        let store = sled::Config::new().path(folder).segment_size(SEGMENT).flush_every_ms(None);
        let store = store.open().expect("a store");
        let noted = store.get(b"\xffmeta/archive").expect("it can be read").expect("a note");
        // Behind the number of the store.
        let noted = noted[ENVELOPE + 8..].try_into().map(u64::from_be_bytes).expect("a number");
        let taken = taken.cast_unsigned();
        assert!(taken >= noted, "the archive lacks transactions {} to {noted}", taken + 1);
        Left {
            is_in_both: taken > noted,
            is_pending: store.scan_prefix(b"\xfflog/").next().is_some(),
        }
    }
}
