//! Commands in the sandbox: what they reach, what they don't, and how they end.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hivewright::{
    policy::Policies,
    sandbox::{
        process::{
            Sandbox, SandboxSettings,
            layers::{Layer, Layers},
        },
        workspace::Workspace,
    },
    settings::{
        config::Limits,
        folder_access::Access,
        team::{AllowedDir, Team},
    },
    taint::Taint,
    tools::{self, filter::ToolFilter, grant::Grant},
    vault::{Vault, scrubbers::Scrubbers},
};
use hivewright_actors::{
    clock::Timestamp,
    task::{Label, Lane, Task},
    text::Size,
    tool::{Args, CallContext, Caller, ToolCall, ToolFault, ToolReply, Toolset},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::service::until;

/// The longest that a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    dir: TempDir,
    tools: Arc<dyn Toolset>,
    sandbox: Arc<Sandbox>,
}

impl World {
    async fn new() -> Self {
        Self::with(|settings| async { Sandbox::new(settings).await }).await
    }

    /// As on a machine whose kernel gives no namespaces.
    async fn without_namespaces() -> Self {
        Self::with(|settings| async {
            let found = Sandbox::new(settings.clone()).await.layers();
            let layers = Layers { namespaces: false, ..found };
            Sandbox::with_layers(settings, layers)
        })
        .await
    }

    async fn with<F: Future<Output = Sandbox>>(make: impl FnOnce(SandboxSettings) -> F) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["teams/alpha/plugins", "teams/alpha/notes", "teams/beta", "store", "shared"]
        {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("teams/alpha/config.yaml"), "allowed_tools: []\n").unwrap();
        fs::write(root.join("teams/alpha/plugins/tool.js"), "verified").unwrap();
        fs::write(root.join("teams/beta/notes.md"), "beta's").unwrap();
        fs::write(root.join("store/db"), "secret").unwrap();
        fs::write(root.join("shared/manual.md"), "manual").unwrap();
        let sandbox = make(SandboxSettings {
            launcher: env!("CARGO_BIN_EXE_hivewright").into(),
            memory: 256 << 20,
            scratch: root.join("scratch"),
            private: vec![root.join("store"), root.join("teams/beta")],
        })
        .await;
        let sandbox = Arc::new(sandbox);
        let allowed = [AllowedDir { path: root.join("shared"), access: Access::ReadOnly }];
        let workspace = Workspace::open(&root.join("teams/alpha"), &allowed).unwrap();
        let grant = Grant {
            team: "alpha".into(),
            workspace: Arc::new(workspace),
            allowed: ToolFilter::parse(&["*"], tools::REGISTRY).unwrap(),
            sandbox: Arc::clone(&sandbox),
            rules: Policies::default(),
            secrets: Arc::new(Scrubbers::new(Vault::absent(), [])),
            taint: Taint::default(),
            file: Arc::new(Team::new("alpha")),
        };
        let tools = Arc::new(tools::all().assemble(grant, Vec::new()));
        Self { dir, tools, sandbox }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) async fn bash(&self, command: &str) -> ToolReply {
        self.call(json!({ "command": command }), CancellationToken::new()).await
    }

    pub(crate) async fn call(&self, args: Value, cancel: CancellationToken) -> ToolReply {
        self.call_as(Label::Trusted, args, cancel).await
    }

    async fn call_as(&self, label: Label, args: Value, cancel: CancellationToken) -> ToolReply {
        self.use_tool(label, "bash", args, cancel).await
    }

    pub(crate) async fn use_tool(
        &self,
        label: Label,
        name: &str,
        args: Value,
        cancel: CancellationToken,
    ) -> ToolReply {
        let call = ToolCall { id: "1".into(), name: name.to_owned(), args: Args::Json(args) };
        let cx = CallContext {
            caller: Arc::new(caller()),
            label,
            turn: "turn-1".into(),
            step: 1,
            key: "k".to_owned(),
            rerun: false,
            approved: None,
            approved_by: None,
            approved_always: false,
            cancel,
        };
        tokio::time::timeout(PATIENCE, self.tools.run(call, cx)).await.unwrap()
    }
}

fn caller() -> Caller {
    let lane = Lane { team: "alpha".into(), topic: None };
    let task = Task::new("task-1".into(), lane, String::new(), String::new(), Timestamp(0));
    Caller::of(&task)
}

fn ok(content: &str) -> ToolReply {
    ToolReply { content: content.to_owned(), ..ToolReply::default() }
}

