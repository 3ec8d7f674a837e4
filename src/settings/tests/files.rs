//! What is wrong in a file is said with its place, and everything at once.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use hivewright_actors::text::Size;

use super::*;
use crate::settings::{
    channels::{Channels, Rate, Read, WebSocket},
    config::{Config, Durability, Level, Tls},
    error::StartError,
    load,
};

fn config_problems(text: impl AsRef<[u8]>) -> Vec<String> {
    let place = place();
    place.write(&place.home.config_file(), text);
    let error = load::load_config(&place.home, &place.environment).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    lines(error, &place.home)
}

fn config(text: &str) -> Config {
    let place = place();
    place.write(&place.home.config_file(), text);
    load::load_config(&place.home, &place.environment).unwrap().0
}

fn channels(text: &str) -> Channels {
    let place = place();
    place.write(&place.home.channels_file(), text);
    load::read_channels(&place.home, &place.environment).unwrap().channels
}

/// OR-12
#[test]
fn without_files_everything_is_default() {
    let place = place();

    let config = load::load_config(&place.home, &place.environment).unwrap();
    let read = load::read_channels(&place.home, &place.environment).unwrap();

    assert_eq!(config, (Config::default(), Vec::new()));
    assert_eq!(read, Read::default());
}

/// OR-12
#[test]
fn every_setting_is_read() {
    let found = config(
        "log: {level: debug}
server:
  bind: 0.0.0.0
  port: 0
  public_url: https://${env:KEY}.example.org
  tls: {cert: cert.pem, key: /etc/key.pem}
  trusted_proxies: [10.0.0.0/8]
  allowed_origins: ['https://other.example.org']
store: {durability: process}
runtime: {max_running_turns: 8}
limits: {max_children: 3, max_teams: 7, workspace: 64MiB, free_space: 1GiB}
defaults: {sdk: native, allowed_tools: ['@files'], grantable_tools: ['@files', '@web']}
tasks: {turn_timeout: 2h, idle_timeout: 90s}
sandbox: {memory: 512MiB}
retention: {tasks: 30d, audit: 2d}
backup: {dir: /backups}
",
    );

    let mut expected = Config::default();
    expected.log.level = Level::Debug;
    expected.server.bind = IpAddr::from([0, 0, 0, 0]);
    expected.server.port = 0;
    expected.server.public_url = Some("https://sesame.example.org".parse().unwrap());
    let cert = found.server.tls.clone().unwrap().cert;
    assert!(cert.is_absolute() && cert.ends_with("data/cert.pem"));
    expected.server.tls = Some(Tls { cert, key: "/etc/key.pem".into() });
    expected.server.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    expected.server.allowed_origins = vec!["https://other.example.org".parse().unwrap()];
    expected.store.durability = Durability::Process;
    expected.runtime.max_running_turns = 8;
    expected.limits.max_children = 3;
    expected.limits.max_teams = 7;
    expected.limits.workspace = Size(64 << 20);
    expected.limits.free_space = Size(1 << 30);
    expected.defaults.allowed_tools = vec!["@files".into()];
    expected.defaults.grantable_tools = vec!["@files".into(), "@web".into()];
    expected.tasks.turn_timeout = Duration::from_secs(7200);
    expected.tasks.idle_timeout = Duration::from_secs(90);
    expected.sandbox.memory = Size(512 << 20);
    expected.retention.tasks = Duration::from_secs(30 * 24 * 60 * 60);
    expected.retention.audit = Duration::from_secs(2 * 24 * 60 * 60);
    expected.backup.dir = Some(PathBuf::from("/backups"));
    assert_eq!(found, expected);
}

/// OR-12: the ceiling is the same list as what teams get, unless it is given.
#[test]
fn narrower_tools_are_a_narrower_ceiling() {
    let found = config("defaults: {allowed_tools: ['@web']}\n").defaults;

    assert_eq!(found.allowed_tools, ["@web"]);
    assert_eq!(found.grantable_tools, ["@web"]);
}

/// OR-11
#[test]
fn null_is_the_default() {
    assert_eq!(
        config("log:\nserver: {port: null, tls: ~}\ntasks: {turn_timeout: }\n"),
        Config::default()
    );
    assert_eq!(config(""), Config::default());
    assert_eq!(config("# nothing\n---\n"), Config::default());
}

#[test]
fn a_byte_order_mark_and_windows_lines_are_fine() {
    let found = config("\u{feff}log:\r\n  level: warn\r\n");

    assert_eq!(found.log.level, Level::Warn);
}

