//! Settings files: what is wrong is named with its place, and costs no more than it must.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service, http, until},
};

/// OP-85, OR-10: a wrong `config.yaml` stops the start, and all problems of all files are named.
#[actix::test]
async fn a_wrong_config_file_refuses_the_start_and_names_every_problem() {
    let service = Service::prepare()
        .with_file(
            "data/config/config.yaml",
            "server:\n  prot: 8080\n  bind: somewhere\nlog:\n  level: loud\n",
        )
        .with_file("data/config/channels.yaml", "ws: {enabld: true}\n")
        .with_file("data/config/providers.yaml", "profiles:\n  default:\n    provider: antropic\n")
        .with_file("run/teams/main/config.yaml", "max_step: 3\n");

    let done = service.run(&["serve", "--port", "0"], "").await;

    assert_eq!(done.code, Some(3), "{done:?}");
    for expected in [
        "config.yaml:2:3: server.prot: ",
        "did you mean \"port\"?",
        "config.yaml:3:9: server.bind: ",
        "config.yaml:5:10: log.level: ",
        "channels.yaml:1:6: ws.enabld: ",
        "did you mean \"enabled\"?",
        "providers.yaml:3:15: profiles.default.provider: ",
        "main/config.yaml:1:1: max_step: ",
        "did you mean \"max_steps\"?",
    ] {
        assert!(done.stderr.contains(expected), "{expected} is not in:\n{}", done.stderr);
    }
    assert!(!service.path("run/service.json").exists());
}

/// OR-10: text that is no YAML.
#[actix::test]
async fn broken_yaml_is_named_with_its_line() {
    let service =
        Service::prepare().with_file("data/config/config.yaml", "server:\n  port: [80\nlog: {}\n");

    let done = service.run(&["serve", "--port", "0"], "").await;

    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.stderr.contains("config.yaml:"), "{done:?}");
    assert!(done.stderr.contains(":3:") || done.stderr.contains(":2:"), "{done:?}");
}

/// CH-30, CH-118
#[actix::test]
async fn a_wrong_channels_file_closes_the_channel_and_nothing_else() {
    let service = Service::prepare()
        .with_file("data/config/channels.yaml", "ws: {enabled: maybe}\n")
        .started()
        .await;

    let refused = Client::try_connect(&service.url(), &service.token()).await;
    let (status, overview) = service.api("GET", "/api/v1/overview", None).await;
    let doctor = service.run(&["doctor"], "").await;

    let error = refused.err().expect("no connection").to_string();
    assert!(error.contains("404"), "{error}");
    assert_eq!((status, &overview["data"]["channels"][0]["state"]), (200, &json!("off")));
    assert_eq!(doctor.code, Some(9), "{doctor:?}");
    assert!(doctor.stdout.contains("channels.yaml:1:15: ws.enabled: "), "{}", doctor.stdout);
}

/// CH-30: the file is there and does not name it.
#[actix::test]
async fn a_channels_file_without_the_websocket_leaves_it_off() {
    let service = Service::prepare()
        .with_file("data/config/channels.yaml", "topics: {max_active: 3}\n")
        .started()
        .await;

    let refused = Client::try_connect(&service.url(), &service.token()).await;

    let error = refused.err().expect("no connection").to_string();
    assert!(error.contains("404"), "{error}");
}

/// SE-113, OR-22: no profile until the file is right; from then on a fault in it changes nothing.
#[actix::test]
async fn a_wrong_providers_file_is_answered_and_its_correction_needs_no_restart() {
    let model = FakeModel::start();
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", "profiles: {default: {provider: nobody}}\n")
        .started()
        .await;
    let mut client = service.connect().await;

    let before = client.ask("tulips in the garden").await;
    let file = |tail: &str| {
        let url = model.url();
        format!(
            "profiles: {{default: {{provider: anthropic, api_url: \"{url}\", api_key: {KEY}, model: m}}}}\n{tail}"
        )
    };
    service.write("data/config/providers.yaml", &file(""));
    model.say([Reply::text("Here I am.")]);
    let after = client.ask("more tulips for the garden").await;
    service.write("data/config/providers.yaml", &file("extra: 1\n"));
    model.say([Reply::text("Still here.")]);
    let again = client.ask("even more tulips for the garden").await;

    assert_eq!([&before["type"], &before["code"]], [&json!("error"), &json!("no_provider")]);
    let text = before["error"].as_str().unwrap();
    assert!(text.starts_with("No providers configured."), "{text}");
    assert_eq!(after["content"], "Here I am.");
    // OR-22: what it ran with stays in force.
    assert_eq!(again["content"], "Still here.");
}

