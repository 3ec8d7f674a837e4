//! What the documents tell people to type, typed: every shell line of README and docs, and the settings of the proxy.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    service::{Service, until},
    settings_files::certified,
    webdriver::is_quick,
};

/// What is not typed here, and why.
const LEFT_OUT: [(&str, &str); 20] = [
    ("./tests/run", "this is it"),
    ("cargo test", "this is it"),
    ("cargo build", "it was built"),
    ("cargo run --release\n", "a service runs"),
    ("hivewright\n", "a service runs"),
    ("cargo install cargo-mutants", "takes hours"),
    ("cargo mutants", "takes hours"),
    ("install -", "changes the machine"),
    ("useradd", "changes the machine"),
    ("printf 'ANTHROPIC_API_KEY", "changes the machine"),
    ("systemctl", "needs systemd; `systemd.rs` shows what it is told"),
    ("podman", "needs a container engine"),
    ("hivewright init --discord", "needs a bot; `discord/first_steps.rs` has one"),
    ("hivewright import openhive", "needs an OpenHive; `import.rs` has one"),
    ("hivewright plugin install --mcp", "needs a server; `plugin_packages.rs` has three"),
    ("curl http://127.0.0.1:8080/hooks/channels", "`plugin_channels.rs` rings"),
    ("hivewright history import", "with the service stopped"),
    ("hivewright restore", "with the service stopped"),
    ("hivewright config edit", "`cli_config.rs` has an editor"),
    ("hivewright engine login", "needs a provider; `waiting.rs` has one"),
];

/// Lines that go on until they are stopped.
const STREAMS: [&str; 6] = [
    "hivewright status --watch",
    "hivewright tasks watch",
    "hivewright logs --follow",
    "hivewright history tail",
    "hivewright approvals watch",
    "hivewright events",
];

/// Lines about something that only stands for another: it is looked for, and not there.
const STANDS_FOR: [&str; 4] =
    ["kxqzvt", "mem-61c8864680b583eb", "research lookup", "memory review deploy/host"];

/// What has to be typed before a line, for what it is about to be there.
const BEFORE: [(&str, &str); 3] = [
    ("hivewright teams create research", "hivewright teams shutdown research"),
    ("hivewright identity link", "hivewright token create alice --scope approve"),
    ("hivewright plugin uninstall weather --purge", "hivewright plugin install ./weather"),
];

/// What is typed behind a line, for the next ones to find what they are about.
const AFTER: [(&str, &str); 2] = [
    ("hivewright teams shutdown research", "hivewright teams create research --scope web"),
    ("hivewright teams pause research", "hivewright teams resume research"),
];

/// All Markdown files for people.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.join("docs"), root.join("docs/operating")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    files.push(root.join("README.md"));
    files.sort();
    files
}

/// The blocks of a kind in a document, without what they are indented by.
fn blocks(path: &Path, kind: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for line in text.lines() {
        let fence = line.trim_start();
        match &mut open {
            Some(_) if fence.starts_with("```") => {
                blocks.extend(open.take().map(|(_, block)| block));
            }
            Some((indent, block)) => *block += &format!("{}\n", line.get(*indent..).unwrap_or("")),
            None if fence == format!("```{kind}") => {
                open = Some((line.len() - fence.len(), String::new()));
            }
            None => {}
        }
    }
    blocks
}

/// Files of plugins that the documents show, each with its path on the first line.
pub(crate) fn shown_files() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/plugins.md");
    let blocks = ["toml", "js"].into_iter().flat_map(|kind| blocks(&path, kind));
    let files = blocks.filter_map(|block| {
        let (first, text) = block.split_once('\n')?;
        let (_, name) = first.split_once(' ')?;
        let is_file = name.contains('/') && !name.contains(' ');
        is_file.then(|| (name.to_owned(), text.to_owned()))
    });
    files.collect()
}

