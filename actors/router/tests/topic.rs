//! Messages whose topic code cannot tell.

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc, time::Duration};

use actix::{Handler, Message};

use crate::{
    approvals::question::{Question, QuestionStatus},
    blocking,
    channel_type::ChannelType,
    clock::Clock,
    doubles::{
        asked::{question, work_for, work_in},
        client::Client,
        disk::MemoryStorage,
        engine::{Play, seconds},
        world::{World, owner},
    },
    ids::TopicId,
    router::{
        Router,
        deleting::{DeleteTopic, NotDeleted},
        expiry::Expired,
        managing::{ChangeTopic, NotChanged, TopicPatch},
        posted_messages::{PostMessage, TopicChoice},
        sender::Sender,
    },
    spine::Spine,
    store::records::Writes,
};

/// A model that takes the invoice for a new topic. For all else it takes some seconds and names the
/// first topic that it is asked about, or nothing.
fn world(pause: u64, knows: bool) -> World {
    let mut world = World::new(|_| vec![seconds(1), Play::Say("Done."), Play::Answer]);
    world.settings.ask_model = true;
    world.opinion = Arc::new(move |question| {
        if question.ends_with("\"pay the invoice\"") {
            let answer = "{\"topic_ids\":[\"new\"],\"topic_name\":\"Invoice\"}";
            return (Duration::ZERO, Some(answer.to_owned()));
        }
        let id = question.split("- ").nth(1).and_then(|line| line.split(' ').next());
        let answer = knows.then(|| format!("{{\"topic_ids\":[\"{}\"]}}", id.unwrap()));
        (Duration::from_secs(pause), answer)
    });
    world
}

/// A channel with two topics; the second was used last.
async fn two_topics(client: &Client) -> (String, String) {
    client.say("m1", "water the garden");
    let garden = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    client.say("m2", "pay the invoice");
    let invoice = client.topic_of("m2").await;
    client.hear_end_of("m2").await;
    assert_ne!(garden, invoice);
    (garden, invoice)
}

/// CH-132
#[actix::test]
async fn a_model_is_asked_where_words_do_not_tell() {
    let world = world(1, true);
    let client = world.connect(&world.start());
    let (garden, invoice) = two_topics(&client).await;

    client.say("m3", "hello there");
    let chosen = client.topic_of("m3").await;

    assert!([garden, invoice].contains(&chosen));
}

/// CH-133
#[actix::test]
async fn without_an_opinion_the_topic_used_last_gets_the_message() {
    let world = world(1, false);
    let client = world.connect(&world.start());
    let (_, invoice) = two_topics(&client).await;

    client.say("m3", "hello there");

    assert_eq!(client.topic_of("m3").await, invoice);
}

/// CH-83
#[actix::test]
async fn a_slow_opinion_gets_an_ack_without_topic_and_no_second_one() {
    let world = world(3, true);
    let client = world.connect(&world.start());
    two_topics(&client).await;
    let began = tokio::time::Instant::now();

    client.say("m3", "hello there");
    let ack = client.frame().await;
    let acked_after = began.elapsed();
    let rest = client.hear_end_of("m3").await;

    assert_eq!((&ack["type"], &ack["topic_id"]), (&"ack".into(), &().into()));
    assert!((1_500..1_600).contains(&acked_after.as_millis()), "{acked_after:?}");
    assert_eq!(rest.last().unwrap(), "done m3: Done.");
    assert!(rest.iter().all(|frame| !frame.starts_with("ack")), "{rest:?}");
}