/// Both forms of the sandbox, which must keep the same promises.
pub(crate) async fn worlds() -> [World; 2] {
    let worlds = [World::new().await, World::without_namespaces().await];
    assert!(worlds[0].sandbox.layers().namespaces, "no namespaces here");
    worlds
}

/// TO-63
#[tokio::test]
async fn a_command_runs_in_the_workspace() {
    for world in worlds().await {
        let workspace = world.path("teams/alpha");

        let reply = world
            .bash("pwd; cat config.yaml; echo hi > notes/a && cat notes/a; echo oops >&2; exit 3")
            .await;

        let expected = format!(
            "exit_code: 3\nstdout:\n{}\nallowed_tools: []\nhi\nstderr:\noops",
            workspace.display()
        );
        assert_eq!(reply, ok(&expected));
        assert_eq!(fs::read_to_string(workspace.join("notes/a")).unwrap(), "hi\n");
    }
}

/// TO-63
#[tokio::test]
async fn a_silent_command_says_so() {
    let world = World::new().await;

    assert_eq!(world.bash("exit 4").await, ok("exit_code: 4\n(no output)"));
}

/// TO-49, TO-51, SC-45
#[tokio::test]
async fn a_command_reads_nothing_outside_its_folders() {
    for world in worlds().await {
        let mut read = Vec::new();
        for path in ["store/db", "teams/beta/notes.md", "shared/manual.md"] {
            let path = world.path(path);
            let reply =
                world.bash(&format!("cat {} 2>/dev/null || echo refused", path.display())).await;
            read.push(reply.content);
        }
        let shadow = world.bash("cat /etc/shadow 2>/dev/null || echo refused").await;
        read.push(shadow.content);

        let expected = ["refused", "refused", "manual", "refused"]
            .map(|text| format!("exit_code: 0\nstdout:\n{text}"));
        assert_eq!(read, expected);
    }
}

/// TO-52, TO-53, TO-65
#[tokio::test]
async fn a_command_cannot_change_governed_paths() {
    for world in worlds().await {
        let attempts = [
            "echo x > config.yaml",
            "echo x >> ./notes/../config.yaml",
            "rm -f config.yaml",
            "mv config.yaml notes/c",
            "mv notes/new config.yaml",
            "ln -f notes/new config.yaml",
            "ln config.yaml notes/link && echo x > notes/link",
            "ln -s ../config.yaml notes/soft && echo x > notes/soft",
            "truncate -s 0 config.yaml",
            "chmod 777 config.yaml && echo x > config.yaml",
            "echo x > plugins/tool.js",
            "touch plugins/new.js",
            "mv plugins notes/plugins",
            "rm -r plugins",
            "mount -o remount,rw config.yaml; umount config.yaml; echo x > config.yaml",
        ];

        for attempt in attempts {
            world.bash(&format!("touch notes/new; {attempt}")).await;
            let after = (
                fs::read_to_string(world.path("teams/alpha/config.yaml")).unwrap(),
                fs::read_to_string(world.path("teams/alpha/plugins/tool.js")).unwrap(),
                fs::read_dir(world.path("teams/alpha/plugins")).unwrap().count(),
            );
            let before = ("allowed_tools: []\n".to_owned(), "verified".to_owned(), 1);
            assert_eq!((attempt, after), (attempt, before));
        }
    }
}

/// TO-65: a workspace whose `config.yaml` is not there yet cannot be given one by a command.
#[tokio::test]
async fn a_command_cannot_make_the_configuration() {
    let world = World::new().await;
    let config = world.path("teams/alpha/config.yaml");
    fs::remove_file(&config).unwrap();

    world.bash("echo x > config.yaml; echo y > notes/other").await;

    assert!(!config.exists());
    assert!(world.path("teams/alpha/notes/other").exists());
}

/// TO-49
#[tokio::test]
async fn a_read_only_folder_is_not_written() {
    for world in worlds().await {
        let manual = world.path("shared/manual.md");

        world.bash(&format!("echo x > {}", manual.display())).await;

        assert_eq!(fs::read_to_string(manual).unwrap(), "manual");
    }
}

