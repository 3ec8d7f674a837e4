//! A process under measurement: its CPU time, its memory, its end.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Ends with the measurement.
pub(crate) struct Process(Child);

impl Process {
    /// Starts the release build of the service in a home.
    pub(crate) fn serve(home: &Path) -> Self {
        let child = Command::new(binary())
            .arg("--home")
            .arg(home)
            .args(["serve", "--port", "0"])
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("OPENAI_API_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the service starts");
        Self(child)
    }

    /// Starts this program in another role.
    pub(crate) fn role(arguments: &[&str]) -> Self {
        let this = std::env::current_exe().expect("this program");
        let child = Command::new(this)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        Self(child)
    }

    /// The first line that it prints.
    pub(crate) fn first_line(&mut self) -> String {
        use std::io::BufRead;
        let output = self.0.stdout.take().expect("a pipe");
        let mut line = String::new();
        std::io::BufReader::new(output).read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// User and system time so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("stat");
        let fields: Vec<&str> =
            stat.rsplit_once(')').expect("a name in parentheses").1.split_whitespace().collect();
        let ticks: u64 =
            fields[11..13].iter().map(|field| field.parse::<u64>().expect("ticks")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The peak counts from now on.
    pub(crate) fn forget_peak(&self) {
        let file = format!("/proc/{}/clear_refs", self.0.id());
        std::fs::write(file, "5").expect("the peak is forgotten");
    }

    /// The most resident memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("status");
        let line = status.lines().find(|line| line.starts_with(field));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes.expect("memory").parse::<u64>().expect("a number") * 1024
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The release build of the service.
pub(crate) fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_hivewright").into()
}

/// What a command prints that finds the service of a home.
pub(crate) fn command(home: &Path, arguments: &[&str]) -> serde_json::Value {
    let mut command = Command::new(binary());
    command.arg("--home").arg(home).arg("--json").args(arguments);
    let done = command.stdin(Stdio::null()).output().expect("a command");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {said}");
    let last = done.stdout.split(|byte| *byte == b'\n');
    let last = last.rev().find(|line| !line.is_empty());
    serde_json::from_slice(last.expect("a document")).expect("JSON")
}

/// Waits until the service of a home is ready, and tells its address. It has one before that: what answers while the store is
/// opened hangs up when the service takes over.
pub(crate) fn address(home: &Path, process: &Process) -> String {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        if let Ok(text) = std::fs::read_to_string(home.join("run/service.json"))
            && let Ok(address) = serde_json::from_str::<serde_json::Value>(&text)
            && address["pid"] == process.id()
        {
            let url = address["url"].as_str().expect("an address");
            if try_get(url, None, "/readyz").is_ok_and(|(status, _)| status == 200) {
                return url.to_owned();
            }
        }
        assert!(Instant::now() < deadline, "the service is not ready");
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The operator's token of a home.
pub(crate) fn token(home: &Path) -> String {
    let file = home.join("data/secrets/operator-token");
    std::fs::read_to_string(file).expect("a token").trim().to_owned()
}

/// Asks a service over a connection of its own: the status and the body of the answer.
pub(crate) fn get(address: &str, token: Option<&str>, path: &str) -> (u16, String) {
    try_get(address, token, path).expect("an answer")
}

/// The same, or an error while the service has no time for it.
pub(crate) fn try_get(
    address: &str,
    token: Option<&str>,
    path: &str,
) -> std::io::Result<(u16, String)> {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host)?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let token = token.unwrap_or_default();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, body.to_owned()))
    });
    parts.ok_or_else(|| std::io::Error::other("no whole answer"))
}

/// Has the teams of a home ask a model behind an address.
pub(crate) fn use_model(home: &Path, url: &str) {
    let profile = format!("{{provider: openai, api_url: \"{url}\", model: m}}");
    write(home, "data/config/providers.yaml", &format!("profiles:\n  default: {profile}\n"));
}

/// Writes a file below a home.
pub(crate) fn write(home: &Path, path: &str, content: &str) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, content).expect("a file");
}