/// SE-13: the file of a team.
#[actix::test]
async fn a_wrong_team_file_is_an_error_that_names_file_and_field() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    client.ask("#reply Hello.").await;

    for (content, field) in [
        ("queue_mod: queue\n", "queue_mod"),
        ("max_steps: 0\n", "max_steps"),
        ("provider_profile: nobody\n", "provider_profile"),
        ("allowed_tools: [\"@nonsense\"]\n", "allowed_tools"),
        ("description: [\n", ""),
    ] {
        service.write("run/teams/main/config.yaml", content);
        let end = client.ask("#reply Hello.").await;

        assert_eq!(
            [&end["type"], &end["code"]],
            [&json!("error"), &json!("config_error")],
            "{content}"
        );
        let text = end["error"].as_str().unwrap();
        assert!(text.contains("main/config.yaml"), "{text}");
        assert!(text.contains(field), "{text}");
    }
    service.write("run/teams/main/config.yaml", "description: Corrected\n");
    assert_eq!(client.ask("#reply Hello.").await["content"], "Hello.");
}

/// OP-17, OP-94, SC-34
#[actix::test]
async fn other_machines_are_served_encrypted_or_not_at_all() {
    let service = Service::prepare();

    let open = service.run(&["serve", "--port", "0", "--bind", "0.0.0.0"], "").await;

    assert_eq!(open.code, Some(3), "{open:?}");
    assert!(open.stderr.contains("server.tls"), "{open:?}");
    assert!(open.stderr.contains("server.trusted_proxies"), "{open:?}");
}

/// Serves on all addresses of this machine. Returns the process and its port.
async fn on_all_addresses(service: &Service) -> (tokio::process::Child, String) {
    let command = service.command(&["serve", "--port", "0", "--bind", "0.0.0.0"]);
    let mut child = tokio::process::Command::from(command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut port = None;
    until("it comes up", async || {
        assert_eq!(child.try_wait().unwrap(), None, "it refuses to start");
        let text = std::fs::read_to_string(service.path("run/service.json"));
        let address: Option<Value> = text.ok().and_then(|text| serde_json::from_str(&text).ok());
        let url = address.and_then(|address| Some(address["url"].as_str()?.to_owned()));
        port = url.and_then(|url| Some(url.rsplit_once(':')?.1.to_owned()));
        port.is_some()
    })
    .await;
    (child, port.unwrap())
}

/// OP-17, OP-94, SC-33
#[actix::test]
async fn other_machines_are_served_behind_a_trusted_proxy() {
    let service = Service::prepare()
        .with_file("data/config/config.yaml", "server: {trusted_proxies: [192.0.2.0/24]}\n");
    let (mut child, port) = on_all_addresses(&service).await;

    let asked = http().get(format!("http://127.0.0.1:{port}/healthz"));
    // Whoever is no such proxy speaks for nobody.
    let answer = asked.header("X-Forwarded-Host", "evil.example").send().await;

    assert_eq!(answer.unwrap().status(), 200);
    child.kill().await.unwrap();
}

/// Puts a new certificate in place.
pub(crate) fn certified(service: &Service) -> Vec<u8> {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(service.path("data/tls/key.pem"))
        .arg("-out")
        .arg(service.path("data/tls/cert.pem"))
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
    std::fs::read(service.path("data/tls/cert.pem")).unwrap()
}

/// A client that has not been here before, and trusts one certificate alone.
fn trusting(certificate: &[u8]) -> reqwest::Client {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(certificate).unwrap()])
        .no_proxy()
        .build()
        .unwrap()
}

/// Waits until the service has this certificate.
async fn until_trusted(service: &Service, certificate: &[u8]) {
    let url = format!("{}/healthz", service.url());
    let is_trusted = async || trusting(certificate).get(&url).send().await.is_ok();
    until("it is trusted", is_trusted).await;
}