/// TO-68, SC-58: by no family of sockets: TCP and UDP over IP, Unix (streams and datagrams), netlink, raw.
#[tokio::test]
async fn a_command_has_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tried = |what: &str| format!("({what}) 2>/dev/null && echo reached || echo refused");
    let socket =
        |family: i32, kind: i32| tried(&format!("perl -e 'socket(S,{family},{kind},0)||exit 1'"));
    let commands = [
        tried(&format!("echo hello > /dev/tcp/127.0.0.1/{port}")),
        tried(&format!("echo hello > /dev/udp/127.0.0.1/{port}")),
        socket(libc::AF_INET, libc::SOCK_DGRAM),
        socket(libc::AF_INET6, libc::SOCK_STREAM),
        socket(libc::AF_UNIX, libc::SOCK_STREAM),
        socket(libc::AF_UNIX, libc::SOCK_DGRAM),
        socket(libc::AF_NETLINK, libc::SOCK_RAW),
        socket(libc::AF_PACKET, libc::SOCK_RAW),
    ];
    for world in worlds().await {
        // Without it, everything would look refused.
        let perl = world.bash("perl -e 'print 1'").await;
        assert_eq!(perl, ok("exit_code: 0\nstdout:\n1"));

        let reply = world.bash(&commands.join("; ")).await;

        let refused = ["refused"; 8].join("\n");
        assert_eq!(reply, ok(&format!("exit_code: 0\nstdout:\n{refused}")));
    }
}

/// SC-53, SC-58: the namespace keeps a command off the network also where a socket could be had.
#[tokio::test]
async fn the_network_of_a_command_is_its_own_and_empty() {
    let world = World::new().await;
    let ours = fs::read_link("/proc/self/ns/net").unwrap();

    let seen = world
        .bash("readlink /proc/self/ns/net; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; cat /proc/net/route | wc -l")
        .await
        .content;

    let lines: Vec<_> = seen.lines().collect();
    let ["exit_code: 0", "stdout:", theirs, devices @ .., _] = lines.as_slice() else {
        panic!("{seen}");
    };
    assert!(theirs.starts_with("net:["), "{seen}");
    assert_ne!(*theirs, ours.to_str().unwrap());
    assert_eq!(devices, ["lo"], "{seen}");
}

/// TO-67, SC-50
#[tokio::test]
async fn the_environment_holds_only_what_is_listed() {
    let world = World::new().await;

    let args = json!({ "command": "env | sort | cut -d= -f1 | xargs; echo $FOO", "env": { "FOO": "bar" } });
    let reply = world.call(args, CancellationToken::new()).await;

    // The shell itself adds PWD, SHLVL and `_`.
    let names = "FOO HOME LANG PATH PWD SHELL SHLVL TERM TMPDIR USER _";
    assert_eq!(reply, ok(&format!("exit_code: 0\nstdout:\n{names}\nbar")));
}

/// TO-67
#[tokio::test]
async fn home_and_temporary_files_are_private_and_end_with_the_call() {
    for world in worlds().await {
        let first =
            world.bash("touch $HOME/a $TMPDIR/b && ls -A $HOME $TMPDIR | grep -c '^[ab]$'").await;
        let second = world.bash("ls -A $HOME $TMPDIR | grep -c '^[ab]$'").await;

        assert_eq!(first, ok("exit_code: 0\nstdout:\n2"));
        assert_eq!(second, ok("exit_code: 1\nstdout:\n0"));
    }
}

/// SC-50
#[tokio::test]
async fn a_command_has_no_privileges_and_tight_limits() {
    for world in worlds().await {
        let reply = world
            .bash("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t\\n' '  '; umask; ulimit -c -n; ls /proc/self/fd | wc -l")
            .await;

        assert!(
            reply.content.contains("CapPrm: 0000000000000000 CapEff: 0000000000000000"),
            "{reply:?}"
        );
        assert!(reply.content.contains("NoNewPrivs: 1 Seccomp: 2 0077"), "{reply:?}");
        assert!(reply.content.contains("-c) 0"), "{reply:?}");
        assert!(reply.content.contains("-n) 1024"), "{reply:?}");
        // Standard streams and the listing itself.
        assert!(reply.content.ends_with("\n4"), "{reply:?}");
    }
}

/// SC-52, SC-53
#[tokio::test]
async fn namespaces_and_mounts_are_out_of_reach() {
    for world in worlds().await {
        let reply = world
            .bash("unshare -U true 2>/dev/null || echo no; mount -t tmpfs none /tmp 2>/dev/null || echo no; strace true 2>/dev/null || echo no")
            .await;

        assert_eq!(reply, ok("exit_code: 0\nstdout:\nno\nno\nno"));
    }
}

