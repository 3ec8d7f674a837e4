//! A racer that swaps a folder for a link while calls are judged and run: what a rule or the label of the turn
//! keeps from a call stays kept.

use std::{os::unix::fs::symlink, path::Path};

use hivewright_actors::{
    policy::rule::{Effect, Rule},
    tool::Verdict,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;

/// Calls of each kind. Before places were judged on their handles, one in four got through.
const ROUNDS: usize = 300;

/// Swaps two names until it is dropped.
struct Racer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Racer {
    fn between(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A workspace with `flip`, which a racer swaps for a link to `kept`.
fn flipping(rules: Policies, kept: &str) -> (Bench, Racer) {
    let bench = Bench::with_rules(rules);
    bench.put(&format!("{kept}/secret.md"), "needle kept");
    bench.put("flip/open.md", "needle open");
    symlink(kept, bench.path("link")).unwrap();
    let racer = Racer::between(bench.path("flip"), bench.path("link"));
    (bench, racer)
}

/// Looks at a call and runs it if nobody has to be asked, as a turn does.
async fn attempt(bench: &Bench, label: Label, name: &str, args: Value) -> Option<ToolReply> {
    let call = call(name, args);
    let checked = bench.tools.check(&call, &caller(), label).ok()?;
    if checked.verdict != Verdict::Allow {
        return None;
    }
    let cx = CallContext { label, ..context() };
    Some(bench.tools.run(call, cx).await)
}

/// SC-42, SC-07, SC-63: a link that is swapped in after a write was judged does not lead it into the rules.
#[tokio::test]
async fn a_racer_does_not_lead_an_untrusted_write_into_the_rules() {
    let (bench, racer) = flipping(Policies::default(), "team-rules");
    let mut written = 0;

    for round in 0..ROUNDS {
        let args = json!({"file_path": format!("flip/{round}.md"), "content": "planted"});
        let reply = attempt(&bench, Label::Untrusted, "write", args).await;
        written += usize::from(reply.is_some_and(|reply| reply.fault.is_none()));
        let args =
            json!({"file_path": "flip/secret.md", "old_string": "kept", "new_string": "planted"});
        attempt(&bench, Label::Untrusted, "edit", args).await;
    }
    drop(racer);

    assert_eq!(entries(&bench.path("team-rules")), ["secret.md"]);
    let rule = fs::read_to_string(bench.path("team-rules/secret.md")).unwrap();
    assert_eq!(rule, "needle kept");
    assert!(written > 0, "nothing was written where it may be");
}

/// SC-07, SC-63: the same for every rule about files, and for every tool that reads.
#[tokio::test]
async fn a_racer_does_not_lead_a_call_to_what_a_rule_denies() {
    let deny = Rule::new("closed", "file:private".parse().unwrap(), Effect::Deny);
    let rules = Policies::fixed(vec![deny]);
    let (bench, racer) = flipping(rules, "private");
    let mut seen = Vec::new();
    let mut open = 0;

    for round in 0..ROUNDS {
        let calls = [
            ("read", json!({"file_path": "flip/secret.md"})),
            ("read", json!({"file_path": "flip/open.md"})),
            ("grep", json!({"pattern": "needle", "path": "flip"})),
            ("glob", json!({"pattern": "*.md", "path": "flip"})),
            ("write", json!({"file_path": format!("flip/{round}.md"), "content": "x"})),
        ];
        for (name, args) in calls {
            if let Some(reply) = attempt(&bench, Label::Trusted, name, args).await {
                open += usize::from(reply.content.contains("needle open"));
                if reply.content.contains("kept")
                    || reply.content.contains("/secret.md") && reply.fault.is_none()
                {
                    seen.push((name, reply.content));
                }
            }
        }
    }
    drop(racer);

    assert_eq!(seen, []);
    assert_eq!(entries(&bench.path("private")), ["secret.md"]);
    assert!(open > 0, "nothing was read that may be");
}