/// OP-17: by itself, and when told to; what cannot be used changes nothing.
#[actix::test]
async fn a_renewed_certificate_counts_without_a_restart() {
    let service = Service::prepare().with_file(
        "data/config/config.yaml",
        "server: {tls: {cert: tls/cert.pem, key: tls/key.pem}}\n",
    );
    std::fs::create_dir_all(service.path("data/tls")).unwrap();
    let first = certified(&service);
    let service = service.started_for(&trusting(&first)).await;
    let url = format!("{}/healthz", service.url());

    let second = certified(&service);
    until_trusted(&service, &second).await;
    let outdated = trusting(&first).get(&url).send().await;
    service.write("data/tls/cert.pem", "no certificate");
    service.until_logged("the certificate is refused").await;
    let unshaken = trusting(&second).get(&url).send().await;
    let third = certified(&service);
    service.signal("HUP");
    until_trusted(&service, &third).await;

    assert!(outdated.is_err());
    assert_eq!(unshaken.unwrap().status(), 200);
}

/// OP-17, OP-94, SC-32: on loopback, and on all addresses.
#[actix::test]
async fn tls_serves_with_a_certificate_and_says_when_it_cannot() {
    let service = Service::prepare().with_file(
        "data/config/config.yaml",
        "server: {tls: {cert: tls/cert.pem, key: tls/key.pem}}\n",
    );
    std::fs::create_dir_all(service.path("data/tls")).unwrap();
    let missing = service.run(&["serve", "--port", "0"], "").await;
    let trusting = trusting(&certified(&service));

    let (mut child, port) = on_all_addresses(&service).await;
    let everywhere = trusting.get(format!("https://127.0.0.1:{port}/healthz"));
    let everywhere = everywhere.send().await;
    child.kill().await.unwrap();
    let service = service.started_for(&trusting).await;
    let answer = trusting.get(format!("{}/healthz", service.url())).send().await;
    let plain =
        http().get(format!("{}/healthz", service.url().replacen("https", "http", 1))).send().await;

    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert!(missing.stderr.contains("cert.pem"), "{missing:?}");
    assert_eq!(everywhere.unwrap().status(), 200);
    let answer = answer.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().contains_key("strict-transport-security"));
    assert!(!plain.is_ok_and(|answer| answer.status().is_success()));
}

/// OR-90, OP-85
#[actix::test]
async fn a_second_service_of_the_same_home_is_refused_with_the_process_of_the_first() {
    let service = Service::start().await;

    let second = service.run(&["serve", "--port", "0"], "").await;

    assert_eq!(second.code, Some(6), "{second:?}");
    assert!(second.stderr.contains(&format!("process {}", service.pid())), "{second:?}");
    assert_eq!(service.connect().await.ask("#reply Here.").await["content"], "Here.");
}

/// SC-110: a store that cannot be read is left alone, and the way out is named.
#[actix::test]
async fn a_damaged_store_is_refused_kept_and_restored_from_the_newest_backup() {
    let mut service = Service::start().await;
    let mut client = service.connect().await;
    client.ask("#reply Kept in the backup.").await;
    let (channel, seen) = (client.channel.clone().unwrap(), 0);
    assert_eq!(service.run(&["backup"], "").await.code, Some(0));
    service.kill();
    let store = service.path("run/store/db");
    let damaged = vec![0x5a; 100_000];
    std::fs::write(&store, &damaged).unwrap();

    let refused = service.run(&["serve", "--port", "0"], "").await;
    let after = std::fs::read(&store).unwrap();
    let restored = service.run(&["restore", "--newest"], "").await;
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seen).await;
    let end = client.terminal().await;

    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains(" restore --newest`"), "{refused:?}");
    assert!(after == damaged, "the damaged store was changed");
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(end["content"], "Kept in the backup.");
}

