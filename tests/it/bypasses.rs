//! Bypasses: commands that try to get out gain nothing beyond the sandbox, and a rule for commands sees
//! exactly what the shell runs.

use std::{
    collections::BTreeMap,
    fs,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{DirBuilderExt, MetadataExt},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use hivewright_actors::policy::{
    command,
    resource::{Mode, Resource, Touch},
};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::commands::COMMANDS;
use crate::{
    canaries::forms,
    kill_switch::processes,
    sandbox::{World, worlds},
};

mod commands;

const OF_STORE: &str = "canary-store-9a41d7f03be6c852";
const OF_TEAM: &str = "canary-beta-b70e5c29f1a8463d";

/// Everything below a folder, but for one of its folders: kind, mode and content.
fn picture(folder: &Path, but: &Path, into: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    for entry in entries {
        let path = entry.path();
        let kind = fs::symlink_metadata(&path).unwrap();
        let content = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        // The folder itself is its team's, with its mode.
        let mode = if path == but { 0 } else { kind.mode() };
        into.insert(path.clone(), (mode, content));
        if kind.is_dir() && path != but {
            picture(&path, but, into);
        }
    }
}

/// Somebody to be called: in vain.
struct Ears {
    tcp: TcpListener,
    udp: UdpSocket,
    named: UnixListener,
    abstracted: UnixListener,
}

impl Ears {
    fn open(folder: &Path) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let name = SocketAddr::from_abstract_name(format!("hw-{port}")).unwrap();
        let ears = Self {
            udp: UdpSocket::bind(("127.0.0.1", port)).unwrap(),
            named: UnixListener::bind(folder.join("socket")).unwrap(),
            abstracted: UnixListener::bind_addr(&name).unwrap(),
            tcp,
        };
        ears.tcp.set_nonblocking(true).unwrap();
        ears.udp.set_nonblocking(true).unwrap();
        ears.named.set_nonblocking(true).unwrap();
        ears.abstracted.set_nonblocking(true).unwrap();
        ears
    }

    fn port(&self) -> u16 {
        self.tcp.local_addr().unwrap().port()
    }

    fn heard(&self) -> [bool; 4] {
        [
            self.tcp.accept().is_ok(),
            self.udp.recv(&mut [0; 8]).is_ok(),
            self.named.accept().is_ok(),
            self.abstracted.accept().is_ok(),
        ]
    }
}

/// Another process of the same user.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What was gained by every command in one world.
async fn attack(world: &World) -> Vec<String> {
    let outside = world.path("outside");
    fs::DirBuilder::new().mode(0o700).create(&outside).unwrap();
    fs::write(world.path("store/canary"), OF_STORE).unwrap();
    fs::write(world.path("teams/beta/canary"), OF_TEAM).unwrap();
    let ears = Ears::open(&outside);
    let mut victim = Victim(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap());
    let places = [
        ("{store}", world.path("store/canary").display().to_string()),
        ("{beta}", world.path("teams/beta/canary").display().to_string()),
        ("{out}", outside.display().to_string()),
        ("{port}", ears.port().to_string()),
        ("{pid}", std::process::id().to_string()),
        ("{victim}", victim.0.id().to_string()),
    ];
    let workspace = world.path("teams/alpha");
    let seen = || {
        let mut seen = BTreeMap::new();
        // What a call leaves in its own folder of the scratch place is removed beside the next one.
        picture(&world.path("store"), &workspace, &mut seen);
        picture(&world.path("teams"), &workspace, &mut seen);
        picture(&world.path("shared"), &workspace, &mut seen);
        picture(&outside, &workspace, &mut seen);
        for governed in ["config.yaml", "plugins/tool.js"] {
            let path = workspace.join(governed);
            seen.insert(path.clone(), (0, fs::read(path).unwrap()));
        }
        seen
    };
    let mut before = seen();
    let secrets: Vec<_> = [OF_STORE, OF_TEAM].into_iter().flat_map(forms).collect();
    let secrets = aho_corasick::AhoCorasick::new(secrets).unwrap();
    let mut gained = Vec::new();
    for command in COMMANDS {
        let mut said = (*command).to_owned();
        for (name, place) in &places {
            said = said.replace(name, place);
        }
        let args = json!({ "command": said, "timeout": 3_000 });
        let reply = world.call(args, CancellationToken::new()).await;
        let mut gain = |what: &str| gained.push(format!("{command}: {what}: {reply:?}"));
        if secrets.is_match(&reply.content) {
            gain("a secret");
        }
        let after = seen();
        if after != before {
            gain("a change outside");
            before = after;
        }
        if ears.heard().contains(&true) {
            gain("a connection");
        }
        if !matches!(victim.0.try_wait(), Ok(None)) {
            gain("the end of another process");
        }
        if processes(&format!("977{}", victim.0.id())) > 0 {
            gain("a process that stays");
        }
    }
    gained
}

