//! The path of a call, and the file tools through it.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{
    clock::Timestamp,
    task::{Label, Lane, Task},
    tool::{
        Args as CallArgs, CallContext, Caller, Checked, Effect, ToolCall, ToolFault, ToolReply,
        Toolset,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    REGISTRY,
    about::About,
    contract::{Tool, ToolContext},
    error::ToolError,
    filter::ToolFilter,
    grant::Grant,
    made::Made,
    toolbox::Toolbox,
};
use crate::{
    policy::Policies,
    sandbox::{
        process::{Sandbox, SandboxSettings, layers::Layers},
        workspace::Workspace,
    },
    scrub::Mask,
    settings::team::Team,
    taint::Taint,
    vault::{Vault, scrubbers::Scrubbers},
};

mod memory;
pub(crate) mod policy;
mod race;
mod reading;
mod table;
mod taint;
pub(crate) mod told;
mod triggers;
mod vault;
mod web;

struct Bench {
    dir: TempDir,
    tools: Arc<dyn Toolset>,
}

impl Bench {
    fn new() -> Self {
        Self::with(super::all(), &["*"])
    }

    fn with(toolbox: Toolbox, allowed: &[&str]) -> Self {
        Self::with_vault(toolbox, allowed, Vault::absent())
    }

    fn with_rules(rules: Policies) -> Self {
        Self::with_all(super::all(), &["*"], Vault::absent(), rules)
    }

    fn with_vault(toolbox: Toolbox, allowed: &[&str], vault: Vault) -> Self {
        Self::with_all(toolbox, allowed, vault, Policies::default())
    }

    fn with_all(toolbox: Toolbox, allowed: &[&str], vault: Vault, rules: Policies) -> Self {
        Self::with_file(toolbox, allowed, vault, rules, Team::new("team"))
    }

    fn with_file(
        toolbox: Toolbox,
        allowed: &[&str],
        vault: Vault,
        rules: Policies,
        file: Team,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let grant = Self::grant(&dir, allowed, vault, rules, file);
        let tools = Arc::new(toolbox.assemble(grant, Vec::new()));
        Self { dir, tools }
    }

