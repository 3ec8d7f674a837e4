//! What a long history costs: the start, memory, disk, and each page of a list.
//!
//! The messages go through a real service, which the offline demo answers. `HIVEWRIGHT_MESSAGES` makes it fewer.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future;
use hivewright_actors::clock::Timestamp;
use serde_json::Value;

use crate::{
    chat::Talk,
    process::{self, Process},
    report::{Bound, Report},
    start,
};

const MESSAGES: usize = 1_000_000;
/// Who says them, each in a conversation of its own.
const CHANNELS: usize = 20;
const STARTS: usize = 5;
/// What was over at the end of the talk is in the archive by then, and the archive's log is empty.
const REST: Duration = Duration::from_secs(8);
/// A page is asked for so often; the middle one counts.
const ASKED: usize = 3;
const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn measure(report: &mut Report) {
    let wanted = std::env::var("HIVEWRIGHT_MESSAGES").ok();
    let wanted = wanted.map_or(MESSAGES, |text| text.parse().expect("a number of messages"));
    let each = wanted.div_ceil(CHANNELS);
    let (empty, full) = (Home::new(), Home::new());
    empty.fill(0);
    let said = full.fill(each);
    let messages = (each * CHANNELS) as f64;
    report.figure("history: messages", messages, "", Bound::None);
    report.figure("history: messages answered", messages / said.took(), "/s", Bound::None);
    let at_once = start::start(full.path()).as_secs_f64() * 1e3;
    report.figure("history: to ready, killed amid the talk", at_once, "ms", Bound::None);
    empty.rest();
    full.rest();
    costs(report, [&empty, &full], messages);
    let service = Process::serve(full.path());
    let asker = Asker::new(full.path(), &service);
    for (name, paths) in lists(&asker, &said) {
        let slowest = paths.iter().map(|path| asker.time(path)).fold(0.0, f64::max);
        let name = format!("history: slowest page of {name}");
        report.figure(&name, slowest, "ms", Bound::AtMost(20.0));
    }
    search(report, &asker);
}

/// What the history costs a service at rest, against one that has none.
fn costs(report: &mut Report, [empty, full]: [&Home; 2], messages: f64) {
    let (without, with) = (empty.start(), full.start());
    report.figure("history: to ready, without one", without * 1e3, "ms", Bound::None);
    report.figure("history: to ready, with it", with * 1e3, "ms", Bound::None);
    report.figure("history: to ready, with it / without", with / without, "×", Bound::AtMost(1.2));
    let more = full.memory() as f64 - empty.memory() as f64;
    report.figure("history: memory that it takes at rest", more / MIB, "MiB", Bound::AtMost(10.0));
    let archive = ["history.db", "history.db-wal", "history.db-shm"];
    let archive: u64 = archive.iter().map(|file| full.size(&format!("run/store/{file}"))).sum();
    let hot = (full.size("run/store") - archive) as f64;
    report.figure("history: size of the hot store", hot / MIB, "MiB", Bound::AtMost(32.0));
    let disk = |home: &Home| home.size("run/store") as f64;
    let grown = disk(full) - disk(empty);
    report.figure("history: disk of a message", grown / messages / 1e3, "kB", Bound::AtMost(1.0));
    // Beside the store, unless `sessions.transcripts` is off.
    let lines = full.size("run/history") as f64 - empty.size("run/history") as f64;
    let name = "history: disk of a message in its transcript";
    report.figure(name, lines / messages / 1e3, "kB", Bound::None);
}

/// When the messages were said.
struct Said {
    began: SystemTime,
    ended: SystemTime,
}

impl Said {
    fn took(&self) -> f64 {
        self.ended.duration_since(self.began).unwrap_or_default().as_secs_f64()
    }

    /// The moment at which half of it was said, as a query names it.
    fn middle(&self) -> String {
        let half = Duration::from_secs_f64(self.took() / 2.0);
        let since = (self.began + half).duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis() as u64;
        Timestamp(millis).date()
    }
}

