//! A disk that fills up under load: nothing is lost, new work is refused, and no restart is needed.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::{Value, json};

use crate::{
    namespaces,
    service::{Client, Service, WORKS_ITSELF},
};

/// Who talks to the service meanwhile.
const CLIENTS: usize = 4;

const CONFIG: &str = "limits: {free_space: 64MiB, workspace: 24MiB}\n";
const CHANNELS: &str = "ws: {enabled: true}\n\
                        limits: {rate: {ws: {per_minute: 0, burst: 1}}}\n\
                        topics: {model: never}\n";

/// A service whose home is a small disk of its own.
struct SmallDisk {
    service: Service,
    home: PathBuf,
}

impl SmallDisk {
    fn mount() -> Result<Self, rustix::io::Errno> {
        let service = Service::prepare();
        let home = service.home().to_owned();
        let flags = MountFlags::empty();
        rustix::mount::mount("tmpfs", &home, "tmpfs", flags, c"size=224m,mode=700")?;
        let disk = Self { service, home };
        disk.service.write("data/config/config.yaml", CONFIG);
        disk.service.write("data/config/channels.yaml", CHANNELS);
        disk.service.write("run/teams/main/config.yaml", WORKS_ITSELF);
        Ok(disk)
    }

    /// Takes all that is left, as another program would.
    fn fill(&self) -> PathBuf {
        let path = self.home.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }

    async fn until_disk(&self, state: &str) {
        self.service.until("/api/v1/overview", |overview| overview["disk"] == state).await;
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.service.kill();
        let _ = rustix::mount::unmount(&self.home, UnmountFlags::DETACH);
    }
}

/// A service on a small disk. Where nothing may be mounted, the test runs again in namespaces where it may;
/// none: it did so, or that is not allowed either.
async fn small_disk(test: &str) -> Option<SmallDisk> {
    let errno = match SmallDisk::mount() {
        Ok(mut disk) => {
            disk.service.launch().await;
            return Some(disk);
        }
        Err(errno) => errno,
    };
    assert!(!namespaces::is_inside(), "cannot mount: {errno}");
    namespaces::run_again(test, &["--mount"], "true").await;
    None
}

/// What one client said, and how often each of it was answered.
#[derive(Default)]
struct Said {
    answered: BTreeMap<String, Vec<Value>>,
    refused: usize,
}

