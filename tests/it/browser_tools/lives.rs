//! Lives of browsers: how many there are, for how long, how large, and with which teams they end.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use hivewright::{
    browser::{BrowserError, Browsers, Limits, gate::Terms, program::Installed},
    sandbox::{
        egress::Guard,
        process::{Sandbox, SandboxSettings},
    },
    scrub::Scrubber,
};
use hivewright_actors::{
    policy::Subject,
    task::{Label, cause::Cause},
};

use super::*;

const BLANK: &str = "about:blank";

async fn browsers_with(folder: &Path, limits: Limits) -> Browsers {
    let settings = SandboxSettings {
        launcher: env!("CARGO_BIN_EXE_hivewright").into(),
        memory: 1 << 30,
        scratch: folder.join("scratch"),
        private: Vec::new(),
    };
    let program = Installed::find().expect("Chromium is installed");
    let sandbox = Arc::new(Sandbox::new(settings).await);
    Browsers::new(program, sandbox, Guard::default(), limits)
}

fn terms() -> Terms {
    Terms {
        team: "ann".into(),
        subject: Subject::of(&Cause::System, Label::Trusted),
        egress: Arc::default(),
        admit: None,
        scrubber: Scrubber::default(),
    }
}

fn folders(folder: &Path) -> usize {
    fs::read_dir(folder.join("scratch")).into_iter().flatten().count()
}

/// TO-91: a team more than there may be waits for a place, and then for nothing; one that nobody calls is let go, with all
/// that it kept, and its place is another's.
#[actix::test]
async fn a_browser_that_rests_makes_place_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let shipped = Limits::default();
    let limits = Limits {
        most: 1,
        place_timeout: Duration::from_millis(200),
        idle: Duration::from_secs(3),
        ..shipped
    };
    let browsers = browsers_with(folder.path(), limits).await;

    let used = browsers.open(&"ann".into(), terms()).await.unwrap();
    let refused = browsers.open(&"bob".into(), terms()).await.err();
    // Nobody takes it from who uses it.
    tokio::time::sleep(limits.idle).await;
    let began = Instant::now();
    assert!(!used.session().unwrap().has_ended());
    used.done();
    until("it is let go", async || folders(folder.path()) == 0).await;
    let rested = began.elapsed();
    let gone = browsers.find(&"ann".into(), terms()).await.err();
    let another = browsers.open(&"bob".into(), terms()).await;

    let words = refused.map(|error| error.to_string());
    assert_eq!(words.as_deref(), Some("1 teams use browsers now; try again later"));
    assert!(rested >= limits.idle, "{rested:?}");
    assert!(matches!(gone, Some(BrowserError::NoPage)), "{gone:?}");
    assert!(another.is_ok());
    drop(another);
    browsers.end().await;
    until("nothing is left", async || folders(folder.path()) == 0).await;
    assert_eq!((shipped.most, shipped.idle), (4, Duration::from_secs(300)));
}

/// TO-87, SC-18: what a browser keeps on the disk is bounded: one that keeps more ends, and says why.
#[actix::test]
async fn a_browser_that_fills_the_disk_ends() {
    let folder = tempfile::tempdir().unwrap();
    // Its own files are more.
    let limits = Limits { disk: 64 << 10, ..Limits::default() };
    let browsers = browsers_with(folder.path(), limits).await;

    let told = match browsers.open(&"ann".into(), terms()).await {
        // So soon that nobody could use it.
        Err(error) => error.to_string(),
        Ok(used) => {
            let session = used.session().unwrap();
            until("it ends", async || session.has_ended()).await;
            session.navigate(&BLANK.parse().unwrap()).await.unwrap_err().to_string()
        }
    };

    let words = "the browser ended: its pages stored more than 64KiB on the disk; navigate to start another";
    assert_eq!(told, words);
    until("nothing is left", async || folders(folder.path()) == 0).await;
}

