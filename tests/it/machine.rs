//! The service and its machine, from outside: what it reads when asked, where it connects to.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::service::{Service, http, until};

/// OP-76: a deep look reads the whole store, also while the service has it.
#[actix::test]
async fn a_deep_look_beside_a_running_service_reads_every_record() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    client.ask("hello").await;

    let looked = service.run(&["doctor", "--deep"], "").await;
    let plain = service.run(&["doctor"], "").await;
    let body = json!({"store": true});
    let (status, told) = service.api("POST", "/api/v1/doctor", Some(body)).await;

    let line = looked.stdout.lines().find(|line| line.contains("store  "));
    let line = line.unwrap_or_else(|| panic!("{looked:?}"));
    assert!(line.contains("records are readable"), "{line}");
    assert!(plain.stdout.contains("is in use by the running service"));
    assert_eq!(status, 200, "{told}");
    assert!(told.to_string().contains("records are readable"), "{told}");
    assert!(looked.stdout.contains("control group: "), "{looked:?}");
}

/// Waits until it is ready where it says that it listens.
async fn served(service: &Service) {
    until("it is ready", async || {
        let told = fs::read_to_string(service.path("run/service.json")).unwrap_or_default();
        let told: Value = serde_json::from_str(&told).unwrap_or_default();
        let Some(url) = told["url"].as_str() else { return false };
        let answer = http().get(format!("{url}/readyz")).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

/// A program with its tracer; neither outlives the test.
struct Traced(Child);

impl Drop for Traced {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        // It has ended by itself if the test went well.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// SC-81: nothing leaves the machine but what a turn sends: a service that only its demo answers connects to
/// nobody, not even to ask for a name.
#[actix::test]
async fn the_service_connects_to_nobody_by_itself() {
    let traced = Command::new("strace").arg("-V").output();
    if !traced.is_ok_and(|traced| traced.status.success()) {
        eprintln!("SKIPPED: `strace` is not installed");
        return;
    }
    let service = Service::prepare();
    let trace = service.path("trace");
    let tracer = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&trace)
        .args(["-e", "trace=connect,sendto,sendmsg,sendmmsg"])
        .arg(env!("CARGO_BIN_EXE_hivewright"))
        .arg("--home")
        .arg(service.home())
        .args(["serve", "--port", "0"])
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("OPENAI_API_KEY")
        .stdout(Stdio::null())
        .stderr(fs::File::create(service.path("log")).unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut tracer = Traced(tracer);
    served(&service).await;
    let mut client = service.connect().await;
    client.ask("hello").await;
    client.ask("create team scouts: looks around").await;
    service.run(&["status"], "").await;
    // Whatever is done now and then by itself, such as looking for something new.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let told = fs::read_to_string(service.path("run/service.json")).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let ended = Command::new("kill").args(["-9", &told["pid"].to_string()]).status();
    assert!(ended.unwrap().success());
    tracer.0.wait().unwrap();

    let text = fs::read_to_string(&trace).unwrap();
    assert!(text.contains("killed by SIGKILL"), "{text}");
    let foreign: Vec<_> = text
        .lines()
        .filter(|line| line.contains("sin_addr") || line.contains("sin6_addr"))
        .filter(|line| !line.contains("\"127.0.0.1\"") && !line.contains("\"::1\""))
        .collect();
    assert_eq!(foreign, Vec::<&str>::new());
}
