//! Changes count from the next turn.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use hivewright_actors::ids::TeamName;

use super::*;
use crate::settings::{live::Live, providers::Provider};

/// Writes a file that looks as if it had been written some time ago.
fn write_aged(place: &Place, path: &Path, text: &str, seconds: u64) {
    place.write(path, text);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

/// SE-113
#[tokio::test]
async fn a_wrong_providers_file_gives_no_profile_until_it_is_cured() {
    let place = place();
    let live = Live::new(place.home.clone(), place.environment.clone());
    let path = place.home.providers_file();

    let absent = live.providers().await.unwrap();
    write_aged(&place, &path, "profiles: {default: {provider: nonsense}}", 60);
    let wrong = live.providers().await.unwrap_err();
    write_aged(&place, &path, "profiles: {default: {provider: offline}}", 30);
    let cured = live.providers().await.unwrap();

    assert!(absent.demo && !cured.demo);
    assert!(wrong.to_string().contains("profiles.default.provider"));
    assert_eq!(cured.profile("default").unwrap().provider, Provider::Offline);
}

/// OR-21: references are looked up at use, so a new key in the file counts.
#[tokio::test]
async fn a_changed_key_file_counts() {
    let place = place();
    let live = Live::new(place.home.clone(), place.environment.clone());
    let key = place.home.secrets().join("key");
    write_aged(&place, &key, "one", 60);
    write_aged(
        &place,
        &place.home.providers_file(),
        "profiles: {default: {api_key: '${file:secrets/key}'}}",
        60,
    );
    let read = async || {
        let providers = live.providers().await.unwrap();
        let profile = providers.profile("default").unwrap().clone();
        profile.api_key.unwrap().expose().to_owned()
    };

    let first = read().await;
    write_aged(&place, &key, "two", 30);

    assert_eq!((first.as_str(), read().await.as_str()), ("one", "two"));
}

/// SE-154
#[tokio::test]
async fn a_wrong_team_file_concerns_its_team_only() {
    let place = place();
    let live = Live::new(place.home.clone(), place.environment.clone());
    let (good, bad) = (TeamName::from("good"), TeamName::from("bad"));
    write_aged(&place, &place.home.team_file("good"), "max_steps: 3", 60);
    write_aged(&place, &place.home.team_file("bad"), "max_steps: x", 60);

    let wrong = live.team(&bad).await.unwrap_err();
    let fine = live.team(&good).await.unwrap();
    let missing = live.team(&TeamName::from("gone")).await.unwrap_err();
    write_aged(&place, &place.home.team_file("bad"), "max_steps: 4", 30);
    let cured = live.team(&bad).await.unwrap();

    assert!(wrong.to_string().contains("teams/bad/config.yaml:1:12: max_steps: "));
    assert!(missing.to_string().contains("there is no such file"));
    assert_eq!((fine.max_steps, cured.max_steps), (3, 4));
    let again = live.team(&good).await.unwrap();
    assert!(Arc::ptr_eq(&fine, &again), "an unchanged file is not read again");
}

/// OR-22: what a service runs with stays in force while one of the three files is wrong, and all are
/// told of together.
#[tokio::test]
async fn a_service_goes_on_with_the_last_good_set() {
    let place = place();
    let live = Live::new(place.home.clone(), place.environment.clone());
    let profile =
        |model: &str| format!("profiles: {{default: {{provider: offline, model: {model}}}}}");
    let home = &place.home;
    write_aged(&place, &home.providers_file(), &profile("one"), 90);
    live.hold(live.config_now().unwrap(), Arc::default());
    let now = || {
        let providers = live.providers_now().unwrap();
        let config = live.config_now().unwrap();
        let model = providers.profile("default").unwrap().model.clone();
        (model, config.runtime.max_running_turns)
    };
    assert_eq!(now(), ("one".to_owned(), 256));

    write_aged(&place, &home.providers_file(), &profile("two"), 80);
    let runtime = "runtime: {max_running_turns: 7}\n";
    write_aged(&place, &home.config_file(), &format!("{runtime}prot: 1\n"), 80);
    write_aged(&place, &home.channels_file(), "ws: {enabld: true}\n", 80);
    assert_eq!(now(), ("one".to_owned(), 256));
    let problems = live.set_now().unwrap_err().to_string();
    assert!(problems.contains("config.yaml:2:1: prot: "), "{problems}");
    assert!(problems.contains("channels.yaml:1:6: ws.enabld: "), "{problems}");

    write_aged(&place, &home.config_file(), runtime, 70);
    assert_eq!(now(), ("one".to_owned(), 256));
    write_aged(&place, &home.channels_file(), "ws: {enabled: true}\n", 70);

    assert_eq!(now(), ("two".to_owned(), 7));
    assert_eq!(live.held().unwrap().config.runtime.max_running_turns, 7);
}

/// OR-15: a profile that a team names and that is taken away is a fault of the team, until it is back.
#[tokio::test]
async fn a_profile_that_is_gone_is_a_fault_of_the_teams_that_name_it() {
    let place = place();
    let live = Live::new(place.home.clone(), place.environment.clone());
    let both = "profiles: {default: {provider: offline}, spare: {provider: offline}}";
    let one = "profiles: {default: {provider: offline}}";
    let profiles = |text, age| write_aged(&place, &place.home.providers_file(), text, age);
    profiles(both, 60);
    let team = TeamName::from("scouts");
    let file = place.home.team_file("scouts");
    write_aged(&place, &file, "max_steps: 3\nprovider_profile: spare", 60);

    let with = live.team(&team).await.unwrap();
    profiles(one, 50);
    let without = live.team(&team).await.unwrap_err();
    let by_itself = live.team_file_now(&team).unwrap();
    profiles("profiles: nonsense", 40);
    let unknown = live.team(&team).await;
    profiles(both, 30);
    let again = live.team(&team).await.unwrap();

    assert!(
        without
            .to_string()
            .contains("teams/scouts/config.yaml:2:19: provider_profile: unknown profile `spare`"),
        "{without}"
    );
    // Which profiles there are is not known then, and turns fail for that.
    assert!(unknown.is_ok());
    for same in [by_itself, again] {
        assert!(Arc::ptr_eq(&with, &same));
    }
}
