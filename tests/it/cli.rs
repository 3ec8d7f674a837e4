//! The command line without a service: help, first files, doctor, what is said when nothing runs.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

/// A user with an empty home.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, inner: &str) -> std::path::PathBuf {
        self.0.path().join(".hivewright").join(inner)
    }

    /// Has the run dir, as a running service does.
    fn lock(&self) -> fs::File {
        lock(&self.path("run"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        command(self.0.path(), arguments)
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::new(self.command(arguments).output().unwrap())
    }
}

/// The program with a home and nothing else from this environment.
pub(crate) fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivewright"));
    command.args(arguments).env_clear().env("HOME", home);
    command
}

/// Has a run dir, as a running service does.
pub(crate) fn lock(run: &Path) -> fs::File {
    let file = fs::File::create(run.join("lock")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    file
}

/// What a command said, and what it ended with.
#[derive(Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// OP-87
#[test]
fn help_is_for_everything_and_needs_nothing() {
    let user = User::new();

    let general = user.run(&["--help"]);
    let of_restore = user.run(&["restore", "--help"]);

    assert_eq!((general.code, general.err.as_str()), (Some(0), ""));
    for name in [
        "serve",
        "init",
        "doctor",
        "status",
        "send",
        "chat",
        "token",
        "backup",
        "restore",
        "--home",
        "--json",
        "Examples:",
    ] {
        assert!(general.out.contains(name), "{name}: {}", general.out);
    }
    assert!(of_restore.out.contains("hivewright restore --newest"));
    assert!(!user.path("").exists());
}

/// OP-85, OP-87
#[test]
fn a_mistyped_command_or_flag_gets_a_suggestion() {
    let user = User::new();

    let command = user.run(&["docter"]);
    let flag = user.run(&["status", "--jsn"]);

    assert_eq!((command.code, flag.code), (Some(2), Some(2)));
    assert!(command.err.contains("'doctor'"), "{}", command.err);
    assert!(flag.err.contains("'--json'"), "{}", flag.err);
}

/// OP-75
#[test]
fn init_writes_the_first_files_and_never_overwrites() {
    let user = User::new();
    let providers = user.path("data/config/providers.yaml");

    let first = user.run(&["init", "--provider", "openai"]);
    fs::write(&providers, "# mine\n").unwrap();
    let second = user.run(&["init", "--provider", "anthropic"]);

    assert_eq!((first.code, second.code), (Some(0), Some(0)));
    let written = [
        "data/config/config.yaml",
        "data/config/providers.yaml",
        "data/config/channels.yaml",
        "run/teams/main/config.yaml",
    ];
    let expected: String =
        written.iter().map(|file| format!("wrote {}\n", user.path(file).display())).collect();
    assert_eq!(first.out, expected);
    assert!(first.err.contains("OPENAI_API_KEY"), "{}", first.err);
    assert!(second.out.starts_with("nothing to write:"), "{}", second.out);
    assert!(second.err.contains("stays as it is"), "{}", second.err);
    assert_eq!(fs::read_to_string(&providers).unwrap(), "# mine\n");
}

/// OP-75, OP-84
#[test]
fn what_init_wrote_can_be_read_by_programs_and_by_the_doctor() {
    let user = User::new();

    let written = user.run(&["init", "--provider", "offline", "--json", "--quiet"]);
    let checked = user.run(&["doctor", "--json"]);

    let written: Value = serde_json::from_str(&written.out).unwrap();
    assert_eq!(written["data"]["written"].as_array().unwrap().len(), 4);
    let checked: Value = serde_json::from_str(&checked.out).unwrap();
    let found = |id: &str| {
        let findings = checked["data"].as_array().unwrap();
        findings.iter().find(|finding| finding["id"] == id).cloned()
    };
    assert_eq!(found("settings").unwrap()["state"], "ok");
    assert_eq!(found("models").unwrap()["message"], "`default` is offline demo, needs no key");
    for id in ["service", "modes", "store", "sandbox", "disk", "clock"] {
        assert!(found(id).is_some(), "{id} is missing in {checked}");
    }
}

/// OP-76, OP-85
#[test]
fn the_doctor_names_file_line_key_and_suggestion_of_every_fault() {
    let user = User::new();
    user.run(&["init"]);
    let config = user.path("data/config/config.yaml");
    let secret = user.path("data/secrets/operator-token");
    fs::write(&config, "server:\n  prot: 1\nlog:\n  level: loud\n").unwrap();
    fs::write(&secret, "x").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();

    let found = user.run(&["doctor"]);

    assert_eq!(found.code, Some(9));
    let lines: Vec<_> = found.out.lines().collect();
    let place = |line| format!("{}:{line}", config.display());
    for (line, words) in [(2, ["server.prot", "`port`"]), (4, ["log.level", "loud"])] {
        let fault = lines
            .iter()
            .find(|text| text.contains(&place(line)))
            .unwrap_or_else(|| panic!("line {line} is missing: {}", found.out));
        assert!(fault.starts_with("error"), "{fault}");
        assert!(words.iter().any(|word| fault.contains(word)), "{fault}");
    }
    assert!(found.out.contains(&format!("chmod 600 {}", secret.display())), "{}", found.out);
    assert!(!found.out.contains('\x1b'), "colours in a pipe");
}

/// OP-77, OP-85, OP-86
#[test]
fn without_a_service_the_way_to_start_it_is_named() {
    let user = User::new();
    let elsewhere = user.0.path().join("elsewhere");
    let elsewhere = elsewhere.to_str().unwrap();

    let status = user.run(&["status"]);
    let send = user.run(&["send", "hello", "--home", elsewhere]);
    let json = user.run(&["status", "--json"]);

    let expected = |command: &str| Ended {
        code: Some(7),
        out: String::new(),
        err: format!("hivewright: the service is not running; `{command}` starts it\n"),
    };
    assert_eq!(status, expected("hivewright serve"));
    assert_eq!(send, expected(&format!("hivewright --home {elsewhere} serve")));
    let error: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(error["error"]["code"], "not_reachable");
}

/// OP-85, OP-86
#[test]
fn the_notice_of_a_service_that_was_killed_is_not_trusted() {
    let user = User::new();
    user.run(&["init"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let notice = serde_json::json!({"pid": 1, "url": url}).to_string();
    fs::write(user.path("run/service.json"), notice).unwrap();
    let token = user.path("data/secrets/operator-token");
    fs::write(&token, "hwo_x\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();

    let left_behind = user.run(&["status"]);
    let tokens = user.run(&["token", "list"]);
    let knocked = listener.accept();
    drop(listener);
    let _lock = user.lock();
    let silent = user.run(&["status"]);

    let expected = |what: &str| Ended {
        code: Some(7),
        out: String::new(),
        err: format!("hivewright: {what}; `hivewright serve` starts it\n"),
    };
    assert_eq!(left_behind, expected("the service is not running"));
    assert_eq!(tokens.code, Some(0));
    assert!(knocked.is_err(), "a stranger was asked");
    assert_eq!(silent, expected(&format!("no service answers at {url}/")));
}

/// OP-86: who has commands be for a service elsewhere does not mean the store of this machine.
#[test]
fn a_restore_or_import_for_a_service_elsewhere_is_refused() {
    let user = User::new();

    for words in [
        &["restore", "--newest"][..],
        &["history", "import", "--team", "main", "x.jsonl"],
        &["import", "openhive", "--data", "d", "--run", "r"],
    ] {
        let ended = user.run(&[words, &["--url", "http://a.example"]].concat());
        assert_eq!(ended.code, Some(2), "{words:?} {ended:?}");
        assert!(ended.err.contains("on its own machine"), "{words:?} {ended:?}");
    }
}

/// OP-81, OP-86
#[test]
fn a_stopped_home_is_restored_only_from_what_is_there() {
    let user = User::new();

    let backup = user.run(&["backup"]);
    let missing = user.run(&["restore", "nowhere.tar.zst"]);
    let newest = user.run(&["restore", "--newest"]);

    assert_eq!((backup.code, missing.code, newest.code), (Some(5), Some(5), Some(5)));
    assert!(missing.err.contains("`nowhere.tar.zst`"), "{}", missing.err);
    assert!(!user.path("data").exists() && !user.path("run").exists(), "made for nothing");
}

/// OP-11, OP-82, OP-86
#[test]
fn tokens_are_made_and_ended_while_the_service_is_stopped() {
    let user = User::new();

    let made = user.run(&["token", "create", "ci", "--scope", "chat,read", "--expires", "never"]);
    let again = user.run(&["token", "create", "ci", "--scope", "chat"]);
    let unknown = user.run(&["token", "create", "x", "--scope", "chatt"]);
    let nowhere = user.run(&["token", "create", "x", "--scope", "chat", "--team", "billing"]);
    let listed = user.run(&["token", "list"]);
    let rotated = user.run(&["token", "rotate-operator"]);
    let revoked = user.run(&["token", "revoke", "ci"]);
    let gone = user.run(&["token", "revoke", "ci"]);
    let link = user.run(&["token", "link"]);

    let token = made.out.trim_end();
    assert!(token.starts_with("hwt_") && token.len() == 47, "{made:?}");
    let codes =
        [&made, &again, &unknown, &listed, &rotated, &revoked, &gone, &link].map(|e| e.code);
    assert_eq!(codes, [0, 6, 2, 0, 0, 0, 5, 7].map(Some));
    let refusal = "hivewright: there is no team `billing`; there are `main`\n";
    assert_eq!((nowhere.code, nowhere.err.as_str()), (Some(2), refusal));
    let row = listed.out.lines().nth(1).unwrap();
    assert!(row.contains("ci") && row.contains("read,chat") && row.contains("never"), "{row}");
    let operator = fs::read_to_string(user.path("data/secrets/operator-token")).unwrap();
    let others = [again, unknown, listed, rotated, revoked, gone, link];
    for other in others {
        let said = format!("{}{}", other.out, other.err);
        assert!(!said.contains(token) && !said.contains(operator.trim()), "{said}");
    }
}

/// OP-81, OP-84, OP-86
#[test]
fn a_stopped_home_is_backed_up_and_restored() {
    let user = User::new();
    user.run(&["init", "--provider", "offline"]);
    let rule = user.path("data/rules/ours.md");
    fs::write(&rule, "be kind").unwrap();
    user.run(&["token", "create", "ci", "--scope", "chat"]);
    let file = user.0.path().join("copy.tar.zst");
    let file = file.to_str().unwrap();

    let regular = user.run(&["backup"]);
    let named = user.run(&["backup", file, "--json"]);
    user.run(&["token", "revoke", "ci"]);
    fs::write(&rule, "be quick").unwrap();
    let refused = user.run(&["restore", file]);
    let restored = user.run(&["restore", file, "--force"]);
    let tokens = user.run(&["token", "list", "--json"]);
    let newest = user.run(&["restore", "--newest", "--json"]);
    let healthy = user.run(&["doctor", "--deep", "--json"]);
    let other = User::new();
    let moved = other.run(&["restore", file]);

    assert_eq!(regular.code, Some(0), "{regular:?}");
    assert!(Path::new(regular.out.trim_end()).starts_with(user.path("run/backups")));
    let named: Value = serde_json::from_str(&named.out).unwrap();
    assert_eq!(named, serde_json::json!({"data": {"file": file}}));
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(refused.err.contains("--force"), "{refused:?}");
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(fs::read_to_string(&rule).unwrap(), "be kind");
    let tokens: Value = serde_json::from_str(&tokens.out).unwrap();
    assert_eq!(tokens["data"][0]["name"], "ci");
    assert_eq!(newest.code, Some(0), "{newest:?}");
    let newest: Value = serde_json::from_str(&newest.out).unwrap();
    assert_eq!(newest["data"]["from"], regular.out.trim_end());
    assert!(healthy.out.contains("records are readable"), "{healthy:?}");
    // A home in which there was nothing has nothing to keep.
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert!(!moved.err.contains("what was there before"), "{moved:?}");
    assert_eq!(fs::read_to_string(other.path("data/rules/ours.md")).unwrap(), "be kind");
    let names = ["data", "run"].map(|folder| fs::read_dir(other.path(folder)).unwrap());
    for entry in names.into_iter().flatten() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().contains(".before-"), "{name:?}");
    }
}

/// OP-86, OR-07
#[test]
fn nobody_works_on_a_store_that_is_in_use() {
    let user = User::new();
    user.run(&["init"]);
    user.run(&["token", "list"]);
    let _lock = user.lock();

    let codes = [&["token", "list"][..], &["backup"], &["restore", "--newest"]]
        .map(|arguments| user.run(arguments).code);

    assert_eq!(codes, [Some(6); 3]);
}