/// The commands of the documents, one after the other, without the remarks behind them.
fn commands() -> Vec<String> {
    let blocks = documents().into_iter().flat_map(|path| blocks(&path, "sh"));
    let lines = blocks.flat_map(|block| {
        let block = block.replace("\\\n", "");
        block.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let lines = lines.map(|line| line.split("  #").next().unwrap().trim_end().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// A folder with what a person has: the program for a home, and other programs that lines name.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new(service: &Service) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        let program = env!("CARGO_BIN_EXE_hivewright");
        // Where a person would be asked, they agree.
        let own = format!("exec '{program}' --home '{}' --yes \"$@\"", service.home().display());
        let programs = [
            ("hivewright", own.as_str()),
            ("pass", "echo s3cret-of-the-forge"),
            ("jq", "cat"),
            ("git", "echo a change"),
        ];
        for (name, does) in programs {
            let path = desk.folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{does}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(desk.folder.path().join("settings.json"), "{}").unwrap();
        fs::write(desk.folder.path().join("secret.txt"), "a-secret-of-24-characters\n").unwrap();
        for (path, text) in shown_files() {
            let path = desk.folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        desk
    }

    async fn type_line(&self, line: &str) -> (Option<i32>, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let line = line.replace("cargo run --release --", "hivewright");
        let mut bash = tokio::process::Command::new("bash");
        bash.args(["-o", "pipefail", "-c", &line])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("OPENAI_API_KEY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = bash.spawn().unwrap();
        // A value, a message, an answer: whatever the line reads.
        let mut input = child.stdin.take().unwrap();
        let _unread =
            tokio::io::AsyncWriteExt::write_all(&mut input, b"a-value-of-some-length\n").await;
        drop(input);
        let output = child.wait_with_output().await.unwrap();
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), said.concat())
    }
}

/// What has to be typed for a line, if the table has it.
fn beside(table: &[(&str, &'static str)], line: &str) -> Option<&'static str> {
    table.iter().find(|(begins, _)| line.starts_with(begins)).map(|(_, other)| *other)
}

/// OP-96: whatever a document tells a newcomer to type works as it stands there.
#[actix::test]
async fn every_shell_line_of_the_documents_works() {
    let service = Service::start().await;
    let desk = Desk::new(&service);
    desk.type_line("hivewright init").await;
    for team in ["research", "ops", "billing", "web-shop", "news", "ci"] {
        service.make_team(team, "works").await;
    }
    let lines = commands();
    let is_left = |line: &str| {
        let line = format!("{line}\n");
        LEFT_OUT.iter().any(|(begins, _)| line.starts_with(begins))
    };
    let is_stream = |line: &&String| STREAMS.iter().any(|begins| line.starts_with(begins));
    let mut faults = Vec::new();

    let streams = lines.iter().filter(is_stream).map(|line| {
        let desk = &desk;
        async move { (line, desk.type_line(&format!("timeout --signal=INT 2 {line}")).await) }
    });
    for (line, (code, said)) in futures_util::future::join_all(streams).await {
        // It was stopped, and had not ended by itself.
        if code != Some(124) {
            faults.push(format!("{line}: {code:?} {said}"));
        }
    }
    let others = lines.iter().filter(|line| !is_left(line) && !is_stream(line));
    let others: Vec<_> = others.collect();
    for line in &others {
        if let Some(before) = beside(&BEFORE, line) {
            desk.type_line(before).await;
        }
        let (code, said) = desk.type_line(line).await;
        let expected = if STANDS_FOR.iter().any(|id| line.contains(id)) { 5 } else { 0 };
        if code != Some(expected) {
            faults.push(format!("{line}: {code:?} {said}"));
        }
        if let Some(after) = beside(&AFTER, line) {
            let (code, said) = desk.type_line(after).await;
            assert_eq!(code, Some(0), "{after}: {said}");
        }
    }

    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(others.len() > 60, "{}", others.len());
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// OP-17: the settings of the reverse proxy, as they stand there but for names of this machine, with the real nginx:
/// a question, a conversation and a stream of events come through.
#[actix::test]
async fn the_settings_of_the_reverse_proxy_work() {
    if !Path::new("/usr/sbin/nginx").exists() {
        assert!(
            is_quick(),
            "nginx is missing: `./tests/run` installs it (HIVEWRIGHT_TESTS=quick does without)"
        );
        return;
    }
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/install.md");
    let [proxy] = &blocks(&install, "nginx")[..] else { panic!("one block of nginx") };
    let [settings] = &blocks(&install, "yaml")[..] else { panic!("one block of settings") };
    let (port, behind) = (free_port(), free_port());
    let name = format!("localhost:{port}");
    let settings = settings.replace("hive.example.org", &name);
    let service = Service::prepare().with_file("data/config/config.yaml", &settings);
    fs::create_dir_all(service.path("data/tls")).unwrap();
    certified(&service);
    let mut serve = service.command(&["serve", "--port", &behind.to_string()]);
    let _running = Running(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("it listens", async || service.run(&["status"], "").await.code == Some(0)).await;
    let tls = service.path("data/tls");
    let own = [
        ("http://127.0.0.1:8080".to_owned(), format!("http://127.0.0.1:{behind}")),
        ("listen 443 ssl;".to_owned(), format!("listen 127.0.0.1:{port} ssl;")),
        (
            "/etc/letsencrypt/live/hive.example.org/fullchain.pem".to_owned(),
            tls.join("cert.pem").display().to_string(),
        ),
        (
            "/etc/letsencrypt/live/hive.example.org/privkey.pem".to_owned(),
            tls.join("key.pem").display().to_string(),
        ),
        ("hive.example.org".to_owned(), "localhost".to_owned()),
    ];
    let proxy = own.iter().fold(proxy.clone(), |text, (there, here)| {
        assert!(text.contains(there), "{there}: {text}");
        text.replace(there, here)
    });
    let folder = tempfile::tempdir().unwrap();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", folder.path().display()))
        .concat();
    let file = format!(
        "daemon off; master_process off; pid {0}/pid; error_log {0}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{proxy}}}\n",
        folder.path().display()
    );
    fs::write(folder.path().join("nginx.conf"), file).unwrap();
    let nginx = Command::new("/usr/sbin/nginx")
        .arg("-e")
        .arg(folder.path().join("error.log"))
        .arg("-c")
        .arg(folder.path().join("nginx.conf"))
        .spawn();
    let _nginx = Running(nginx.unwrap());
    let far = format!("https://{name}");
    let authority = tls.join("cert.pem");
    let far = ["--url", &far, "--cacert", authority.to_str().unwrap()];
    let run = async |words: &[&str]| service.run(&[words, &far].concat(), "").await;

    until("nginx answers", async || run(&["status"]).await.code == Some(0)).await;
    let sent = run(&["send", "#reply Through."]).await;
    let mut events =
        crate::cli_follow::Following::start(&service, &[&["events", "--json"], &far[..]].concat());
    events.line().await;

    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Through.\n"), "{sent:?}");
}

/// A port that is free; another process could take it before it is used, which has not been seen.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
