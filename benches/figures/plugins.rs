//! What plugins cost: an instance that starts, calls and hooks in one that runs, and those that nobody uses.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use hivewright::{
    plugins::{
        catalogue::{Catalogue, Loaded},
        instance::wire::{CallMeta, Decision, Fire},
        package::{Files, Origin, Package},
        trial,
    },
    settings::plugins::{PluginSwitch, Plugins},
};
use hivewright_actors::{hook::HookEvent, ids::TeamKey};
use serde_json::json;

use crate::{
    process::{self, Process},
    report::{Bound, Report},
};

const STARTS: usize = 20;
const CALLS: usize = 300;
/// A team has at most 64 plugins.
const IDLE_TEAMS: usize = 20;
const IDLE_PLUGINS: usize = 50;
const LIMIT: Duration = Duration::from_secs(2);

const SOURCE: &str = r#"
import { tool, hook } from "hive:host";
tool({ name: "add", description: "Adds.", input: { type: "object" }, run: ({ a, b }) => `${a + b}` });
hook("tool.before", () => ({ decision: "pass" }));
"#;

fn manifest(key: &str, more: &str) -> String {
    format!(
        "manifest_version = 1\nkey = \"{key}\"\nversion = \"1.0.0\"\ndisplay_name = \"{key}\"\n\
         description = \"Adds.\"\n[run]\nkind = \"js\"\nentry = \"main.js\"\n\
         [tools]\nnamespace = \"{key}\"\n{more}"
    )
}

/// How long starts, calls and hooks took.
#[derive(Default)]
struct Times {
    cold: Vec<Duration>,
    calls: Vec<Duration>,
    hooks: Vec<Duration>,
}

pub(crate) fn measure(report: &mut Report) {
    let Times { mut cold, mut calls, mut hooks } = actix::System::new().block_on(instances());
    for (name, times, bound) in [
        ("plugins: cold start of a `js` instance, median", &mut cold, 50.0),
        ("plugins: a call of a tool of a `js` instance, median", &mut calls, 1.0),
        ("plugins: a `tool.before` hook of a `js` instance, median", &mut hooks, 1.0),
    ] {
        times.sort_unstable();
        let median = times[times.len() / 2].as_secs_f64() * 1e3;
        report.figure(name, median, "ms", Bound::AtMost(bound));
    }

    let (off, _) = idle(false);
    let (on, processes) = idle(true);
    let each = (on as f64 - off as f64) / (IDLE_TEAMS * IDLE_PLUGINS) as f64 / 1e3;
    report.figure("plugins: each of 1,000 that nobody uses", each, "kB", Bound::AtMost(4.0));
    let count = processes as f64;
    report.figure("plugins: processes of 1,000 that nobody uses", count, "", Bound::AtMost(0.0));
}

async fn instances() -> Times {
    let (folder, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let hooks = "[hooks]\non = [{event = \"tool.before\"}]\n";
    process::write(folder.path(), "plugin.toml", &manifest("adder", hooks));
    process::write(folder.path(), "main.js", SOURCE);
    let package = Package::load(Files::Folder(folder.path().to_owned()), Origin::Development);
    let package = Arc::new(package.expect("a plugin"));
    let (catalogue, key) = (Catalogue::default(), package.manifest.key.clone());
    catalogue
        .set(Loaded { packages: BTreeMap::from([(key.clone(), package)]), ..Loaded::default() });
    let home = home.expect("a folder");
    let opened = trial::open(home.path(), &catalogue, process::binary()).await;
    let plugins = opened.expect("plugins");
    let switch = PluginSwitch { enabled: true, ..PluginSwitch::default() };
    let wanted = Plugins(BTreeMap::from([(key.to_string(), switch)]));
    let mut times = Times::default();
    for number in 0..STARTS {
        let team = TeamKey::first(format!("team-{number}"));
        let began = Instant::now();
        let settled = plugins.settle(&team, &wanted);
        settled.plugins[0].0.lease().await.map(drop).expect("a child");
        times.cold.push(began.elapsed());
    }
    let settled = plugins.settle(&TeamKey::first("team-0".to_owned()), &wanted);
    for _ in 0..CALLS {
        let lease = settled.plugins[0].0.lease().await.expect("a child");
        let meta = CallMeta { call_id: "c", idempotency_key: "k", turn: "t", deadline_ms: 2_000 };
        let began = Instant::now();
        let answer = lease.child.call("add", &json!({"a": 20, "b": 22}), &meta).await;
        times.calls.push(began.elapsed());
        assert_eq!(answer.expect("an answer").text, "42");
        let payload = json!({"team": "main", "tool": "write", "args": {"content": "x"}});
        let event = HookEvent::ToolBefore;
        let fire = Fire { event, call_id: Some("c"), payload, deadline_ms: 2_000 };
        let began = Instant::now();
        let said = lease.child.fire(&fire, LIMIT).await;
        times.hooks.push(began.elapsed());
        assert_eq!(said.expect("an answer"), Decision::Pass);
    }
    plugins.end().await;
    times
}

/// The memory of a service whose teams could have plugins, or have them, and how many processes it has started.
fn idle(are_on: bool) -> (u64, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    let mut switches = String::from("plugins:\n");
    for number in 0..IDLE_PLUGINS {
        let key = format!("idle{number}");
        process::write(home, &format!("work/{key}/plugin.toml"), &manifest(&key, ""));
        process::write(home, &format!("work/{key}/main.js"), SOURCE);
        switches.push_str(&format!("  {key}: {{enabled: {are_on}}}\n"));
    }
    for number in 0..IDLE_TEAMS {
        let file = format!("run/teams/team-{number}/config.yaml");
        process::write(home, &file, &format!("allowed_tools: [\"@plugins\"]\n{switches}"));
    }
    let paths = format!("plugins: {{paths: [{}]}}\n", home.join("work").display());
    process::write(home, "data/config/config.yaml", &paths);
    let service = Process::serve(home);
    process::address(home, &service);
    // What the start needed is given back after a while.
    std::thread::sleep(Duration::from_secs(12));
    (service.memory(), children(service.id()))
}

fn children(of: u32) -> usize {
    let tasks = std::fs::read_dir(Path::new("/proc").join(of.to_string()).join("task"));
    let tasks = tasks.expect("threads").flatten();
    let of_thread = tasks.map(|task| {
        let listed = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        listed.split_whitespace().count()
    });
    of_thread.sum()
}
