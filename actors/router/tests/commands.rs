//! Words behind a slash.

use std::num::NonZeroUsize;

use crate::{
    channel_type::ChannelType,
    doubles::{
        client::Client,
        engine::{Play, seconds},
        world::{World, owner},
    },
    ids::TeamKey,
    router::{
        Inbound,
        posted_messages::{PostMessage, TopicChoice},
        sender::Sender,
    },
    thinking::Thinking,
};

fn slow() -> World {
    World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer])
}

#[actix::test]
async fn commands_are_answered_by_code_at_once() {
    let world = slow();
    let client = world.connect(&world.start());

    client.say("m1", "/topics");
    let none = client.hear().await;
    client.say("m2", "water the garden");
    let topic = client.topic_of("m2").await;
    client.say("m3", "/topics");
    let one = client.hear().await;
    client.say("m4", "/help");
    let help = client.hear().await;

    assert_eq!(none, "done m1: There are no open topics.");
    assert_eq!(one, format!("done m3: water garden ({topic}): running, 0 waiting"));
    assert!(help.starts_with("done m4: Commands:"), "{help}");
}

/// SE-132
#[actix::test]
async fn stop_ends_the_running_turn() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "/stop");
    let nothing = client.hear().await;
    client.say("m2", "water the garden");
    client.topic_of("m2").await;

    client.say("m3", "/stop");
    let mut heard = [client.hear().await, client.hear().await];

    heard.sort();
    assert_eq!(nothing, "done m1: There are no open topics.");
    assert_eq!(heard, ["cancelled m2: ", "done m3: Stopped."]);
}

/// CH-106, CH-140, EN-34: a command is about the topic of its message, not the one used last; what only waits is not
/// said to be stopped.
#[actix::test]
async fn stop_and_close_mean_the_topic_of_their_message() {
    let mut world = slow();
    world.limits.running = 1;
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let garden = client.topic_of("m1").await;
    client.say("m2", "/new pay the invoice");
    let invoice = client.topic_of("m2").await;

    client.say_in(&invoice, "m3", "/stop");
    let waits = client.hear().await;
    client.say_in(&garden, "m4", "and the roof");
    client.say_in(&garden, "m5", "/stop");
    let stopped = client.hear_end_of("m5").await;
    client.say_in(&garden, "m6", "/close");
    let closed = client.hear_end_of("m6").await;
    let paid = client.hear_end_of("m2").await;

    assert_eq!(waits, "done m3: Nothing is running. 1 message waits.");
    assert_eq!(stopped.last().unwrap(), "done m5: Stopped. 1 message waits.");
    assert_eq!(closed.last().unwrap(), "done m6: Archived \"water garden\".");
    assert_eq!(paid.last().unwrap(), "done m2: Done.");
}

/// CH-140, CH-75
#[actix::test]
async fn close_ends_a_topic_and_all_its_work() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "again");
    client.topic_of("m2").await;

    client.say("m3", "/close Water Garden");
    let mut heard = [client.hear().await, client.hear().await, client.hear().await];
    client.say_in(&topic, "m4", "once more");
    let refused = client.hear().await;
    client.say("m5", &format!("/close {topic}"));
    let twice = client.hear().await;

    heard.sort();
    assert_eq!(heard, ["cancelled m1: ", "cancelled m2: ", "done m3: Archived \"water garden\"."]);
    assert_eq!(refused, "error m4: topic_done");
    assert_eq!(twice, "done m5: Archived \"water garden\".");
}

