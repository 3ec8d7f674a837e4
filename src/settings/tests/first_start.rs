//! Directories, the lock, and the files of a new home.

use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use super::*;
use crate::settings::{
    channels::{Channels, Read, WebSocket},
    config::Config,
    effective,
    error::StartError,
    load::{self, Report},
    providers::{Provider, Providers},
    scaffold,
    team::{MAIN_TOOLS, Team},
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// OR-01 to OR-03
#[test]
fn flags_come_before_the_environment_and_that_before_the_default() {
    let flags = |home: Option<&str>, data: Option<&str>, run: Option<&str>| Flags {
        home: home.map(PathBuf::from),
        data_dir: data.map(PathBuf::from),
        run_dir: run.map(PathBuf::from),
    };
    let user = [("HOME", "/u")];
    let all = [
        ("HOME", "/u"),
        ("HIVEWRIGHT_HOME", "/eh"),
        ("HIVEWRIGHT_DATA_DIR", "/ed"),
        ("HIVEWRIGHT_RUN_DIR", "/er"),
    ];
    let find = |flags, environment: &Environment| {
        let home = Home::new(&flags, environment).unwrap();
        [home.data().to_owned(), home.run().to_owned()]
    };

    let none = flags(None, None, None);
    let default = find(none.clone(), &Environment::fixed(user));
    let by_variable = find(none.clone(), &Environment::fixed(all));
    let by_flag = find(flags(Some("/fh"), Some("/fd"), None), &Environment::fixed(user));
    let before = find(flags(None, Some("/fd"), Some("/fr")), &Environment::fixed(all));
    let nothing = Home::new(&none, &Environment::fixed([])).unwrap_err();

    assert_eq!(default, ["/u/.hivewright/data", "/u/.hivewright/run"].map(PathBuf::from));
    assert_eq!(by_variable, ["/ed", "/er"].map(PathBuf::from));
    assert_eq!(by_flag, ["/fd", "/fh/run"].map(PathBuf::from));
    assert_eq!(before, ["/fd", "/fr"].map(PathBuf::from));
    assert!(matches!(nothing, StartError::NoHome));
}

/// OR-05
#[test]
fn missing_directories_are_made_for_the_owner_alone() {
    let place = place();

    for path in [
        place.home.data().to_owned(),
        place.home.secrets(),
        place.home.run().to_owned(),
        place.home.teams(),
    ] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
}

/// OR-05
#[test]
fn a_secret_open_to_others_stops_the_start() {
    for (given, stops) in [(0o600, false), (0o640, true), (0o604, true)] {
        let place = place();
        let path = place.home.secrets().join("key");
        place.write(&path, "x");
        fs::set_permissions(&path, fs::Permissions::from_mode(given)).unwrap();

        let outcome = place.home.prepare();

        match outcome {
            Ok(()) => assert!(!stops, "{given:o}"),
            Err(error) => {
                assert!(stops, "{given:o}: {error}");
                assert_eq!(error.exit_code(), 3);
                let cure = format!("chmod 600 {}", path.display());
                assert!(error.to_string().contains(&cure), "{error}");
            }
        }
    }
}

/// OR-06
#[test]
fn data_and_run_dir_may_not_lie_inside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| Some(folder.path().join(path));
    symlink(folder.path().join("run"), folder.path().join("link")).unwrap();
    let cases =
        [("same", "same"), ("data", "data/run"), ("run/teams/a", "run"), ("link/data", "run")];

    for (data, run) in cases {
        fs::create_dir_all(folder.path().join("run")).unwrap();
        let flags = Flags { data_dir: at(data), run_dir: at(run), ..Flags::default() };
        let error = Home::new(&flags, &Environment::fixed([])).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        let shown = error.to_string();
        for path in [data, run] {
            let path = folder.path().join(path);
            assert!(shown.contains(&format!("`{}`", path.display())), "{shown}");
        }
    }
}

/// OR-07
#[test]
fn a_run_dir_has_one_process() {
    let place = place();
    place.write(&place.home.run().join("lock"), "999999999\n");

    let lock = place.home.lock().expect("a lock of a dead process is taken over");
    let error = place.home.lock().unwrap_err();

    assert_eq!(error.exit_code(), 6);
    let own = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&own), "{error}");
    drop(lock);
    assert!(place.home.lock().is_ok());
}

