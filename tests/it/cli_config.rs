//! `hivewright config`: settings are checked without a service.

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY},
    service::{Done, Service},
};

/// OP-82, OP-85, OP-86: all faults of all files, with their places, and nothing is started.
#[actix::test]
async fn config_check_names_every_fault_with_its_place() {
    let home = Service::prepare()
        .with_file("data/config/config.yaml", "server:\n  prot: 1\n")
        .with_file("data/config/channels.yaml", "ws: {enabled: maybe}\n");

    let done = home.run(&["config", "check"], "").await;
    let json = home.run(&["config", "check", "--json"], "").await;

    assert_eq!(done.code, Some(9), "{done:?}");
    assert!(done.stdout.contains("config.yaml:2:"), "{done:?}");
    assert!(done.stdout.contains("channels.yaml:1:"), "{done:?}");
    assert!(done.stderr.contains("2 faults"), "{done:?}");
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let fields: Vec<_> = document["data"]["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["path"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["server.prot", "ws.enabled"]);
}

/// OP-82
#[actix::test]
async fn config_check_of_good_files_ends_well() {
    let home = Service::prepare().with_file("data/config/config.yaml", "server: {port: 9}\n");

    let done = home.run(&["config", "check"], "").await;

    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{done:?}");
}

/// OP-82: a file is changed in the person's editor, and stays as it was if something is wrong then.
#[actix::test]
async fn config_edit_puts_in_place_what_is_right() {
    let home = |editor: &str| {
        let home = Service::prepare().with_variable("VISUAL", editor);
        home.with_file("data/config/config.yaml", "server: {port: 9}\n")
    };
    let (right, wrong, same) = (home("sed -i s/9/10/"), home("sed -i s/port/prot/"), home("true"));

    let [right_done, wrong_done, same_done] = [
        right.run(&["config", "edit"], "").await,
        wrong.run(&["config", "edit"], "").await,
        same.run(&["config", "edit", "--json"], "").await,
    ];

    let text =
        |home: &Service| std::fs::read_to_string(home.path("data/config/config.yaml")).unwrap();
    assert_eq!((right_done.code, text(&right).as_str()), (Some(0), "server: {port: 10}\n"));
    assert_eq!((wrong_done.code, text(&wrong).as_str()), (Some(3), "server: {port: 9}\n"));
    assert!(wrong_done.stderr.contains("server.prot"), "{wrong_done:?}");
    assert!(wrong.path("data/config/config.draft.yaml").exists());
    assert!(!right.path("data/config/config.draft.yaml").exists());
    assert!(same_done.stdout.contains("\"changed\":false"), "{same_done:?}");
}

/// OP-82: what was left undone undoes nothing: neither what was broken off, nor what is older than the file.
#[actix::test]
async fn a_draft_that_was_left_undoes_nothing() {
    let file = "data/config/config.yaml";
    let home = Service::prepare().with_variable("VISUAL", "sed -i s/9/wrong/");
    let home = home.with_file(file, "server: {port: 9}\n");
    let left_off = Service::prepare().with_variable("VISUAL", "false");
    let left_off = left_off.with_file(file, "server: {port: 9}\n");

    left_off.run(&["config", "edit"], "").await;
    let left = home.run(&["config", "edit"], "").await;
    let again = home.run(&["config", "edit"], "").await;
    std::fs::write(home.path(file), "server: {port: 11}\n").unwrap();
    let stale = home.run(&["config", "edit"], "").await;
    let elsewhere =
        home.run(&["config", "set", "server.port", "9", "--url", "http://a.example"], "").await;

    assert!(!left_off.path("data/config/config.draft.yaml").exists());
    assert_eq!(left.code, Some(3), "{left:?}");
    assert!(again.stderr.contains("going on with"), "{again:?}");
    assert!(
        stale.code != Some(0) && stale.stderr.contains("was changed after the draft"),
        "{stale:?}"
    );
    assert!(
        elsewhere.code == Some(2) && elsewhere.stderr.contains("on its own machine"),
        "{elsewhere:?}"
    );
    assert_eq!(std::fs::read_to_string(home.path(file)).unwrap(), "server: {port: 11}\n");
}

/// OP-82: one setting is changed with the same check, and counts for a service that runs.
#[actix::test]
async fn config_set_changes_one_setting_and_a_running_service_takes_it_over() {
    let file = "# ours\nserver:\n  port: 9 # nine\n";
    let service = Service::prepare().with_file("data/config/config.yaml", file).started().await;
    let text = || std::fs::read_to_string(service.path("data/config/config.yaml")).unwrap();
    let set = async |key: &str, value: &str| {
        service.run(&["config", "set", key, value, "--json"], "").await
    };

    let done = service.run(&["config", "set", "approvals.ttl", "2h"], "").await;
    service.until_logged("count from now on").await;
    let wrong = set("approvals.ttl", "soon").await;
    let unknown = set("approvals.tll", "1h").await;
    let absent = set("topics.idle_after", "1h").await;
    let same = set("server.port", "9").await;

    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("approvals.ttl: (not set) → 2h"), "{done:?}");
    assert_eq!(text(), format!("{file}approvals:\n  ttl: 2h\n"));
    assert_eq!((wrong.code, unknown.code), (Some(2), Some(2)), "{wrong:?} {unknown:?}");
    let said = |ended: &Done| {
        let document: Value = serde_json::from_str(&ended.stdout).unwrap();
        document["error"]["message"].as_str().unwrap().to_owned()
    };
    let refused = "is refused, and nothing was changed:";
    let expected =
        format!("`approvals.ttl: soon` {refused} expected a duration such as 90s, found text");
    assert_eq!(said(&wrong), expected);
    let expected = format!("`approvals.tll: 1h` {refused} unknown key (did you mean \"ttl\"?)");
    assert_eq!(said(&unknown), expected);
    // A file that is not there may mean something: it is not made by the way.
    assert_eq!(absent.code, Some(5), "{absent:?}");
    assert!(absent.stderr.contains("channels.yaml"), "{absent:?}");
    assert!(same.stdout.contains("\"changed\":false"), "{same:?}");
}