/// OR-09, OR-10
#[test]
fn every_fault_of_a_file_is_reported_at_once() {
    let found = config_problems(
        "log:
  level: loud
server:
  prot: 1
  port: 70000
  port: 2
  bind: here
  tls: {cert: a}
  trusted_proxies: 10.0.0.0/8
  allowed_origins: [https://a.org/x, 5]
tasks:
  turn_timeout: 7h
  idle_timeout: 5
sandbox: {memory: 1GB}
runtime: []
shop: 1
",
    );

    assert_eq!(
        found,
        [
            "config/config.yaml:2:10: log.level: expected one of trace, debug, info, warn, error",
            "config/config.yaml:4:3: server.prot: unknown key (did you mean \"port\"?)",
            "config/config.yaml:5:9: server.port: 70000 is not a whole number from 0 to 65535",
            "config/config.yaml:6:3: server.port: given twice, first on line 5",
            "config/config.yaml:7:9: server.bind: expected an IP address",
            "config/config.yaml:8:8: server.tls: `cert` and `key` belong together; give both or none",
            "config/config.yaml:9:20: server.trusted_proxies: expected a list, found text",
            "config/config.yaml:10:21: server.allowed_origins[0]: expected an origin such as https://example.org",
            "config/config.yaml:10:38: server.allowed_origins[1]: expected text, found a number; put it in quotes",
            "config/config.yaml:12:17: tasks.turn_timeout: 7h is not from 1ms to 6h",
            "config/config.yaml:13:17: tasks.idle_timeout: expected a duration such as 90s, found a number",
            "config/config.yaml:14:19: sandbox.memory: expected a size such as 64MiB, found text",
            "config/config.yaml:15:10: runtime: expected a map, found a list",
            "config/config.yaml:16:1: shop: unknown key",
        ]
    );
}

/// OR-10
#[test]
fn the_faults_of_all_files_are_reported_at_once() {
    let place = place();
    place.write(&place.home.config_file(), "log: {level: 1}");
    place.write(&place.home.channels_file(), "ws: {enabled: 1}");
    place.write(&place.home.providers_file(), "profiles: {x: {provider: y}}");
    place.write(&place.home.team_file("main"), "max_steps: many");

    let error = load::load_config(&place.home, &place.environment).unwrap_err();

    assert_eq!(
        lines(error, &place.home),
        [
            "config/config.yaml:1:14: log.level: expected text, found a number; put it in quotes",
            "config/channels.yaml:1:15: ws.enabled: expected true or false, found a number",
            "config/providers.yaml:1:15: profiles.x: profile x: missing api_key",
            "config/providers.yaml:1:26: profiles.x.provider: expected one of anthropic, openai, offline",
            "teams/main/config.yaml:1:12: max_steps: expected a whole number from 1 to 500, found text",
        ]
    );
}

/// OR-09
#[test]
fn what_is_not_one_small_yaml_document_is_refused() {
    let cases: [(&[u8], &str); 9] = [
        (b"log: {level: info", "1:6: log: syntax: unclosed bracket"),
        (b"a: 'x", "syntax: "),
        (b"log:\n  level: \xff", "2:10: (file): is not UTF-8"),
        (&[b'#'; 1024 * 1024 + 1], "1:1: (file): is larger than 1 MiB"),
        (b"log:\n---\nlog:\n", "2:1: (file): only one document is allowed"),
        (b"- log\n", "1:1: (file): expected a map, found a list"),
        (b"? [a]\n: b\n", "1:3: (file): a key must be a word"),
        (b"log: {level: !!str info}\n", "log.level: tags are not supported"),
        (b"log: &a {level: *a}\n", "log.level: an alias inside of what it stands for"),
    ];

    for (text, expected) in cases {
        let found = config_problems(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{found:?}");
    }
}

/// OR-09
#[test]
fn aliases_work_but_may_not_blow_up() {
    let small = "server: {public_url: &url https://a.org, allowed_origins: [*url, *url]}\n";
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }

    let origin = "https://a.org".parse().unwrap();
    assert_eq!(config(small).server.allowed_origins, vec![origin; 2]);
    let found = config_problems(&bomb);
    assert!(found.iter().any(|line| line.contains("too many values")), "{found:?}");
}

/// OR-21
#[test]
fn a_variable_that_is_not_set_is_a_fault_of_its_field() {
    assert_eq!(
        config_problems("server:\n  public_url: https://${env:GONE}\n"),
        ["config/config.yaml:2:15: server.public_url: variable `GONE` is not set"]
    );
}

/// OR-24: config.yaml is read as it should be, so that the service starts.
#[test]
fn faults_in_channels_close_them_and_nothing_else() {
    let place = place();
    place.write(&place.home.channels_file(), "ws: {enabled: on}\ntopic: {}\n");

    load::load_config(&place.home, &place.environment).unwrap();
    let problems = load::read_channels(&place.home, &place.environment).unwrap_err();

    assert_eq!(
        lines(problems, &place.home),
        [
            "config/channels.yaml:1:15: ws.enabled: expected true or false, found text",
            "config/channels.yaml:2:1: topic: unknown key (did you mean \"topics\"?)",
        ]
    );
}

/// CH-30
#[test]
fn a_channels_file_opens_only_what_it_names() {
    let ws = |text| channels(text).ws;

    let admitted = |ws: WebSocket| {
        let clients = ["127.0.0.1", "::1", "::ffff:127.0.0.9", "192.0.2.2", "fd00::2"];
        clients.map(|client| ws.admits(client.parse().ok()))
    };
    assert_eq!(admitted(Channels::default().ws), [true, true, true, false, false]);
    assert!(!Channels::default().ws.admits(None));
    assert_eq!(admitted(WebSocket::On), [true; 5]);
    assert_eq!(admitted(WebSocket::Off), [false; 5]);
    assert_eq!(ws("ws: {enabled: true}"), WebSocket::On);
    assert_eq!(ws("ws: {enabled: false}"), WebSocket::Off);
    assert_eq!(ws("ws: {}"), WebSocket::Off);
    assert_eq!(ws("topics: {max_active: 3}"), WebSocket::Off);
    assert_eq!(ws("# nothing"), WebSocket::Off);
}

/// OR-14
#[test]
fn every_channel_setting_is_read() {
    let found = channels(
        "limits: {rate: {ws: {per_minute: 0, burst: 2}}}
topics: {max_active: 3, idle_after: 1h, model: never, profile: small}
",
    );

    let mut expected = Channels { ws: WebSocket::Off, ..Channels::default() };
    expected.limits.rate.ws = Rate { per_minute: 0, burst: 2 };
    expected.topics.max_active = 3;
    expected.topics.idle_after = Duration::from_secs(3600);
    expected.topics.model = crate::settings::channels::TopicModel::Never;
    expected.topics.profile = Some("small".into());
    assert_eq!(found, expected);
}

/// OP-17
#[test]
fn listening_beyond_this_machine_needs_encryption() {
    let check = |text: &str| config(text).server.check_exposure();

    for text in [
        "",
        "server: {bind: '::1'}",
        "server: {bind: 0.0.0.0, tls: {cert: a, key: b}}",
        "server: {bind: 0.0.0.0, trusted_proxies: [10.0.0.1]}",
    ] {
        assert!(check(text).is_ok(), "{text}");
    }
    for text in ["server: {bind: 0.0.0.0}", "server: {bind: '::'}"] {
        let error = check(text).unwrap_err();
        assert!(matches!(error, StartError::Exposed { .. }));
        assert_eq!(error.exit_code(), 3);
        let shown = error.to_string();
        assert!(shown.contains("server.tls") && shown.contains("server.trusted_proxies"));
    }
}

/// OR-12: what this version does not do is not silently taken.
#[test]
fn documented_keys_that_do_nothing_here_are_refused_with_the_reason() {
    let place = place();
    let text = "store: {backend: jetstream, jetstream: {url: x}}\nbrowser: {idle: 6h}\n\
        skill_repository: https://example.org\nsandbox: {network_form: port}\nbackup: {every: 24h}\n";
    place.write(&place.home.config_file(), text);

    let problems = load::read_config(&place.home, &place.environment).unwrap_err();

    let problems = problems.to_string();
    for expected in [
        "store.backend: this version keeps its data in sled: expected `sled`",
        "store.jetstream: unknown key: this version keeps its data in sled",
        "browser: unknown key: this version does not have what it sets",
        "skill_repository: unknown key: it is the address in `config/providers.yaml` now",
        "sandbox.network_form: unknown key: this version does not have",
    ] {
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
    place.write(&place.home.config_file(), "store: {backend: sled}\n");
    assert!(load::read_config(&place.home, &place.environment).is_ok());
}

/// OR-23
#[test]
fn fields_that_need_a_restart_are_named() {
    let before = Config::default();
    let mut after = before.clone();
    after.server.port = 1;
    after.store.durability = crate::settings::config::Durability::Process;
    after.tasks.turn_timeout = std::time::Duration::from_secs(1);

    let fields = before.needs_restart(&after);

    assert_eq!(fields, ["server.port", "store.durability"]);
}