/// SC-53
#[tokio::test]
async fn a_command_sees_only_its_own_processes_and_devices() {
    let world = World::new().await;

    let reply = world.bash("ls -d /proc/[0-9]* | wc -l; ls /dev | xargs").await;

    let mut lines = reply.content.lines().skip(2);
    let processes: usize = lines.next().unwrap().parse().unwrap();
    assert!(processes <= 5, "{reply:?}");
    assert_eq!(lines.next(), Some("fd null random stderr stdin stdout tty urandom zero"));
}

/// A sign of life that a process in the sandbox renews and the test reads from outside.
async fn beats(path: &Path) -> bool {
    let length = || fs::metadata(path).map(|file| file.len()).unwrap_or(0);
    let before = length();
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if length() > before {
            return true;
        }
    }
    false
}

/// Waits until nothing beats: a call that is dropped does not wait for the death of its tree.
async fn still(path: &Path) {
    until("it is dead", async || !beats(path).await).await;
}

const HEART: &str = "while :; do echo . >> notes/heart; sleep 0.01; done";

async fn beating(path: &Path) {
    until("the command started", async || path.exists()).await;
}

/// TO-64
#[tokio::test]
async fn children_in_the_background_die_at_the_end_of_the_call() {
    for world in worlds().await {
        let command = format!(
            "setsid bash -c '{HEART}' >/dev/null 2>&1 & sleep 0.1; ({HEART}) & disown; sleep 0.1; echo done"
        );

        let reply = world.bash(&command).await;

        assert_eq!(reply, ok("exit_code: 0\nstdout:\ndone"));
        assert!(!beats(&world.path("teams/alpha/notes/heart")).await);
    }
}

/// TO-16
#[tokio::test]
async fn a_timeout_kills_the_tree_and_keeps_the_output_so_far() {
    for world in worlds().await {
        let command = format!("echo begun; (trap '' TERM; {HEART}) & wait");
        // Long enough for a command to begin on a busy machine.
        let args = json!({ "command": command, "timeout": 2_000 });

        let reply = world.call(args, CancellationToken::new()).await;

        let expected = ToolReply::failed(
            ToolFault::Timeout,
            "Timed out after 2000 ms and was stopped.\nstdout:\nbegun",
        );
        assert_eq!(reply, expected);
        still(&world.path("teams/alpha/notes/heart")).await;
    }
}

/// TO-16
#[tokio::test]
async fn a_cancel_kills_the_tree_that_does_not_hear_it() {
    for world in worlds().await {
        let heart = world.path("teams/alpha/notes/heart");
        let cancel = CancellationToken::new();
        let args = json!({ "command": format!("trap '' TERM; setsid bash -c \"trap '' TERM; {HEART}\" & wait; {HEART}") });

        let running = world.call(args, cancel.clone());
        let cancelling = async {
            beating(&heart).await;
            cancel.cancel();
        };
        let (reply, ()) = tokio::join!(running, cancelling);

        assert_eq!(reply, ToolReply::failed(ToolFault::Cancelled, "Cancelled."));
        still(&heart).await;
    }
}

/// TO-16: a command may tidy up when it is asked to end.
#[tokio::test]
async fn a_cancel_asks_before_it_kills() {
    for world in worlds().await {
        let heart = world.path("teams/alpha/notes/heart");
        let cancel = CancellationToken::new();
        let args = json!({ "command": format!("trap 'echo tidy; exit 0' TERM; {HEART}") });

        let running = world.call(args, cancel.clone());
        let cancelling = async {
            beating(&heart).await;
            cancel.cancel();
        };
        let (reply, ()) = tokio::join!(running, cancelling);

        assert_eq!(reply.fault, Some(ToolFault::Cancelled));
        assert!(reply.content.contains("tidy"), "{reply:?}");
    }
}

/// TO-64: dropping the call is the hard stop.
#[tokio::test]
async fn a_dropped_call_kills_the_tree() {
    for world in worlds().await {
        let heart = world.path("teams/alpha/notes/heart");
        let args = json!({ "command": format!("setsid bash -c \"trap '' TERM; {HEART}\"") });

        tokio::select! {
            reply = world.call(args, CancellationToken::new()) => panic!("{reply:?}"),
            () = beating(&heart) => {}
        }

        still(&heart).await;
    }
}