/// CH-27, CH-125: messages behind it wait for it, and keep the topic that their sender chose, also
/// over a crash.
#[actix::test]
async fn undecided_messages_go_on_in_the_next_process() {
    let world = world(3, false);
    let client = world.connect(&world.start());
    let (garden, invoice) = two_topics(&client).await;
    let storage = world.disk.mount(None);
    let second = world.connect(&world.start_on(storage.clone()));
    second.resume(&client.channel, client.last_seq.get());
    second.item().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Both messages are the next commit; with that the process dies.
    storage.lose_after(1);
    let second = Client { channel: client.channel.clone(), ..second };
    second.say("m3", "hello there");
    second.say_in(&garden, "m4", "hello again");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.disk.keys("und").len(), 2);

    let next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.item().await;
    let mut topics = [String::new(), String::new()];
    while topics.iter().any(String::is_empty) {
        let frame = next.frame().await;
        for (place, id) in ["m3", "m4"].into_iter().enumerate() {
            if frame["message_id"] == id && frame["type"] == "response" {
                topics[place] = frame["topic_id"].as_str().unwrap().to_owned();
            }
        }
    }

    assert_eq!(topics, [invoice, garden]);
    assert_eq!(world.disk.keys("und"), Vec::<String>::new());
}

/// CH-82, CH-83: after a restart the ack is not forgotten either.
#[actix::test]
async fn an_undecided_message_is_acknowledged_by_the_next_process() {
    let world = world(60, false);
    let client = world.connect(&world.start());
    two_topics(&client).await;
    let storage = world.disk.mount(None);
    let second = world.connect(&world.start_on(storage.clone()));
    second.resume(&client.channel, client.last_seq.get());
    second.item().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    storage.lose_after(1);
    let second = Client { channel: client.channel.clone(), ..second };
    second.say("m3", "hello there");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.disk.keys("und").len(), 1);

    let next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.item().await;
    let began = tokio::time::Instant::now();

    assert_eq!(next.hear().await, "user_message m3: hello there");
    assert_eq!(next.hear().await, "ack m3: Working on it.");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// CH-137
#[actix::test]
async fn one_topic_too_many_is_refused() {
    let mut world = world(0, false);
    world.settings.topics.max_active = NonZeroUsize::MIN;
    world.opinion = Arc::new(|_| {
        let answer = "{\"topic_ids\":[\"new\"],\"topic_name\":\"Other\"}";
        (Duration::ZERO, Some(answer.to_owned()))
    });
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;

    client.say("m2", "pay the invoice");

    assert_eq!(client.hear().await, "error m2: too_many_topics");
}

/// CH-136, CH-139
#[actix::test]
async fn what_was_said_in_a_topic_counts_also_after_a_restart() {
    let world = world(1, false);
    let client = world.connect(&world.start());
    let (garden, invoice) = two_topics(&client).await;
    client.say_in(&garden, "m3", "the roses need manure");
    client.hear_end_of("m3").await;
    client.say_in(&invoice, "m4", "it is due");
    client.hear_end_of("m4").await;

    let next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.item().await;
    let next = Client { channel: client.channel.clone(), ..next };
    next.say("m5", "manure for roses");

    assert_eq!(next.topic_of("m5").await, garden);
}

fn say(id: &str, topic: TopicChoice) -> PostMessage {
    PostMessage {
        channel: "api:bob".into(),
        may_open: true,
        owner: owner("bob"),
        sender: Sender::of(&"bob".into(), ChannelType::Api),
        content: "water the garden".to_owned(),
        team: None,
        topic: Some(topic),
        id: id.into(),
        notify: None,
        files: Vec::new(),
    }
}

fn say_alone(id: &str, content: &str) -> PostMessage {
    PostMessage {
        content: content.to_owned(),
        topic: None,
        ..say(id, TopicChoice::Id(String::new()))
    }
}

/// CH-106: a command on a channel without connections holds for the message on its heels.
#[actix::test]
async fn a_command_is_not_forgotten_before_it_is_stored() {
    let world = world(0, true);
    let spine = world.start();
    let garden = answered_topic(&spine, "garden").await;

    let new = spine.router.send(say_alone("m1", "/new")).await;
    let next = spine.router.send(say_alone("m2", "water the garden")).await;

    let answer = new.unwrap().unwrap().reply.unwrap();
    assert_eq!(answer, "Your next message begins a new topic.");
    assert_ne!(next.unwrap().unwrap().topic, Some(garden));
}