/// Says one thing after another. What is refused for lack of room is said again, under the same id.
async fn talk(url: String, token: String, number: usize, over: Arc<AtomicBool>) -> Said {
    let mut client = Client::connect(&url, &token).await;
    let mut said = Said::default();
    let topic = client.open_topic(&format!("topic of client {number}")).await;
    let mut next = 0;
    while !over.load(Ordering::Relaxed) {
        let id = format!("c{number}-{next}");
        next += 1;
        loop {
            client.say_in(&topic, &id, &format!("hello {id}")).await;
            let end = client.end_of(&id).await;
            if end["code"] == "disk_full" {
                said.refused += 1;
                // Not to ask all the time: there is no event for room.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            said.answered.entry(id).or_default().push(end);
            break;
        }
    }
    // Whatever would come twice comes before the answer to this.
    client.ping().await;
    while let Ok(Ok(frame)) =
        tokio::time::timeout(Duration::from_millis(500), client.try_frame()).await
    {
        if matches!(frame["type"].as_str(), Some("response" | "error"))
            && let Some(id) = frame["message_id"].as_str()
        {
            said.answered.entry(id.to_owned()).or_default().push(frame);
        }
    }
    said
}

/// SC-115: a disk that fills up under load: the service answers, refuses new work with `disk_full`, loses
/// nothing, and goes on by itself when space is freed.
#[actix::test]
async fn a_disk_that_fills_up_refuses_new_work_and_loses_nothing() {
    let test = "disk::a_disk_that_fills_up_refuses_new_work_and_loses_nothing";
    let Some(mut disk) = small_disk(test).await else {
        return;
    };
    let (url, token) = (disk.service.url(), disk.service.token());
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| actix::spawn(talk(url.clone(), token.clone(), number, over.clone())))
        .collect();
    // A turn that is under way when the disk fills up, and ends while it is full.
    let mut worker = disk.service.connect().await;
    let gate = disk.home.join("run/teams/main/gate");
    let call = json!({"command": "while [ ! -e gate ]; do sleep 0.05; done; echo through"});
    worker.say("slow", &format!("#call bash {call}\n#reply went through")).await;
    worker.until(|frame| frame["kind"] == "tool_call").await;

    for round in 0..3 {
        let filler = disk.fill();
        disk.until_disk("full").await;

        let mut person = disk.service.connect().await;
        person.say(&format!("late-{round}"), "is there room?").await;
        let refused = person.end_of(&format!("late-{round}")).await;
        assert_eq!(refused["code"], "disk_full", "{refused}");
        let words = json!({"content": "is there room?"});
        let (status, body) = disk.service.api("POST", "/api/v1/messages", Some(words)).await;
        assert_eq!((status, &body["error"]["code"]), (503, &json!("disk_full")));
        let sent = disk.service.run(&["send", "is there room?"], "").await;
        assert_ne!(sent.code, Some(0), "{sent:?}");
        assert!(sent.stderr.contains("disk is nearly full"), "{sent:?}");
        let shown = disk.service.run(&["status"], "").await;
        assert!(shown.stdout.contains("no new work is taken in"), "{shown:?}");
        let ready = reqwest_json(&format!("{url}/readyz")).await;
        assert_eq!(ready, json!({"ready": true, "disk": "full"}));
        let (status, _) = disk.service.api("GET", "/api/v1/tasks", None).await;
        assert_eq!(status, 200);
        if round == 0 {
            fs::write(&gate, "").unwrap_or_else(|_| make_empty(&gate));
            let end = worker.end_of("slow").await;
            assert_eq!(end["content"], "went through", "{end}");
        }

        fs::remove_file(filler).unwrap();
        disk.until_disk("ok").await;
        person.say(&format!("late-{round}"), "is there room?").await;
        let accepted = person.end_of(&format!("late-{round}")).await;
        assert_eq!(accepted["status"], "done", "{accepted}");
    }
    over.store(true, Ordering::Relaxed);
    let (mut refused, mut names) = (0, Vec::new());
    for client in clients {
        let said = client.await.unwrap();
        refused += said.refused;
        for (id, ends) in said.answered {
            let ends: Vec<_> = ends.iter().map(|end| end["status"].clone()).collect();
            assert_eq!(ends, ["done"], "{id}\n{}", disk.service.log());
            names.push(id);
        }
    }
    assert!(refused >= CLIENTS, "{refused} refused");

    // The same process throughout, and what it acknowledged survives it.
    let (_, notices) = disk.service.api("GET", "/api/v1/inbox", None).await;
    let told = |words: &str| notices.to_string().contains(words);
    assert!(told("disk is nearly full") && told("enough room again"), "{notices}");
    disk.service.kill();
    disk.service.launch().await;
    for id in names {
        let (_, found) = disk.service.api("GET", &format!("/api/v1/tasks?q={id}"), None).await;
        assert_eq!(found["data"][0]["state"], "done", "{id}: {found}");
    }
}

/// SC-112, OP-76: nothing is wrong with a store on a full or read-only disk: neither the start nor the doctor
/// sends anyone to restore it.
#[actix::test]
async fn on_a_full_or_read_only_disk_nobody_is_sent_to_restore() {
    let test = "disk::on_a_full_or_read_only_disk_nobody_is_sent_to_restore";
    let Some(mut disk) = small_disk(test).await else {
        return;
    };
    disk.service.signal("TERM");
    disk.service.ended().await;
    // What the store has allocated ahead would let it start.
    let database = disk.home.join("run/store/db");
    let file = fs::File::options().write(true).open(&database).unwrap();
    file.set_len(file.metadata().unwrap().len()).unwrap();
    // A disk with a file that is open for writing does not become read-only.
    drop(file);
    let filler = disk.fill();

    let full = [
        disk.service.run(&["serve", "--port", "0"], "").await,
        disk.service.run(&["doctor"], "").await,
    ];
    fs::remove_file(filler).unwrap();
    let none = c"";
    rustix::mount::mount_remount(&disk.home, MountFlags::RDONLY, none).unwrap();
    let read_only = [
        disk.service.run(&["serve", "--port", "0"], "").await,
        disk.service.run(&["doctor"], "").await,
    ];
    rustix::mount::mount_remount(&disk.home, MountFlags::empty(), none).unwrap();
    disk.service.launch().await;

    for (done, what) in [(full, "is full"), (read_only, "read-only")] {
        for done in done {
            let said = format!("{}{}", done.stdout, done.stderr);
            assert_ne!(done.code, Some(0), "{said}");
            assert!(said.contains(what), "{said}");
            assert!(!said.contains("restore --newest"), "{said}");
        }
    }
}

/// A file of no bytes needs none.
fn make_empty(path: &Path) {
    drop(fs::File::create(path).unwrap());
}

async fn reqwest_json(url: &str) -> Value {
    let answer = crate::service::http().get(url).send().await.unwrap();
    answer.json().await.unwrap()
}
