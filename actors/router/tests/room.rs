//! A disk without room: nothing new is taken in, everything else goes on.

use crate::{
    doubles::{
        engine::{Play, seconds},
        world::World,
    },
    room::{DISK_FULL, Space},
};

/// SC-115: what was accepted goes on, what is known is still answered, commands work, and the same message
/// is taken in once there is room.
#[actix::test]
async fn without_room_a_new_message_is_refused_and_everything_else_goes_on() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.topic_of("m1").await;

    spine.store.room().set(Space::Full);
    client.say("m2", "paint the fence");
    let refused = client.frame().await;
    client.say("m1", "water the garden");
    let known = client.hear().await;
    client.say("m3", "/help");
    let helped = client.hear_end_of("m3").await;
    let ended = client.hear_end_of("m1").await;
    spine.store.room().set(Space::Low);
    client.say("m2", "paint the fence");
    let accepted = client.hear_end_of("m2").await;

    let fields = ["type", "code", "message_id", "error"].map(|field| refused[field].as_str());
    let expected = ["error", "disk_full", "m2", DISK_FULL].map(Some);
    assert_eq!(fields, expected, "{refused}");
    assert!(known.starts_with("ack m1 known"), "{known}");
    assert!(helped.last().unwrap().starts_with("done m3"), "{helped:?}");
    assert!(ended.last().unwrap().starts_with("done m1"), "{ended:?}");
    assert!(accepted.last().unwrap().starts_with("done m2"), "{accepted:?}");
}
