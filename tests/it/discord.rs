//! Discord: the real program with a bot, against a server that speaks Discord's REST API and gateway.

use serde_json::{Value, json};

use crate::{
    fake_discord::{FakeDiscord, QUIET, TOKEN},
    fake_model::{FakeModel, KEY, Reply},
    service::{Service, until},
};

mod deciding;
mod faults;
mod files;
mod first_steps;
mod hostile;
mod missed;

const CHANNELS: &str = "data/config/channels.yaml";
/// A channel of a server.
const ROOM: u64 = 5_001;
/// Somebody on the list.
const ANN: u64 = 4_001;
/// Somebody who is not.
const BOB: u64 = 4_002;

/// The settings of a bot that lets Ann in.
fn channels(discord: &FakeDiscord) -> String {
    with_trust(discord, "{channels: {discord: {policy: deny, sender_allowlist: ['4001']}}}")
}

fn with_trust(discord: &FakeDiscord, trust: &str) -> String {
    format!(
        "ws: {{enabled: true}}\ndiscord: {{token: '${{env:BOT}}', api_url: '{}', watched_channels: [{ROOM}, '5002']}}\n\
         topics: {{model: never}}\ntrust: {trust}\n",
        discord.url()
    )
}

/// A service whose bot is connected; the offline demo answers.
async fn service(discord: &FakeDiscord) -> Service {
    let service = prepare(discord).started().await;
    discord.connected(1).await;
    service
}

fn prepare(discord: &FakeDiscord) -> Service {
    Service::prepare()
        .with_variable("BOT", TOKEN)
        .with_file(CHANNELS, &channels(discord))
        .with_file("run/teams/main/config.yaml", crate::service::WORKS_ITSELF)
}

/// The same with a model that says what it is told to.
async fn with_model(discord: &FakeDiscord, model: &FakeModel) -> Service {
    let service =
        prepare(discord).with_file("data/config/providers.yaml", &providers(model)).started().await;
    discord.connected(1).await;
    service
}

fn providers(model: &FakeModel) -> String {
    format!(
        "profiles:\n  default: {{provider: anthropic, api_url: \"{}\", api_key: {KEY}, model: m}}\n",
        model.url()
    )
}

/// How Discord stands, as the service tells it; null if it is off.
async fn standing(service: &Service) -> Value {
    let (status, answer) = service.api("GET", "/api/v1/channels", None).await;
    assert_eq!(status, 200, "{answer}");
    let mut rows = answer["data"].as_array().unwrap().iter();
    rows.find(|row| row["type"] == "discord").cloned().unwrap_or_default()
}

async fn until_state(service: &Service, state: &str) -> Value {
    let what = format!("Discord is `{state}`");
    until(&what, async || standing(service).await["state"] == state).await;
    standing(service).await
}

/// CH-93 to CH-96, CH-98, CH-100, CH-145
#[actix::test]
async fn a_message_in_a_watched_channel_is_answered_there() {
    let discord = FakeDiscord::start();
    let service = service(&discord).await;

    let message = discord.say(ROOM, ANN, "#wait 300\n#reply Hello, Ann.");
    let posts = discord.posts(1).await;

    let (name, identity) = &discord.introductions()[0];
    assert_eq!((name.as_str(), &identity["token"]), ("IDENTIFY", &json!(TOKEN)));
    assert_eq!(discord.gateway(|gateway| gateway.asked_for.clone()), ["/?v=10&encoding=json"]);
    // Guilds, guild messages, message content; no direct messages.
    assert_eq!(identity["intents"], 1 | 1 << 9 | 1 << 15);
    let post = &posts[0];
    assert_eq!((post.channel, post.content()), (ROOM, "Hello, Ann."));
    assert_eq!(post.body["allowed_mentions"]["parse"], json!([]));
    assert_eq!(post.body["allowed_mentions"]["replied_user"], false);
    assert_eq!(post.body["flags"], 4, "no previews");
    assert_eq!(post.body["message_reference"]["message_id"], message.to_string());
    assert!(discord.count("/typing") >= 1);
    assert!(
        discord.requests().iter().all(|request| request.authorization == format!("Bot {TOKEN}"))
    );
    let row = standing(&service).await;
    assert_eq!((&row["state"], &row["connected"]), (&json!("connected"), &json!(1)));
    let shown = service.run(&["status"], "").await;
    assert!(shown.stdout.contains("discord connected (1 connected)"), "{}", shown.stdout);
    let (_, audit) = service.api("GET", "/api/v1/trust/audit", None).await;
    let row = &audit["data"][0];
    assert_eq!(
        [&row["channel_type"], &row["channel_id"], &row["sender"], &row["reason"]],
        ["discord", "5001", "4001", "sender_allowlist"]
    );
    assert!(!service.log().contains(TOKEN));
}