/// SC-45, SC-54
#[tokio::test]
async fn a_fork_bomb_is_bounded_and_gone_afterwards() {
    let world = World::new().await;

    let reply = world
        .call(
            json!({ "command": "b() { b | b & }; b; sleep 30", "timeout": 5000 }),
            CancellationToken::new(),
        )
        .await;

    assert!(reply.fault.is_some(), "{reply:?}");
    let after = world.bash("echo alive").await;
    assert_eq!(after, ok("exit_code: 0\nstdout:\nalive"));
}

/// SC-45, SC-54: by the limit of each process, or by the sweep over all of them.
#[tokio::test]
async fn a_memory_hog_is_bounded() {
    for world in worlds().await {
        let one =
            world.bash("head -c 400m /dev/zero | tail > /dev/null; echo ${PIPESTATUS[1]}").await;
        let many = world
            .bash("for i in 1 2 3 4; do (head -c 150m /dev/zero | tail | sleep 20) & done; wait")
            .await;

        let expected = "Killed with all it started: it used too much memory.";
        // Whichever comes first: the process gets no more memory, or the sweep sees how much it has.
        let refused = one.content.lines().any(|line| line == "1");
        assert!(refused || one.content.starts_with(expected), "{one:?}");
        assert_eq!(many.fault, Some(ToolFault::ToolFailed));
        assert!(many.content.starts_with(expected), "{many:?}");
    }
}

/// SC-45, OR-12 `sandbox.memory`: another limit counts for the next command.
#[tokio::test]
async fn another_limit_of_memory_counts_from_the_next_command() {
    let world = World::new().await;

    let before = world.bash("ulimit -d").await;
    world.sandbox.set_memory(64 << 20);
    let after = world.bash("ulimit -d").await;

    assert_eq!(before, ok("exit_code: 0\nstdout:\n262144"));
    assert_eq!(after, ok("exit_code: 0\nstdout:\n65536"));
}

/// TO-15, TO-63
#[tokio::test]
async fn a_flood_of_output_is_cut() {
    let world = World::new().await;

    let reply = world.bash("yes 0123456789 | head -c 30000000; echo; echo end").await;

    assert!(reply.truncated && reply.content.len() <= 65_536);
    assert!(
        reply
            .content
            .starts_with("exit_code: 0\nstdout:\n[the first 19514245 bytes were not kept]\n"),
        "{}",
        &reply.content[..100]
    );
    assert!(reply.content.ends_with("\nend"));
}

/// SC-55, SC-137, TO-64: with each layer removed in turn.
#[tokio::test]
async fn a_missing_layer_refuses_and_names_the_cure() {
    let cases = [
        ((2, true, true), Layer::Landlock),
        ((0, true, true), Layer::Landlock),
        ((9, false, true), Layer::Seccomp),
        ((5, true, false), Layer::Namespaces),
    ];
    for ((landlock, seccomp, namespaces), missing) in cases {
        let world = World::with(|settings| async move {
            let layers = Layers { landlock, seccomp, namespaces };
            Sandbox::with_layers(settings, layers)
        })
        .await;

        let reply = world.bash("touch notes/ran").await;

        assert_eq!(reply.fault, Some(ToolFault::SandboxUnavailable));
        let named = format!("`{missing}` is missing");
        assert!(reply.content.contains(&named), "{reply:?}");
        assert!(reply.content.contains(missing.cure()), "{reply:?}");
        assert!(!world.path("teams/alpha/notes/ran").exists());
    }
}