/// OP-75
#[test]
fn init_writes_what_is_missing_and_overwrites_nothing() {
    let place = place();
    place.write(&place.home.config_file(), "log: {level: warn}\n");

    let first = scaffold::init(&place.home, None, None).unwrap();
    let second = scaffold::init(&place.home, Some(&Provider::OpenAi.into()), None).unwrap();

    assert_eq!(
        first,
        [place.home.providers_file(), place.home.channels_file(), place.home.team_file("main"),]
    );
    assert_eq!(second, [] as [PathBuf; 0]);
    let kept = fs::read_to_string(place.home.config_file()).unwrap();
    assert_eq!(kept, "log: {level: warn}\n");
    assert!(place.home.team("main").join("org-rules").is_dir());
    assert!(place.home.team("main").join("team-rules").is_dir());
    for path in first {
        assert_eq!(mode(&path), 0o600);
    }
}

#[test]
fn the_shipped_files_state_the_defaults() {
    let place = place();

    scaffold::init(&place.home, None, None).unwrap();

    let config = load::load_config(&place.home, &place.environment).unwrap();
    assert_eq!(config, (Config::default(), Vec::new()));
    // With a file a WebSocket is open only if named, so the shipped file names it.
    let named = Channels { ws: WebSocket::On, ..Channels::default() };
    let read = load::read_channels(&place.home, &place.environment).unwrap();
    assert_eq!(read, Read { channels: named, ..Read::default() });
    assert_eq!(
        load::read_providers(&place.home, &place.environment).0,
        Ok(Providers::from_environment(&place.environment))
    );
    // Nothing in what is shipped is wrong, or gives nothing.
    assert_eq!(load::check(&place.home, &place.environment), Report::default());
    assert_eq!(
        load::read_team(&place.home, "main"),
        Ok(Team {
            max_steps: 200,
            allowed_tools: MAIN_TOOLS.map(Into::into).to_vec(),
            ..Team::new("main")
        })
    );
}

/// What is only shown in comments must be right as well.
#[test]
fn the_commented_examples_are_valid() {
    let uncomment = |text: &str, marks: &[&str]| -> String {
        let lines = text.lines().map(|line| {
            let inner = line.trim_start();
            match inner.strip_prefix("# ") {
                Some(code) if marks.iter().any(|mark| code.starts_with(mark)) => {
                    let indent = &line[..line.len() - inner.len()];
                    format!("{indent}{code}\n")
                }
                _ => format!("{line}\n"),
            }
        });
        lines.collect()
    };
    let place = place();
    let config = include_str!("../../../config/config.yaml");
    let providers = include_str!("../../../config/providers.yaml");
    place.write(
        &place.home.config_file(),
        uncomment(config, &["public_url:", "tls:", "  cert:", "  key:", "dir:"]),
    );
    place.write(
        &place.home.providers_file(),
        uncomment(providers, &["profiles:", "search:", "skill_repository:", "  "]),
    );
    let environment = Environment::fixed([("ANTHROPIC_API_KEY", "k")]);

    let (config, _) = load::load_config(&place.home, &environment).unwrap();
    let found = load::read_providers(&place.home, &environment).0.unwrap();

    assert!(config.server.tls.is_some());
    assert!(config.server.public_url.is_some());
    assert!(config.backup.dir.is_some());
    let mut expected = Providers::from_environment(&environment).profiles["default"].clone();
    expected.api_url = found.profiles["default"].api_url.clone();
    expected.fallbacks = vec!["local".into()];
    expected.requests_per_minute = Some(1000);
    expected.pricing = found.profiles["default"].pricing;
    assert_eq!(found.profiles["default"], expected);
    assert!(expected.pricing.is_some());
}

/// OP-75
#[test]
fn init_for_a_provider_makes_its_profile() {
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::Offline] {
        let place = place();
        let environment = Environment::fixed([("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")]);

        scaffold::init(&place.home, Some(&provider.into()), None).unwrap();

        let found = load::read_providers(&place.home, &environment).0.unwrap();
        assert_eq!(found.profile("default").unwrap().provider, provider);
        assert_eq!(found.warnings, []);
        assert!(!found.demo);
    }
}