/// CH-97, CH-98: what is said before a tool is used is there before the tool has answered.
#[actix::test]
async fn the_first_words_are_posted_at_once_and_the_rest_behind_them() {
    let discord = FakeDiscord::start();
    let _service = service(&discord).await;

    discord.say(
        ROOM,
        ANN,
        "#say Let me look.\n#call list_teams\n#wait 2000\n#reply Nobody is there.",
    );
    let first = discord.posts(1).await;
    let both = discord.posts(2).await;

    assert_eq!((first.len(), first[0].content()), (1, "Let me look."));
    assert_eq!(both[1].content(), "Nobody is there.");
    tokio::time::sleep(QUIET).await;
    assert_eq!(discord.all_posts().len(), 2);
}

/// CH-99
#[actix::test]
async fn a_long_answer_comes_in_messages_with_whole_fences() {
    let (discord, model) = (FakeDiscord::start(), FakeModel::start());
    let lines: Vec<_> = (0..300).map(|line| format!("    let line_{line} = {line};")).collect();
    model.otherwise(Reply::text(&format!("Here:\n```rust\n{}\n```\nDone.", lines.join("\n"))));
    let _service = with_model(&discord, &model).await;

    discord.say(ROOM, ANN, "write it");
    discord.post_with("Done.").await;

    let texts = discord.texts(ROOM);
    assert!(texts.len() >= 4, "{}", texts.len());
    for text in &texts {
        assert!(text.encode_utf16().count() <= 2_000);
        assert_eq!(text.matches("```").count() % 2, 0, "{text}");
    }
    let code = texts.concat();
    assert!(lines.iter().all(|line| code.contains(line)));
}

/// CH-94, CH-95: what the gateway repeats, and what is not for us, is not run.
#[actix::test]
async fn a_repeated_message_runs_once_and_what_is_not_for_the_bot_never() {
    let discord = FakeDiscord::start();
    let service = service(&discord).await;

    discord.say(ROOM, ANN, "#reply One.");
    discord.gateway(|gateway| gateway.repeat());
    discord.say(6_000, ANN, "#reply Not watched.");
    discord.say_as(ROOM, ANN, "#reply A private word.", json!({"guild_id": null}));
    discord.say_as(ROOM, ANN, "#reply A hook.", json!({"webhook_id": "8"}));
    discord.say_as(ROOM, ANN, "   ", json!({}));
    discord.say(ROOM, ANN, "#reply Two.");
    discord.post_with("Two.").await;

    assert_eq!(discord.texts(ROOM), ["One.", "Two."]);
    let (_, tasks) = service.api("GET", "/api/v1/tasks?limit=50", None).await;
    assert_eq!(tasks["data"].as_array().unwrap().len(), 2, "{tasks}");
}

/// CH-106
#[actix::test]
async fn commands_are_answered_by_code() {
    let (discord, model) = (FakeDiscord::start(), FakeModel::start());
    let _service = with_model(&discord, &model).await;

    discord.say(ROOM, ANN, "/topics");
    let topics = discord.posts(1).await;

    assert_eq!(topics[0].content(), "There are no open topics.");
    assert!(model.requests().is_empty());
}

/// CH-93
#[actix::test]
async fn direct_messages_come_in_where_they_are_wanted() {
    let discord = FakeDiscord::start();
    let settings =
        channels(&discord).replace("watched_channels", "direct_messages: true, watched_channels");
    let _service = prepare(&discord).with_file(CHANNELS, &settings).started().await;
    discord.connected(1).await;

    discord.say_as(5_999, ANN, "#reply Between us.", json!({"guild_id": null}));
    let posts = discord.posts(1).await;

    assert_eq!((posts[0].channel, posts[0].content()), (5_999, "Between us."));
    assert_eq!(discord.introductions()[0].1["intents"], 1 | 1 << 9 | 1 << 12 | 1 << 15);
}

/// CH-152: what a trigger or a delegation brings later is told in the channel that it came from.
#[actix::test]
async fn two_channels_are_two_conversations() {
    let discord = FakeDiscord::start();
    let _service = service(&discord).await;

    discord.say(ROOM, ANN, "#wait 1500\n#reply Slow.");
    discord.say(5_002, ANN, "#reply Quick.");
    let posts = discord.posts(2).await;

    let told: Vec<_> = posts.iter().map(|post| (post.channel, post.content())).collect();
    assert_eq!(told, [(5_002, "Quick."), (ROOM, "Slow.")]);
}

/// CH-93: nothing of it runs, and nobody is called.
#[actix::test]
async fn without_a_token_there_is_no_bot() {
    let discord = FakeDiscord::start();
    let settings = format!("ws: {{enabled: true}}\ndiscord: {{api_url: '{}'}}\n", discord.url());
    let service = Service::prepare().with_file(CHANNELS, &settings).started().await;

    let before = threads(&service);
    assert_eq!(standing(&service).await, Value::Null);
    assert!(discord.requests().is_empty());
    // With one, a thread more.
    service
        .write(CHANNELS, &settings.replace("discord: {", &format!("discord: {{token: {TOKEN}, ")));
    until_state(&service, "connected").await;

    assert_eq!(threads(&service), before + 1);
}

/// How many threads of the service run actors.
fn threads(service: &Service) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", service.pid())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.starts_with("actix-rt"))).count()
}