/// SC-42: a command of a turn that has read untrusted content leaves alone what tells the team what it
/// is, also what is not there yet, and works elsewhere as ever. Another one may.
#[tokio::test]
async fn a_command_of_an_untrusted_turn_cannot_change_what_the_team_is() {
    let plant = "mkdir -p org-rules team-rules skills/x subagents; \
                 for f in org-rules/x team-rules/x team-rules/house.md skills/x/SKILL.md subagents/x HEARTBEAT.md; \
                 do echo planted >> $f; done; mv team-rules notes/old; mkdir team-rules; echo planted > team-rules/y; \
                 rm -rf skills; ln -sfn notes skills; ln team-rules/house.md notes/hard; echo planted >> notes/hard; \
                 ln -s ../team-rules notes/soft; echo planted > notes/soft/z; echo work > notes/work";
    let planted = |world: &World| {
        let mut found = Vec::new();
        for name in ["org-rules", "team-rules", "skills", "subagents", "HEARTBEAT.md"] {
            let path = world.path("teams/alpha").join(name);
            let files = if path.is_dir() {
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect()
            } else {
                vec![path]
            };
            let is_planted = |file: &PathBuf| {
                fs::read_to_string(file).is_ok_and(|text| text.contains("planted"))
            };
            found.extend(files.into_iter().filter(is_planted));
        }
        found
    };
    for world in worlds().await {
        fs::create_dir(world.path("teams/alpha/team-rules")).unwrap();
        fs::write(world.path("teams/alpha/team-rules/house.md"), "Be kind.\n").unwrap();

        let args = json!({ "command": plant });
        let reply = world.call_as(Label::Untrusted, args, CancellationToken::new()).await;

        assert_eq!(reply.fault, None, "{reply:?}");
        assert_eq!(planted(&world), Vec::<PathBuf>::new(), "{reply:?}");
        let house = fs::read_to_string(world.path("teams/alpha/team-rules/house.md")).unwrap();
        assert_eq!(house, "Be kind.\n");
        let work = fs::read_to_string(world.path("teams/alpha/notes/work")).unwrap();
        assert_eq!(work, "work\n");
        world.bash("echo planted > team-rules/own").await;
        assert_eq!(planted(&world).len(), 1);
    }
}

/// SC-56
#[tokio::test]
async fn the_self_test_sees_every_layer_hold() {
    for world in worlds().await {
        let reports = world.sandbox.probe().await;

        let broken: Vec<_> =
            reports.iter().filter(|report| !report.holds).map(|report| report.layer).collect();
        let expected =
            if world.sandbox.layers().namespaces { vec![] } else { vec![Layer::Namespaces] };
        assert_eq!(broken, expected, "{reports:#?}");
        assert_eq!(reports.len(), 5);
    }
}

/// SC-56: the self-test tells a layer that does not do its work.
#[tokio::test]
async fn the_self_test_tells_what_could_be_read() {
    let world = World::with(|settings| async move {
        let private = vec!["/usr/bin/env".into()];
        Sandbox::new(SandboxSettings { private, ..settings }).await
    })
    .await;

    let reports = world.sandbox.probe().await;

    let landlock = &reports[0];
    assert_eq!((landlock.layer, landlock.holds), (Layer::Landlock, false));
    let seen = "/usr/bin/env lies in a folder that commands can read; ";
    assert!(landlock.detail.starts_with(seen), "{landlock:?}");
}

/// SC-56: a layer that is there and does not do its work counts as missing.
#[tokio::test]
async fn nothing_runs_where_the_self_test_got_through() {
    let world = World::with(|settings| async move {
        // Every command may read it, wherever the sandbox is.
        let private = vec!["/dev/null".into()];
        Sandbox::new(SandboxSettings { private, ..settings }).await
    })
    .await;

    let reply = world.bash("touch notes/ran").await;

    assert_eq!(reply.fault, Some(ToolFault::SandboxUnavailable));
    let seen = "`landlock` is missing (not refused: read /dev/null)";
    assert!(reply.content.contains(seen), "{reply:?}");
    assert!(!world.path("teams/alpha/notes/ran").exists());
    let reports = world.sandbox.probe().await;
    assert!(!reports[0].holds, "{reports:?}");
}

/// SC-55: nothing runs where it could read what is private.
#[tokio::test]
async fn a_private_path_in_reach_refuses_every_command() {
    let world = World::with(|settings| async move {
        let private = vec![settings.private[0].join("../teams/alpha/notes")];
        Sandbox::new(SandboxSettings { private, ..settings }).await
    })
    .await;

    let reply = world.bash("touch notes/ran").await;

    assert_eq!(reply.fault, Some(ToolFault::SandboxUnavailable));
    assert!(!world.path("teams/alpha/notes/ran").exists());
}

/// SC-51, SC-52: without namespaces a command shares the machine with the daemon, and cannot touch it.
#[tokio::test]
async fn other_processes_and_foreign_files_are_out_of_reach_without_namespaces() {
    let world = World::without_namespaces().await;
    let store = world.path("store/db");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = std::process::id();
    let command = format!(
        "kill -0 {daemon} || echo no; kill -0 $PPID || echo no; prlimit --pid {daemon} --core=0 || echo no; \
         renice 19 -p {daemon} || echo no; cat /proc/{daemon}/environ || echo no; chmod 666 {} || echo no",
        store.display()
    );

    let reply = world.bash(&format!("({command}) 2>/dev/null")).await;

    assert_eq!(reply, ok("exit_code: 0\nstdout:\nno\nno\nno\nno\nno\nno"));
    assert_eq!(fs::metadata(store).unwrap().permissions().mode() & 0o777, 0o600);
}

