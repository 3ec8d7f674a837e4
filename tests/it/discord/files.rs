//! Files on Discord: what comes with a message is the team's, and what the team sends is posted.

use std::fs;

use super::*;
use crate::fake_discord::{Fault, Upload};

/// One pixel.
const PIXEL: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

/// CH-12: caps, names and types are those of all files, and the token goes to no other host.
#[actix::test]
async fn files_of_a_message_are_in_the_workspace_and_pictures_are_seen() {
    let (discord, model) = (FakeDiscord::start(), FakeModel::start());
    model.otherwise(Reply::text("I see."));
    let service = prepare(&discord)
        .with_file("data/config/providers.yaml", &providers(&model))
        .with_file("data/config/config.yaml", "limits: {file: 1MiB}\n")
        .started()
        .await;
    discord.connected(1).await;
    let mut files = vec![
        discord.upload("notes.txt", b"plums and pears"),
        discord.upload("../../\u{202e}]\ndot", PIXEL),
        discord.upload("large.bin", &[0; 2 << 20]),
        discord.upload("gone.txt", b"gone"),
        discord.upload("inside.txt", b"inside"),
        discord.upload("flaky.txt", b"after all"),
    ];
    let path = |file: &Value| file["url"].as_str().unwrap().replace(discord.url(), "");
    discord.status_of(&format!("GET {}", path(&files[3])), Some(404));
    // The second attempt finds it.
    let flaky = format!("GET {}", path(&files[5]));
    discord.status_of(&flaky, Some(503));
    files[4]["url"] = json!("http://127.0.0.1:9/inside.txt");

    discord.say_as(ROOM, ANN, "Look at these", json!({ "attachments": files }));
    until("a first attempt", async || discord.count(&flaky) == 1).await;
    discord.status_of(&flaky, None);
    discord.post_with("I see.").await;

    let inbox = |name: &str| fs::read(service.path(&format!("run/teams/main/inbox/{name}")));
    assert_eq!(inbox("notes.txt").unwrap(), b"plums and pears");
    assert_eq!(inbox("flaky.txt").unwrap(), b"after all");
    let asked = String::from_utf8(model.requests()[0].bytes.clone()).unwrap();
    for told in [
        "[File: inbox/notes.txt (text/plain, 15 bytes)]",
        "[File: inbox/_dot (image/png,",
        "not taken: large.bin, 2.0 MiB: a file may have 1MiB",
        "not taken: gone.txt, 4 bytes: Discord does not give it: 404 Not Found]",
        "not taken: inside.txt, 6 bytes: it is not where Discord keeps files]",
        "\"media_type\":\"image/png\"",
    ] {
        assert!(asked.contains(told), "{told}: {asked}");
    }
    let requests = discord.requests();
    let fetched = requests.iter().filter(|request| request.route.starts_with("GET /files/"));
    assert!(
        fetched.clone().count() >= 4 && fetched.clone().all(|one| one.authorization.is_empty())
    );
}

/// CH-12, SC-25: nothing is fetched for somebody who is kept out, and what a guest brings is not believed.
#[actix::test]
async fn a_file_is_believed_as_far_as_whoever_brings_it() {
    let discord = FakeDiscord::start();
    let trust = "{channels: {discord: {policy: allow, sender_allowlist: ['4001'], sender_denylist: ['4003']}}}";
    let service =
        prepare(&discord).with_file(CHANNELS, &with_trust(&discord, trust)).started().await;
    discord.connected(1).await;
    let with = |name: &str| json!({ "attachments": [discord.upload(name, name.as_bytes())] });

    discord.say_as(ROOM, 4_003, "", with("denied.txt"));
    discord.say_as(ROOM, ANN, "#reply Ann.", with("ann.txt"));
    discord.say_as(ROOM, BOB, "#reply Bob.", with("bob.txt"));
    discord.post_with("Bob.").await;

    assert_eq!(discord.count("GET /files/"), 2);
    let (_, held) = service.api("GET", "/api/v1/teams/main/untrusted-files", None).await;
    let held = held.to_string();
    assert!(held.contains("inbox/bob.txt") && !held.contains("ann.txt"), "{held}");
}

/// CH-97: files are posted once, in their place among the words; one that Discord refuses is spoken of.
#[actix::test]
async fn what_a_team_sends_is_posted_as_a_file() {
    let discord = FakeDiscord::start();
    let service = service(&discord).await;
    fs::write(service.path("run/teams/main/dot.png"), PIXEL).unwrap();
    let send = |name: &str| json!({"file_path": "dot.png", "name": name});

    let message = discord.say(
        ROOM,
        ANN,
        &format!("#say Look:\n#call send_file {}\n#reply There it is.", send("a \"dot\".png")),
    );
    discord.post_with("There it is.").await;
    discord.fail([Fault::Status(413)]);
    discord.say(ROOM, ANN, &format!("#call send_file {}\n#reply Sorry.", send("b.png")));
    discord.post_with("Sorry.").await;

    let posts = discord.all_posts();
    assert_eq!(
        discord.texts(ROOM),
        [
            "Look:",
            "",
            "There it is.",
            "`b.png` cannot be posted here: Discord refuses it: as told (413 Payload Too Large). It is in the \
             conversation on the web page.",
            "Sorry.",
        ]
    );
    let dot = Upload {
        name: "a _dot_.png".to_owned(),
        mime: "image/png".to_owned(),
        bytes: PIXEL.to_vec(),
    };
    assert_eq!(posts[1].file, Some(dot));
    assert_eq!(posts[1].body["attachments"], json!([{"id": 0, "filename": "a _dot_.png"}]));
    assert_eq!(posts[1].body["message_reference"]["message_id"], message.to_string());
    assert_eq!(posts[1].body["allowed_mentions"]["parse"], json!([]));
    assert!(posts.iter().enumerate().all(|(place, post)| post.file.is_some() == (place == 1)));
}

/// CH-160
#[actix::test]
async fn a_very_long_answer_is_its_beginning_and_a_file() {
    let (discord, model) = (FakeDiscord::start(), FakeModel::start());
    let words: Vec<_> = (0..4_000).map(|word| format!("word{word}")).collect();
    model.otherwise(Reply::text(&words.join(" ")));
    let _service = with_model(&discord, &model).await;

    discord.say(ROOM, ANN, "at length");
    let posts = discord.posts(2).await;
    tokio::time::sleep(QUIET).await;

    assert_eq!(discord.all_posts().len(), 2);
    assert!(posts[0].content().starts_with("word0 word1"));
    let file = posts[1].file.as_ref().unwrap();
    assert_eq!((file.name.as_str(), file.mime.as_str()), ("response.md", "text/markdown"));
    assert_eq!(file.bytes, words.join(" ").into_bytes());
}