/// CH-106: a topic is renamed by code, in the topic of the message or the one used last.
#[actix::test]
async fn a_topic_is_renamed_by_a_command() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "/rename tulips");
    let none = client.hear().await;
    client.say("m2", "water the garden");
    let first = client.topic_of("m2").await;
    client.say("m3", "/new pay the invoice");
    client.topic_of("m3").await;

    client.say("m4", "/rename The invoice of May");
    let last = client.hear().await;
    client.say_in(&first, "m5", "/rename tulips");
    let named = client.hear().await;
    client.say_in(&first, "m6", "/rename the invoice of may");
    let taken = client.hear().await;
    client.say("m7", "/rename");
    let how = client.hear().await;
    client.say("m8", "/topics");
    let topics = client.hear().await;

    assert_eq!(none, "done m1: There are no open topics.");
    assert_eq!(last, "done m4: The topic is called \"The invoice of May\" now.");
    assert_eq!(named, "done m5: The topic is called \"tulips\" now.");
    assert!(taken.starts_with("done m6: The topic keeps its name"), "{taken}");
    assert!(how.contains("/rename <name>"), "{how}");
    assert!(topics.contains(&format!("tulips ({first})")), "{topics}");
    let asked = format!("{:?}", world.asked.lock().unwrap());
    assert!(!asked.contains("rename"), "{asked}");
}

/// CH-106: a word behind a slash that is no command is answered by code, and no model is told; a path is a
/// message.
#[actix::test]
async fn an_unknown_command_is_answered_with_help() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    let client = world.connect(&world.start());

    client.say("m1", "/renmae tulips");
    let unknown = client.hear().await;
    client.say("m3", "/etc/hosts is wrong");
    let path = client.hear_end_of("m3").await;

    assert!(unknown.starts_with("done m1: There is no command `/renmae`"), "{unknown}");
    assert!(unknown.contains("/rename <name>"), "{unknown}");
    assert_eq!(path.last().unwrap(), "done m3: Fine.");
    assert_eq!(world.asked.lock().unwrap().len(), 1);
}

/// EN-37: a level of thinking stays with its topic, also over a restart, and counts from the next message on.
#[actix::test]
async fn think_counts_for_its_topic() {
    let world = World::new(|request| {
        let level = request.thinking.map_or("as it likes", Thinking::as_str);
        vec![Play::Say(level), Play::Answer]
    });
    let client = world.connect(&world.start());
    client.say("m0", "/think");
    let none = client.hear().await;
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    let before = client.hear_end_of("m1").await;
    client.say("m2", "/think");
    let unset = client.hear().await;
    client.say("m3", "/think hard");
    let unknown = client.hear().await;
    client.say("m4", "/T Ultra");
    let set = client.hear().await;
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    next.item().await;
    next.channel = client.channel.clone();
    next.say_in(&topic, "m5", "water the garden");
    let after = next.hear_end_of("m5").await;
    next.say("m6", "/think");
    let shown = next.hear().await;

    assert_eq!(none, "done m0: There are no open topics.");
    assert_eq!(before.last().unwrap(), "done m1: as it likes");
    assert!(unset.ends_with("thinks as much as its team's settings say."), "{unset}");
    assert!(unknown.ends_with("off, minimal, low, medium, high, xhigh."), "{unknown}");
    assert!(set.ends_with("is xhigh now."), "{set}");
    assert_eq!(after.last().unwrap(), "done m5: xhigh");
    assert!(shown.ends_with("is xhigh."), "{shown}");
}

/// EN-35: without words, the next message there opens the topic, also after a restart; the one after that does not.
#[actix::test]
async fn new_alone_lets_the_next_message_begin_a_topic() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let first = client.topic_of("m1").await;
    client.hear_end_of("m1").await;

    client.say_in(&first, "m2", "/new");
    let told = client.hear().await;
    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    next.item().await;
    next.channel = client.channel.clone();
    next.say("m3", "/topics");
    next.hear_end_of("m3").await;
    next.say_in(&first, "m4", "water the garden");
    let second = next.topic_of("m4").await;
    next.hear_end_of("m4").await;
    next.say_in(&first, "m5", "water the garden");
    let third = next.topic_of("m5").await;

    assert_eq!(told, "done m2: Your next message begins a new topic.");
    assert_ne!(first, second);
    assert_eq!(first, third);
}