/// SC-111: a backup made under load holds everything that was answered before it began.
#[actix::test]
async fn a_backup_under_load_can_be_restored() {
    let mut service = Service::start().await;
    let mut client = service.connect().await;
    for number in 0..20 {
        client.say(&format!("before{number}"), "#reply Before.").await;
    }
    for _ in 0..20 {
        client.terminal().await;
    }
    let channel = client.channel.clone().unwrap();
    let load = service.connect().await;
    let talking = actix::spawn(async move {
        let mut load = load;
        while load.try_send(json!({ "content": "#reply Load." })).await {
            if load.try_frame().await.is_err() {
                return;
            }
        }
    });
    let file = service.path("elsewhere.tar.zst");

    let backup = service.run(&["backup", file.to_str().unwrap()], "").await;
    service.kill();
    talking.abort();
    let unforced = service.run(&["restore", file.to_str().unwrap()], "").await;
    let restored = service.run(&["restore", file.to_str().unwrap(), "--force"], "").await;
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, 0).await;
    let mut ends = std::collections::BTreeSet::new();
    while ends.len() < 20 {
        let end = client.terminal().await;
        assert_eq!(end["content"], "Before.");
        ends.insert(end["message_id"].as_str().unwrap().to_owned());
    }

    assert_eq!(backup.code, Some(0), "{backup:?}");
    assert_eq!(unforced.code, Some(6), "{unforced:?}");
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert_eq!(client.ask("#reply After.").await["content"], "After.");
}

/// OR-22, OR-23: a fault is told with file and field, and a change counts without a restart or says that
/// it needs one.
#[actix::test]
async fn settings_count_while_the_service_runs() {
    let service = Service::start().await;
    let told = async |what: &str| {
        service.until("/api/v1/inbox", |inbox| inbox.to_string().contains(what)).await
    };

    service.write("data/config/config.yaml", "tasks: {turn_timeot: 5m}\n");
    told("tasks.turn_timeot").await;
    service.write("data/config/config.yaml", "store: {durability: process}\n");
    told("store.durability changed and counts only after a restart").await;
    service.write("data/config/config.yaml", "tasks: {turn_timeout: 1s}\n");
    let mut client = service.connect().await;
    let end = client.ask("#wait 60000").await;

    assert_eq!(end["code"], "deadline", "{end}");
}

/// OR-14, OR-22: what is refused of a service that runs is shown until it is cured, whichever file it is.
#[actix::test]
async fn a_refused_file_is_shown_by_status_until_it_is_cured() {
    let service = Service::start().await;
    let error_is = async |fits: &dyn Fn(&Value) -> bool| {
        service.until("/api/v1/overview", |overview| fits(&overview["settings_error"])).await;
    };

    for (file, wrong, good, field) in [
        ("config", "tasks: {turn_timeot: 5m}\n", "tasks: {}\n", "tasks.turn_timeot"),
        (
            "providers",
            "profiles: {default: {provider: nobody}}\n",
            "profiles: {default: {provider: offline}}\n",
            "profiles.default.provider",
        ),
        ("channels", "ws: {enabld: true}\n", "ws: {enabled: true}\n", "ws.enabld"),
    ] {
        let path = format!("data/config/{file}.yaml");
        service.write(&path, wrong);
        error_is(&|error| error.to_string().contains(field)).await;
        let status = service.run(&["status"], "").await;
        let line = status.stdout.lines().find(|line| line.starts_with("settings "));
        let line = line.unwrap_or_else(|| panic!("{status:?}"));
        assert!(line.contains(&format!("{file}.yaml:1:")), "{line}");
        assert!(line.contains(field), "{line}");

        service.write(&path, good);
        error_is(&Value::is_null).await;
        let status = service.run(&["status"], "").await;
        assert!(!status.stdout.contains(field), "{status:?}");
    }
}

/// OR-22: also one that was wrong when the service started.
#[actix::test]
async fn a_providers_file_that_is_wrong_at_the_start_is_shown_by_status() {
    let wrong = "profiles: {default: {provider: nobody}}\n";
    let service = Service::prepare().with_file("data/config/providers.yaml", wrong).started().await;

    let status = service.run(&["status"], "").await;

    let mut lines = status.stdout.lines();
    let line = lines.find(|line| line.starts_with("settings "));
    let line = line.unwrap_or_else(|| panic!("{status:?}"));
    assert!(line.contains("profiles.default.provider"), "{line}");
}

