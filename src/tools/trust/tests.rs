//! What the arguments of a call may say.

use serde_json::json;

use super::{
    super::{contract::Tool, hosted},
    *,
};
use crate::{
    api::input::Reader,
    tools::{REGISTRY, filter::ToolFilter, toolbox::Toolbox},
};

fn refused<T: Tool>(args: Value) -> String {
    hosted::read::<T>(&Reader::default(), &args).err().unwrap().message
}

/// TO-127, TO-128, TO-130
#[test]
fn a_wrong_type_or_level_is_refused_with_those_there_are() {
    let slack = || json!({"channel_type": "slack", "sender_id": "b"});
    let types = "there are `ws`, `discord`, `cli`, `api` and `plugin.<key>`";

    for refusal in [
        refused::<AddTrustedSender>(slack()),
        refused::<RevokeSenderTrust>(slack()),
        refused::<ListTrustedSenders>(json!({"channel_type": "slack"})),
    ] {
        assert!(refusal.contains("`channel_type`") && refusal.contains(types), "{refusal}");
    }
    let level = json!({"channel_type": "ws", "sender_id": "b", "trust_level": "friend"});
    let refusal = refused::<AddTrustedSender>(level);
    assert!(refusal.contains("`trusted`, `denied`"), "{refusal}");
}

/// CH-07, TO-127
#[test]
fn a_sender_must_be_one() {
    let spaced = json!({"channel_type": "ws", "sender_id": "a b"});
    let none = json!({"channel_type": "ws"});

    assert!(refused::<AddTrustedSender>(spaced).contains("`sender_id`"));
    assert!(refused::<AddTrustedSender>(none).contains("sender_id"));
}

/// OR-19
#[actix::test]
async fn the_group_holds_these_tools() {
    let filter = ToolFilter::parse(&["@trust"], REGISTRY).unwrap();
    let router = actix::AsyncContext::address(&actix::Context::new());
    let toolbox = Toolbox::default().with(super::made(&router));
    let tools: Vec<_> = toolbox.abouts().map(|about| about.name).collect();

    assert!(tools.iter().all(|name| filter.allows(name)));
    let below = filter.below_root();
    assert!(tools.iter().all(|name| !below.allows(name)));
}