/// SC-15, OP-35, OR-95: with a team that is paused, by an operator or by another team, its browser ends; no other's does, and
/// the next work has another.
#[actix::test]
async fn a_paused_team_leaves_no_browser() {
    let server = WebServer::start(|request| match path_of(request) {
        "/never" => None,
        _ => shop(request),
    })
    .await;
    let service = home(&server).started().await;
    service.make_team("helper", "helps").await;
    service.write(
        "run/teams/helper/config.yaml",
        &fs::read_to_string(service.path("run/teams/main/config.yaml")).unwrap(),
    );
    let mut ann = Person::new(&service).await;
    let page = json!({ "url": server.url("/more") });
    let task = format!("#call browser_navigate {page}\n#reply seen");
    let delegated = json!({ "team": "helper", "task": task });
    let resume = async |path: &str| service.api("POST", path, Some(json!({}))).await.0;
    let alive = || count(&service);

    ann.calls("browser_navigate", page.clone()).await;
    let one = alive();
    ann.calls("delegate_task", delegated).await;
    until("each has one", async || alive() == 2).await;
    let control = json!({ "team": "helper", "action": "pause" });
    let paused = ann.calls("control_team", control).await;
    until("one of them has ended", async || alive() == 1).await;
    assert_eq!(one, 1);
    assert!(paused.contains("paused"), "{paused}");
    let still = ann.snapshot().await;
    assert!(still.contains("Much honey."), "{still}");

    // A soft pause lets what is under way come to its end, and the browser ends behind it.
    let (status, _) = service.api("POST", "/api/v1/teams/main/pause", Some(json!({}))).await;
    until("no browser is left", async || alive() == 0).await;
    assert_eq!((status, resume("/api/v1/resume").await), (200, 200));

    // The kill switch ends it in the middle of a call.
    let never = json!({ "url": server.url("/never") });
    ann.client.say("cut", &format!("#call browser_navigate {never}\n#reply {{result}}")).await;
    let asked = async || server.requests().iter().any(|request| path_of(request) == "/never");
    until("the page is asked for", asked).await;
    let (status, _) = service.api("POST", "/api/v1/pause", Some(json!({ "now": true }))).await;
    assert_eq!((status, alive()), (200, 0));
    until("its folder is gone", async || ann.folders() == 0).await;
}

/// How many browsers run: each has one process that is no part of another.
fn count(service: &Service) -> usize {
    browsers(service.pid())
        .into_iter()
        .filter(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("--remote-debugging-pipe") && !words.contains("--type=")
        })
        .count()
}

/// A page that is replaced again and again, and one that closes under a click.
fn restless(request: &str) -> Option<String> {
    let again =
        "<script>setTimeout(() => location.replace('/again?' + Math.random()), 600)</script>";
    Some(match path_of(request) {
        "/first" => {
            page("<title>First</title><button onclick=\"window.open('/second')\">On</button>")
        }
        "/second" => page("<title>Second</title><button onclick='window.close()'>Leave</button>"),
        "/last" => page("<title>Last</title>"),
        _ => page(&format!("<title>Again</title><button>Never</button>{again}")),
    })
}

/// TO-90: a page that is replaced or closes while a call is under way: the call comes to an end that says what is there now.
#[actix::test]
async fn a_page_that_goes_away_under_a_call_is_no_fault_of_the_browser() {
    let server = WebServer::start(restless).await;
    let service = home(&server).started().await;
    let mut ann = Person::new(&service).await;
    let goes = |path: &str| json!({ "url": server.url(path) });

    ann.calls("browser_navigate", goes("/first")).await;
    let opened = ann.clicks("button \"On\"").await;
    let closed = ann.clicks("button \"Leave\"").await;
    assert!(opened.contains("page: \"Second\""), "{opened}");
    assert!(closed.contains("page: \"First\""), "{closed}");

    ann.calls("browser_navigate", goes("/again")).await;
    for _ in 0..4 {
        let seen = ann.snapshot().await;
        let pictured = ann.calls("browser_screenshot", json!({})).await;
        let element = seen.lines().find_map(|line| line.split_once("[ref=")?.1.strip_suffix(']'));
        let clicked = ann.calls("browser_click", json!({ "ref": element.unwrap_or("e0") })).await;
        assert!(seen.contains("page: \"Again\""), "{seen}");
        assert!(pictured.contains("The picture is `screenshots/"), "{pictured}");
        // Between two documents nothing is to be seen.
        let ends = ["page: \"Again\"", "take a new snapshot", "is not to be seen on the page"];
        let is_told = ends.iter().any(|words| clicked.contains(words));
        assert!(is_told, "{clicked}");
    }
    let left = ann.calls("browser_navigate", goes("/last")).await;
    assert!(left.contains("page: \"Last\""), "{left}");
}

