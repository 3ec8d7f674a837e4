//! `teams/<name>/config.yaml`

use std::{collections::BTreeMap, time::Duration};

use hivewright_actors::{briefing::QueueMode, budget::Caps, thinking::Thinking};

use super::*;
use crate::settings::{
    config::Sdk,
    egress::{Buckets, Egress},
    folder_access::Access,
    load::{self, File, read_team},
    mcp_servers::{McpServer, McpServers},
    plugins::{PluginSwitch, Plugins},
    setting::Interval,
    team::{AllowedDir, Team},
};

fn read(text: &str) -> Result<Team, Vec<String>> {
    let place = place();
    place.write(&place.home.team_file("scouts"), text);
    read_team(&place.home, "scouts").map_err(|problems| lines(problems, &place.home))
}

fn buckets(text: &str) -> Buckets {
    read(&format!("rate_limit_buckets: {text}")).unwrap().rate_limit_buckets
}

/// TO-74, TO-79
#[test]
fn wrong_hosts_and_buckets_are_refused_with_their_place() {
    let (low, high) = ("{rps: 0, burst: 1}", "{rps: 1, burst: 0}");
    let text = format!(
        "egress:\n  allowed_domains: ['https://a.b/']\n  allow_private: [a.b]\nrate_limit_buckets:\n  a: {low}\n  b: {high}\n  c: {{rps: 1}}\n"
    );

    let found = read(&text).unwrap_err();

    let hints = [
        "2:21: egress.allowed_domains[0]: expected a host such as example.org",
        "3:19: egress.allow_private[0]: expected a host and a port",
        "5:12: rate_limit_buckets.a.rps: expected a number above 0",
        "6:22: rate_limit_buckets.b.burst: 0 is not a whole number from 1 to 10000",
        "7:6: rate_limit_buckets.c: needs a `burst`",
    ];
    assert_eq!(found.len(), hints.len(), "{found:?}");
    for (line, hint) in found.iter().zip(hints) {
        assert!(line.starts_with(&format!("teams/scouts/config.yaml:{hint}")), "{line}");
    }
    assert_ne!(buckets("{a: {rps: 1, burst: 1}}"), Buckets::default());
}

fn weather() -> PluginSwitch {
    let config = serde_json::json!({"tools": {"days": 3, "token": "${vault:K}"}});
    PluginSwitch { enabled: true, config }
}

fn far() -> McpServer {
    McpServer { url: Some("https://example.org/mcp?a=b".to_owned()), ..McpServer::default() }
}

/// OR-15, TO-137
#[test]
fn a_server_is_a_program_or_an_address_and_nothing_of_ours() {
    let place = place();
    let faults = |server: &str| {
        let text = format!("mcp_servers: {{one: {server}}}\n");
        place.write(&place.home.team_file("scouts"), text);
        let problems = read_team(&place.home, "scouts").unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
        (problems.0[0].path.clone(), problems.0[0].reason.clone())
    };
    let ours = format!("{{command: a, read_dirs: [{}]}}", place.home.data().display());

    for (server, path, reason) in [
        ("{}", "", "needs a `command` or a `url`"),
        ("{command: a, url: \"https://a.org\"}", "", "keep one"),
        ("{url: \"http://example.org/mcp\"}", ".url", "https://"),
        ("{url: \"https://me:pw@example.org\"}", ".url", "`headers`"),
        ("{url: \"https://a.org\", args: [x]}", ".args", "for programs"),
        ("{command: a, headers: {a: b}}", ".headers", "for addresses"),
        ("{url: \"https://a.org\", headers: {Host: b}}", ".headers", "cannot be set"),
        ("{command: a, env: {PATH: b}}", ".env", "cannot be set"),
        ("{command: a, env: {LD_PRELOAD: b}}", ".env", "cannot be set"),
        ("{command: a, env: {A: \"${env:HOME}\"}}", ".env.A", "not allowed"),
        ("{command: a, workspace: all}", ".workspace", "off, ro, rw"),
        ("{command: a, call_timeout: 1h}", ".call_timeout", "10m"),
        ("{command: a, type: stdio}", ".type", "leave it out"),
        (&ours, ".read_dirs[0]", "data dir"),
    ] {
        let found = faults(server);
        assert_eq!(found.0, format!("mcp_servers.one{path}"), "{server}");
        assert!(found.1.contains(reason), "{found:?}");
    }
    for name in ["hivewright", "A", "a.b", "a b"] {
        let text = format!("mcp_servers: {{{name}: {{command: a}}}}");
        assert!(read(&text).is_err_and(|faults| faults[0].contains("1 to 32 letters")), "{name}");
    }
}

