//! Approvals and questions: cards with buttons, which count only from those who may decide.

use super::*;
use crate::fake_discord::{Connection, Fault};

/// A service whose main team must ask before it writes a file, and where Ann is the operator.
pub(super) async fn asking(discord: &FakeDiscord) -> Service {
    let trust = "{channels: {discord: {policy: deny, sender_allowlist: ['4001', '4002']}}}";
    asking_with(discord, &with_trust(discord, trust)).await
}

async fn asking_with(discord: &FakeDiscord, channels: &str) -> Service {
    let policy = "policy:\n  - {id: ask, effect: require_approval, resource: 'tool:write'}\n";
    let service = prepare(discord)
        .with_file(CHANNELS, channels)
        .with_file("data/config/config.yaml", policy)
        .started()
        .await;
    discord.connected(1).await;
    let link = json!({"channel_type": "discord", "sender_id": "4001", "token": "operator"});
    let (status, answer) = service.api("POST", "/api/v1/identities", Some(link)).await;
    assert!(status < 300, "{answer}");
    service
}

pub(super) fn write(path: &str, content: &str) -> String {
    let file = json!({"file_path": path, "content": content});
    format!("#call write {file}\n#reply Ran.")
}

/// PL-85, PL-101, SC-25
#[actix::test]
async fn a_call_is_shown_exactly_and_runs_once_an_operator_presses() {
    let discord = FakeDiscord::start();
    let service = asking(&discord).await;

    discord.say(ROOM, BOB, &write("done", "```\n**x**"));
    let card = discord.post_with("wants to use").await;
    let approve = card.button("Approve once");
    let forged = approve.replace(&approve[approve.len() - 8..], "00000000");
    let stranger = discord.press(&card, BOB, &approve).await;
    let other_call = discord.press(&card, ANN, &forged).await;
    let before = discord.all_posts().len();
    let decided = discord.press(&card, ANN, &approve).await;
    discord.post_with("Ran.").await;
    let again = discord.press(&card, ANN, &card.button("Deny")).await;

    let shown = r#""content": "\u0060\u0060\u0060\n**x**""#;
    assert!(card.content().contains(shown), "{}", card.content());
    assert!(card.content().contains("```json"), "{}", card.content());
    assert_eq!((stranger.as_str(), before), ("Not authorized.", 1));
    assert!(other_call.contains("digest is another"), "{other_call}");
    assert_eq!(decided, "Approved: write.");
    assert!(again.starts_with("It is approved already"), "{again}");
    let done = service.path("run/teams/main/done");
    assert_eq!(std::fs::read_to_string(done).unwrap(), "```\n**x**");
    // The buttons are taken away once nothing waits for them.
    until("no buttons", async || {
        discord.count(&format!("PATCH /api/v10/channels/{ROOM}/messages/{}", card.id)) >= 1
    })
    .await;
    let (_, audit) = service.api("GET", "/api/v1/audit?limit=50", None).await;
    let refused =
        audit["data"].as_array().unwrap().iter().find(|row| row["actor"] == "discord:4002");
    assert!(refused.is_some(), "{audit}");
}

/// PL-82, PL-85
#[actix::test]
async fn a_call_that_is_denied_does_not_run() {
    let discord = FakeDiscord::start();
    let service = asking(&discord).await;

    discord.say(ROOM, BOB, &write("done", "x").replace("Ran.", "Over."));
    let card = discord.post_with("wants to use").await;
    let told = discord.press(&card, ANN, &card.button("Deny")).await;
    discord.post_with("Over.").await;

    assert_eq!(told, "Denied: write.");
    assert!(!service.path("run/teams/main/done").exists());
}