/// SC-06, SC-45, SC-50 to SC-53, SC-58, TO-63 to TO-68: whatever a command says, in both forms of the
/// sandbox.
#[tokio::test]
async fn no_command_gains_anything_beyond_the_sandbox() {
    let [first, second] = worlds().await;

    let (with, without) = tokio::join!(attack(&first), attack(&second));

    assert!(COMMANDS.len() >= 100, "{}", COMMANDS.len());
    assert_eq!(with, Vec::<String>::new());
    assert_eq!(without, Vec::<String>::new());
}

/// SC-06, PL-73: of all these, rules see through those alone that are one simple command, without a
/// shell's work in them. What such a program then does is the sandbox's business.
#[test]
fn a_rule_sees_no_second_command() {
    let plain = |command: &&str| {
        let mut said = (*command).to_owned();
        for name in ["{store}", "{beta}", "{out}", "{port}", "{pid}", "{victim}"] {
            said = said.replace(name, "p");
        }
        command::words(&said).map(|_| said)
    };

    let seen: Vec<_> = COMMANDS.iter().filter_map(plain).collect();

    let simple = [
        "c'a't p",
        "c\"\"at p",
        "find p -delete",
        "awk 'BEGIN { system(\"cat p\") }'",
        "awk '{ print }' p",
        "sed -n p p",
        "sed '1e cat p' /etc/passwd",
        "perl -e 'open F, \"p\"; print <F>'",
        "perl -e 'exec \"cat\", \"p\"'",
        "python3 -c 'print(open(\"p\").read())'",
        "python3 -c 'import os; os.system(\"cat p\")'",
        "mv p notes/stolen",
        "cat /proc/self/rootp",
        "cat /proc/self/cwd/../../store/canary",
        "cat /proc/1/rootp",
        "cat /proc/p/rootp /proc/p/cwd/x /proc/p/environ /proc/p/mem",
        "cat p",
        "cat ../beta/canary",
        "rm -rf ../beta p",
        "pivot_root . notes",
        "python3 -c 'import ctypes; print(ctypes.CDLL(None).process_vm_readv(p, 0, 0, 0, 0, 0))'",
        "python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall(304, -100, 0, 0), l.syscall(425, 1, 0))'",
        "python3 -c 'import ctypes; print(ctypes.CDLL(None).syscall(165, b\"none\", b\"/tmp\", b\"tmpfs\", 0, 0))'",
        "python3 -c 'import os\nfor i in range(3):\n  if os.fork() == 0: os.setsid(); os.execvp(\"sleep\", [\"sleep\", \"977p\"])'",
        "curl -m 2 --unix-socket p/socket http://x/",
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", p), 2).send(b\"x\")'",
        "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b\"x\", (\"127.0.0.1\", p))'",
        "python3 -c 'import socket; socket.create_connection((\"::1\", p), 2)'",
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"\\0hw-p\"); s.send(b\"x\")'",
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"p/socket\"); s.send(b\"x\")'",
        "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); print(open(\"p\").read())'",
        "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:p\")->print(\"x\")'",
    ];
    assert_eq!(seen, simple);
}

