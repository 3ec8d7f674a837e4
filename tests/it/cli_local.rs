//! Commands beside a service whose address is not for them: behind a proxy, with TLS, of another user.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Child, Stdio},
};

use crate::{
    service::{Done, Service, until},
    settings_files::certified,
};

/// The program, running; killed with the test.
struct Running(Child);

impl Running {
    fn start(service: &Service) -> Self {
        let mut command = service.command(&["serve", "--port", "0"]);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Asks until the service answers.
async fn status(service: &Service) -> Done {
    let status = async || service.run(&["status"], "").await;
    until("it answers", async || status().await.code == Some(0)).await;
    status().await
}

/// Every way of a command to the service works: a question, a stream, a WebSocket, the doctor.
async fn all_is_reached(service: &Service, shown: &str) {
    let status = status(service).await;
    let sent = service.run(&["send", "#reply Hello there."], "").await;
    let link = service.run(&["token", "link"], "").await;
    let doctor = service.run(&["doctor"], "").await;

    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.stdout.contains(shown), "{status:?}");
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Hello there.\n"), "{sent:?}");
    assert!(link.stdout.starts_with(shown), "{link:?}");
    assert!(doctor.stdout.contains("runs and is ready"), "{doctor:?}");
    assert!(!doctor.stdout.contains("stop it"), "{doctor:?}");
}

/// OP-77: also after a process was killed and left its socket behind.
#[actix::test]
async fn commands_reach_a_service_behind_a_proxy() {
    let config = "server: {public_url: 'https://hive.example.org'}\n";
    let service = Service::prepare().with_file("data/config/config.yaml", config);

    let first = Running::start(&service);
    all_is_reached(&service, "https://hive.example.org").await;
    let mode = fs::metadata(service.path("run/control.sock")).unwrap();
    drop(first);
    let left_behind = service.path("run/control.sock").exists();
    let stopped = service.run(&["status"], "").await;
    let _second = Running::start(&service);
    all_is_reached(&service, "https://hive.example.org").await;

    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    assert!(left_behind);
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
}

/// CH-30, OP-77: who comes through the socket is on this machine, whatever their token.
#[actix::test]
async fn a_token_with_fewer_rights_chats_through_the_socket() {
    let service = Service::start().await;
    let made = service.run(&["token", "create", "guest", "--scope", "chat"], "").await;
    service.write("guest-token", &made.stdout);
    let file = service.path("guest-token");

    let sent =
        service.run(&["send", "#reply Hello.", "--token-file", file.to_str().unwrap()], "").await;

    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Hello.\n"), "{sent:?}");
}

/// OP-86: whoever is told to stop the service has a command for it.
#[actix::test]
async fn a_service_is_stopped_by_a_command() {
    let service = Service::prepare();
    let _running = Running::start(&service);
    status(&service).await;

    let stopped = service.run(&["stop"], "").await;
    let again = service.run(&["stop"], "").await;

    assert_eq!((stopped.code, again.code), (Some(0), Some(7)), "{stopped:?} {again:?}");
}

/// OP-77: services on other machines have names, and commands are for the one in use.
#[actix::test]
async fn commands_are_for_the_service_that_is_in_use() {
    let (here, there) = (Service::prepare(), Service::start().await);
    let url = there.url();
    let token = there.path("data/secrets/operator-token");
    let way = ["--url", &url, "--token-file", token.to_str().unwrap()];

    let added = here.run(&[&["context", "add", "office"], &way[..]].concat(), "").await;
    let before = here.run(&["status"], "").await;
    let named = here.run(&["status", "--context", "office"], "").await;
    let used = here.run(&["context", "use", "office"], "").await;
    let sent = here.run(&["send", "#reply Hello there."], "").await;
    let local = here.run(&["status", "--context", "local"], "").await;
    let unknown = here.run(&["status", "--context", "home"], "").await;
    let listed = here.run(&["context", "list"], "").await;

    assert_eq!((added.code, used.code), (Some(0), Some(0)), "{added:?} {used:?}");
    assert_eq!((before.code, named.code), (Some(7), Some(0)), "{before:?} {named:?}");
    assert_eq!((sent.code, sent.stdout.as_str()), (Some(0), "Hello there.\n"), "{sent:?}");
    assert_eq!((local.code, unknown.code), (Some(7), Some(5)), "{local:?} {unknown:?}");
    assert!(listed.stdout.contains("office  yes     http://127.0.0.1:"), "{listed:?}");
}

/// SC-05: whoever mistypes an address does not hand their own service over.
#[actix::test]
async fn the_token_of_the_home_goes_to_no_other_host() {
    let service = Service::prepare()
        .with_file("data/secrets/operator-token", &format!("hwo_{}", "a".repeat(43)));

    let elsewhere = service.run(&["status", "--url", "https://hive.invalid"], "").await;
    let token = service.path("data/secrets/operator-token");
    let way = ["status", "--url", "https://hive.invalid", "--token-file", token.to_str().unwrap()];
    let named = service.run(&way, "").await;

    assert_eq!((elsewhere.code, named.code), (Some(4), Some(7)), "{elsewhere:?} {named:?}");
    assert!(elsewhere.stderr.contains("`--token-file`"), "{elsewhere:?}");
}

/// OP-17, OP-77
#[actix::test]
async fn commands_reach_a_service_with_a_certificate_of_its_own() {
    let config = "server: {tls: {cert: tls/cert.pem, key: tls/key.pem}}\n";
    let service = Service::prepare().with_file("data/config/config.yaml", config);
    fs::create_dir_all(service.path("data/tls")).unwrap();
    certified(&service);

    let _running = Running::start(&service);

    all_is_reached(&service, "https://127.0.0.1:").await;
    // As from another machine: with the certificate, and not without.
    let notice = fs::read(service.path("run/service.json")).unwrap();
    let notice: serde_json::Value = serde_json::from_slice(&notice).unwrap();
    let (url, authority) = (notice["url"].as_str().unwrap(), service.path("data/tls/cert.pem"));
    let far = ["status", "--url", url];
    let unknown = service.run(&far, "").await;
    let authority = ["--cacert", authority.to_str().unwrap()];
    let known = service.run(&[&far[..], &authority].concat(), "").await;
    assert_eq!((unknown.code, known.code), (Some(7), Some(0)), "{unknown:?} {known:?}");
    assert!(unknown.stderr.contains("is not accepted (invalid peer certificate"), "{unknown:?}");
}

/// OP-85: whose folder it is can be told; whether somebody runs there cannot.
#[actix::test]
async fn a_folder_of_another_user_is_not_taken_for_a_service_that_is_stopped() {
    let service = Service::start().await;
    let run = service.path("run");
    let program = service.path("hivewright");
    fs::copy(env!("CARGO_BIN_EXE_hivewright"), &program).unwrap();
    for folder in [service.home(), &program] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Root may look into every folder, so that somebody else has to ask.
    let is_root = rustix::process::geteuid().is_root();
    let mode = if is_root { 0o700 } else { 0o000 };
    fs::set_permissions(&run, fs::Permissions::from_mode(mode)).unwrap();
    let ask = |command: &str| {
        let mut asked = std::process::Command::new(&program);
        asked.arg("--home").arg(service.home()).arg(command);
        if is_root {
            std::os::unix::process::CommandExt::uid(&mut asked, 65_534);
        }
        asked.output().unwrap()
    };

    let [status, send] = [ask("status"), ask("doctor")];
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).unwrap();

    let said = String::from_utf8_lossy(&status.stderr);
    assert_eq!(status.status.code(), Some(4), "{said}");
    assert!(said.contains("is not yours"), "{said}");
    assert!(!said.contains("not running"), "{said}");
    let said = String::from_utf8_lossy(&send.stdout);
    assert!(said.contains("is not yours"), "{said}");
}