/// OR-12 `server.public_url`, `server.allowed_origins`, `log.level`, OP-16: names and levels count without a restart.
#[actix::test]
async fn other_names_and_another_log_level_count_while_the_service_runs() {
    let service = Service::start().await;
    let url = service.url();
    let known_as = async |host: &str| {
        let request = http().get(format!("{url}/healthz")).header("Host", host);
        request.send().await.unwrap().status().as_u16()
    };
    let reload = async |settings: &str| {
        service.write("data/config/config.yaml", settings);
        let reload = http().post(format!("{url}/api/v1/config/reload"));
        let reload = reload.bearer_auth(service.token()).json(&json!({}));
        assert_eq!(reload.send().await.unwrap().status().as_u16(), 200);
    };
    let times_read = || service.log().matches("the settings were read again").count();
    assert_eq!(known_as("hive.example.org").await, 421);

    reload("server: {public_url: 'https://hive.example.org'}\n").await;

    assert_eq!(known_as("hive.example.org").await, 200);
    assert_eq!(times_read(), 1);
    until("it is told", async || service.url() == "https://hive.example.org").await;

    reload("server: {allowed_origins: ['https://tools.example.net']}\nlog: {level: warn}\n").await;
    reload("server: {allowed_origins: ['https://tools.example.net']}\nlog: {level: error}\n").await;

    assert_eq!(known_as("hive.example.org").await, 421);
    assert_eq!(known_as("tools.example.net").await, 200);
    assert_eq!(times_read(), 1);
}

/// SE-143: work that waits for money goes on when the cap in the file is raised.
#[actix::test]
async fn a_higher_cap_in_the_file_wakes_what_waits_for_money() {
    let main = |tokens: u64| format!("allowed_tools: []\nbudgets: {{tokens_per_day: {tokens}}}\n");
    let service =
        Service::prepare().with_file("run/teams/main/config.yaml", &main(10)).started().await;
    let mut client = service.connect().await;

    client.say("m1", "#reply Paid.").await;
    service.until("/api/v1/tasks", |open| open[0]["wait_reason"] == "budget").await;
    service.write("run/teams/main/config.yaml", &main(10_000_000));
    let end = client.end_of("m1").await;

    assert_eq!(end["content"], "Paid.", "{end}");
}

/// OR-20, OR-21: `channels.yaml` may refer to the vault, which is open when it is read. What leads nowhere
/// disables what uses it, is told, and closes no channel.
#[actix::test]
async fn the_channels_file_may_refer_to_the_vault() {
    let channels = "ws: {enabled: true}\ntopics: {profile: \"${vault:TOPIC_PROFILE}\"}\n";
    let mut service =
        Service::prepare().with_file("data/config/channels.yaml", channels).started().await;

    let mut without = service.connect().await;
    let answer = without.ask("#reply Open.").await;
    let (_, overview) = service.api("GET", "/api/v1/overview", None).await;
    let checked = service.run(&["config", "check"], "").await;
    let set = &["vault", "set", "TOPIC_PROFILE", "--system"];
    let set = service.run(set, "some-profile").await;
    // It counts without a restart, and after one.
    service.until_logged("the settings were read again and count from now on").await;
    let with = Client::try_connect(&service.url(), &service.token()).await;
    service.kill();
    service.launch().await;
    let restarted = Client::try_connect(&service.url(), &service.token()).await;

    assert_eq!(answer["content"], "Open.");
    assert_eq!(overview["data"]["channels"][0]["state"], "on");
    assert_ne!(checked.code, Some(0), "{checked:?}");
    let (_, cured) = service.api("GET", "/api/v1/overview", None).await;
    assert_eq!(cured["data"]["settings_error"], Value::Null, "{cured}");
    let fault = overview["data"]["settings_error"].to_string();
    assert!(
        fault.contains("channels.yaml:2:") && fault.contains("vault key `TOPIC_PROFILE`"),
        "{fault}"
    );
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(with.is_ok(), "{:?}", with.err());
    assert!(restarted.is_ok(), "{:?}", restarted.err());
}

/// OR-20: `config.yaml` says where the vault is, so it cannot refer to it.
#[actix::test]
async fn the_config_file_cannot_refer_to_the_vault_and_says_so() {
    let service = Service::prepare()
        .with_file("data/config/config.yaml", "server:\n  public_url: \"${vault:URL}\"\n");

    let done = service.run(&["serve", "--port", "0"], "").await;

    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(
        done.stderr.contains("config.yaml:2:15: server.public_url: ")
            && done.stderr.contains("the vault is opened after this file is read"),
        "{done:?}"
    );
}