/// EN-35: also where the message would belong to a topic that there is.
#[actix::test]
async fn new_begins_a_topic_with_the_rest_of_the_message() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let first = client.topic_of("m1").await;

    client.say("m3", "/New  water the garden");
    let second = client.topic_of("m3").await;
    client.say("m3", "/New  water the garden");
    let same = client.topic_of("m3").await;
    client.say("m4", "/topics");
    let topics = client.hear().await;

    assert_ne!(first, second);
    assert_eq!(same, second);
    assert!(topics.contains(&second) && !topics.to_lowercase().contains("new"), "{topics}");
}

/// Words for a team without topics, over REST.
fn to_team(client: &Client, person: &str, id: &str, content: &str) -> PostMessage {
    PostMessage {
        channel: client.channel.clone(),
        may_open: false,
        owner: owner("someone"),
        sender: Sender::of(&person.into(), ChannelType::Api),
        content: content.to_owned(),
        team: Some(TeamKey { name: "ops".into(), generation: 1 }),
        topic: None,
        id: id.into(),
        notify: None,
        files: Vec::new(),
    }
}

/// OP-51, CH-106: what is typed to a team without topics does nothing to those of the main team.
#[actix::test]
async fn commands_to_another_team_leave_the_topics_of_the_main_team_alone() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.topic_of("m1").await;

    for (number, command) in ["/close", "/rename Roof", "/new", "/new roof"].iter().enumerate() {
        let say = to_team(&client, "someone", &format!("c{number}"), command);
        let answer = client.spine.router.send(say).await.unwrap().unwrap().reply.unwrap();
        assert!(answer.starts_with("Team `ops` has no topics"), "{command}: {answer}");
    }

    let heard = client.hear_end_of("m1").await;
    assert_eq!(heard.last().unwrap(), "done m1: Done.");
    client.say("m2", "/topics");
    let topics = client.hear_end_of("m2").await;
    assert!(topics.last().unwrap().starts_with("done m2: water garden"), "{topics:?}");
}

/// OP-51, EN-34: `/stop` to a team without topics stops its turn, if that is of whoever typed it.
#[actix::test]
async fn stop_to_another_team_ends_ones_own_turn_there() {
    let world = slow();
    let client = world.connect(&world.start());
    let router = &client.spine.router;
    router.send(to_team(&client, "someone", "m1", "hello")).await.unwrap().unwrap();
    while client.frame().await["type"] != "ack" {}

    let other = router.send(to_team(&client, "else", "c1", "/stop")).await.unwrap().unwrap();
    let own = router.send(to_team(&client, "someone", "c2", "/stop")).await.unwrap().unwrap();

    assert_eq!(other.reply.unwrap(), "Nothing is running.");
    assert_eq!(own.reply.unwrap(), "Stopped.");
    let heard = client.hear_end_of("m1").await;
    assert_eq!(heard.last().unwrap(), "cancelled m1: ");
}

/// CH-91: frames about a message to another team say which.
#[actix::test]
async fn frames_about_a_message_to_another_team_name_it() {
    let world = slow();
    let client = world.connect(&world.start());

    let say = to_team(&client, "someone", "m1", "hello");
    client.spine.router.send(say).await.unwrap().unwrap();
    let said = client.frame().await;
    let ack = client.frame().await;
    client.say("m2", "water the garden");
    let of_main = client.frame().await;

    assert_eq!((&said["kind"], &said["team"]), (&"user_message".into(), &"ops".into()));
    assert_eq!((&ack["type"], &ack["team"]), (&"ack".into(), &"ops".into()));
    assert_eq!((&of_main["type"], &of_main["team"]), (&"ack".into(), &().into()), "{of_main}");
}

/// CH-58: another connection hears at once where a message belongs, if that is known.
#[actix::test]
async fn a_message_is_told_to_others_with_its_topic() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;

    let say = PostMessage {
        team: None,
        topic: Some(TopicChoice::Id(topic.clone())),
        ..to_team(&client, "someone", "m2", "and the roof")
    };
    client.spine.router.send(say).await.unwrap().unwrap();
    let said = client.frame().await;

    assert_eq!((&said["kind"], &said["topic_id"]), (&"user_message".into(), &topic.into()));
}