/// The home of a service.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        process::write(
            folder.path(),
            "data/config/channels.yaml",
            "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\ntopics: {model: never}\n",
        );
        process::write(
            folder.path(),
            "data/config/config.yaml",
            "store: {durability: process}\nbackup: {every: 0s}\n",
        );
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Has people say so much each, and be answered.
    fn fill(&self, each: usize) -> Said {
        let began = SystemTime::now();
        actix::System::new().block_on(async {
            let service = Process::serve(self.path());
            let url = process::address(self.path(), &service);
            let token = process::token(self.path());
            let (url, token) = (&url, &token);
            let people = (0..CHANNELS).map(|person| async move {
                let mut talk = Talk::connect(url, token).await;
                for number in 0..each {
                    talk.ask(&words(person, number)).await;
                }
            });
            future::join_all(people).await;
        });
        Said { began, ended: SystemTime::now() }
    }

    /// Has the service come to rest, and kills it.
    fn rest(&self) {
        let service = Process::serve(self.path());
        process::address(self.path(), &service);
        std::thread::sleep(REST);
    }

    /// How long a start takes, in seconds.
    fn start(&self) -> f64 {
        let mut took: Vec<f64> =
            (0..STARTS).map(|_| start::start(self.path()).as_secs_f64()).collect();
        took.sort_unstable_by(f64::total_cmp);
        took[STARTS / 2]
    }

    /// The memory of a service at rest, in bytes.
    fn memory(&self) -> u64 {
        let service = Process::serve(self.path());
        process::address(self.path(), &service);
        std::thread::sleep(Duration::from_secs(2));
        service.memory()
    }

    /// The bytes of all files below a folder.
    fn size(&self, folder: &str) -> u64 {
        fn below(folder: &Path) -> u64 {
            if folder.is_file() {
                return folder.metadata().map_or(0, |found| found.len());
            }
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let sizes = entries.map(|entry| match entry.metadata() {
                Ok(found) if found.is_dir() => below(&entry.path()),
                Ok(found) => found.len(),
                Err(_) => 0,
            });
            sizes.sum()
        }
        below(&self.path().join(folder))
    }
}

/// A question of a hundred characters; some of its words are rare.
fn words(person: usize, number: usize) -> String {
    const THINGS: [&str; 8] =
        ["invoice", "garden", "journey", "report", "contract", "recipe", "meeting", "bicycle"];
    const PLACES: [&str; 6] = ["Berlin", "Lisbon", "Prague", "Dublin", "Vienna", "Tallinn"];
    let thing = THINGS[number % THINGS.len()];
    let place = PLACES[(number + person) % PLACES.len()];
    format!(
        "What should I know of the {thing} in {place}, number {number} of person{person}, \
         before the end of this week?"
    )
}

/// The lists, each with pages at its beginning, at its end and in between.
fn lists(asker: &Asker, said: &Said) -> Vec<(&'static str, Vec<String>)> {
    let deep = |list: &str, end: &str| -> Vec<String> {
        let places = ["", "&offset=1000", "&offset=10000", end];
        places.iter().map(|place| format!("{list}limit=50{place}")).collect()
    };
    let with = |mut paths: Vec<String>, more: String| {
        paths.push(more);
        paths
    };
    let middle = said.middle();
    let sessions = asker.data("sessions?limit=1");
    let session = sessions["data"][0].clone();
    let id = session["id"].as_str().expect("a session");
    let half = session["events"].as_u64().unwrap_or_default() / 2;
    let history = ["view=simple".to_owned(), "view=full".to_owned(), "after=0".to_owned()];
    let history = history.into_iter().chain([format!("before={half}"), format!("after={half}")]);
    vec![
        ("tasks", with(deep("tasks?", "&sort=created_at"), format!("tasks?until={middle}"))),
        ("tasks of a team and state", deep("tasks?team=main&state=done&", "&sort=created_at")),
        ("tasks in a state that is rare", vec!["tasks?state=failed".to_owned()]),
        ("sessions", deep("sessions?", "&sort=updated_at")),
        (
            "a history",
            history.map(|part| format!("sessions/{id}/history?limit=50&{part}")).collect(),
        ),
        ("topics", vec!["topics?limit=50".to_owned()]),
        ("notices", deep("inbox?", "&sort=at")),
        ("the audit", with(deep("audit?", "&sort=at"), format!("audit?until={middle}"))),
        ("trust decisions", deep("trust/audit?", "&sort=time")),
        ("usage", vec!["usage?group=team".to_owned(), "usage?group=day".to_owned()]),
        ("usage by task", deep("usage?group=task&", "&sort=key")),
        ("the log", deep("logs?", "&sort=at")),
    ]
}

fn search(report: &mut Report, asker: &Asker) {
    // A common word, one of a single person, and none that was said.
    let paths = ["invoice", "person7", "walrus"].map(|word| format!("search?q={word}&limit=50"));
    let slowest = paths.iter().map(|path| asker.time(path)).fold(0.0, f64::max);
    report.figure("history: slowest search", slowest, "ms", Bound::AtMost(100.0));
}

/// Asks a service over REST.
struct Asker {
    address: String,
    token: String,
}

impl Asker {
    fn new(home: &Path, service: &Process) -> Self {
        Self { address: process::address(home, service), token: process::token(home) }
    }

    fn get(&self, path: &str) -> (u16, String) {
        process::get(&self.address, Some(&self.token), &format!("/api/v1/{path}"))
    }

    fn data(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body:.300}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// How long an answer takes, in milliseconds.
    fn time(&self, path: &str) -> f64 {
        let mut took = [0.0; ASKED];
        for took in &mut took {
            let began = Instant::now();
            let (status, body) = self.get(path);
            *took = began.elapsed().as_secs_f64() * 1e3;
            assert_eq!(status, 200, "{path}: {body:.300}");
        }
        took.sort_unstable_by(f64::total_cmp);
        eprintln!("  {path}: {:.2} ms", took[ASKED / 2]);
        took[ASKED / 2]
    }
}