/// PL-85: work that comes from elsewhere is shown and decided where operators are.
#[actix::test]
async fn a_call_of_other_work_is_decided_in_the_channel_of_operators() {
    let discord = FakeDiscord::start();
    let trust =
        "{default_policy: allow, channels: {discord: {policy: deny, sender_allowlist: ['4001']}}}";
    let shown =
        with_trust(&discord, trust).replace("watched_", "operator_channels: [5003], watched_");
    let service = asking_with(&discord, &shown).await;

    let said = json!({"content": write("done", "x")});
    let (status, answer) = service.api("POST", "/api/v1/messages", Some(said)).await;
    assert_eq!(status, 202, "{answer}");
    let card = discord.post_with("wants to use").await;
    let decided = discord.press(&card, ANN, &card.button("Approve once")).await;

    assert_eq!(decided, "Approved: write.");
    until("the call has run", async || service.path("run/teams/main/done").exists()).await;
    assert_eq!(discord.all_posts().len(), discord.texts(5_003).len());
}

/// PL-88
#[actix::test]
async fn a_question_is_answered_by_a_press() {
    let discord = FakeDiscord::start();
    let service = asking(&discord).await;

    discord.say(
        ROOM,
        BOB,
        "#call ask_operator {\"question\": \"Which one?\", \"options\": [\"red\", \"blue\"]}\n#reply Asked.",
    );
    let card = discord.post_with("Which one?").await;
    let stranger = discord.press(&card, BOB, &card.button("blue")).await;
    let answered = discord.press(&card, ANN, &card.button("blue")).await;
    let late = discord.press(&card, ANN, &card.button("red")).await;

    assert_eq!(stranger, "Not authorized.");
    assert!(answered.starts_with("Answered; main goes on"), "{answered}");
    assert!(late.starts_with("It is answered already"), "{late}");
    let (_, questions) = service.api("GET", "/api/v1/questions?status=answered", None).await;
    assert_eq!(questions["data"][0]["answer"]["selected"], json!(["blue"]), "{questions}");
}

/// PL-85: typed words count like presses, and only from the same people.
#[actix::test]
async fn a_command_that_decides_counts_only_from_an_operator() {
    let discord = FakeDiscord::start();
    let _service = asking(&discord).await;

    discord.say(ROOM, BOB, &write("done", "x"));
    let card = discord.post_with("wants to use").await;
    let name =
        card.content().split("/approve ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    discord.say(ROOM, BOB, &format!("/approve {name}"));
    discord.post_with("Not authorized.").await;
    discord.say(ROOM, ANN, &format!("/approve {name}"));

    discord.post_with("Ran.").await;
}

/// CH-103, CH-104, PL-85: a file and a card are there once, although Discord dies in the middle of posting each, then its
/// connection and then the service; the buttons count after all that.
#[actix::test]
async fn a_file_and_a_card_survive_whatever_dies_in_the_middle() {
    let discord = FakeDiscord::start();
    let mut service = asking(&discord).await;
    std::fs::write(service.path("run/teams/main/plan.txt"), "plums").unwrap();
    // Each is posted, and the answer never comes; the next attempt finds it.
    let (dies, works) = (|| Fault::LoseAnswer, || Fault::Last { seconds: 0.0 });
    discord.fail([dies(), works(), dies(), works()]);
    let sends = json!({"file_path": "plan.txt"});

    discord.say(ROOM, BOB, &format!("#call send_file {sends}\n#then\n{}", write("done", "x")));
    let card = discord.post_with("wants to use").await;
    until("each was tried again", async || discord.faults_left() == 0).await;
    discord.disturb(Connection::Cut);
    discord.connected(2).await;
    service.kill();
    discord.gateway(|gateway| gateway.forgets = true);
    service.launch().await;
    discord.connected(3).await;
    let decided = discord.press(&card, ANN, &card.button("Approve once")).await;
    discord.post_with("Ran.").await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(decided, "Approved: write.");
    let posts = discord.all_posts();
    let files = posts.iter().filter_map(|post| Some(&*post.file.as_ref()?.name));
    assert_eq!(files.collect::<Vec<_>>(), ["plan.txt"]);
    let cards = posts.iter().filter(|post| post.content().contains("wants to use"));
    assert_eq!((cards.count(), posts.len()), (1, 3), "{:?}", discord.texts(ROOM));
}
