//! What breaks between the bot and Discord: nothing is lost, nothing is said twice, and the operator sees why.

use super::{
    deciding::{asking, write},
    *,
};
use crate::fake_discord::{Connection, Fault};

/// CH-104: what is said while the connection is away comes in once it is back, and runs once.
#[actix::test]
async fn a_connection_that_is_cut_is_resumed_without_a_loss() {
    let discord = FakeDiscord::start();
    let _service = service(&discord).await;
    discord.say(ROOM, ANN, "#reply One.");
    discord.posts(1).await;

    discord.disturb(Connection::Cut);
    discord.say(ROOM, ANN, "#reply Two.");
    discord.connected(2).await;
    discord.disturb(Connection::Send(json!({"op": 7})));
    discord.connected(3).await;
    discord.say(ROOM, ANN, "#reply Three.");
    discord.post_with("Three.").await;

    assert_eq!(discord.texts(ROOM), ["One.", "Two.", "Three."]);
    let names: Vec<_> = discord.introductions().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["IDENTIFY", "RESUME", "RESUME"]);
}

/// CH-104
#[actix::test]
async fn a_session_that_is_over_is_begun_anew() {
    let discord = FakeDiscord::start();
    let _service = service(&discord).await;

    discord.gateway(|gateway| gateway.forgets = true);
    discord.disturb(Connection::Close(4_000));
    discord.connected(2).await;
    discord.say(ROOM, ANN, "#reply Here again.");
    discord.post_with("Here again.").await;

    let names: Vec<_> = discord.introductions().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["IDENTIFY", "RESUME", "IDENTIFY"]);
}

/// CH-104
#[actix::test]
async fn a_gateway_that_gives_no_sign_of_life_is_left() {
    let discord = FakeDiscord::start();
    discord.gateway(|gateway| gateway.interval = 200);
    let service = service(&discord).await;
    until("heartbeats", async || discord.heartbeats() >= 3).await;
    assert_eq!(standing(&service).await["state"], "connected");

    discord.gateway(|gateway| gateway.is_deaf = true);
    let lost = until_state(&service, "retrying").await;
    discord.gateway(|gateway| gateway.is_deaf = false);
    discord.connected(2).await;

    assert!(lost["error"].as_str().unwrap().contains("no sign of life"), "{lost}");
    until_state(&service, "connected").await;
}

/// CH-143, CH-144: the gateway is looked for where the settings say, and nowhere else.
#[actix::test]
async fn a_discord_that_cannot_be_reached_leaves_the_service_running_and_is_tried_again() {
    let discord = FakeDiscord::start();
    discord.status_of("GET /api/v10/gateway", Some(503));
    let service = prepare(&discord).started().await;

    let retrying = until_state(&service, "retrying").await;
    let answer = service.run(&["send", "#reply I am here."], "").await;
    until("two attempts", async || discord.count("/gateway") >= 2).await;
    assert!(discord.introductions().is_empty());
    discord.status_of("GET /api/v10/gateway", None);
    let shown = service.run(&["status"], "").await;

    assert!(retrying["error"].as_str().unwrap().contains("Discord is in trouble"), "{retrying}");
    assert_eq!(answer.stdout, "I am here.\n");
    assert!(shown.stdout.contains("discord retrying (Discord is in trouble"), "{}", shown.stdout);
    assert!(shown.stdout.contains("ws on"), "{}", shown.stdout);
}

/// CH-144
#[actix::test]
async fn a_token_that_is_not_accepted_is_not_tried_again_until_it_changes() {
    let discord = FakeDiscord::start();
    discord.change_token("another");
    let service = prepare(&discord).started().await;

    let failed = until_state(&service, "failed").await;
    let asked = discord.requests().len();
    tokio::time::sleep(QUIET * 3).await;
    assert_eq!(discord.requests().len(), asked);
    service.write(CHANNELS, &channels(&discord).replace("${env:BOT}", "another"));
    until_state(&service, "connected").await;

    assert_eq!(failed["error"], "Discord does not accept the bot's token");
    discord.say(ROOM, ANN, "#reply At last.");
    discord.post_with("At last.").await;
    assert!(!service.log().contains(TOKEN));
}

/// CH-94, CH-144
#[actix::test]
async fn a_bot_that_may_not_read_messages_is_told_what_to_turn_on() {
    let discord = FakeDiscord::start();
    discord.gateway(|gateway| gateway.refuses = Some(4_014));
    let service = prepare(&discord).started().await;

    let failed = until_state(&service, "failed").await;

    assert!(failed["error"].as_str().unwrap().contains("Message Content Intent"), "{failed}");
}

/// CH-102
#[actix::test]
async fn an_answer_waits_as_it_is_told_and_comes_once() {
    let discord = FakeDiscord::start();
    let _service = service(&discord).await;

    for fault in [
        Fault::Limited { seconds: 0.4, global: false },
        Fault::Limited { seconds: 0.4, global: true },
        Fault::Status(502),
        Fault::LoseAnswer,
        Fault::Last { seconds: 1.0 },
    ] {
        let words = format!("After {fault:?}.");
        discord.fail([fault]);
        discord.say(ROOM, ANN, &format!("#reply {words}"));
        discord.post_with(&words).await;
        until("the fault is met", async || discord.faults_left() == 0).await;
    }
    discord.say(ROOM, ANN, "#reply The last.");
    discord.post_with("The last.").await;

    let texts = discord.texts(ROOM);
    assert_eq!(texts.len(), 6, "{texts:?}");
}