/// CH-80: whoever sends a message while its topic is found out is told its fate, also if it is sent again meanwhile.
#[actix::test]
async fn a_message_sent_twice_answers_both_who_wait() {
    let world = world(3, true);
    let spine = world.start();
    answered_topic(&spine, "garden").await;
    answered_topic(&spine, "invoice").await;

    let first = spine.router.send(say_alone("m1", "hello there"));
    // Of messages that come at the same time any may be the first.
    while world.disk.keys("und/").is_empty() {
        tokio::task::yield_now().await;
    }
    let again = spine.router.send(say_alone("m1", "hello there"));
    let other = spine.router.send(say_alone("m1", "something else"));
    let (first, again, other) = tokio::join!(first, again, other);

    let first = first.unwrap().unwrap();
    assert!(first.task.is_some() && !first.duplicate, "{first:?}");
    assert!(again.unwrap().unwrap().duplicate);
    assert_eq!(other.unwrap().unwrap_err().code, "message_id_conflict");
}

/// CH-47: what was said before by name is looked for by that name: not all that was ever said is read.
#[actix::test]
async fn a_message_without_a_connection_is_known_again_by_its_name_alone() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let garden = || TopicChoice::Name("garden".to_owned());
    answered_topic(&spine, "garden").await;
    storage.fail_scans(Some(b"msg\0"));

    let again = spine.router.send(say("garden", garden())).await;
    let next = spine.router.send(say("m2", garden())).await;
    let next_again = spine.router.send(say("m2", garden())).await;

    let is_repeat = [again, next, next_again].map(|said| said.unwrap().unwrap().duplicate);
    assert_eq!(is_repeat, [true, false, true]);
}

/// OP-23, OP-33: also while the work of the message before ends, with which the router lets go of the channel.
#[actix::test]
async fn messages_by_the_name_of_a_topic_are_all_said_in_it() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let spine = world.start();

    let mut topics = BTreeSet::new();
    for number in 0..50 {
        let name = format!("m{number}");
        let said = spine.router.send(say(&name, TopicChoice::Name("garden".to_owned()))).await;
        topics.insert(said.unwrap().unwrap().topic.unwrap());
    }

    assert_eq!(topics.len(), 1, "{topics:?}");
}

/// CH-47: also for who connects to a channel of which not all messages were looked for.
#[actix::test]
async fn whoever_connects_is_known_by_all_that_was_said_before() {
    let world = world(0, true);
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    let spine = world.start();
    let channel = client.channel.clone();
    let (owner, sender) = (owner("someone"), Sender::of(&"someone".into(), ChannelType::Ws));
    let posted = PostMessage { channel, owner, sender, ..say_alone("m2", "water the garden") };

    let posted = spine.router.send(posted).await;
    let next = world.connect(&spine);
    next.resume(&client.channel, client.last_seq.get());
    next.item().await;
    let next = Client { channel: client.channel.clone(), ..next };
    next.say("m1", "water the garden");
    let known = loop {
        let heard = next.hear().await;
        if heard.contains("m1") {
            break heard;
        }
    };

    assert!(!posted.unwrap().unwrap().duplicate);
    assert_eq!(known, "ack m1 known done: This message is known already.");
}

/// A topic of a channel without connections, after its first answer.
async fn answered_topic(spine: &Spine, name: &str) -> TopicId {
    let said = spine.router.send(say(name, TopicChoice::Name(name.to_owned()))).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    said.unwrap().unwrap().topic.unwrap()
}

fn delete(topic: &TopicId) -> DeleteTopic {
    DeleteTopic {
        channel: "api:bob".into(),
        topic: topic.clone(),
        by: "bob".into(),
        from: "test".to_owned(),
    }
}

/// Does something while a message to the router has read its channel, and does not know it yet.
async fn during<M>(
    spine: &Spine,
    storage: &MemoryStorage,
    message: M,
    meanwhile: impl Future<Output = ()>,
) -> M::Result
where
    M: actix::Message<Result: Send> + Send + 'static,
    Router: Handler<M>,
{
    let barrier = storage.hold_scan(b"topic\0");
    let answer = actix::spawn(spine.router.send(message));
    let has_read = barrier.clone();
    blocking::run(move || has_read.wait().is_leader()).await.unwrap();
    meanwhile.await;
    barrier.wait();
    answer.await.unwrap().unwrap()
}