/// OR-15
#[test]
fn every_field_of_a_team_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(folder.path()).unwrap();
    let text = format!(
        "name: scouts
description: They look around.
provider_profile: cheap
model: {{provider: local, model: llama3:8b}}
sdk: codex
thinking: high
queue_mode: steer
max_steps: 7
turn_timeout: 1h
allowed_tools: ['@files', '!write']
allowed_dirs:
  - path: {0}
  - {{path: {0}, mode: rw}}
egress: {{allowed_domains: [Example.org, '*.example.net'], allow_private: ['wiki.internal:80']}}
rate_limit_buckets: {{Example.org: {{rps: 0.5, burst: 3}}}}
budgets: {{usd_per_day: 20, tokens_per_day: 1000000, usd_per_task: 0.5}}
learning: true
heartbeat: 30m
mcp_servers: {{far: {{url: \"https://example.org/mcp?a=b\"}}}}
plugins: {{weather: {{enabled: true, config: {{tools: {{days: 3, token: \"${{vault:K}}\"}}}}}}}}
",
        real.display()
    );

    let dir = |access| AllowedDir { path: real.clone(), access };
    assert_eq!(
        read(&text),
        Ok(Team {
            name: "scouts".into(),
            description: "They look around.".into(),
            provider_profile: "cheap".into(),
            model: Some("local:llama3:8b".into()),
            sdk: Sdk::Codex,
            thinking: Some(Thinking::High),
            queue_mode: QueueMode::Steer,
            max_steps: 7,
            turn_timeout: Some(Duration::from_secs(3600)),
            allowed_tools: vec!["@files".into(), "!write".into()],
            allowed_dirs: vec![dir(Access::ReadOnly), dir(Access::ReadWrite)],
            egress: Egress {
                allowed_domains: ["example.org", "*.example.net"]
                    .map(|host| host.parse().unwrap())
                    .into(),
                allow_private: vec!["wiki.internal:80".parse().unwrap()],
            },
            rate_limit_buckets: buckets("{example.org: {rps: 0.5, burst: 3}}"),
            budgets: Caps {
                usd_per_day: Some(20.0),
                tokens_per_day: Some(1_000_000),
                usd_per_task: Some(0.5),
            },
            mcp_servers: McpServers(BTreeMap::from([("far".to_owned(), far())])),
            plugins: Plugins(BTreeMap::from([("weather".to_owned(), weather())])),
            learning: true,
            heartbeat: Interval(Some(Duration::from_secs(1_800))),
        })
    );
}

/// OR-15, SE-83
#[test]
fn an_empty_file_gives_a_team_without_tools() {
    let found = read("").unwrap();

    assert_eq!(found, Team::new("scouts"));
    assert_eq!((found.max_steps, found.allowed_tools.len()), (50, 0));
    assert_eq!(found.provider_profile, "default");
}

/// OR-15
#[test]
fn a_heartbeat_of_nothing_is_none() {
    assert_eq!(read("heartbeat: 0s").map(|team| team.heartbeat), Ok(Interval(None)));
}

/// OR-16, SE-83
#[test]
fn the_old_spelling_of_max_steps_is_read() {
    assert_eq!(read("maxSteps: 9").map(|team| team.max_steps), Ok(9));
    assert_eq!(
        read("max_steps: 9\nmaxSteps: 9\n"),
        Err(vec![
            "teams/scouts/config.yaml:2:11: maxSteps: `max_steps` is given as well; keep one"
                .into()
        ])
    );
}

/// OR-16
#[test]
fn old_keys_are_refused_with_what_takes_their_place() {
    let found = read(
        "credentials: {a: b}\nparent: main\nengine: x\nmaxTurns: 1\nscope: [a]\nlog_level: debug\n",
    )
    .unwrap_err();

    let hints = [
        ("credentials", "`hivewright vault set`"),
        ("parent", "tree of teams"),
        ("engine", "provider_profile"),
        ("maxTurns", "`max_steps`"),
        ("scope", "description"),
        ("log_level", "`log.level`"),
    ];
    assert_eq!(found.len(), hints.len());
    for ((line, (key, hint)), number) in found.iter().zip(hints).zip(1..) {
        let start = format!("teams/scouts/config.yaml:{number}:1: {key}: unknown key: ");
        assert!(line.starts_with(&start) && line.contains(hint), "{line}");
    }
}

/// OR-15, OR-20
#[test]
fn wrong_fields_of_a_team_are_refused() {
    let place = place();
    let faults = |text: String| {
        place.write(&place.home.team_file("scouts"), text);
        let problems = read_team(&place.home, "scouts").unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
        (problems.0[0].path.clone(), problems.0[0].reason.clone())
    };
    let dir = |path: &Path| format!("allowed_dirs: [{{path: {}}}]", path.display());

    for (text, path, reason) in [
        ("name: other".into(), "name", "must be `scouts`"),
        (format!("description: {}", "x".repeat(501)), "description", "500"),
        ("max_steps: 501".into(), "max_steps", "1 to 500"),
        ("max_steps: 0".into(), "max_steps", "1 to 500"),
        ("turn_timeout: 7h".into(), "turn_timeout", "6h"),
        ("allowed_tools: ['']".into(), "allowed_tools[0]", "name of a tool"),
        ("budgets: {usd_per_day: 0}".into(), "budgets.usd_per_day", "above 0"),
        ("budgets: {tokens_per_day: -1}".into(), "budgets.tokens_per_day", "whole number"),
        ("budgets: {usd_per_month: 1}".into(), "budgets.usd_per_month", "unknown key"),
        ("learning: 1".into(), "learning", "true or false"),
        // TR-69
        ("heartbeat: 8d".into(), "heartbeat", "7d"),
        ("heartbeat: 59s".into(), "heartbeat", "1m"),
        ("model: {}".into(), "model", "`provider`"),
        ("description: ${env:KEY}".into(), "description", "not allowed"),
        ("model: ${file:key}".into(), "model", "not allowed"),
        ("allowed_dirs: [{mode: ro}]".into(), "allowed_dirs[0]", "`path`"),
        ("allowed_dirs: [{path: here}]".into(), "allowed_dirs[0].path", "absolute"),
        (dir(Path::new("/")), "allowed_dirs[0].path", "data dir"),
        (dir(&place.home.secrets()), "allowed_dirs[0].path", "data dir"),
        (dir(&place.home.store()), "allowed_dirs[0].path", "run dir"),
        (dir(&place.home.team("other")), "allowed_dirs[0].path", "run dir"),
        (dir(&place.home.data().join("../run/teams")), "allowed_dirs[0].path", "run dir"),
    ] {
        let found = faults(text);
        assert_eq!(found.0, path);
        assert!(found.1.contains(reason), "{found:?}");
    }
}

/// A name is part of a path.
#[test]
fn a_name_that_leads_elsewhere_is_no_team() {
    let place = place();

    for name in ["../../data", "a/b", "", ".", "-x", "x--y", "Main", "x"] {
        assert!(read_team(&place.home, name).is_err(), "{name}");
    }
}

const PROFILES: &str = "profiles: {default: {provider: offline}, local: {provider: offline}, off: {api_key: '${env:GONE}'}}\n";

/// OR-15: whatever looks at a file looks for what it names, and says which field and what was meant.
#[test]
fn a_team_names_profiles_and_groups_that_exist() {
    let place = place();
    place.write(&place.home.providers_file(), PROFILES);
    let file = File::Team("scouts".into());
    let table = [
        ("provider_profile: default", None),
        ("provider_profile: off", None),
        ("model: local:llama3:8b", None),
        ("model: claude", None),
        (
            "provider_profile: nobody",
            Some(("provider_profile", "unknown profile `nobody`; there are: default, local, off")),
        ),
        (
            "provider_profile: locla",
            Some(("provider_profile", "unknown profile `locla` (did you mean `local`?)")),
        ),
        (
            "model: llama3:8b",
            Some(("model", "unknown profile `llama3`; there are: default, local, off")),
        ),
        (
            "allowed_tools: ['@nonsense']",
            Some(("allowed_tools[0]", "unknown tool group `@nonsense`; known groups are `@files`")),
        ),
        (
            "allowed_tools: ['*', '!@shel']",
            Some(("allowed_tools[1]", "unknown tool group `@shel` (did you mean `@shell`?)")),
        ),
    ];

    for (text, expected) in table {
        place.write(&place.home.team_file("scouts"), text);
        let validated = load::validate(&place.home, &file, text);
        let mut checked = load::check(&place.home, &place.environment).problems.0;
        checked.retain(|problem| problem.file.contains("teams/scouts"));
        let Some((path, reason)) = expected else {
            assert_eq!((validated, checked), (Ok(()), Vec::new()), "{text}");
            continue;
        };
        for found in [validated.unwrap_err().0, checked] {
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!(found[0].path, path, "{text}");
            assert!(found[0].reason.starts_with(reason), "{}", found[0].reason);
        }
    }
}

/// OR-15: without a profile of its own a team has the one called `default`, which must be there.
#[test]
fn a_team_that_names_no_profile_needs_the_default_one() {
    let place = place();
    place.write(&place.home.providers_file(), "profiles: {big: {provider: offline}}");
    place.write(&place.home.team_file("scouts"), "max_steps: 3\n");
    place.write(&place.home.team_file("miners"), "model: big:x\n");

    let found = load::check(&place.home, &place.environment).problems.0;

    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].file.contains("teams/scouts"));
    assert!(
        found[0].reason.starts_with("`provider_profile`: unknown profile `default`"),
        "{}",
        found[0].reason
    );
}

/// OR-15: a group whose tools are still to come may be named, and does not pass in silence.
#[test]
fn a_group_without_tools_is_warned_of() {
    let place = place();
    place.write(&place.home.team_file("scouts"), "allowed_tools: [\"@topics\"]\n");

    let report = load::check(&place.home, &place.environment);

    assert_eq!(report.problems.0, []);
    assert_eq!(report.warnings.len(), 1);
    assert_eq!(report.warnings[0].path, "allowed_tools[0]");
    assert!(report.warnings[0].reason.contains("@topics"));
}

/// SC-42: whoever has a second name of the file can change what the team may do.
#[test]
fn a_file_with_a_second_name_is_not_read() {
    let place = place();
    let file = place.home.team_file("scouts");
    place.write(&file, "description: scouts\n");
    assert!(read_team(&place.home, "scouts").is_ok());

    fs::hard_link(&file, place.home.team("scouts").join("second")).unwrap();

    let problems = read_team(&place.home, "scouts").unwrap_err();
    assert!(problems.to_string().contains("more than one hard link"), "{problems}");
}
