//! A session as it goes on.

use serde_json::Value;

use super::{Part, Which, session_of, show};
use crate::cli::{
    Context,
    events::{Follower, Step},
    failure::Failure,
    screen::Screen,
    service::{Service, given},
};

/// A page of news.
const PAGE: u32 = 200;

pub(super) async fn run(
    which: Which,
    full: bool,
    limit: u32,
    context: &Context,
) -> Result<(), Failure> {
    let screen = context.screen;
    let begin = Part { full, limit, ..Part::default() };
    let answer = which.read(&Service::find(context)?, begin).await?;
    let which = Which { which: session_of(&answer)?.to_owned(), topic: None };
    let text = |field: &str| answer["session"][field].as_str().map(str::to_owned);
    let fields = [
        ("types", Some("turn,task.changed".to_owned())),
        ("team", text("team")),
        ("topic", text("topic_id")),
    ];
    let mut follower = Follower::open(context, given(fields)).await?;
    let mut seen = answer["next_after"].as_u64().unwrap_or_default();
    if !tell(&answer, screen)? {
        return Ok(());
    }
    loop {
        if let Step::Event { data, .. } = follower.next().await?
            && is_passing(&data)
        {
            continue;
        }
        loop {
            let news = Part { full, after: Some(seen), limit: PAGE, ..Part::default() };
            let read = async |service: &Service| which.read(service, news).await;
            let answer = follower.read(read).await?;
            let before = seen;
            seen = answer["next_after"].as_u64().unwrap_or(seen);
            if !tell(&answer, screen)? {
                return Ok(());
            }
            if seen == before {
                break;
            }
        }
    }
}

/// Pieces of words, which are read once they are whole.
fn is_passing(event: &Value) -> bool {
    let value = event["value"]["type"].as_str();
    matches!(value, Some("text" | "thinking"))
}

/// Shows messages. False if nobody reads them any more.
fn tell(answer: &Value, screen: Screen) -> Result<bool, Failure> {
    for row in answer["data"].as_array().into_iter().flatten() {
        let text =
            if screen.json { row.to_string() } else { show::message(row)?.trim_end().to_owned() };
        if !screen.follow(&text) {
            return Ok(false);
        }
    }
    Ok(true)
}