/// A page that goes elsewhere by itself as soon as another one is asked for, which is answered when it is asked for again.
fn fleeing() -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
    let asked = AtomicUsize::new(0);
    let flees = "<title>Flees</title><button onclick='setInterval(flee, 50)'>Flee</button><script>
        async function flee() {
            const asked = await (await fetch('/asked')).text();
            if (asked !== '0') location.replace('/elsewhere');
        }
    </script>";
    move |request| match path_of(request) {
        "/late" if asked.fetch_add(1, Ordering::Relaxed) == 0 => None,
        "/late" => Some(page("<title>Late</title>")),
        "/asked" => Some(page(&asked.load(Ordering::Relaxed).to_string())),
        "/elsewhere" => Some(page("<title>Elsewhere</title>")),
        _ => Some(page(flees)),
    }
}

/// TO-90: where a team asks to go wins over where the page goes by itself meanwhile.
#[actix::test]
async fn a_page_that_goes_elsewhere_is_left_all_the_same() {
    let server = WebServer::start(fleeing()).await;
    let service = home(&server).started().await;
    let mut ann = Person::new(&service).await;

    ann.calls("browser_navigate", json!({ "url": server.url("/") })).await;
    ann.clicks("button \"Flee\"").await;
    let late = ann.calls("browser_navigate", json!({ "url": server.url("/late") })).await;

    assert!(late.contains("page: \"Late\""), "{late}");
    let went = server.requests().iter().any(|request| path_of(request) == "/elsewhere");
    assert!(went, "{:?}", server.requests());
}

fn signal(service: &Service, signal: rustix::process::Signal) {
    for pid in browsers(service.pid()) {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        // One that has ended meanwhile needs none.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// What a call says whose browser dies in the middle of it.
fn told_of_death(tool: &str) -> &'static str {
    match tool {
        "browser_close" => "The browser is closed.",
        _ => "the browser ended; navigate to start another",
    }
}

/// What a call says whose browser was dead before it was asked: it may have another.
fn told_too_late(tool: &str, told: &str) -> bool {
    match tool {
        "browser_close" => told == "No browser was open.",
        "browser_navigate" => told.contains("page: \"More\""),
        _ => told == "no page is open; navigate first",
    }
}

/// TO-16, TO-91: whatever tool is at work when the browser dies, the call says so, and the next one works.
#[actix::test]
async fn a_browser_may_die_under_each_of_the_tools() {
    let server = WebServer::start(shop).await;
    let service = home(&server).started().await;
    let mut ann = Person::new(&service).await;
    let mut pause = Duration::from_millis(50);

    for tool in [
        "browser_navigate",
        "browser_snapshot",
        "browser_screenshot",
        "browser_click",
        "browser_type",
        "browser_go_back",
        "browser_go_forward",
        "browser_close",
    ] {
        loop {
            ann.calls("browser_navigate", json!({ "url": server.url("/more") })).await;
            ann.calls("browser_navigate", json!({ "url": server.url("/") })).await;
            let args = match tool {
                "browser_navigate" => json!({ "url": server.url("/more") }),
                "browser_click" => json!({ "ref": ann.find("link \"More honey\"").await }),
                "browser_type" => json!({ "ref": ann.find("textbox \"Name\"").await, "text": "x" }),
                _ => json!({}),
            };
            if tool == "browser_go_forward" {
                ann.calls("browser_go_back", json!({})).await;
            }
            // It cannot answer any more, so that the call does not end before it dies.
            signal(&service, rustix::process::Signal::STOP);
            ann.said += 1;
            let id = format!("m{}", ann.said);
            ann.client.say(&id, &format!("#call {tool} {args}\n#reply {{result}}")).await;
            ann.client.until(|frame| frame["kind"] == "tool_call" && frame["tool"] == *tool).await;
            tokio::time::sleep(pause).await;
            signal(&service, rustix::process::Signal::KILL);
            let end = ann.client.end_of(&id).await;

            let told = end["content"].as_str().unwrap_or_default();
            if told == told_of_death(tool) {
                break;
            }
            // The call had not come to the browser yet.
            assert!(told_too_late(tool, told), "{tool}: {end}");
            pause *= 2;
            assert!(pause < Duration::from_secs(20), "{tool}: {end}");
        }
    }
    let works = ann.calls("browser_navigate", json!({ "url": server.url("/more") })).await;
    assert!(works.contains("page: \"More\""), "{works}");
}
