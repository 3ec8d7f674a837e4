//! Words for another team than the main one: what they became is read once it has ended.

use std::cell::RefCell;

use serde_json::{Value, json};

use super::{
    Context,
    delegated::Delegated,
    events::{Follower, Step},
    failure::Failure,
};

const PATH: &str = "/api/v1/messages";

/// Says something to a team, and prints the answer and what came of it further.
pub(super) async fn run(
    team: &str,
    content: &str,
    task: &RefCell<Option<String>>,
    context: &Context,
) -> Result<(), Failure> {
    let fields = [("types", "task.changed"), ("team", team)];
    let fields = fields.map(|(name, value)| (name, value.to_owned()));
    // Opened before anything is said, so that the end is not missed.
    let mut follower = Follower::open(context, fields).await?;
    let wish = json!({"content": content, "team": team});
    let said = follower.service().post(PATH, &wish).await?;
    let made = &said["data"];
    let id = made["task_id"].as_str().unwrap_or_default();
    let channel = made["channel_id"].as_str().unwrap_or_default();
    let message = made["message_id"].as_str().unwrap_or_default();
    let path = format!("{PATH}/{message}");
    *task.borrow_mut() = Some(id.to_owned());
    loop {
        match follower.next().await? {
            Step::Event { data, .. } if data["task_id"] != id => continue,
            Step::Event { .. } | Step::Begin => {}
        }
        // It is known in the channel where it was said.
        let answer = follower.read(async |service| {
            let said_in = [("channel", channel.to_owned())];
            service.search(&path, said_in).await
        });
        let answer = answer.await?;
        if answer["data"]["reply"].is_object() {
            let told = tell(&answer, context);
            let mut delegated = Delegated::new(context);
            delegated.below(id);
            return told.and(delegated.finish(None).await);
        }
    }
}

fn tell(answer: &Value, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let reply = &answer["data"]["reply"];
    let text = reply["text"].as_str().unwrap_or_default();
    if reply["status"] != "done" {
        let status = reply["status"].as_str().unwrap_or_default();
        let code = reply["code"].as_str().unwrap_or(status);
        return Err(Failure::failed(format!("{text} ({code})")));
    }
    if screen.json {
        return screen.document(answer);
    }
    screen.say(&screen.harmless(text));
    Ok(())
}
