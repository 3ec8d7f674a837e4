//! Directories, the lock, and the files of a new home.

use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use super::*;
use crate::settings::{
    channels::{Channels, WebSocket},
    config::Config,
    error::StartError,
    load::{self, ChannelsState},
    providers::{Provider, Providers},
    scaffold,
    team::Team,
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
    let by_flag = find(
        flags(Some("/fh"), Some("/fd"), None),
        &Environment::fixed(user),
    );
    let before = find(
        flags(None, Some("/fd"), Some("/fr")),
        &Environment::fixed(all),
    );
    let nothing = Home::new(&none, &Environment::fixed([])).unwrap_err();

    assert_eq!(
        default,
        ["/u/.hivewright/data", "/u/.hivewright/run"].map(PathBuf::from)
    );
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
    let cases = [
        ("same", "same"),
        ("data", "data/run"),
        ("run/teams/a", "run"),
        ("link/data", "run"),
    ];

    for (data, run) in cases {
        fs::create_dir_all(folder.path().join("run")).unwrap();
        let flags = Flags {
            data_dir: at(data),
            run_dir: at(run),
            ..Flags::default()
        };
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

    let lock = place
        .home
        .lock()
        .expect("a lock of a dead process is taken over");
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

    let first = scaffold::init(&place.home, None).unwrap();
    let second = scaffold::init(&place.home, Some(Provider::OpenAi)).unwrap();

    assert_eq!(
        first,
        [
            place.home.providers_file(),
            place.home.channels_file(),
            place.home.team_file("main"),
        ]
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

    scaffold::init(&place.home, None).unwrap();

    let settings = load::load(&place.home, &place.environment).unwrap();
    assert_eq!(settings.config, Config::default());
    // With a file a WebSocket is open only if named, so the shipped file names it.
    let named = Channels {
        ws: WebSocket::On,
        ..Channels::default()
    };
    assert_eq!(settings.channels, ChannelsState::Open(named));
    assert_eq!(settings.warnings, []);
    assert_eq!(
        load::read_providers(&place.home, &place.environment).0,
        Ok(Providers::from_environment(&place.environment))
    );
    assert_eq!(
        load::read_team(&place.home, "main"),
        Ok(Team {
            max_steps: 200,
            allowed_tools: [
                "@org",
                "@triggers",
                "@trust",
                "@topics",
                "@memory",
                "@vault"
            ]
            .map(Into::into)
            .to_vec(),
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
        uncomment(
            config,
            &["public_url:", "tls:", "  cert:", "  key:", "dir:"],
        ),
    );
    place.write(
        &place.home.providers_file(),
        uncomment(providers, &["profiles:", "  "]),
    );
    let environment = Environment::fixed([("ANTHROPIC_API_KEY", "k")]);

    let settings = load::load(&place.home, &environment).unwrap();
    let found = load::read_providers(&place.home, &environment).0.unwrap();

    assert!(settings.config.server.tls.is_some());
    assert!(settings.config.server.public_url.is_some());
    assert!(settings.config.backup.dir.is_some());
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

        scaffold::init(&place.home, Some(provider)).unwrap();

        let found = load::read_providers(&place.home, &environment).0.unwrap();
        assert_eq!(found.profile("default").unwrap().provider, provider);
        assert_eq!(found.warnings, []);
        assert!(!found.demo);
    }
}