/// CH-91: what was read of a channel before one of its topics was deleted does not bring the topic back.
#[actix::test]
async fn a_deleted_topic_stays_deleted_for_those_who_read_before() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let (said, titled) =
        (answered_topic(&spine, "garden").await, answered_topic(&spine, "invoice").await);

    let late = say("late", TopicChoice::Id(said.to_string()));
    let delete = async |topic| spine.router.send(delete(topic)).await.unwrap().unwrap();
    let late = during(&spine, &storage, late, delete(&said)).await;
    let title = ChangeTopic {
        channel: "api:bob".into(),
        topic: titled.clone(),
        change: TopicPatch { name: Some("Bees".to_owned()), ..TopicPatch::default() },
    };
    let title = during(&spine, &storage, title, delete(&titled)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;

    assert_eq!(late.unwrap_err().code, "unknown_topic");
    assert_eq!(title, Err(NotChanged::Unknown));
    assert_eq!(world.disk.keys("topic/"), Vec::<String>::new());
    assert_eq!(world.disk.keys("done/").len(), 2);
}

/// What a sweep does that has found a topic to have expired.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Expire(TopicId);

impl Handler<Expire> for Router {
    type Result = ();

    fn handle(&mut self, Expire(topic): Expire, ctx: &mut Self::Context) {
        let found = Expired { channel: "api:bob".into(), topic, session: Vec::new() };
        self.expire(vec![found], self.to.clock.now(), ctx);
    }
}

/// CH-92: the same of a topic that has expired.
#[actix::test]
async fn an_expired_topic_stays_away_for_those_who_read_before() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let garden = answered_topic(&spine, "garden").await;

    let late = say("late", TopicChoice::Id(garden.to_string()));
    let expire = async { spine.router.send(Expire(garden.clone())).await.unwrap() };
    let late = during(&spine, &storage, late, expire).await;
    tokio::time::sleep(Duration::from_secs(60)).await;

    assert_eq!(late.unwrap_err().code, "unknown_topic");
    assert_eq!(world.disk.keys("topic/"), Vec::<String>::new());
}

/// CH-91: an answer would bring back what was asked, also of another team that worked for the topic.
#[actix::test]
async fn a_topic_with_an_open_question_is_not_deleted() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let spine = world.start();
    let garden = answered_topic(&spine, "garden").await;
    let put = async |question: &Question| {
        spine.store.commit(Writes::new().put(question)).await.unwrap();
    };

    let mut refused = Vec::new();
    for task in [work_in(garden.as_str()), work_for(garden.as_str())] {
        let asked = question("qst-1", &task, world.clock.now());
        put(&asked).await;
        refused.push(spine.router.send(delete(&garden)).await.unwrap());
        put(&Question { status: QuestionStatus::Expired, ..asked }).await;
    }
    let deleted = spine.router.send(delete(&garden)).await.unwrap();

    let busy = Err(NotDeleted::Busy("garden".to_owned()));
    assert_eq!((refused, deleted), (vec![busy.clone(), busy], Ok(())));
}

/// CH-49: a message that waits behind one whose topic is being found out is cancelled too.
#[actix::test]
async fn a_cancel_of_what_waits_ends_messages_that_wait_for_their_turn_to_be_placed() {
    let world = world(3, false);
    let client = world.connect(&world.start());
    let (garden, _) = two_topics(&client).await;
    client.say("m3", "hello there");
    client.say_in(&garden, "m4", "and the roof");

    client.cancel(&garden, true);
    let heard = client.hear_end_of("m4").await;
    client.say_in(&garden, "m4", "and the roof");
    let again = client.hear().await;
    let rest = client.hear_end_of("m3").await;

    assert_eq!(heard, ["ack m4: Working on it.", "cancelled m4: "]);
    assert!(again.starts_with("ack m4 known cancelled"), "{again}");
    assert_eq!(rest.last().unwrap(), "done m3: Done.");
}