/// CH-125, EN-35: what is said in another topic belongs there, whatever was to begin elsewhere.
#[actix::test]
async fn new_alone_leaves_messages_of_other_topics_where_they_belong() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let garden = client.topic_of("m1").await;
    client.say("m2", "/new pay the invoice");
    let invoice = client.topic_of("m2").await;

    client.say_in(&garden, "m3", "/new");
    client.say_in(&invoice, "m4", "by Friday");
    let elsewhere = client.topic_of("m4").await;
    client.say_in(&garden, "m5", "a new roof");
    let new = client.topic_of("m5").await;

    assert_eq!(elsewhere, invoice);
    assert!(new != garden && new != invoice, "{new}");
}

/// CH-137, EN-35: a message that would begin one topic too many is refused; the next one is an ordinary one.
#[actix::test]
async fn new_alone_blocks_nothing_where_there_is_no_room() {
    let mut world = slow();
    world.settings.topics.max_active = NonZeroUsize::MIN;
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let garden = client.topic_of("m1").await;
    client.say("m2", "/new");
    client.hear_end_of("m2").await;

    client.say("m3", "pay the invoice");
    let refused = client.hear_end_of("m3").await;
    client.say("m4", "water the garden");

    assert_eq!(refused.last().unwrap(), "error m3: too_many_topics");
    assert_eq!(client.topic_of("m4").await, garden);
}

/// CH-106: however many were archived since.
#[actix::test]
async fn an_archived_topic_of_long_ago_is_found() {
    let world = World::new(|_| vec![Play::Answer]);
    let client = world.connect(&world.start());
    for number in 0..25 {
        let (id, close) = (format!("m{number}"), format!("c{number}"));
        client.say(&id, &format!("/new garden number{number}"));
        client.hear_end_of(&id).await;
        client.say(&close, "/close");
        client.hear_end_of(&close).await;
    }

    client.say("r", "/reopen garden number0");

    assert_eq!(client.hear_end_of("r").await, ["done r: \"garden number0\" is open."]);
}

/// CH-24: a topic that no message could begin is not there.
#[actix::test]
async fn a_topic_whose_first_message_the_queue_refused_is_forgotten() {
    let mut world = slow();
    (world.limits.running, world.limits.waiting) = (1, 1);
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let garden = client.topic_of("m1").await;
    client.say_in(&garden, "m2", "and the roof");

    client.say("m3", "/new pay the invoice");
    let refused = client.hear_end_of("m3").await;
    client.send(Inbound::TopicList);
    let list = loop {
        let frame = client.frame().await;
        if frame["type"] == "topic_list" {
            break frame;
        }
    };

    assert_eq!(refused.last().unwrap(), "error m3: queue_full");
    let topics = list["topics"].as_array().unwrap();
    assert_eq!(topics.iter().map(|topic| &topic["id"]).collect::<Vec<_>>(), [garden.as_str()]);
}

/// CH-24: a topic that is opened by name for a message which is known already is not there.
#[actix::test]
async fn a_topic_that_is_opened_for_nothing_is_forgotten() {
    let world = slow();
    let client = world.connect(&world.start());
    let say = |topic: &str| PostMessage {
        team: None,
        topic: Some(TopicChoice::Name(topic.to_owned())),
        ..to_team(&client, "someone", "m1", "hello")
    };
    let router = &client.spine.router;

    let first = router.send(say("Garden")).await.unwrap().unwrap();
    let again = router.send(say("Roof")).await.unwrap().unwrap();
    client.hear_end_of("m1").await;
    client.say("m2", "/topics");
    let topics = client.hear_end_of("m2").await;

    assert_eq!((again.duplicate, again.topic), (true, first.topic));
    assert!(!topics.last().unwrap().contains("Roof"), "{topics:?}");
}

/// CH-75: whoever names a wrong topic is shown the right ones.
#[actix::test]
async fn a_cancel_of_an_unknown_topic_shows_those_that_there_are() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;

    client.cancel("t-0000000000000000", false);
    let refused = client.frame().await;

    assert_eq!(refused["code"], "unknown_topic");
    assert_eq!(refused["details"]["topics"][0]["id"], topic.as_str(), "{refused}");
}
