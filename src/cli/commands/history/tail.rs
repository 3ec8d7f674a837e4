//! Live tail of a session, as it goes on.

use hivewright_actors::live::event::Kind;
use serde_json::Value;

use super::{Which, message};
use crate::{
    api::{
        events::EventFilter,
        sessions::{HistoryFilter, Transcript, View},
    },
    cli::{
        answer::Answer,
        client::Service,
        context::Context,
        events::{Follower, Step},
        failure::Failure,
        screen::Screen,
    },
};

/// A page of news.
const PAGE: usize = 200;

pub(super) async fn run(
    which: Which,
    full: bool,
    limit: usize,
    context: &Context,
) -> Result<(), Failure> {
    let screen = context.screen;
    let view = if full { View::Full } else { View::Simple };
    let begin = HistoryFilter { view, limit, ..HistoryFilter::default() };
    let answer = which.read(&Service::find(context)?, begin).await?;
    let Transcript { session, next_after: mut seen, .. } = answer.data()?;
    let filter = EventFilter {
        team: Some(session.team.to_string()),
        topic: session.topic_id.map(|topic| topic.to_string()),
        ..EventFilter::of([Kind::Turn, Kind::TaskChanged])
    };
    let which = Which { which: session.id, topic: None };
    let mut follower = Follower::open(context, filter).await?;
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
            let news =
                HistoryFilter { view, after: Some(seen), limit: PAGE, ..HistoryFilter::default() };
            let read = async |service: &Service| which.read(service, news.clone()).await;
            let answer = follower.read(read).await?;
            let before = seen;
            seen = answer.data()?.next_after;
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
    matches!(event["value"]["type"].as_str(), Some("text" | "thinking"))
}

/// Shows messages that are in the journal: each comes once. False if nobody reads them any more.
fn tell(answer: &Answer<Transcript>, screen: Screen) -> Result<bool, Failure> {
    let rows = answer.document["data"].as_array().into_iter().flatten();
    let mut messages = rows.zip(answer.data()?.data).filter(|(_, said)| !said.pending);
    Ok(messages.all(|(row, said)| {
        let text = if screen.json { row.to_string() } else { message(&said) };
        screen.follow(text.trim_end())
    }))
}