/// OR-22: comments say of a setting that it counts at the next start if, and only if, it does.
#[test]
fn the_shipped_comments_say_what_needs_a_restart() {
    let shipped = include_str!("../../../config/config.yaml");
    let place = place();
    let read = |text: &str| {
        place.write(&place.home.config_file(), text);
        let read = load::read_config(&place.home, &place.environment);
        read.unwrap_or_else(|problems| panic!("{text}: {problems}")).0
    };
    let others = [
        ("timezone", "Europe/Berlin"),
        ("log.level", "debug"),
        ("server.bind", "0.0.0.0"),
        ("server.port", "9"),
        ("server.public_url", "https://hive.example.org"),
        ("server.tls", "{cert: a.pem, key: b.pem}"),
        ("server.trusted_proxies", "[10.0.0.0/8]"),
        ("server.allowed_origins", "['https://other.example.org']"),
        ("approvals.ttl", "2h"),
        ("policy", "[{id: a, effect: deny, resource: 'tool:bash'}]"),
        ("store.durability", "process"),
        ("runtime.max_running_turns", "9"),
        ("limits.max_children", "9"),
        ("limits.max_teams", "9"),
        ("limits.workspace", "3GiB"),
        ("limits.file", "3MiB"),
        ("limits.files", "3GiB"),
        ("limits.free_space", "1GiB"),
        ("defaults.sdk", "codex"),
        ("defaults.allowed_tools", "[read]"),
        ("defaults.grantable_tools", "[read]"),
        ("tasks.turn_timeout", "1h"),
        ("tasks.idle_timeout", "1h"),
        ("sessions.idle", "0s"),
        ("sessions.transcripts", "false"),
        ("sandbox.memory", "2GiB"),
        ("engines.claude.binary", "/opt/claude"),
        ("engines.codex.binary", "/opt/codex"),
        ("engines.codex.mode", "exec"),
        ("engines.pi.binary", "/opt/pi"),
        ("engines.pi.mode", "json"),
        ("engines.acp.command", "[agent]"),
        ("engines.acp.env", "{A: b}"),
        ("plugins.paths", "[/elsewhere]"),
        ("plugins.signatures", "off"),
        ("retention.tasks", "30d"),
        ("retention.audit", "30d"),
        ("backup.every", "2h"),
        ("backup.dir", "/elsewhere"),
    ];

    for (path, value) in others {
        let parts = path.rsplit('.');
        let text = parts.fold(value.to_owned(), |text, part| format!("{{{part}: {text}}}"));
        let text = text[1..text.len() - 1].to_owned();
        let other = read(&text);
        assert_ne!(other, Config::default(), "{path}");
        let waits = !Config::default().needs_restart(&other).is_empty();
        let comment = comment_of(shipped, path);
        assert_eq!(comment.contains("next start"), waits, "{path}: {comment}");
    }
    let known = effective::fields(&place.home, &place.environment);
    for field in known.iter().filter(|field| field.file == "config") {
        assert!(others.iter().any(|(path, _)| *path == field.path), "{}", field.path);
    }
    let channels = include_str!("../../../config/channels.yaml");
    assert!(!channels.contains("next start"));
}

/// The comment above a key of the shipped file, which may itself be commented out.
fn comment_of(shipped: &str, path: &str) -> String {
    let lines: Vec<&str> = shipped.lines().collect();
    let bare = |line: &str| line.trim_start().trim_start_matches("# ").to_owned();
    let (sections, key) = path.rsplit_once('.').unwrap_or(("", path));
    let begin =
        sections.split('.').filter(|section| !section.is_empty()).fold(0, |begin, section| {
            let is_it = |line: &&str| line.trim() == format!("{section}:");
            begin + lines[begin..].iter().position(is_it).unwrap_or_default()
        });
    let at = lines[begin..]
        .iter()
        .position(|line| bare(line).starts_with(&format!("{key}:")))
        .unwrap_or_else(|| panic!("{path} is not in the shipped file"));
    let above = lines[..begin + at].iter().rev();
    let mut comment: Vec<&str> =
        above.take_while(|line| line.trim_start().starts_with('#')).copied().collect();
    comment.reverse();
    let text: Vec<_> = comment.into_iter().map(bare).collect();
    text.join(" ")
}