/// TO-65
#[tokio::test]
async fn the_description_tells_of_a_read_only_top() {
    let told = worlds().await.map(|world| {
        let specs = world.tools.specs();
        let bash = specs.iter().find(|spec| spec.name == "bash").unwrap();
        assert!(bash.description.len() <= 1024);
        bash.description.contains("top level of the workspace is read-only")
    });

    assert_eq!(told, [false, true]);
}

/// SC-50: what a command makes is the owner's alone.
#[tokio::test]
async fn new_files_are_private() {
    let world = World::new().await;

    world.bash("echo x > notes/private").await;

    let mode = fs::metadata(world.path("teams/alpha/notes/private")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// SC-54: where the machine gives control groups, a command has its own while it runs. Elsewhere, and in the
/// world without namespaces here, the tests of memory and fork bombs show the other bounds at work.
#[tokio::test]
async fn a_command_has_a_control_group_of_its_own_where_the_machine_gives_any() {
    let worlds = worlds().await;
    let mut seen = Vec::new();
    for world in &worlds {
        seen.push(world.bash("grep '^0::' /proc/self/cgroup").await.content);
    }

    match worlds[0].sandbox.groups() {
        Ok(bounds) => assert!(seen[0].contains("/hivewright-"), "{bounds}: {}", seen[0]),
        Err(reason) => {
            eprintln!(
                "no control group can be written here ({reason}); the other bounds hold alone"
            );
            assert!(!seen[0].contains("/hivewright-"), "{}", seen[0]);
        }
    }
    assert!(worlds[1].sandbox.groups().is_err());
    assert!(!seen[1].contains("/hivewright-"), "{}", seen[1]);
}

/// What teams may keep on the disk.
fn disk(workspace: u64, free_space: u64) -> Limits {
    let (workspace, free_space) = (Size(workspace), Size(free_space));
    Limits { workspace, free_space, ..Limits::default() }
}

/// SC-115: one command cannot fill the disk: not with one file, not with many, not in its temporary folder.
#[tokio::test]
async fn a_command_that_writes_more_than_its_workspace_may_hold_is_ended() {
    for world in worlds().await {
        world.sandbox.quota().set(&disk(32 << 20, 0));
        // It is ended at the bound of a file, or a moment later at that of the workspace.
        let one = world.bash("head -c 1G /dev/zero > notes/one").await;
        let written = size(&world.path("teams/alpha/notes"));
        world.bash("rm -f notes/one").await;
        let many = "for n in {1..4000}; do head -c 1M /dev/zero > $WHERE/$n; done; echo all";
        let in_workspace = world.bash(&many.replace("$WHERE", "notes")).await;
        let used = size(&world.path("teams/alpha/notes"));
        world.bash("rm -f notes/*").await;
        let elsewhere = world.bash(&many.replace("$WHERE", "$TMPDIR")).await;

        assert!((1..=32 << 20).contains(&written), "{written}: {one:?}");
        for killed in [in_workspace, elsewhere] {
            assert_eq!(killed.fault, Some(ToolFault::ToolFailed), "{killed:?}");
            assert!(killed.content.contains("it wrote too much"), "{killed:?}");
        }
        assert!(used < 4000 << 20, "{used}");
        let after = world.bash("echo fits > notes/small; cat notes/small").await;
        assert_eq!(after, ok("exit_code: 0\nstdout:\nfits"));
    }
}

/// SC-115: the last of the disk is not a team's to take, whatever its quota.
#[tokio::test]
async fn a_command_that_takes_the_last_of_the_disk_is_ended() {
    let world = World::new().await;
    world.sandbox.quota().set(&disk(1 << 40, 1 << 60));

    let reading = world.bash("ls > /dev/null; sleep 0.3; echo read").await;
    let writing = world.bash("head -c 8M /dev/zero > notes/large; sleep 20; echo written").await;

    assert_eq!(reading, ok("exit_code: 0\nstdout:\nread"));
    assert!(writing.content.contains("the disk is nearly full"), "{writing:?}");
}

fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).unwrap().flatten();
    files.map(|file| file.metadata().unwrap().len()).sum()
}