/// A folder with the programs that there are: each writes down what it was given.
fn programs(folder: &Path) -> PathBuf {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    let script = format!(
        "#!/bin/bash\nexec >> {}/ran\nprintf '%s\\0' \"${{0##*/}}\" \"$@\"\nprintf '\\036'\n",
        folder.display()
    );
    for name in ["probe", "second", "a", "x1"] {
        let path = bin.join(name);
        fs::write(&path, &script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
    }
    bin
}

/// Pieces of commands: what shells give a meaning to, and what they don't.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "probe",
        "second",
        "a",
        "x1",
        " ",
        " ",
        " ",
        "  ",
        "\t",
        "\n",
        ";",
        "&",
        "&&",
        "|",
        "||",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "$",
        "$(",
        "`",
        "\\",
        "'",
        "'",
        "\"",
        "\"",
        "#",
        "~",
        "*",
        "?",
        "[",
        "]",
        "!",
        "=",
        "A=1",
        "-v",
        "-c",
        "-exec",
        "+",
        ",",
        "..",
        "/",
        "./",
        "%",
        "@",
        ":",
        "_",
        "é",
        "\u{a0}",
        "\r",
        "\u{b}",
        "\u{200b}",
        "env ",
        "test ",
        "printf ",
        "eval ",
        "command ",
        "exec ",
        "trap ",
        "coproc ",
        "'a[$(second)]'",
        "'second'",
        "\"second\"",
        "if ",
        "time ",
        "then ",
    ])
}

/// SC-06, PL-73: for whatever a rule can see, a real shell runs one program, with exactly the words that
/// the rule saw. The shell is the judge.
#[test]
fn what_a_rule_sees_is_what_the_shell_runs() {
    let folder = tempfile::tempdir().unwrap();
    let bin = programs(folder.path());
    let ran = folder.path().join("ran");
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        max_global_rejects: 1_000_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let command = prop::collection::vec(piece(), 0..9).prop_map(|pieces| {
        let rest: String = pieces.concat();
        format!("probe {rest}")
    });
    let free = prop::collection::vec(piece(), 1..7).prop_map(|pieces| pieces.concat());
    let command = prop_oneof![2 => command, 1 => free];

    let result = runner.run(&command, |text| {
        let Some(words) = command::words(&text) else {
            return Err(TestCaseError::reject("more than one simple command"));
        };
        let _ = fs::remove_file(&ran);
        Command::new("/bin/bash")
            .args(["-c", &text])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", &bin)
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let log = fs::read_to_string(&ran).unwrap_or_default();
        let seen: Vec<Vec<&str>> = log
            .split_terminator('\u{1e}')
            .map(|line| line.split_terminator('\0').collect())
            .collect();
        let name = words[0].rsplit('/').next().unwrap_or_default().to_owned();
        let known = ["probe", "second", "a", "x1"].contains(&words[0].as_str());
        if known {
            prop_assert_eq!(seen, vec![words], "{:?}", text);
        } else {
            // A path, a word of the shell, or nothing at all: nobody else ran.
            let others: Vec<_> = seen.iter().filter(|ran| ran[0] != name).collect();
            prop_assert!(others.is_empty(), "{:?} ran {:?}", text, others);
        }
        Ok(())
    });

    result.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// SC-06, PL-73: a rule that allows fits only what has all of its words, whatever stands in between;
    /// and what cannot be seen through fits every rule that forbids.
    #[test]
    fn a_rule_fits_its_words_or_fears_them(text in "\\PC{0,40}", more in prop::collection::vec(piece(), 0..6)) {
        let text = format!("git push {text}{}", more.concat());
        let fits = |rule: &str, permits| {
            let rule = rule.parse::<Resource>().unwrap();
            rule.fits(&Touch::Command(text.clone()), Mode::Both, permits)
        };

        match command::words(&text) {
            Some(words) => {
                let two = words.len() == 2 && words[1] == "push";
                prop_assert_eq!(fits("exec:git push", true), two);
                prop_assert!(!fits("exec:rm *", true));
            }
            None => {
                prop_assert!(!fits("exec:git push", true) && !fits("exec:git push *", true));
                prop_assert!(fits("exec:rm", false));
            }
        }
    }
}
