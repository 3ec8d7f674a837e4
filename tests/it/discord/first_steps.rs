//! `hivewright init --discord`: from a bot's token to the first answer.

use super::*;
use crate::canaries::{files_with, forms};

/// OP-75
#[actix::test]
async fn a_newcomer_comes_from_a_token_to_the_first_answer() {
    let discord = FakeDiscord::start();
    let mut service = Service::prepare().with_file("data/config/.keep", "");
    let flags = [
        "init",
        "--discord",
        "--discord-channel",
        "5001",
        "--discord-user",
        "4001",
        "--discord-api",
        discord.url(),
    ];

    let done = service.run(&flags, &format!("{TOKEN}\n")).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    service.launch().await;
    discord.connected(1).await;
    discord.say(ROOM, BOB, "#reply No.");
    discord.say(ROOM, ANN, "#reply Welcome.");
    discord.post_with("Welcome.").await;

    assert!(done.stdout.contains("The token is of the bot `hive`"), "{done:?}");
    assert!(
        done.stdout.contains("https://discord.com/oauth2/authorize?client_id=999&"),
        "{done:?}"
    );
    let settings = std::fs::read_to_string(service.path(CHANNELS)).unwrap();
    assert!(settings.contains("${vault:discord.token}"), "{settings}");
    assert!(!done.stdout.contains(TOKEN) && !done.stderr.contains(TOKEN));
    assert_eq!(files_with(&forms(TOKEN), service.home()), [""; 0]);
    assert_eq!(discord.texts(ROOM), ["Not authorized.", "Welcome."]);
}

/// OP-75: a wrong token, and a Discord that breaks off, leave everything as it was, and settings that are there are not overwritten.
#[actix::test]
async fn a_token_that_is_wrong_writes_nothing_and_settings_that_are_there_stay() {
    let discord = FakeDiscord::start();
    let service = Service::prepare();
    let flags = [
        "init",
        "--discord",
        "--discord-channel",
        "5001",
        "--discord-user",
        "4001",
        "--discord-api",
        discord.url(),
    ];

    discord.break_off(&["/users/@me"]);
    let broken = service.run(&flags, TOKEN).await;
    discord.break_off(&[]);
    let wrong = service.run(&flags, "nonsense\n").await;
    assert!(!service.path(CHANNELS).exists());
    service.write(CHANNELS, "ws: {enabled: true}\n");
    let kept = service.run(&flags, TOKEN).await;

    assert_eq!((broken.code, broken.stdout.as_str()), (Some(1), ""), "{broken:?}");
    assert!(broken.stderr.contains("Discord cannot be reached"), "{broken:?}");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("Discord does not accept the bot's token"), "{wrong:?}");
    assert_eq!(kept.code, Some(0), "{kept:?}");
    assert_eq!(std::fs::read_to_string(service.path(CHANNELS)).unwrap(), "ws: {enabled: true}\n");
    assert!(kept.stdout.contains("discord:"), "what to add is shown: {kept:?}");
}
