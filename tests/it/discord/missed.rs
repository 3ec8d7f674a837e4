//! What is written while the service does not run: read once, within bounds, and said where it is not.

use std::time::Duration;

use super::*;
use crate::fake_discord::Connection;

/// CH-158: in order, each once, before what comes then; no commands, nothing old, nothing of bots or elsewhere.
#[actix::test]
async fn what_was_written_meanwhile_is_read_once_in_order() {
    let discord = FakeDiscord::start();
    let mut service = service(&discord).await;
    discord.say(ROOM, ANN, "#reply Zero.");
    discord.post_with("Zero.").await;
    service.kill();
    discord.gateway(|gateway| gateway.forgets = true);

    discord.say(ROOM, ANN, "#reply One.");
    let file = discord.upload("notes.txt", b"plums");
    let read = "#call read {\"file_path\":\"inbox/notes.txt\"}\n#reply {result}";
    discord.say_as(ROOM, ANN, read, json!({ "attachments": [file] }));
    discord.say(ROOM, ANN, "/stop");
    discord.say_as(ROOM, ANN, "#reply A hook.", json!({"webhook_id": "8"}));
    discord.say(6_000, ANN, "#reply Not watched.");
    service.launch().await;
    discord.connected(2).await;
    discord.say(ROOM, ANN, "#reply Now.");
    discord.post_with("Now.").await;
    discord.post_with("are not run late").await;

    // Once more away: it was all read.
    service.kill();
    service.launch().await;
    discord.connected(3).await;
    discord.say(ROOM, ANN, "#reply Again.");
    discord.post_with("Again.").await;

    let mut texts = discord.texts(ROOM);
    texts.retain(|text| !text.contains("not run late"));
    let place = |words: &str| texts.iter().position(|text| text.contains(words)).expect(words);
    assert_eq!(texts.len(), 5, "{texts:?}");
    assert!(place("Zero.") < place("One.") && place("One.") < place("Now."), "{texts:?}");
    assert!(place("plums") < place("Again."), "{texts:?}");
}

/// CH-158: a command that was carried out before is not asked for again.
#[actix::test]
async fn a_command_that_was_carried_out_is_not_asked_for_again() {
    let discord = FakeDiscord::start();
    let mut service = service(&discord).await;
    discord.say(ROOM, ANN, "#reply Zero.");
    discord.post_with("Zero.").await;
    discord.say(ROOM, ANN, "/help");
    discord.post_with("Commands:").await;
    service.kill();
    discord.gateway(|gateway| gateway.forgets = true);

    service.launch().await;
    discord.connected(2).await;
    discord.say(ROOM, ANN, "#reply Now.");
    discord.post_with("Now.").await;

    let texts = discord.texts(ROOM);
    assert!(texts.iter().all(|text| !text.contains("not run late")), "{texts:?}");
}

/// CH-158: a session that cannot be resumed is such a gap too.
#[actix::test]
async fn what_a_lost_session_has_missed_is_read() {
    let discord = FakeDiscord::start();
    let _service = service(&discord).await;
    discord.say(ROOM, ANN, "#reply Zero.");
    discord.post_with("Zero.").await;

    discord.gateway(|gateway| gateway.forgets = true);
    discord.disturb(Connection::Cut);
    discord.say(ROOM, ANN, "#reply One.");
    discord.connected(2).await;
    discord.post_with("One.").await;

    assert_eq!(discord.texts(ROOM), ["Zero.", "One."]);
}

/// CH-158: at most 50, none older than 15 minutes, as fast as their author may send; the rest is said.
#[actix::test]
async fn no_more_is_read_than_the_bounds_allow_and_that_is_said() {
    let (discord, model) = (FakeDiscord::start(), FakeModel::start());
    model.otherwise(Reply::text("I see."));
    let rate = "limits: {rate: {discord: {per_minute: 6000, burst: 1}}}\n";
    let mut service = prepare(&discord)
        .with_file(CHANNELS, &format!("{}{rate}", channels(&discord)))
        .with_file("data/config/providers.yaml", &providers(&model))
        .started()
        .await;
    let quiet = 5_002;
    let route = format!("GET /api/v10/channels/{quiet}/messages");
    until("a look at both channels", async || discord.count(&route) >= 1).await;
    discord.say(ROOM, ANN, "Number 0.");
    discord.post_with("I see.").await;
    service.kill();

    discord.said_before(quiet, ANN, "Too old.", Duration::from_secs(1_000));
    discord.say(quiet, ANN, "Still young.");
    for number in 1..=60 {
        discord.say(ROOM, ANN, &format!("Number {number}."));
    }
    service.launch().await;
    let told = |channel: u64| discord.texts(channel).concat().contains("More was written here");
    until("word of what is cut", async || told(ROOM) && told(quiet)).await;
    let asked = || {
        let requests = model.requests().into_iter();
        requests.map(|request| request.body.to_string()).collect::<String>()
    };
    for last in ["Number 25.", "Number 50."] {
        until(last, async || asked().contains(last)).await;
    }
    // What was left out is not read after the next gap either.
    service.kill();
    service.launch().await;
    discord.connected(3).await;
    discord.say(ROOM, ANN, "The end.");
    until("the end", async || asked().contains("The end.")).await;

    let asked = asked();
    let read: Vec<_> =
        (0..=60).filter(|number| asked.contains(&format!("Number {number}."))).collect();
    assert_eq!(read, (0..=50).collect::<Vec<_>>());
    assert!(asked.contains("Still young.") && !asked.contains("Too old."));
}