    /// What a team in this folder is given.
    fn grant(dir: &TempDir, allowed: &[&str], vault: Vault, rules: Policies, file: Team) -> Grant {
        let folder = dir.path().join("team");
        fs::create_dir_all(&folder).unwrap();
        let sandbox = Sandbox::with_layers(
            SandboxSettings {
                launcher: PathBuf::from("/nonexistent"),
                memory: 1 << 30,
                scratch: dir.path().join("scratch"),
                private: Vec::new(),
            },
            Layers { landlock: 6, seccomp: true, namespaces: true },
        );
        Grant {
            team: "team".into(),
            workspace: Arc::new(Workspace::open(&folder, &[]).unwrap()),
            allowed: ToolFilter::parse(allowed, REGISTRY).unwrap(),
            sandbox: Arc::new(sandbox),
            secrets: Arc::new(Scrubbers::new(vault, [Mask::hidden("hunter2")])),
            rules,
            taint: Taint::default(),
            file: Arc::new(file),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("team").join(path)
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    async fn call(&self, name: &str, args: Value) -> ToolReply {
        self.tools.run(call(name, args), context()).await
    }

    fn look(&self, call: &ToolCall) -> Result<Checked, ToolReply> {
        self.tools.check(call, &caller(), Label::Trusted)
    }

    async fn rerun(&self, name: &str, args: Value) -> ToolReply {
        let cx = CallContext { rerun: true, ..context() };
        self.tools.run(call(name, args), cx).await
    }
}

fn call(name: &str, args: Value) -> ToolCall {
    ToolCall { id: "call".into(), name: name.to_owned(), args: CallArgs::Json(args) }
}

fn caller() -> Caller {
    let lane = Lane { team: "team".into(), topic: None };
    let task = Task::new("task-1".into(), lane, String::new(), String::new(), Timestamp(0));
    Caller::of(&task)
}

fn context() -> CallContext {
    CallContext {
        caller: Arc::new(caller()),
        label: Label::Trusted,
        turn: "turn".into(),
        step: 1,
        key: "key".to_owned(),
        rerun: false,
        approved: None,
        approved_by: None,
        approved_always: false,
        cancel: CancellationToken::new(),
    }
}

fn ok(content: impl Into<String>) -> ToolReply {
    ToolReply { content: content.into(), ..ToolReply::default() }
}

/// A tool that does as it is told, to see what the host makes of it.
struct Puppet {
    dropped: Arc<AtomicBool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Act {
    Panic,
    PanicBlocking,
    Say(String),
    Hang,
    StopWith(String),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PuppetArgs {
    act: Act,
}

struct Mark(Arc<AtomicBool>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Tool for Puppet {
    const ABOUT: About = About::new("stage.puppet", "@plugins", "plugin", Effect::Irreversible)
        .exclusive()
        .within(Duration::from_millis(50), Duration::from_millis(50));
    const DESCRIPTION: &'static str = "Does as it is told.";
    type Args = PuppetArgs;

    async fn call(&self, args: PuppetArgs, cx: &ToolContext) -> Result<String, ToolError> {
        let _mark = Mark(Arc::clone(&self.dropped));
        match args.act {
            Act::Panic => panic!("told to"),
            Act::PanicBlocking => cx.blocking(|_| panic!("told to")).await,
            Act::Say(text) => Ok(text),
            Act::Hang => std::future::pending().await,
            Act::StopWith(text) => {
                cx.cancel.cancelled().await;
                Err(ToolError::stopped(text))
            }
        }
    }
}

fn stage() -> (Bench, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let puppet = Puppet { dropped: Arc::clone(&dropped) };
    (Bench::with(super::all().with([Made::of(puppet)]), &["*"]), dropped)
}

async fn act(bench: &Bench, act: Value) -> ToolReply {
    bench.call("stage__puppet", json!({ "act": act })).await
}

/// TO-01 to TO-04, TO-07, TO-08, TO-29, SE-56: what each tool declares, in a fixed order.
#[test]
fn the_six_tools_declare_themselves() {
    let bench = Bench::new();

    let specs = bench.tools.specs();

    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["bash", "edit", "glob", "grep", "read", "write"]);
    for spec in specs.iter() {
        assert!((1..=1024).contains(&spec.description.chars().count()), "{}", spec.name);
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        for (property, schema) in spec.schema["properties"].as_object().unwrap() {
            assert!(schema["description"].is_string(), "{}.{property}", spec.name);
        }
    }
    let again = Bench::new().tools.specs();
    assert_eq!(serde_json::to_string(&*specs).unwrap(), serde_json::to_string(&*again).unwrap());
}

/// TO-04, TO-07, TO-08, TO-16
#[test]
fn a_check_tells_effect_exclusiveness_and_limit() {
    let bench = Bench::new();
    let check = |name, args| bench.look(&call(name, args)).unwrap();
    let checked = |effect, exclusive, seconds| {
        Checked::allowed(effect, exclusive, Duration::from_secs(seconds))
    };

    let found = [
        check("read", json!({ "file_path": "a" })),
        check("write", json!({ "file_path": "a", "content": "" })),
        check("edit", json!({ "file_path": "a", "old_string": "a", "new_string": "b" })),
        check("glob", json!({ "pattern": "*" })),
        check("grep", json!({ "pattern": "x" })),
        check("bash", json!({ "command": "true" })),
        check("bash", json!({ "command": "true", "timeout": 600_000 })),
    ];

    let expected = [
        checked(Effect::Pure, false, 30),
        checked(Effect::Idempotent, true, 30),
        checked(Effect::Idempotent, true, 30),
        checked(Effect::Pure, false, 30),
        checked(Effect::Pure, false, 30),
        checked(Effect::Irreversible, true, 120),
        checked(Effect::Irreversible, true, 600),
    ];
    assert_eq!(found, expected);
}

/// SE-50, TO-45
#[tokio::test]
async fn a_tool_that_is_not_allowed_is_neither_shown_nor_run() {
    let bench = Bench::with(super::all(), &["@files", "!write"]);
    let refused = ToolReply::failed(ToolFault::NotAvailable, "tool not available to this team");
    let args = json!({ "file_path": "a", "content": "x" });

    let checked = bench.look(&call("write", args.clone()));
    let ran = bench.call("write", args).await;

    assert_eq!((checked, ran), (Err(refused.clone()), refused));
    assert!(!bench.path("a").exists());
    assert!(bench.tools.specs().iter().all(|spec| spec.name != "write"));
}

/// TO-03, TO-12
#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_with_place_and_reason() {
    let bench = Bench::new();
    let cases = [
        ("read", json!({}), "missing field `file_path`"),
        ("read", json!({ "file_path": 7 }), "`file_path`: expected text"),
        (
            "read",
            json!({ "file_path": "a", "mode": 1 }),
            "`mode`: unknown field; there are `file_path`, `limit`, `offset`",
        ),
        (
            "read",
            json!({ "file_path": "a", "offset": 0 }),
            "`offset`: expected a whole number of at least 1",
        ),
        ("bash", json!({ "command": "x", "env": { "A": 1 } }), "`env.A`: expected text"),
        (
            "bash",
            json!({ "command": "x", "timeout": 600_001 }),
            "`timeout`: expected a whole number from 1 to 600000",
        ),
        (
            "bash",
            json!({ "command": "x", "env": { "LD_PRELOAD": "y" } }),
            "`env`: `LD_PRELOAD` cannot be set",
        ),
        (
            "grep",
            json!({ "pattern": "x", "context": 11 }),
            "`context`: expected a whole number from 0 to 10",
        ),
        (
            "edit",
            json!({ "file_path": "a", "old_string": "x", "new_string": "x" }),
            "`new_string`: is the same as `old_string`",
        ),
    ];

    for (name, args, reason) in cases {
        let expected =
            ToolReply::failed(ToolFault::InvalidArguments, format!("invalid arguments: {reason}"));
        assert_eq!(bench.call(name, args.clone()).await, expected);
        assert_eq!(bench.look(&call(name, args)), Err(expected));
    }
}

/// TO-12: a model corrects all at once.
#[tokio::test]
async fn every_argument_that_does_not_fit_is_told() {
    let bench = Bench::new();

    let replies = [
        bench.call("read", json!({ "offset": "two", "limit": -1, "mode": 1 })).await,
        bench.call("edit", json!({ "file_path": 7, "old_string": null, "new_strin": "b" })).await,
        bench.call("bash", json!({ "env": { "A": 1, "B": "x", "C": [] } })).await,
    ];

    let told = replies.map(|reply| {
        let text = reply.content.strip_prefix("invalid arguments: ");
        let mut told: Vec<_> = text.unwrap().split("; ").map(str::to_owned).collect();
        told.sort();
        told
    });
    assert_eq!(
        told[0],
        [
            "`limit`: expected a whole number of at least 1",
            "`mode`: unknown field",
            "`offset`: expected a whole number of at least 1",
            "missing field `file_path`",
            "there are `file_path`, `limit`, `offset`",
        ]
    );
    assert_eq!(
        told[1],
        [
            "`file_path`: expected text",
            "`new_strin`: unknown field (did you mean `new_string`?)",
            "`old_string`: expected at least 1 characters",
            "missing field `new_string`",
        ]
    );
    assert_eq!(
        told[2],
        ["`env.A`: expected text", "`env.C`: expected text", "missing field `command`",]
    );
}

/// TO-12, SC-76
#[tokio::test]
async fn unreadable_and_oversized_arguments_are_refused() {
    let bench = Bench::new();
    let unreadable = ToolCall {
        args: CallArgs::Unreadable {
            unreadable: "{".to_owned(),
            reason: "EOF at line 1 column 1".to_owned(),
        },
        ..call("read", json!({}))
    };

    let replies = [
        bench.tools.run(unreadable, context()).await,
        bench.call("read", json!({ "file_path": "x".repeat(2 << 20) })).await,
        bench.call("read", (0..64).fold(json!({}), |inner, _| json!([inner]))).await,
    ];

    let refused = |text: &str| ToolReply::failed(ToolFault::InvalidArguments, text);
    assert_eq!(
        replies,
        [
            refused("arguments are not JSON: EOF at line 1 column 1"),
            refused("arguments are larger than 2 MiB"),
            refused("arguments: nested deeper than 64 levels"),
        ]
    );
}

/// TO-13: on paused time, since writing a backtrace down may take longer than the tool's limit.
#[tokio::test(start_paused = true)]
async fn a_panic_ends_the_call_and_nothing_else() {
    let (bench, _) = stage();

    let replies = [
        act(&bench, json!("panic")).await,
        act(&bench, json!("panic_blocking")).await,
        act(&bench, json!({ "say": "still here" })).await,
    ];

    let failed = ToolReply::failed(ToolFault::ToolFailed, "the tool failed unexpectedly");
    assert_eq!(replies, [failed.clone(), failed, ok("still here")]);
}

/// TO-10, TO-15: a secret across the cut does not pass in halves.
#[tokio::test]
async fn answers_are_scrubbed_before_they_are_cut() {
    let (bench, _) = stage();

    let reply = act(&bench, json!({ "say": "hunter2 ".repeat(20_000) })).await;

    assert!(reply.truncated && reply.content.len() <= 65_536);
    assert!(!reply.content.contains("hunter"));
}

/// TO-16
#[tokio::test(start_paused = true)]
async fn a_timeout_hands_in_what_there_is() {
    let (bench, dropped) = stage();

    let stopped = act(&bench, json!({ "stop_with": "half" })).await;
    let hung = act(&bench, json!("hang")).await;

    let timeout = |text| ToolReply::failed(ToolFault::Timeout, text);
    assert_eq!(stopped, timeout("Timed out after 50 ms and was stopped.\nhalf"));
    assert_eq!(hung, timeout("Timed out after 50 ms and was stopped."));
    tokio::task::yield_now().await;
    assert!(dropped.load(Ordering::SeqCst));
}

/// TO-16
#[tokio::test]
async fn a_cancel_stops_the_tool() {
    let (bench, _) = stage();
    let cx = context();
    cx.cancel.cancel();

    let reply =
        bench.tools.run(call("stage__puppet", json!({ "act": { "stop_with": "half" } })), cx).await;

    assert_eq!(reply, ToolReply::failed(ToolFault::Cancelled, "Cancelled.\nhalf"));
}

/// TO-16: dropping the call is the hard stop.
#[tokio::test]
async fn a_dropped_call_ends_its_tool() {
    let (bench, dropped) = stage();

    let mut running = bench.tools.run(call("stage__puppet", json!({ "act": "hang" })), context());
    tokio::select! {
        biased;
        reply = &mut running => panic!("{reply:?}"),
        () = tokio::task::yield_now() => {}
    }
    drop(running);
    tokio::task::yield_now().await;

    assert!(dropped.load(Ordering::SeqCst));
}

/// TO-57, MV-50
#[tokio::test]
async fn read_shows_numbered_lines() {
    let bench = Bench::new();
    bench.put("a", "one\r\ntwo\nthree");
    bench.put("empty", "");
    bench.put("wide", "é".repeat(2001));
    bench.put("split", "x".repeat(1_997) + "hunter2 and more");
    bench.put("long", "x\n".repeat(2001));

    let whole = bench.call("read", json!({ "file_path": "a" })).await;
    let part = bench.call("read", json!({ "file_path": "a", "offset": 2, "limit": 1 })).await;
    let empty = bench.call("read", json!({ "file_path": "empty" })).await;
    let wide = bench.call("read", json!({ "file_path": "wide" })).await;
    let long = bench.call("read", json!({ "file_path": "long" })).await;
    let split = bench.call("read", json!({ "file_path": "split" })).await;
    let found = bench.call("grep", json!({ "path": "split", "pattern": "x" })).await;

    // What the cut leaves of a secret is no less secret.
    assert_eq!(split, ok(format!("     1│{}… [line cut]\n", "x".repeat(1_997))));
    assert_eq!(found, ok(format!("split:1:{}… [line cut]", "x".repeat(1_997))));
    assert_eq!(whole, ok("     1│one\n     2│two\n     3│three\n"));
    assert_eq!(part, ok("     2│two\n[1 more lines; continue with `offset` 3]\n"));
    assert_eq!(empty, ok("The file is empty."));
    assert_eq!(wide, ok(format!("     1│{}… [line cut]\n", "é".repeat(2000))));
    assert!(long.content.ends_with("  2000│x\n[1 more lines; continue with `offset` 2001]\n"));
}

/// TO-57
#[tokio::test]
async fn read_refuses_what_it_cannot_show() {
    let bench = Bench::new();
    bench.put("image", b"\x89PNG\r\n\x1a\n\0\0\0");
    bench.put("latin", b"caf\xe9");
    bench.put("short", "one\ntwo\n");
    let huge = fs::File::create(bench.path("huge")).unwrap();
    huge.set_len((50 << 20) + 1).unwrap();

    let read = async |path: &str, offset: usize| {
        bench.call("read", json!({ "file_path": path, "offset": offset })).await
    };

    let failed = |fault, text: &str| ToolReply::failed(fault, text);
    let tool = ToolFault::ToolFailed;
    assert_eq!(
        read("image", 1).await,
        failed(tool, "image is not a text file: PNG image, 11 bytes")
    );
    assert_eq!(
        read("latin", 1).await,
        failed(tool, "latin is not a text file: binary data, 4 bytes")
    );
    assert_eq!(
        read("huge", 1).await,
        failed(
            tool,
            "huge is too large to read: binary data, 52428801 bytes; at most 52428800 are"
        )
    );
    assert_eq!(
        read("short", 3).await,
        failed(ToolFault::InvalidArguments, "`offset` 3 is past the end: the file has 2 lines")
    );
    assert_eq!(read("gone", 1).await, failed(ToolFault::NotFound, "gone does not exist"));
    assert_eq!(
        read("../scratch", 1).await,
        failed(ToolFault::OutsideWorkspace, "Access denied: ../scratch is outside the workspace")
    );
}

/// TO-58
#[tokio::test]
async fn write_replaces_whole_files_and_counts_bytes() {
    let bench = Bench::new();

    let first = bench.call("write", json!({ "file_path": "new/a", "content": "éé" })).await;
    let second = bench.call("write", json!({ "file_path": "new/a", "content": "b" })).await;
    let large = bench
        .call("write", json!({ "file_path": "a", "content": "x".repeat((1 << 20) + 1) }))
        .await;
    let governed = bench.call("write", json!({ "file_path": "config.yaml", "content": "x" })).await;

    assert_eq!(first, ok("Wrote 4 bytes to new/a"));
    assert_eq!(second, ok("Wrote 1 bytes to new/a"));
    assert_eq!(fs::read_to_string(bench.path("new/a")).unwrap(), "b");
    assert_eq!(large.fault, Some(ToolFault::InvalidArguments));
    assert_eq!(
        governed,
        ToolReply::failed(
            ToolFault::Governance,
            "Governance: write blocked for own-config path: config.yaml"
        )
    );
}

/// TO-59
#[tokio::test]
async fn edit_replaces_one_passage_or_all() {
    let bench = Bench::new();
    bench.put("a", "red red blue");
    let edit = |old: &str, new: &str, all: bool| json!({ "file_path": "a", "old_string": old, "new_string": new, "replace_all": all });

    let many = bench.call("edit", edit("red", "green", false)).await;
    let one = bench.call("edit", edit("blue", "grey", false)).await;
    let all = bench.call("edit", edit("red", "green", true)).await;
    let none = bench.call("edit", edit("red", "green", true)).await;
    let again = bench.rerun("edit", edit("red", "green", true)).await;

    let message =
        "`old_string` occurs 2 times in a; give more of its surroundings or set `replace_all`";
    assert_eq!(many, ToolReply::failed(ToolFault::Conflict, message));
    assert_eq!(one, ok("Replaced 1 occurrence(s) in a"));
    assert_eq!(all, ok("Replaced 2 occurrence(s) in a"));
    assert_eq!(none, ToolReply::failed(ToolFault::NotFound, "`old_string` was not found in a"));
    assert_eq!(again, ok("Already replaced in a"));
    assert_eq!(fs::read_to_string(bench.path("a")).unwrap(), "green green grey");
}

/// TO-60
#[tokio::test]
async fn glob_lists_files_newest_first() {
    let bench = Bench::new();
    for (age, path) in [
        "new.rs",
        "src/old.rs",
        "src/deep/mid.rs",
        "other.txt",
        ".env",
        ".git/x.rs",
        ".ci/jobs/a.yml",
    ]
    .iter()
    .enumerate()
    {
        bench.put(path, "");
        let time = std::time::SystemTime::now() - Duration::from_secs(60 * age as u64);
        fs::File::open(bench.path(path)).unwrap().set_modified(time).unwrap();
    }
    fs::create_dir(bench.path("folder.rs")).unwrap();
    let listed = |paths: &[&str]| {
        let lines: String =
            paths.iter().map(|path| format!("{}\n", bench.path(path).display())).collect();
        ok(lines)
    };
    let glob = async |args: Value| bench.call("glob", args).await;

    assert_eq!(
        glob(json!({ "pattern": "**/*.rs" })).await,
        listed(&["new.rs", "src/old.rs", "src/deep/mid.rs"])
    );
    assert_eq!(glob(json!({ "pattern": "*.rs" })).await, listed(&["new.rs"]));
    assert_eq!(glob(json!({ "pattern": "*.rs", "path": "src" })).await, listed(&["src/old.rs"]));
    assert_eq!(glob(json!({ "pattern": "*" })).await, listed(&["new.rs", "other.txt"]));
    assert_eq!(glob(json!({ "pattern": ".*" })).await, listed(&[".env"]));
    assert_eq!(
        glob(json!({ "pattern": "{.ci/jobs,src}/*.{rs,yml}" })).await,
        listed(&["src/old.rs", ".ci/jobs/a.yml"])
    );
    assert_eq!(glob(json!({ "pattern": bench.path("*.txt") })).await, listed(&["other.txt"]));
    assert_eq!(glob(json!({ "pattern": "*.zig" })).await, ok("No files matched the pattern."));
    for (pattern, named) in [("../*", "../*"), ("src/../../*", "src/../../*"), ("/etc/*", "/etc")] {
        let text = format!("Access denied: {named} is outside the workspace");
        assert_eq!(
            glob(json!({ "pattern": pattern })).await,
            ToolReply::failed(ToolFault::OutsideWorkspace, text)
        );
    }
}

/// TO-60
#[tokio::test]
async fn glob_lists_a_thousand_and_counts_the_rest() {
    let bench = Bench::new();
    for number in 0..1003 {
        fs::write(bench.path(&number.to_string()), "").unwrap();
    }

    let reply = bench.call("glob", json!({ "pattern": "*" })).await;

    // The text may be cut in the middle for its size; the count stands at its end.
    assert!(reply.content.ends_with("\n[3 more files]\n"));
}

/// TO-61
#[tokio::test]
async fn grep_shows_matching_lines() {
    let bench = Bench::new();
    bench.put("src/a.rs", "fn one() {}\n-flag\nfn two() {}\n");
    bench.put("b.py", "def ONE(): pass\n");
    bench.put(".hidden", "one\n");
    let at = |path: &str| bench.path(path).display().to_string();
    let grep = async |args: Value| bench.call("grep", args).await;

    let (a, b) = (at("src/a.rs"), at("b.py"));
    assert_eq!(
        grep(json!({ "pattern": r"fn \w+" })).await,
        ok(format!("{a}:1:fn one() {{}}\n{a}:3:fn two() {{}}"))
    );
    assert_eq!(grep(json!({ "pattern": "-flag" })).await, ok(format!("{a}:2:-flag")));
    assert_eq!(
        grep(json!({ "pattern": "ONE", "ignore_case": true, "type": "py" })).await,
        ok(format!("{b}:1:def ONE(): pass"))
    );
    assert_eq!(
        grep(json!({ "pattern": "one", "ignore_case": true, "glob": "*.rs" })).await,
        ok(format!("{a}:1:fn one() {{}}"))
    );
    assert_eq!(
        grep(json!({ "pattern": "flag", "context": 1 })).await,
        ok(format!("{a}-1-fn one() {{}}\n{a}:2:-flag\n{a}-3-fn two() {{}}"))
    );
    assert_eq!(grep(json!({ "pattern": "one", "path": ".hidden" })).await, ok(".hidden:1:one"));
    assert_eq!(grep(json!({ "pattern": "three" })).await, ok("No matches found."));
}

/// TO-61
#[tokio::test]
async fn grep_refuses_bad_patterns_and_places() {
    let bench = Bench::new();
    let grep = async |args: Value| bench.call("grep", args).await;

    let bad = grep(json!({ "pattern": "a(b" })).await;
    let kind = grep(json!({ "pattern": "a", "type": "klingon" })).await;
    let outside = grep(json!({ "pattern": "a", "path": "/etc" })).await;

    assert_eq!(bad.fault, Some(ToolFault::InvalidArguments));
    // The pattern is repeated with a mark under the place.
    assert!(bad.content.contains("a(b\n     ^\n"), "{}", bad.content);
    assert_eq!(kind.fault, Some(ToolFault::InvalidArguments));
    assert_eq!(outside.fault, Some(ToolFault::OutsideWorkspace));
}

/// TO-61
#[tokio::test]
async fn grep_bounds_its_matches_and_names_what_it_passed_over() {
    let bench = Bench::new();
    for number in 0..11 {
        bench.put(&format!("many/{number:02}"), "x\n".repeat(300));
    }
    bench.put("odd/binary", b"x\n\0\n");
    fs::File::create(bench.path("odd/large")).unwrap().set_len((10 << 20) + 1).unwrap();

    let one = bench.call("grep", json!({ "pattern": "x", "path": "many/00" })).await;
    let all = bench.call("grep", json!({ "pattern": "x", "path": "many" })).await;
    let odd = bench.call("grep", json!({ "pattern": "x", "path": "odd" })).await;

    assert_eq!(one.content.matches("many/00:").count(), 200);
    assert!(one.content.ends_with("[more matches in many/00]"));
    assert!(all.content.ends_with("\n[stopped after 2000 matches]"));
    let odd_path = bench.path("odd").display().to_string();
    assert_eq!(
        odd,
        ok(format!(
            "No matches found.\n[passed over: {odd_path}/binary (binary), {odd_path}/large (over 10 MiB)]"
        ))
    );
}
