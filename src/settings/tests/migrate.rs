//! Files of earlier versions are brought to their present form.

use super::*;
use crate::settings::{
    config::Config,
    load,
    migrate::{MigrateError, Plan, plan},
    problem::Problem,
    team::Team,
};

/// The shipped files as they were at some time.
macro_rules! shipped {
    ($name:literal) => {
        [
            include_str!(concat!("../../../tests/fixtures/settings/", $name, "/config.yaml")),
            include_str!(concat!("../../../tests/fixtures/settings/", $name, "/channels.yaml")),
            include_str!(concat!("../../../tests/fixtures/settings/", $name, "/providers.yaml")),
            include_str!(concat!("../../../tests/fixtures/settings/", $name, "/main-team.yaml")),
        ]
    };
}

fn files(home: &Home) -> [std::path::PathBuf; 4] {
    [home.config_file(), home.channels_file(), home.providers_file(), home.team_file("main")]
}

fn steps(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.path.as_str()).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn comments(text: &str) -> Vec<String> {
    let comment = |line: &str| line.find('#').map(|at| line[at..].to_owned());
    text.lines().filter_map(comment).collect()
}

/// OP-91, OP-128: every past form of the shipped files means what the present one means, and keeps its comments.
#[test]
fn what_every_earlier_version_shipped_becomes_what_is_shipped_now() {
    const OF_TEAMS: [&str; 2] = ["defaults.allowed_tools", "defaults.grantable_tools"];
    for (name, shipped, expected) in [
        ("first", shipped!("first"), vec!["allowed_tools"]),
        ("organisation", shipped!("organisation"), [&OF_TEAMS[..], &["allowed_tools"]].concat()),
        ("declared", shipped!("declared"), OF_TEAMS.to_vec()),
        ("web", shipped!("web"), vec![]),
    ] {
        let place = place();
        let home = &place.home;
        for (path, text) in files(home).iter().zip(shipped) {
            place.write(path, text);
        }

        let found = plan(home);
        found.apply(home, &home.backups().join("settings-1")).unwrap();

        assert_eq!(steps(&found), expected, "{name}");
        assert_eq!(found.left, [], "{name}");
        assert_eq!(plan(home), Plan::default(), "{name}: a second time there is nothing to do");
        let report = load::check(home, &place.environment);
        assert_eq!((report.problems.0, report.warnings), (vec![], vec![]), "{name}");
        let config = load::read_config(home, &place.environment).unwrap().0;
        assert_eq!(config, Config::default(), "{name}");
        let main: Team = load::read_team(home, "main").unwrap();
        let now = load::team_of(home, "main", include_str!("../../../config/main-team.yaml"));
        assert_eq!(Ok(main), now, "{name}");
        for (path, text) in files(home).iter().zip(shipped) {
            assert_eq!(comments(&read(path)), comments(text), "{name}: {}", path.display());
        }
    }
}