/// OP-63, OP-82: each profile stands with the models of its API, or with why they are not known.
#[actix::test]
async fn models_lists_what_each_api_has_or_why_not() {
    let model = FakeModel::start();
    let profile = |path: &str| {
        format!(
            "{{provider: openai, api_url: \"{}{path}\", api_key: {KEY}, model: m}}",
            model.url()
        )
    };
    let providers =
        format!("profiles:\n  default: {}\n  lost: {}\n", profile("/v1"), profile("/lost"));
    let service =
        Service::prepare().with_file("data/config/providers.yaml", &providers).started().await;

    let listed = service.run(&["models"], "").await;
    let trial =
        json!({"provider": "openai", "api_url": format!("{}/lost", model.url()), "api_key": KEY});
    let (_, tried) = service.api("POST", "/api/v1/models/try", Some(trial)).await;

    assert_eq!(listed.code, Some(0), "{listed:?}");
    let (first, second) = listed.stdout.split_once("lost: m of openai\n").unwrap();
    assert!(first.starts_with("default: m of openai\n  "), "{listed:?}");
    let refused = "the API answered with status 404";
    assert_eq!(second, format!("  its models are not known: {refused}\n"));
    assert_eq!(tried["data"]["unlisted"], refused, "{tried}");
}

/// OP-79: what cannot be taken back is asked for, and where nobody can answer it is not done.
#[actix::test]
async fn a_team_is_not_shut_down_without_a_yes() {
    let service = Service::start().await;
    let made = service.run(&["teams", "create", "ops", "--scope", "works"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");

    let refused = service.run(&["teams", "shutdown", "ops"], "yes\n").await;
    let (still, _) = service.api("GET", "/api/v1/teams/ops", None).await;
    let done = service.run(&["teams", "shutdown", "ops", "--yes"], "").await;
    let (gone, _) = service.api("GET", "/api/v1/teams/ops", None).await;

    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--yes"), "{refused:?}");
    assert_eq!(still, 200);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(gone, 404);
}

/// OP-82: the first setting that is changed makes its file, which states all others as they are.
#[actix::test]
async fn a_setting_is_changed_before_there_is_a_file() {
    let home = Service::prepare();

    let set = home.run(&["config", "set", "approvals.ttl", "12h"], "").await;
    let checked = home.run(&["config", "check"], "").await;
    let shown = home.run(&["config", "show", "approvals.ttl"], "").await;

    assert_eq!((set.code, checked.code), (Some(0), Some(0)), "{set:?} {checked:?}");
    assert!(set.stderr.starts_with("approvals.ttl: 1d → 12h\n"), "{set:?}");
    assert!(shown.stdout.contains("approvals.ttl  12h    config.yaml:"), "{shown:?}");
}

/// OP-86: a secret that is missing closes the channel that needs it, and no other.
#[actix::test]
async fn a_missing_secret_closes_its_channel_alone() {
    let channels = "ws: {enabled: true}\ndiscord: {token: \"${vault:discord.token}\"}\n";
    let home = Service::prepare().with_file("data/config/channels.yaml", channels);

    let checked = home.run(&["config", "check"], "").await;
    let service = home.started().await;
    service.until_logged("WebSocket on, Discord off").await;
    let status = service.run(&["status"], "").await;
    service.connect().await;

    assert_eq!(checked.code, Some(9), "{checked:?}");
    let fault = "channels.yaml:2:18: discord.token: vault key `discord.token`";
    assert!(checked.stdout.contains(fault), "{checked:?}");
    assert!(checked.stderr.contains("or does without what cannot be used"), "{checked:?}");
    assert!(status.stdout.contains("ws on (0 connected), discord failed ("), "{status:?}");
}

/// OP-91, OP-128: what an earlier version wrote is shown, then changed while the service runs; the old files are kept, and what
/// only the operator can decide is left with its place.
#[actix::test]
async fn config_migrate_brings_files_up_to_date() {
    let (config, team) = ("data/config/config.yaml", "run/teams/main/config.yaml");
    let old = "# ours\nparent: nobody\nmaxTurns: 9 # nine\nlog_level: info\n";
    let new = "# ours\nmax_steps: 9 # nine\nlog_level: info\n";
    let service = Service::prepare().with_file(config, "# all\nlog: {level: info}\n");
    let service = service.with_file(team, old).started().await;
    let text = |path: &str| std::fs::read_to_string(service.path(path)).unwrap();
    let migrate =
        async |flags: &[&str]| service.run(&[&["config", "migrate"][..], flags].concat(), "").await;

    let dry = migrate(&["--dry-run"]).await;
    let unsure = migrate(&[]).await;
    let elsewhere = migrate(&["--url", "http://a.example"]).await;
    let doctor = service.run(&["doctor"], "").await;
    let untouched = text(team);
    let done = migrate(&["--yes", "--json"]).await;
    let again = migrate(&["--yes"]).await;

    assert_eq!(untouched, old);
    assert_eq!(dry.code, Some(9), "{dry:?}");
    for line in [
        "  - parent: nobody\n",
        "  - maxTurns: 9\n  + max_steps: 9\n    use `max_steps`\n",
        ":4:1: log_level: ",
    ] {
        assert!(dry.stdout.contains(line), "{line} {dry:?}");
    }
    assert_eq!((unsure.code, elsewhere.code), (Some(2), Some(2)), "{unsure:?} {elsewhere:?}");
    // OP-86: it is for this home, as every command that is suggested.
    let fix = format!("→ `hivewright --home {} config migrate` shows", service.home().display());
    assert!(doctor.stdout.contains(&fix), "{doctor:?}");
    assert_eq!((done.code, text(team).as_str()), (Some(9), new), "{done:?}");
    let document: Value = serde_json::from_str(&done.stdout).unwrap();
    let Value::Object(data) = &document["data"] else { panic!("{document}") };
    assert_eq!((&data["changed"], &data["left"][0]["line"]), (&json!(true), &json!(3)));
    let kept = std::path::Path::new(data["backup"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(kept.join("teams/main/config.yaml")).unwrap(), old);
    assert!(again.stderr.contains("nothing is in the form of an earlier version"), "{again:?}");
    assert_eq!((again.code, text(config).as_str()), (Some(9), "# all\nlog: {level: info}\n"));
}

/// OP-128: without a service too, and then all is well.
#[actix::test]
async fn config_migrate_needs_no_service() {
    let home = Service::prepare().with_file("data/config/config.yaml", "browser: {a: 1}\n");

    let done = home.run(&["config", "migrate", "--yes"], "").await;
    let checked = home.run(&["config", "check"], "").await;

    assert_eq!((done.code, checked.code), (Some(0), Some(0)), "{done:?} {checked:?}");
}