/// CH-12, CH-98, CH-102, CH-158, PL-85: whatever Discord was asked for when it dies in the middle of its answer, nothing that
/// it was asked for is lost, and nothing is done twice.
#[actix::test]
async fn discord_may_die_in_the_middle_of_each_call() {
    let discord = FakeDiscord::start();
    let service = asking(&discord).await;
    let missed = format!("GET /api/v10/channels/{ROOM}/messages");
    until("a first look", async || discord.count(&missed) >= 1).await;

    discord.break_off(&["/typing", "GET /files/"]);
    let file = discord.upload("notes.txt", b"plums");
    let read = "#call read {\"file_path\":\"inbox/notes.txt\"}\n#reply {result}";
    discord.say_as(ROOM, ANN, read, json!({ "attachments": [file] }));
    until("a file breaks off", async || discord.count("GET /files/") >= 1).await;
    discord.break_off(&["/typing", "/interactions/", "PATCH "]);
    discord.post_with("plums").await;

    discord.say(ROOM, BOB, &write("done", "x"));
    let card = discord.post_with("wants to use").await;
    let decided = discord.press(&card, ANN, &card.button("Approve once")).await;
    discord.post_with("Ran.").await;
    until("buttons are taken away", async || discord.count("PATCH ") >= 1).await;
    let again = discord.press(&card, ANN, &card.button("Deny")).await;

    let asked = discord.count(&missed);
    discord.break_off(&[&missed]);
    discord.gateway(|gateway| gateway.forgets = true);
    discord.disturb(Connection::Cut);
    discord.say(ROOM, ANN, "#reply One.");
    until("what was missed breaks off", async || discord.count(&missed) > asked).await;
    discord.break_off(&[]);
    discord.post_with("One.").await;
    tokio::time::sleep(QUIET).await;

    assert!(discord.count("/typing") >= 1);
    assert_eq!(decided, "Approved: write.");
    assert!(again.starts_with("It is approved already"), "{again}");
    assert_eq!(discord.texts(ROOM).len(), 4, "{:?}", discord.texts(ROOM));
    assert_eq!(standing(&service).await["state"], "connected");
    let incoming = std::fs::read_dir(service.path("run/files/incoming")).unwrap();
    assert_eq!(incoming.count(), 0);
}

/// CH-102: a channel that is gone hurts no other.
#[actix::test]
async fn the_operator_is_told_of_an_answer_that_discord_does_not_take() {
    let discord = FakeDiscord::start();
    let service = service(&discord).await;

    discord.fail([Fault::Status(403)]);
    discord.say(ROOM, ANN, "#reply Lost.");
    let is_told = |notices: &Value| notices.to_string().contains("undelivered");
    let notices = service.until("/api/v1/inbox", is_told).await;
    discord.say(ROOM, ANN, "#reply Found.");
    discord.post_with("Found.").await;

    assert!(notices.to_string().contains("Discord refuses it: as told"), "{notices}");
    assert_eq!(discord.texts(ROOM), ["Found."]);
}

/// CH-103, CH-147: killed between two parts of an answer, and between a post and the note of it.
#[actix::test]
async fn an_answer_that_a_kill_cuts_short_is_there_once_and_whole() {
    let (discord, model) = (FakeDiscord::start(), FakeModel::start());
    let words: Vec<_> = (0..900).map(|word| format!("word{word}")).collect();
    model.otherwise(Reply::text(&words.join(" ")));
    let mut service = with_model(&discord, &model).await;

    // The second part is posted, and its answer is lost for as long as the service lives.
    discord.fail(std::iter::once(Fault::Last { seconds: 0.0 }));
    discord.fail(std::iter::repeat_n(Fault::LoseAnswer, 1_000));
    discord.say(ROOM, ANN, "go on");
    discord.posts(2).await;
    service.kill();
    discord.gateway(|gateway| gateway.forgets = true);
    discord.clear_faults();
    service.launch().await;
    discord.post_with("word899").await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(discord.texts(ROOM).join(" "), words.join(" "));
    // And not once more after the next start.
    let count = discord.all_posts().len();
    service.kill();
    service.launch().await;
    discord.connected(3).await;
    discord.say(ROOM, ANN, "/topics");
    discord.posts(count + 1).await;
    assert_eq!(discord.all_posts().len(), count + 1);
}

/// CH-92, CH-103: what was answered while Discord was away is brought after a restart.
#[actix::test]
async fn an_answer_survives_an_outage_and_a_kill() {
    let discord = FakeDiscord::start();
    let mut service = service(&discord).await;

    discord.fail(std::iter::repeat_n(Fault::Status(503), 1_000));
    discord.say(ROOM, ANN, "#reply Kept.");
    let route = format!("POST /api/v10/channels/{ROOM}/messages");
    until("an attempt", async || discord.count(&route) >= 1).await;
    service.kill();
    discord.clear_faults();
    service.launch().await;
    discord.post_with("Kept.").await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(discord.texts(ROOM), ["Kept."]);
}

/// CH-147: a service that is told to stop hears nothing more, and says what it has to say.
#[actix::test]
async fn a_service_that_stops_leaves_discord_in_order() {
    let discord = FakeDiscord::start();
    let mut service = service(&discord).await;
    discord.say(ROOM, ANN, "#wait 500\n#reply Before I go.");
    until("work", async || discord.count("/typing") >= 1).await;

    service.signal("TERM");
    let code = service.ended().await;

    assert_eq!(code, Some(0));
    service.launch().await;
    discord.post_with("Before I go.").await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(discord.texts(ROOM), ["Before I go."]);
}