/// OP-128: a value that only looks like one of an earlier version was chosen, and stays.
#[test]
fn what_an_operator_chose_stays() {
    let place = place();
    let home = &place.home;
    let main = include_str!("../../../config/main-team.yaml");
    let own = main.replace(
        r#"["@org", "@triggers", "@trust", "@memory", "@vault"]"#,
        "[\"@files\", \"@shell\"]",
    );
    let config = include_str!("../../../config/config.yaml").replace(r#""@web", "#, "");
    assert!(own != main && !config.contains("@web"));

    for (path, text) in [
        (home.team_file("main"), own.as_str()),
        (home.team_file("main"), "allowed_tools: [\"@files\", \"@shell\"]\n"),
        (home.team_file("scouts"), "queue_mode: queue\nallowed_tools: [\"@files\", \"@shell\"]\n"),
        (home.config_file(), &config),
        (home.config_file(), "runtime: {}\ndefaults: {allowed_tools: [\"@files\"]}\n"),
    ] {
        place.write(&path, text);
        assert_eq!(plan(home), Plan::default(), "{text}");
    }
}

const OLD_TEAM: &str = "\
# Ours.
parent: main # above
maxTurns: 9 # nine
credentials: {x: hunter2-hunter2}
mcp_servers:
  files:
    # how
    transport: stdio
    command: /bin/files
  wiki: {type: http, url: 'https://wiki.example.org/mcp'}
heartbeat: 20d
";

/// OP-128: keys of earlier versions go or are renamed; what only the operator can decide is named with its line.
#[test]
fn keys_of_earlier_versions_are_brought_up_to_date() {
    let place = place();
    let home = &place.home;
    let config = "store:\n  backend: sled\n  jetstream: {url: x}\nbrowser:\n  token: sk-very-secret\n# ours\nlog: {level: debug}\n";
    place.write(&home.config_file(), config);
    place.write(&home.team_file("scouts"), OLD_TEAM);

    let found = plan(home);
    let shown = serde_json::to_string(&found.steps).unwrap();
    found.apply(home, &home.backups().join("settings-1")).unwrap();

    assert!(!shown.contains("sk-very-secret"), "{shown}");
    let expected = "store:\n  backend: sled\n# ours\nlog: {level: debug}\n";
    assert_eq!(read(&home.config_file()), expected);
    let expected = OLD_TEAM
        .replace("parent: main # above\n", "")
        .replace("maxTurns", "max_steps")
        .replace("    transport: stdio\n", "")
        .replace("type: http, ", "");
    assert_eq!(read(&home.team_file("scouts")), expected);
    let left = |plan: &Plan| {
        let row = |fault: &Problem| (fault.path.clone(), fault.line);
        plan.left.iter().map(row).collect::<Vec<_>>()
    };
    let lines = |credentials, heartbeat| {
        [("credentials".to_owned(), credentials), ("heartbeat".to_owned(), heartbeat)]
    };
    assert_eq!(left(&found), lines(4, 11));
    let again = plan(home);
    assert_eq!((steps(&again), left(&again)), (vec![], lines(3, 9).to_vec()));
    let kept = home.backups().join("settings-1");
    assert_eq!(read(&kept.join("config/config.yaml")), config);
    assert_eq!(read(&kept.join("teams/scouts/config.yaml")), OLD_TEAM);
}

/// OP-128: what cannot be changed by itself, or would make something wrong, is left as it is.
#[test]
fn what_cannot_be_migrated_safely_is_left() {
    let place = place();
    let home = &place.home;
    let file = home.team_file("scouts");
    for (text, path) in [
        ("maxTurns: 9\nmax_steps: 8\n", "maxTurns"),
        ("maxTurns: 900\n", "maxTurns"),
        ("maxSteps: 9\nmax_steps: 8\n", "maxSteps"),
        ("engine: codex\n", "engine"),
        ("parent: [\n", "parent"),
    ] {
        place.write(&file, text);
        let found = plan(home);
        assert_eq!(steps(&found), [""; 0], "{text}");
        assert!(found.left.iter().any(|fault| fault.path == path), "{text}: {found:?}");
    }
    // Somebody else may have written it under its other name: a new file would be believed.
    place.write(&file, "maxSteps: 9\n");
    fs::hard_link(&file, home.team("scouts").join("other")).unwrap();
    let linked = plan(home);
    assert_eq!((steps(&linked), linked.left.len()), (vec![], 1));
}

/// OP-91: either all files are changed, or none.
#[test]
fn a_file_that_changes_meanwhile_takes_all_back() {
    let place = place();
    let home = &place.home;
    place.write(&home.config_file(), "browser: {}\n");
    place.write(&home.team_file("scouts"), "maxSteps: 9\n");

    let found = plan(home);
    place.write(&home.team_file("scouts"), "maxSteps: 10\n");
    let done = found.apply(home, &home.backups().join("settings-1"));

    assert!(matches!(done, Err(MigrateError::Changed(_))), "{done:?}");
    assert_eq!(read(&home.config_file()), "browser: {}\n");
    assert_eq!(read(&home.team_file("scouts")), "maxSteps: 10\n");
}
